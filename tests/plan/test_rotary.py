"""Rotary caches that grow between the load and the pools, against what recorded boots print."""

from __future__ import annotations

import pytest

from plan.boots import MEASURED_BOOTS, MEASURED_MODEL, MeasuredBoot, config
from qwen_tui_profiles.plan.calibrate import record_boot
from qwen_tui_profiles.plan.model import read_model
from qwen_tui_profiles.plan.predict import PlanRequest
from qwen_tui_profiles.plan.predict_sglang import Computed, arithmetic
from qwen_tui_profiles.plan.rotary import reserved_rows, rotary_growth_bytes

_MIB = 1 << 20


def _computed(boot: MeasuredBoot) -> Computed:
    computed = arithmetic(
        PlanRequest(
            boot.args,
            config(MEASURED_MODEL),
            engine_version="0.5.17",
            free_gib=boot.load_begin_gib,
            total_gib=boot.total_gib,
        )
    )
    assert computed is not None
    return computed


def test_rows_are_context_drafts_and_margin_aligned_to_128() -> None:
    # 262,144 + 3 · 4 · 2 + 256 = 262,424, up to a multiple of 128.
    assert reserved_rows(262_144, 3, 4, {}) == 262_528
    assert reserved_rows(131_072, 5, 6, {}) == 131_456
    assert reserved_rows(262_144, 0, 0, {}) == 262_400
    assert reserved_rows(1_000, 0, 0, {"SGLANG_ROPE_CACHE_SAFETY_MARGIN": "24"}) == 1_024
    assert reserved_rows(1_000, 0, 0, {"SGLANG_ROPE_CACHE_SAFETY_MARGIN": "many"}) == 1_280


@pytest.mark.parametrize(
    ("model", "context", "growth_mib"),
    [
        # Text: 64 rotary dimensions of 4 bytes; 64 MiB become 64.1, a segment of 66.
        # Vision: heads of 72 (36 rotary dimensions): 262,528 · 144 B = 36.1 MiB, a segment of 38.
        ("qwen38-27b", 262_144, 2 + 38),
        # The text cache is long enough already; 131,456 · 144 B = 18.1 MiB.
        ("qwen38-27b", 131_072, 20),
        # Heads of 64: 131,456 · 128 B = 16.05 MiB.
        ("hybrid-27b-cg", 131_072, 18),
        # 33,152 · 128 B = 4 MiB, which takes the allocator's segment of 20.
        ("hybrid-27b-cg", 32_768, 20),
        # No vision tower.
        ("hybrid-27b", 262_144, 2),
        ("hybrid-27b", 32_768, 0),
    ],
)
def test_growth_from_dimensions(model: str, context: int, growth_mib: int) -> None:
    facts = read_model(config(model))
    rows = reserved_rows(context, 3, 4, {})
    assert rotary_growth_bytes(facts, rows, vision=facts.multimodal) == growth_mib * _MIB


def test_without_vision_tower_only_the_text_cache_grows() -> None:
    facts = read_model(config("qwen38-27b"))
    assert rotary_growth_bytes(facts, 262_528, vision=False) == 2 * _MIB


@pytest.mark.parametrize(
    "boot", [b for b in MEASURED_BOOTS if b.draft_load_begin_gib is not None], ids=lambda b: b.name
)
def test_growth_is_the_step_between_target_and_draft(boot: MeasuredBoot) -> None:
    assert boot.draft_load_begin_gib is not None
    printed = boot.load_end_gib - boot.draft_load_begin_gib
    # Both ends are printed with two decimals.
    assert _computed(boot).rotary_growth / (1 << 30) == pytest.approx(printed, abs=0.01)


@pytest.mark.parametrize(
    "boot", [b for b in MEASURED_BOOTS if b.name != "max-total-tokens"], ids=lambda b: b.name
)
def test_nothing_is_left_unaccounted(boot: MeasuredBoot) -> None:
    record = record_boot(
        _computed(boot),
        tokens=boot.tokens,
        slots=boot.slots,
        requests=boot.requests,
        printed_free_gib=boot.load_begin_gib,
        target_gib=boot.weights_gib,
        draft_gib=boot.draft_gib,
    )
    assert record.unaccounted_gib == pytest.approx(0.0, abs=0.012)
