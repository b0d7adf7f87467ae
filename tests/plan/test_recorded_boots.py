"""Every pool of the recorded boots from flags and free memory alone, and the published tables."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from plan.boots import (
    BOOTS,
    MEASURED_BOOTS,
    MEASURED_MODEL,
    REPLICAS,
    SEED_000,
    SEED_004,
    SEED_004_GROWTH_GIB,
    Boot,
    MeasuredBoot,
    SeedRow,
    StaticRow,
    config,
)
from qwen_tui_profiles.plan.arguments import read_sglang
from qwen_tui_profiles.plan.calibrate import Calibration
from qwen_tui_profiles.plan.model import read_model
from qwen_tui_profiles.plan.predict import PlanRequest, predict
from qwen_tui_profiles.plan.predict_sglang import compute
from qwen_tui_profiles.plan.solve_sglang import budget_rule, solve

if TYPE_CHECKING:
    from qwen_tui_profiles.plan.result import Plan

_GIB = 1 << 30


@pytest.mark.parametrize("boot", [*BOOTS, *REPLICAS], ids=lambda b: b.name)
def test_recorded_boot_from_flags_and_free_memory(boot: Boot) -> None:
    plan = predict(
        PlanRequest(
            boot.args.split(), config(boot.model), engine_version="0.5.17", free_gib=boot.free_gib
        )
    )
    assert plan.state is not None
    assert plan.state.slots_per_request == boot.slots_per_request
    if boot.tokens is None:
        assert plan.fits is False
        assert plan.kv_tokens.value is None
        assert plan.failure_class == "mamba_pool_too_small"
        assert "-3 slots" in str(plan.failure)
        return
    assert plan.fits is True
    assert plan.state.slots == boot.slots
    assert plan.requests == boot.requests
    assert plan.limited_by == ("mamba state slots" if boot.limited else None)
    assert plan.kv_tokens.value == pytest.approx(boot.tokens, rel=0.005)
    assert plan.kv_tokens.low is not None
    assert plan.kv_tokens.high is not None
    assert plan.kv_tokens.low <= boot.tokens <= plan.kv_tokens.high


def test_replicas_are_planned_as_one_and_shared_attention_is_not_planned() -> None:
    dp2 = REPLICAS[0]

    def plan(more: str = "") -> Plan:
        args = f"{dp2.args} {more}".split()
        return predict(
            PlanRequest(args, config(dp2.model), engine_version="0.5.17", free_gib=dp2.free_gib)
        )

    said = [finding.rule for finding in plan().findings]
    assert "plan-one-replica" in said
    for more in ("--enable-dp-attention", "--pp-size 2"):
        assert plan(more).kv_tokens.value is None
        assert [f.rule for f in plan(more).findings] == ["plan-parallelism-unknown"]


@pytest.mark.parametrize("boot", [b for b in BOOTS if b.tokens], ids=lambda b: b.name)
def test_recorded_boot_from_printed_sizes_is_closer(boot: Boot) -> None:
    # With the printed weights instead of computed ones only the printed rounding is left.
    assert boot.tokens is not None
    calibration = Calibration(
        boots=1, target_gib=boot.free_gib - boot.available_after_load, draft_gib=0.0, gain_gib=0.10
    )
    plan = predict(
        PlanRequest(
            boot.args.split(),
            config(boot.model),
            engine_version="0.5.17",
            free_gib=boot.free_gib,
            calibration=calibration,
        )
    )
    assert plan.kv_tokens.value == pytest.approx(boot.tokens, rel=0.0015)


@pytest.mark.parametrize("printed", [False, True], ids=["live", "printed"])
@pytest.mark.parametrize("boot", MEASURED_BOOTS, ids=lambda b: b.name)
def test_boot_planned_before_it_ran(boot: MeasuredBoot, printed: bool) -> None:
    plan = predict(
        PlanRequest(
            boot.args,
            config(MEASURED_MODEL),
            engine_version="0.5.17",
            live_free_gib=None if printed else boot.live_free_gib,
            free_gib=boot.load_begin_gib if printed else None,
            total_gib=boot.total_gib,
        )
    )
    assert plan.fits is True
    assert plan.state is not None
    assert plan.state.slots == boot.slots
    assert plan.kv_tokens.value == pytest.approx(boot.tokens, rel=0.0003)
    assert plan.kv_tokens.low is not None
    assert plan.kv_tokens.high is not None
    assert plan.kv_tokens.low <= boot.tokens
    assert boot.tokens <= plan.kv_tokens.high
    if boot.requests is not None:
        assert plan.requests == boot.requests


@pytest.mark.parametrize("row", SEED_004, ids=lambda r: r.name)
def test_seed_004_row(row: SeedRow) -> None:
    plan = predict(
        PlanRequest(
            row.args.split(),
            config("qwen38-27b"),
            engine_version=row.version,
            free_gib=row.free_gib,
            weights_gib=17.67,
            draft_gib=row.draft_gib,
            # The fit knows one free memory only, not two that differ by a little.
            calibration=Calibration(boots=1, gain_gib=0.0, unaccounted_gib=-SEED_004_GROWTH_GIB),
        )
    )
    assert plan.kv_tokens.value == pytest.approx(row.predicted, abs=1)
    if row.published is not None:
        assert plan.kv_tokens.value == pytest.approx(row.published, rel=0.0004)
    if row.requests is not None:
        assert plan.requests == row.requests
    if "262144" in row.args:
        clamp = next(c for c in plan.clamps if c.arg == "--max-total-tokens")
        assert (clamp.asked, clamp.got) == (262_144, plan.kv_tokens.value)


@pytest.mark.parametrize("row", SEED_000, ids=lambda r: r.name)
def test_seed_000_row(row: StaticRow) -> None:
    request = PlanRequest(
        row.args.split(), config("qwen38-27b"), engine_version="0.5.17", free_gib=31.0
    )
    computed = compute(request, read_model(request.config), read_sglang(request.args))
    assert computed is not None
    static = row.static_gib * _GIB
    slack = computed.inputs.free_before_load * (1 - computed.inputs.fraction)
    pools = solve(replace(computed.inputs, free_after_load=static + slack), budget_rule("0.5.17"))
    assert pools.slots == row.slots
    assert pools.requests == row.requests
    assert pools.tokens == row.tokens


def test_seed_000_without_drafts_at_0_90() -> None:
    # 62,880 with drafts gives the static part; the draft's 5.53 GiB and the rollback states come
    # back without it.
    static = 62_880 * 32_768 + 21 * 78_446_592
    flags = (
        "--kv-cache-dtype fp8_e4m3 --page-size 32 --mamba-ssm-dtype bfloat16 "
        "--max-mamba-cache-size 8 --mem-fraction-static 0.90 --max-running-requests 1"
    )
    request = PlanRequest(
        flags.split(), config("qwen38-27b"), engine_version="0.5.17", free_gib=31.0
    )
    computed = compute(request, read_model(request.config), read_sglang(request.args))
    assert computed is not None
    slack = computed.inputs.free_before_load * (1 - computed.inputs.fraction)
    inputs = replace(computed.inputs, free_after_load=static + 5.53 * _GIB + slack)
    assert solve(inputs, budget_rule("0.5.17")).tokens == pytest.approx(272_800, rel=0.0005)


def test_draft_path_costs_four_fifths_up_to_0_5_17_only() -> None:
    boot = next(b for b in BOOTS if b.name == "cg27-draftpath")
    tokens = {}
    for version in ("0.5.13", "0.5.14", "0.5.17", "0.5.18"):
        request = PlanRequest(
            [*boot.args.split(), "--mamba-scheduler-strategy", "extra_buffer"],
            config(boot.model),
            engine_version=version,
            free_gib=boot.free_gib,
        )
        plan = predict(request)
        tokens[version] = plan.cell_bytes
        fired = any(f.rule == "plan-draft-overcharge" for f in plan.findings)
        assert fired is (version in {"0.5.14", "0.5.17"})
    assert tokens == {"0.5.13": 32_768, "0.5.14": 163_840, "0.5.17": 163_840, "0.5.18": 34_816}
