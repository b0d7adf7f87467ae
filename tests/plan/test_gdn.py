"""State slots: sizes against printed lines, slots per request by strategy and release."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plan.boots import config
from qwen_tui_profiles.errors import InputError
from qwen_tui_profiles.plan.gdn import (
    StateDims,
    clamp_requests,
    intermediate_window_rows,
    replay_ring_bytes,
    resolve_strategy,
    slots_per_request,
)

_GIB = 1 << 30


def _dims(name: str = "qwen38-27b") -> StateDims:
    dims = StateDims.from_config(config(name))
    assert dims is not None
    return dims


def test_slot_of_the_27b() -> None:
    dims = _dims()
    assert dims.layers == 48
    assert dims.conv_bytes == 61_440
    assert dims.ssm_bytes() == 3_145_728
    assert dims.slot_bytes() == 153_944_064  # 146.8125 MiB, the engine's mamba_cache_per_req
    assert dims.slot_bytes("bfloat16") == 78_446_592


# Lines "Mamba Cache is allocated" of recorded boots and of seed 004, in GiB as printed.
@pytest.mark.parametrize(
    ("slots", "requests", "drafts", "dtype", "printed"),
    [
        (41, 13, 4, "float32", (0.12, 5.91, 7.88, 0.08)),
        (16, 2, 4, "bfloat16", (0.05, 1.20, 0.84, 0.02)),
        (8, 2, 6, "float32", (0.02, 1.27, 2.53, 0.02)),
        (6, 1, 4, "float32", (None, 0.98, 1.12, None)),
    ],
)
def test_printed_allocation(
    slots: int, requests: int, drafts: int, dtype: str, printed: tuple[float | None, ...]
) -> None:
    dims = _dims()
    conv = dims.layers * (slots + 1) * dims.conv_bytes
    main = dims.layers * (slots + 1) * dims.ssm_bytes(dtype)
    rollback = dims.layers * (requests + 1) * drafts * dims.ssm_bytes(dtype)
    window = (
        dims.layers * (requests + 1) * dims.conv_channels * intermediate_window_rows(drafts, 4) * 2
    )
    for computed, expected in zip((conv, main, rollback, window), printed, strict=True):
        if expected is not None:
            assert computed / _GIB == pytest.approx(expected, abs=0.0056)
    assert dims.main_bytes(slots, dtype) == conv + main
    assert dims.intermediate_bytes(requests, drafts, dtype) == rollback + window


def test_seed_000_state_pool() -> None:
    dims = _dims()
    both = dims.main_bytes(8, "bfloat16") + dims.intermediate_bytes(2, 6, "bfloat16")
    assert both / _GIB == pytest.approx(1.945, abs=0.001)


def test_replay_keeps_a_window_a_slot_and_later_a_ring_a_request() -> None:
    # 48 layers of values 48·128, keys 16·128 (2 B) and two gates of 48 (4 B), for 4 drafts.
    window = 48 * 4 * (48 * 128 * 2 + 16 * 128 * 2 + 2 * 48 * 4)
    assert replay_ring_bytes(_dims(), draft_tokens=4, cache_length=16, engine_version="0.5.17") == (
        window,
        0,
    )
    # From 0.5.20 on: values and keys in two parts and one gate, 16 steps, per request.
    ring = 48 * 16 * (2 * 48 * 128 * 2 + 2 * 16 * 128 * 2 + 48 * 4)
    assert replay_ring_bytes(_dims(), draft_tokens=4, cache_length=16, engine_version="0.5.20") == (
        0,
        ring,
    )


def test_no_state_without_linear_layers() -> None:
    assert StateDims.from_config({"num_hidden_layers": 36, "hidden_size": 4096}) is None


@pytest.mark.parametrize("bad", [0, -1, 2.5, "128", True, None, 1 << 60])
def test_damaged_dimension_is_named(bad: object) -> None:
    document = config("hybrid-27b")
    document["linear_key_head_dim"] = bad
    with pytest.raises(InputError, match="linear_key_head_dim"):
        StateDims.from_config(document)


def test_unknown_state_dtype_is_named() -> None:
    with pytest.raises(InputError, match="int3"):
        _dims().ssm_bytes("int3")


@pytest.mark.parametrize(
    ("version", "strategy", "overlap", "speculative", "slots"),
    [
        ("0.5.9", "no_buffer", True, True, 3),
        ("0.5.9", "extra_buffer", True, False, 5),
        ("0.5.9", "extra_buffer", True, True, 4),
        ("0.5.12", "extra_buffer", True, True, 5),
        ("0.5.12", "extra_buffer", False, True, 4),
        ("0.5.12", "extra_buffer_lazy", True, False, None),
        ("0.5.13", "extra_buffer_lazy", True, False, 4),
        ("0.5.17", "extra_buffer", True, True, 5),
        ("0.5.17", "extra_buffer", False, True, 4),
        ("0.5.17", "extra_buffer_lazy", True, True, 4),
        ("0.5.23", "no_buffer", False, False, 3),
        (None, "extra_buffer", True, True, 5),
    ],
)
def test_slots_per_request(
    version: str | None, strategy: str, overlap: bool, speculative: bool, slots: int | None
) -> None:
    arguments = {"strategy": strategy, "overlap": overlap, "speculative": speculative}
    assert slots_per_request(engine_version=version, radix_cache=True, **arguments) == slots  # type: ignore[arg-type]
    assert slots_per_request(engine_version=version, radix_cache=False, **arguments) == 1  # type: ignore[arg-type]


# Gallery of printed clamps: slots, slots per request, asked, got.
@pytest.mark.parametrize(
    ("slots", "per_request", "asked", "got"),
    [(47, 5, 32, 9), (64, 5, 16, 12), (6, 5, 2, 1), (10, 5, 8, 2), (8, 4, 4, 2), (41, 3, 48, 13)],
)
def test_printed_clamps(slots: int, per_request: int, asked: int, got: int) -> None:
    assert clamp_requests(asked, slots, per_request) == got


def test_clamp_of_unknowns_is_unknown() -> None:
    assert clamp_requests(4, None, 5) is None
    assert clamp_requests(4, 8, None) is None
    assert clamp_requests(None, 8, 4) == 2


@given(st.integers(1, 4096), st.integers(0, 4096), st.integers(1, 5))
def test_clamp_never_admits_more_than_asked_or_held(
    asked: int, slots: int, per_request: int
) -> None:
    got = clamp_requests(asked, slots, per_request)
    assert got is not None
    assert got <= asked
    assert got * per_request <= slots


@pytest.mark.parametrize(
    ("architecture", "version", "name", "overlap"),
    [
        # Recorded: 3 slots a request for the text class, 5 for the vision-wrapped one.
        ("Qwen3_5ForCausalLM", "0.5.17", "no_buffer", True),
        ("Qwen3_5ForCausalLM", "0.5.18", "no_buffer", True),
        ("Qwen3_5ForCausalLM", "0.5.19", "extra_buffer", True),
        ("Qwen3_5ForConditionalGeneration", "0.5.17", "extra_buffer", True),
        ("Qwen3_5ForConditionalGeneration", "0.5.14", "extra_buffer", True),
        ("Qwen3_5ForConditionalGeneration", "0.5.13", "no_buffer", True),
        ("Qwen4ExpForConditionalGeneration", "0.5.20", "extra_buffer", True),
    ],
)
def test_automatic_strategy(architecture: str, version: str, name: str, overlap: bool) -> None:
    strategy = resolve_strategy(
        None,
        engine_version=version,
        architecture=architecture,
        speculative=True,
        overlap=True,
        linear_backend=None,
        page_size=None,
    )
    assert (strategy.name, strategy.overlap) == (name, overlap)


def test_automatic_strategy_falls_back_without_triton_or_overlap() -> None:
    for backend, overlap in (("flashinfer", True), ("triton", False)):
        strategy = resolve_strategy(
            "auto",
            engine_version="0.5.17",
            architecture="Qwen3_5ForConditionalGeneration",
            speculative=False,
            overlap=overlap,
            linear_backend=backend,
            page_size=1,
        )
        assert strategy.name == "no_buffer"
        assert not strategy.overlap
    paged = resolve_strategy(
        "auto",
        engine_version="0.5.17",
        architecture="Qwen3_5ForConditionalGeneration",
        speculative=False,
        overlap=False,
        linear_backend="triton",
        page_size=64,
    )
    assert paged.name == "extra_buffer"
