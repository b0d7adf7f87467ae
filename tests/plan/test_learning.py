"""The plan learns from the history of boots, and only from those of the same conditions."""

from __future__ import annotations

import time
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

import pytest

from plan.boots import BOOTS, config
from qwen_tui.services.history import History
from qwen_tui.services.learning import learned
from qwen_tui.services.paths import Paths
from qwen_tui.services.records import RunRecord
from qwen_tui_diagnostics.enginelog import LogReport
from qwen_tui_profiles.loader import load_profiles
from qwen_tui_profiles.plan.predict import PlanRequest, predict
from qwen_tui_profiles.profile import ModelRef

if TYPE_CHECKING:
    from pathlib import Path

    from plan.boots import Boot

_PROFILE = replace(load_profiles(None).get("27b-int4-speed"), model=ModelRef("/models/a"))
_WRAPPED = [b for b in BOOTS if b.model == "hybrid-27b-cg"]


@pytest.fixture
def paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Paths:
    monkeypatch.setenv("QWEN_TUI_HOME", str(tmp_path))
    found = Paths.default()
    found.state.mkdir(parents=True, exist_ok=True)
    return found


def _note(
    paths: Paths, boot: Boot, number: int, *, model: str = "/models/a", **more: object
) -> None:
    facts: dict[str, object] = {
        "kv_tokens": boot.tokens,
        "mamba_slots": boot.slots,
        "max_running_requests_effective": boot.requests,
        "mem_usage_gb": 50.19,
        "draft_mem_usage_gb": 5.53,
        "free_before_load_gib": boot.free_gib,
        **more,
    }
    record = RunRecord(
        id=f"{number:06d}-x",
        kind="process",
        profile="speed",
        engine="sglang",
        url="http://127.0.0.1:30000",
        host="127.0.0.1",
        port=30000,
        created=time.time() + number,
        created_boot_s=0.0,
        boot=None,
        launcher=None,
        asked=tuple(boot.args.split()),
        snapshot={"model": asdict(ModelRef(model))},
        engine_version="0.5.17",
        prediction={"kv_tokens": boot.tokens + 100} if boot.tokens else {},
    )
    report = LogReport("sglang", "0.5.17", True, "ready", facts=facts)  # type: ignore[arg-type]
    assert History(paths.state / "history.sqlite3").note_boot(record, report)


def _request(boot: Boot) -> PlanRequest:
    return PlanRequest(
        boot.args.split(),
        config(boot.model),
        engine_version="0.5.17",
        free_gib=boot.free_gib,
    )


def test_no_history_teaches_nothing(paths: Paths) -> None:
    assert learned(_PROFILE, _request(_WRAPPED[0]), paths) is None


def test_boots_calibrate_the_next_plan(paths: Paths) -> None:
    *past, last = _WRAPPED
    for number, boot in enumerate(past):
        _note(paths, boot, number)
    request = _request(last)
    calibration = learned(_PROFILE, request, paths)
    assert calibration is not None
    assert calibration.boots == len(past)
    assert calibration.target_gib == 50.19
    assert calibration.error_pct == pytest.approx(100 * 100 / 179_636, rel=0.01)
    plan = predict(replace(request, calibration=calibration))
    assert plan.kv_tokens.value == pytest.approx(last.tokens, rel=0.001)
    assert plan.as_json()["calibration"] is not None


def test_boots_of_another_model_do_not_count(paths: Paths) -> None:
    _note(paths, _WRAPPED[0], 0, model="/models/other")
    _note(paths, _WRAPPED[1], 1, model="/models/a")
    calibration = learned(_PROFILE, _request(_WRAPPED[2]), paths)
    assert calibration is not None
    assert calibration.boots == 1


def test_boots_that_say_too_little_do_not_count(paths: Paths) -> None:
    _note(paths, _WRAPPED[0], 0, free_before_load_gib=None)
    assert learned(_PROFILE, _request(_WRAPPED[1]), paths) is None


def test_what_the_engine_takes_of_the_free_memory_is_learned(paths: Paths) -> None:
    past = _WRAPPED[0]
    for number in range(3):
        _note(paths, past, number, free_before_launch_gib=past.free_gib + 2.5)
    calibration = learned(_PROFILE, _request(past), paths)
    assert calibration is not None
    assert calibration.overhead_gib == pytest.approx(2.5)
    # The same free memory before the launch leads to the same printed one, and so to the pool.
    live = replace(
        _request(past),
        free_gib=None,
        live_free_gib=past.free_gib + 2.5,
        calibration=calibration,
    )
    assert predict(live).kv_tokens.value == pytest.approx(past.tokens, rel=0.0005)


def test_live_memory_of_a_launch_reaches_the_history(paths: Paths) -> None:
    record = RunRecord(
        id="000001-x",
        kind="process",
        profile="speed",
        engine="sglang",
        url="http://127.0.0.1:30000",
        host="127.0.0.1",
        port=30000,
        created=time.time(),
        created_boot_s=0.0,
        boot=None,
        launcher=None,
        prediction={"kv_tokens": 100, "live_free_gib": 31.1},
    )
    history = History(paths.state / "history.sqlite3")
    report = LogReport("sglang", "0.5.17", True, "ready", facts={"kv_tokens": 99})
    assert history.note_boot(record, report)
    (row,) = history.boots()
    assert row.facts["free_before_launch_gib"] == 31.1


def test_boots_of_another_release_or_machine_do_not_count(
    paths: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    past = _WRAPPED[0]
    _note(paths, past, 0)
    request = _request(past)
    assert learned(_PROFILE, request, paths) is not None
    assert learned(_PROFILE, replace(request, engine_version="0.5.18"), paths) is None
    assert learned(replace(_PROFILE, model=ModelRef("/models/b")), request, paths) is None
    monkeypatch.setattr("qwen_tui.services.learning.machine_print", lambda: "another")
    assert learned(_PROFILE, request, paths) is None
