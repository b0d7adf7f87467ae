"""What the boots in the history teach the memory plan: sizes and remainders of this machine."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import TYPE_CHECKING

from qwen_tui.services.history import History
from qwen_tui.services.machine import machine_print, model_print
from qwen_tui.services.plan_sources import demo_flags
from qwen_tui_profiles.errors import QwenTuiError
from qwen_tui_profiles.plan.calibrate import BootRecord, calibrate, record_boot
from qwen_tui_profiles.plan.gdn import NEWEST_CHECKED
from qwen_tui_profiles.plan.predict_sglang import arithmetic
from qwen_tui_profiles.profile import EngineKind

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from qwen_tui.services.history import BootRow
    from qwen_tui.services.paths import Paths
    from qwen_tui_profiles.plan.calibrate import Calibration
    from qwen_tui_profiles.plan.request import PlanRequest
    from qwen_tui_profiles.profile import EngineProfile

__all__ = ["learned"]

_ROWS = 60


def learned(profile: EngineProfile, request: PlanRequest, paths: Paths) -> Calibration | None:
    """Return the calibration from earlier boots of the same engine and model on this machine.

    Flags may differ, since the arithmetic knows them; so may the profile. None without a boot that
    says what it got, and for engines without a calibration.
    """
    if request.engine is not EngineKind.SGLANG:
        return None
    version = request.engine_version or NEWEST_CHECKED
    wanted = (profile.engine.value, version, model_print(asdict(profile.model)), machine_print())
    records = [
        record
        for row in reversed(History(paths.state / "history.sqlite3").boots(limit=_ROWS))
        if (row.engine, row.engine_version, row.prints["model"], row.prints["machine"]) == wanted
        and (record := _record(row, request)) is not None
    ]
    return calibrate(records)


def _record(row: BootRow, request: PlanRequest) -> BootRecord | None:
    printed = _number(row.facts, "free_before_load_gib")
    if not row.kv_tokens or printed is None:
        return None
    past = replace(
        request,
        args=demo_flags(row.asked),
        engine_version=row.engine_version,
        free_gib=printed,
        live_free_gib=None,
        calibration=None,
    )
    try:
        computed = arithmetic(past)
    except QwenTuiError:
        # A boot whose flags this version cannot read teaches nothing; the plan goes on without it.
        return None
    if computed is None:
        return None
    slots = _number(row.facts, "mamba_slots")
    requests = _number(row.facts, "max_running_requests_effective")
    record = record_boot(
        computed,
        tokens=row.kv_tokens,
        slots=None if slots is None else int(slots),
        requests=None if requests is None else int(requests),
        printed_free_gib=printed,
        target_gib=_number(row.facts, "mem_usage_gb"),
        draft_gib=_number(row.facts, "draft_mem_usage_gb"),
        live_free_gib=_number(row.facts, "free_before_launch_gib"),
    )
    return replace(record, predicted_tokens=row.predicted_kv_tokens)


def _number(facts: Mapping[str, Any], name: str) -> float | None:
    value = facts.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value)
