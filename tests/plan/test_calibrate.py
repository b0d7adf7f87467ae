"""Calibration: what earlier boots teach, and how the next prediction uses it."""

from __future__ import annotations

import pytest

from plan.boots import BOOTS, Boot, config
from qwen_tui_profiles.plan.calibrate import BootRecord, calibrate, record_boot
from qwen_tui_profiles.plan.predict import PlanRequest, predict
from qwen_tui_profiles.plan.predict_sglang import arithmetic

_WRAPPED = [b for b in BOOTS if b.model == "hybrid-27b-cg"]
_LIVE = 139.80
"""Free memory of the idle H200 as NVML gave it."""


def _record(boot: Boot, *, live: float | None = None) -> BootRecord:
    computed = arithmetic(
        PlanRequest(
            boot.args.split(),
            config(boot.model),
            engine_version="0.5.17",
            free_gib=None if live else boot.free_gib,
            live_free_gib=live,
        )
    )
    assert computed is not None
    assert boot.tokens is not None
    return record_boot(
        computed,
        tokens=boot.tokens,
        slots=boot.slots,
        requests=boot.requests,
        printed_free_gib=boot.free_gib,
        target_gib=50.19,
        draft_gib=5.53,
        live_free_gib=live,
    )


def test_nothing_is_learned_from_nothing() -> None:
    assert calibrate([]) is None


@pytest.mark.parametrize("boot", _WRAPPED, ids=lambda b: b.name)
def test_little_is_unaccounted_in_a_recorded_boot(boot: Boot) -> None:
    record = _record(boot)
    assert record.error_pct is not None
    assert abs(record.error_pct) < 0.2
    assert record.unaccounted_gib is not None
    assert abs(record.unaccounted_gib) < 0.05


def test_boots_of_one_machine_correct_the_next_prediction() -> None:
    # Learn from two boots of the wrapped class, predict the third from the free memory before it.
    *past, last = _WRAPPED
    calibration = calibrate([_record(boot, live=_LIVE) for boot in past])
    assert calibration is not None
    assert calibration.boots == 2
    assert calibration.overhead_gib == pytest.approx(_LIVE - 137.58, abs=1e-9)
    plan = predict(
        PlanRequest(
            last.args.split(),
            config(last.model),
            engine_version="0.5.17",
            live_free_gib=_LIVE,
            calibration=calibration,
        )
    )
    assert plan.kv_tokens.value == pytest.approx(last.tokens, rel=0.001)
    assert plan.kv_tokens.low is not None
    assert plan.kv_tokens.high is not None
    assert last.tokens is not None
    assert plan.kv_tokens.low <= last.tokens <= plan.kv_tokens.high
    assert plan.calibration is not None
    assert plan.calibration["boots"] == 2


def test_a_pool_that_the_user_limited_teaches_no_remainder() -> None:
    boot = next(b for b in BOOTS if b.name == "tiny-maxtotal")
    computed = arithmetic(
        PlanRequest(
            boot.args.split(), config(boot.model), engine_version="0.5.17", free_gib=boot.free_gib
        )
    )
    assert computed is not None
    record = record_boot(
        computed,
        tokens=50_000,
        slots=12,
        requests=4,
        printed_free_gib=boot.free_gib,
        target_gib=1.45,
        draft_gib=None,
    )
    assert record.unaccounted_gib is None
    assert record.error_pct == 0


def test_remainder_of_seed_000_is_learned() -> None:
    # That box has 0.338 GiB less than the arithmetic says; after one boot it is in the plan.
    flags = (
        "--kv-cache-dtype fp8_e4m3 --speculative-algorithm EAGLE --speculative-num-steps 5 "
        "--speculative-eagle-topk 1 --speculative-num-draft-tokens 6 --mamba-ssm-dtype bfloat16 "
        "--mamba-radix-cache-strategy extra_buffer_lazy --page-size 32 --mem-fraction-static 0.97 "
        "--max-running-requests {requests} --max-mamba-cache-size {slots}"
    )

    def request(requests: int, slots: int, **more: object) -> PlanRequest:
        return PlanRequest(
            flags.format(requests=requests, slots=slots).split(),
            config("qwen38-27b"),
            engine_version="0.5.18",
            free_gib=31.01,
            weights_gib=18.59,
            draft_gib=5.53,
            **more,  # type: ignore[arg-type]
        )

    computed = arithmetic(request(1, 8))
    assert computed is not None
    record = record_boot(
        computed,
        tokens=134_016,
        slots=8,
        requests=1,
        printed_free_gib=31.01,
        target_gib=18.59,
        draft_gib=5.53,
    )
    calibration = calibrate([record])
    plan = predict(request(2, 16, calibration=calibration))
    assert plan.kv_tokens.value == pytest.approx(100_480, abs=64)


def test_records_survive_storage_and_junk_does_not() -> None:
    record = _record(_WRAPPED[0])
    assert BootRecord.from_json(record.as_json()) == record
    assert BootRecord.from_json({}) is None
    assert BootRecord.from_json({"measured_tokens": "many"}) is None
    assert BootRecord.from_json({**record.as_json(), "target_gib": "x"}) is None
