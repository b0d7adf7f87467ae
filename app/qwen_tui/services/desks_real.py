"""The desks over the real services. Everything that reads files runs in a thread."""

from __future__ import annotations

import asyncio
import shlex
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from qwen_tui.services.desks import Past, PlanQuestion, ProfileSheet
from qwen_tui.services.known_models import known_model
from qwen_tui_profiles.errors import EngineError, ProbeError
from qwen_tui_profiles.foreign import REDACTED, is_secret_name, redact, redact_argv
from qwen_tui_profiles.text import t

if TYPE_CHECKING:
    from collections.abc import Mapping

    from qwen_tui.services.history import Durations
    from qwen_tui.services.paths import Paths
    from qwen_tui.services.planning import PlanOptions
    from qwen_tui_profiles.compare import Comparison
    from qwen_tui_profiles.plan.result import Plan
    from qwen_tui_profiles.profile import EngineProfile
    from qwen_tui_profiles.text import Text

__all__ = ["RealHistory", "RealPlans", "RealProfiles"]

DEMO_MODEL = "Qwen3.8-27B-NVFP4"
"""What the simulated engine imitates, unless its model path says INT4."""
DEMO_ENGINE = "sglang==0.5.23"
CARD_GIB = 31.84
"""What an RTX 5090 reports (32,607 MiB): the class of card that the presets are written for."""


class RealHistory:
    """See :class:`~qwen_tui.services.desks.HistoryDesk`."""

    def __init__(self, paths: Paths) -> None:
        self._path = paths.state / "history.sqlite3"

    async def past(self, limit: int = 100) -> Past:
        """Read the newest rows."""
        return await asyncio.to_thread(self._past, limit)

    def _past(self, limit: int) -> Past:
        from qwen_tui.services.history import History

        history = History(self._path)
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
        from qwen_tui.services.planning import make_plan
        from qwen_tui_profiles.plan.result import Assumption

        options, assumed = _options(question)
        profile = question.profile
        if profile.simulated:
            # The planner knows no simulated engine: it is asked about what that one imitates.
            options = replace(options, args=(*_engine_args(profile.argv), *options.args))
        planned = None if profile.simulated else profile
        if options.total_gib is None and options.free_gib is None and not _has_gpu():
            options = replace(options, total_gib=CARD_GIB)
            assumed.append(("total_gib", CARD_GIB, t("no GPU here; a 32 GB card")))
        plan = make_plan(options, planned, self._paths)
        notes = tuple(Assumption(name, value, reason) for name, value, reason in assumed)
        return replace(plan, assumed=(*plan.assumed, *notes))


def _options(question: PlanQuestion) -> tuple[PlanOptions, list[tuple[str, str | float, Text]]]:
    """Return the planner's options, and what had to be assumed for them."""
    from qwen_tui.services.planning import PlanOptions

    profile = question.profile
    options = PlanOptions(args=question.args, model=question.model, total_gib=question.total_gib)
    assumed: list[tuple[str, str | float, Text]] = []
    if profile.simulated:
        from qwen_tui.demo_engine.arguments import DemoOptions

        options = replace(options, engine=DEMO_ENGINE)
        if question.total_gib is None:
            options = replace(options, free_gib=DemoOptions().free_gib)
            reason = t("what the simulated card has")
            assumed.append(("free_gib", DemoOptions().free_gib, reason))
    named = question.model or profile.model.path
    if named is not None and Path(named).expanduser().exists():
        return options, assumed
    row = known_model(DEMO_MODEL if profile.simulated else named or profile.model.repo or "")
    if row is not None and question.model is None:
        options = replace(
            options,
            model=str(row.folder),
            weights_gib=row.weights_gib,
            draft_gib=row.draft_gib if _speculates((*profile.argv, *question.args)) else None,
        )
        reason = t("the checkpoint is not on this disk; sizes from a {source}", source=row.source)
        assumed.append(("weights_gib", row.weights_gib, reason))
    return options, assumed


def _has_gpu() -> bool:
    from qwen_tui_diagnostics.probes.nvml import Nvml

    try:
        with Nvml() as nvml:
            return bool(nvml.devices(live_only=True))
    except ProbeError:
        return False


def _engine_args(argv: tuple[str, ...]) -> tuple[str, ...]:
    """Leave out the demo engine's own flags, which SGLang does not have."""
    out: list[str] = []
    skip = False
    for item in argv:
        if item.startswith("--"):
            skip = item.startswith("--demo-")
        if not skip:
            out.append(item)
    return tuple(out)


def _speculates(argv: tuple[str, ...]) -> bool:
    return any(item.partition("=")[0] == "--speculative-algorithm" for item in argv)


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
