"""The pool arithmetic against figures that users measured on real 32 GB cards (SGLang ≥ 0.5.17).

The card's free memory is the one unknown of those records; it is taken from one row of each
(30.790 GiB gives the first) and every other row has to follow.
"""

from __future__ import annotations

import pytest

from qwen_tui.demo_engine.arguments import parse_command
from qwen_tui.demo_engine.memory import DIMS, Budget, solve
from qwen_tui.demo_engine.settings import Refused, resolve

FREE_GIB = 30.790
PAGE = 32
SPEED = (
    *("--context-length", "159776", "--kv-cache-dtype", "fp8_e4m3", "--page-size", str(PAGE)),
    *("--speculative-algorithm", "EAGLE", "--speculative-num-steps", "5"),
    *("--speculative-eagle-topk", "1", "--speculative-num-draft-tokens", "6"),
    *("--mamba-radix-cache-strategy", "extra_buffer_lazy", "--mamba-ssm-dtype", "bfloat16"),
)


def budget(*argv: str, free: float = FREE_GIB) -> Budget:
    settings, _ = resolve(parse_command(argv))
    return solve(settings, free)


def speed(requests: int, slots: int, fraction: str = "0.97") -> Budget:
    return budget(
        *SPEED,
        *("--max-running-requests", str(requests), "--max-mamba-cache-size", str(slots)),
        *("--mem-fraction-static", fraction),
    )


@pytest.mark.parametrize(
    ("requests", "slots", "measured"), [(1, 8, 134_016), (2, 16, 100_480), (4, 32, 33_440)]
)
def test_measured_pools_of_a_speed_profile(requests: int, slots: int, measured: int) -> None:
    assert abs(speed(requests, slots).kv_tokens - measured) <= 2 * PAGE


def test_four_asked_two_got() -> None:
    """The record says: asked 4, got 2; state pool 1.94 GB, KV 3.88 GB with the draft's layer."""
    b = speed(4, 8)
    assert b.max_running == 2
    state = b.conv + b.ssm + b.intermediate_ssm + b.intermediate_conv
    assert round(state, 3) == 1.945
    assert round(b.kv + b.draft_kv, 2) == 3.88
    assert b.notes[0].startswith(
        "max_running_requests is capped to 2 by the mamba state cache "
        "(max_mamba_cache_size=8, 4 state slots per request)."
    )
    assert b.notes[1].startswith(
        f"KV pool holds {b.kv_tokens} tokens, fewer than --context-length 159776."
    )
    assert b.max_req_input == b.kv_tokens - 6


def test_printed_state_sizes_of_a_recorded_boot() -> None:
    """H200, 8 slots, lazy, 6 drafts, 2 requests with fp32 state: 0.02, 1.27, 2.53, 0.02 GB."""
    argv = [a if a != "bfloat16" else "float32" for a in SPEED]
    b = budget(
        *argv,
        *("--max-running-requests", "4", "--max-mamba-cache-size", "8"),
        *("--mem-fraction-static", "0.97"),
    )
    sizes = (b.conv, b.ssm, b.intermediate_ssm, b.intermediate_conv)
    assert [f"{s:.2f}" for s in sizes] == ["0.02", "1.27", "2.53", "0.02"]


def test_declared_draft_path_costs_a_seventeenth_layer() -> None:
    with_path = budget(
        *SPEED,
        *("--max-running-requests", "1", "--max-mamba-cache-size", "8"),
        *("--mem-fraction-static", "0.97", "--speculative-draft-model-path", "x"),
    )
    assert abs(with_path.kv_tokens - 134_016 * 16 / 17) <= 2 * PAGE


def test_no_room_names_the_fraction_that_would_do() -> None:
    with pytest.raises(Refused, match="minimum viable") as raised:
        speed(1, 8, "0.80")
    minimum = float(str(raised.value).split("above ")[1].split()[0])
    assert speed(1, 8, f"{minimum + 0.002:.3f}").kv_tokens > 0
    with pytest.raises(Refused):
        speed(1, 8, f"{minimum - 0.003:.3f}")


def test_fewer_slots_than_one_request_needs_is_refused() -> None:
    with pytest.raises(Refused, match="too small to serve any requests") as raised:
        speed(1, 3)
    assert "max_mamba_cache_size=3, mamba_ratio=4" in str(raised.value)


def test_too_little_memory_for_the_weights() -> None:
    with pytest.raises(Refused, match="CUDA out of memory"):
        budget(*SPEED, free=20.0)


def test_max_total_tokens_only_lowers() -> None:
    common = (*SPEED, "--max-running-requests", "1", "--max-mamba-cache-size", "8")
    more = budget(*common, "--mem-fraction-static", "0.97", "--max-total-tokens", "262144")
    less = budget(*common, "--mem-fraction-static", "0.97", "--max-total-tokens", "50001")
    assert more.notes[0] == (
        f"max_total_tokens=262144 is larger than the profiled value {more.kv_tokens}. "
        "Use the profiled value instead."
    )
    assert less.kv_tokens == 50001 // PAGE * PAGE


def test_slot_size_of_the_27b() -> None:
    assert DIMS.slot_bytes("float32") == 153_944_064
    assert DIMS.slot_bytes("bfloat16") == 78_446_592


def test_rotary_caches_grow_between_target_and_draft() -> None:
    """27B: 262,528 rows of 36 vision dimensions are 36.05 MiB (38 on the card), text 2 MiB more."""
    at_full_context = ("--context-length", "262144", *SPEED[2:])
    b = budget(
        *at_full_context,
        *("--max-running-requests", "1", "--max-mamba-cache-size", "8"),
        *("--mem-fraction-static", "0.97"),
    )
    assert (b.after_target - b.before_draft) * 1024 == pytest.approx(40)
    assert (speed(1, 8).after_target - speed(1, 8).before_draft) * 1024 == pytest.approx(22)
