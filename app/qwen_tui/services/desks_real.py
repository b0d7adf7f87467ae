"""The desks over the real services. Everything that reads files runs in a thread."""

from __future__ import annotations

import asyncio
import shlex
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from qwen_tui.services.desks import Past, PlanQuestion, ProfileSheet
from qwen_tui_profiles.errors import EngineError, ProbeError
from qwen_tui_profiles.foreign import REDACTED, is_secret_name, redact, redact_argv
from qwen_tui_profiles.text import t

if TYPE_CHECKING:
    from collections.abc import Mapping

    from qwen_tui.services.history import Durations
    from qwen_tui.services.paths import Paths
    from qwen_tui_profiles.compare import Comparison
    from qwen_tui_profiles.plan.result import Plan
    from qwen_tui_profiles.profile import EngineProfile
    from qwen_tui_profiles.text import Text

__all__ = ["RealHistory", "RealPlans", "RealProfiles"]

CARD_GIB = 31.84
"""What an RTX 5090 reports (32,607 MiB): the class of card that the presets are written for."""


class RealHistory:
    """See :class:`~qwen_tui.services.desks.HistoryDesk`."""

    def __init__(self, paths: Paths) -> None:
        self._paths = paths
        self._path = paths.state / "history.sqlite3"

    async def past(self, limit: int = 100) -> Past:
        """Read the newest rows."""
        return await asyncio.to_thread(self._past, limit)

    def _past(self, limit: int) -> Past:
        from qwen_tui.services.history import History
        from qwen_tui.services.history_mend import mend_history

        history = History(self._path)
        mend_history(history, self._paths)
        boots = history.boots(limit=limit)
        problem = history.problem
        return Past(boots, history.swaps(limit=limit), problem or history.problem)

    async def down(self, target: str) -> Durations | None:
        """Read the durations of earlier swaps."""
        return await asyncio.to_thread(self._down, target)

    def _down(self, target: str) -> Durations | None:
        from qwen_tui.services.history import History

        return History(self._path).down_seconds(target)

    async def phases(self, profile: str) -> Mapping[str, Durations]:
        """Read the durations of earlier boots."""
        return await asyncio.to_thread(self._phases, profile)

    def _phases(self, profile: str) -> Mapping[str, Durations]:
        from qwen_tui.services.history import History

        return History(self._path).phase_seconds(profile)


class RealPlans:
    """See :class:`~qwen_tui.services.desks.PlanDesk`."""

    def __init__(self, paths: Paths) -> None:
        self._paths = paths

    async def plan(self, question: PlanQuestion) -> Plan:
        """Collect the inputs and predict."""
        return await asyncio.to_thread(self._plan, question)

    def _plan(self, question: PlanQuestion) -> Plan:
        from qwen_tui.services.planning import PlanOptions, make_plan
        from qwen_tui_profiles.plan.result import Assumption

        profile = question.profile
        options = PlanOptions(
            args=question.args, model=question.model, total_gib=question.total_gib
        )
        if profile.simulated or options.total_gib is not None or _has_gpu():
            return make_plan(options, profile, self._paths)
        plan = make_plan(replace(options, total_gib=CARD_GIB), profile, self._paths)
        note = Assumption("total_gib", CARD_GIB, t("no GPU here; a 32 GB card"))
        return replace(plan, assumed=(*plan.assumed, note))


def _has_gpu() -> bool:
    from qwen_tui_diagnostics.probes.nvml import Nvml

    try:
        with Nvml() as nvml:
            return bool(nvml.devices(live_only=True))
    except ProbeError:
        return False


class RealProfiles:
    """See :class:`~qwen_tui.services.desks.ProfileDesk`."""

    def __init__(self, paths: Paths) -> None:
        self._paths = paths

    async def sheet(self, profile: EngineProfile) -> ProfileSheet:
        """Build the launch and judge it."""
        return await asyncio.to_thread(self._sheet, profile)

    def _sheet(self, profile: EngineProfile) -> ProfileSheet:
        from qwen_tui.services.engines import resolve_interpreter
        from qwen_tui_profiles.launch import build_launch
        from qwen_tui_profiles.rules import judge_profile

        problem: Text | None = None
        interpreter, version = "python", None
        try:
            engine = resolve_interpreter(profile, self._paths)
            interpreter, version = engine.interpreter, engine.version
        except EngineError as error:
            problem = error.message
        spec = build_launch(profile, interpreter=interpreter, engine_version=version)
        return ProfileSheet(
            profile,
            shlex.join(redact_argv(spec.argv)),
            MappingProxyType({name: _hidden(name, value) for name, value in spec.env.items()}),
            judge_profile(profile, version=version).findings,
            problem,
        )

    async def compare(self, before: EngineProfile, after: EngineProfile) -> Comparison:
        """Compare two profiles."""
        from qwen_tui_profiles.compare import compare

        return await asyncio.to_thread(compare, before, after)

    async def change(self, name: str, changes: Mapping[str, str | None]) -> None:
        """Change a user's file, or make one that overrides a shipped profile."""
        from qwen_tui.services.profile_files import change_profile

        await asyncio.to_thread(change_profile, self._paths, name, changes)

    async def new(self, name: str, base: str) -> None:
        """Make a profile of the user's own."""
        from qwen_tui.services.profile_files import new_profile

        await asyncio.to_thread(new_profile, self._paths, name, base, {})


def _hidden(name: str, value: str) -> str:
    return REDACTED if is_secret_name(name) else redact(value)
