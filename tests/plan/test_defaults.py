"""Values that SGLang picks for a card, from the tables in the released source."""

from __future__ import annotations

import pytest

from plan.boots import config
from qwen_tui_profiles.plan.defaults import (
    automatic_fraction,
    automatic_sizes,
    prefill_graph_sizes,
    vision_factor,
)
from qwen_tui_profiles.plan.predict import PlanRequest, predict

_MIB_5090 = 32_607.0
_MIB_H200 = 143_771.0


@pytest.mark.parametrize(
    ("version", "mib", "chunk", "graph"),
    [
        ("0.5.17", 16_376.0, 2_048, 8),
        ("0.5.17", _MIB_5090, 2_048, 24),
        ("0.5.19", _MIB_5090, 2_048, 24),
        ("0.5.20", _MIB_5090, 4_096, 48),
        ("0.5.23", 49_140.0, 4_096, 32),
        ("0.5.23", 97_887.0, 8_192, 256),
        ("0.5.17", _MIB_H200, 8_192, 256),
        ("0.5.17", 183_359.0, 16_384, 512),
    ],
)
def test_chunk_and_graph(version: str, mib: float, chunk: int, graph: int) -> None:
    sizes = automatic_sizes(version, mib)
    assert (sizes.chunked_prefill_size, sizes.decode_graph_max_bs) == (chunk, graph)


def test_prefill_sizes_of_the_recorded_boot() -> None:
    # The list in the recorded server_args has 58 sizes up to 8,192 tokens.
    assert prefill_graph_sizes(8_192) == 58
    assert prefill_graph_sizes(2_048) == 42


def test_fraction_of_a_small_card_by_hand() -> None:
    # 512 + 1.5·2048 + 1024/8 + 2·24 = 3,760 MiB kept back.
    fraction = automatic_fraction(
        "0.5.17", _MIB_5090, chunk=2_048, decode_graph_max_bs=24, prefill_graphs=0
    )
    assert fraction == round((_MIB_5090 - 3_760) / _MIB_5090, 3)


def test_fraction_of_a_large_card_has_a_floor() -> None:
    # 512 + 1.5·4096 + 128 + 2·1 = 6,786 MiB would do; cards above 60 GiB keep 10 GiB.
    fraction = automatic_fraction(
        "0.5.17", _MIB_H200, chunk=4_096, decode_graph_max_bs=1, prefill_graphs=0
    )
    assert fraction == round((_MIB_H200 - 10_240) / _MIB_H200, 3)


@pytest.mark.parametrize(("version", "extra"), [("0.5.9", 2_048), ("0.5.13", 4_096), ("0.5.14", 0)])
def test_draft_reserve_of_old_releases(version: str, extra: int) -> None:
    fraction = automatic_fraction(
        version, 24_564.0, chunk=2_048, decode_graph_max_bs=8, prefill_graphs=0, speculative=True
    )
    assert fraction == round((24_564 - (512 + 3_072 + 128 + 16 + extra)) / 24_564, 3)


def test_vision_factor_reads_num_hidden_layers_and_not_depth() -> None:
    # depth 27 is spelt otherwise: 24 layers count, 1152 wide: 0.95·(1 − 0.1·0.265625).
    assert vision_factor({"depth": 27, "hidden_size": 1152}) == pytest.approx(0.92476563, abs=1e-8)
    assert vision_factor({}) == 1.0


def test_automatic_fraction_needs_the_total_and_says_what_it_took() -> None:
    request = PlanRequest(
        ["--kv-cache-dtype", "fp8_e4m3", "--max-mamba-cache-size", "8"],
        config("hybrid-27b"),
        engine_version="0.5.17",
        free_gib=139.1,
    )
    plan = predict(request)
    assert {item.name for item in plan.assumed} >= {"total_gib"}
    adjusted = {c.arg: c.got for c in plan.adjustments}
    assert adjusted["--chunked-prefill-size"] == 8_192
    assert isinstance(adjusted["--mem-fraction-static"], float)
    # Prefill graphs may be off, which leaves more: the interval says so.
    assert plan.kv_tokens.high is not None
    assert plan.kv_tokens.value is not None
    assert plan.kv_tokens.high > plan.kv_tokens.value * 1.002
