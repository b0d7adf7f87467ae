"""The doctor as the console asks it: results as they come, and the report of the last whole run."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from qwen_tui import __version__

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from qwen_tui.services.doctor_fixes import Repaired
    from qwen_tui.services.paths import Paths
    from qwen_tui_diagnostics.fixes import Fixes
    from qwen_tui_diagnostics.result import CheckResult, Report
    from qwen_tui_diagnostics.runner import Run
    from qwen_tui_profiles.profile import EngineProfile

__all__ = ["RealDoctor"]


class RealDoctor:
    """Runs the checks and remembers the last run of all of them."""

    def __init__(self, paths: Paths) -> None:
        self._paths = paths
        self._report: Report | None = None

    async def checks(
        self, profile: EngineProfile | None, only: tuple[str, ...]
    ) -> AsyncGenerator[CheckResult, None]:
        """Judge; every result is final when it comes.

        Raises:
            UsageError: ``only`` names no check.
        """
        from qwen_tui.services.doctor import doctor_context
        from qwen_tui_diagnostics.context import Target
        from qwen_tui_diagnostics.runner import Run, select

        target = Target() if profile is None else Target.from_profile(profile)
        context = await asyncio.to_thread(doctor_context, self._paths, target, terminal=_terminal())
        run = Run(context, select(only))
        started, began = time.time(), time.perf_counter()
        results: list[CheckResult] = []
        async with aclosing(run.results()) as judged:
            async for result in judged:
                results.append(result)
                yield result
        if not only:
            self._report = _report(run, results, started, time.perf_counter() - began)

    def fixes(self) -> Fixes | None:
        """Plan the repairs of the last whole run; ``None`` before the first."""
        from qwen_tui_diagnostics.fixes import plan_fixes

        return None if self._report is None else plan_fixes(self._report)

    async def repair(self, fixes: Fixes) -> Repaired:
        """Make what is reversible."""
        from qwen_tui.services.doctor_fixes import repair

        return await asyncio.to_thread(repair, fixes, self._paths)

    async def delete(self, cache: str) -> Repaired:
        """Delete one cache."""
        from qwen_tui.services.doctor_fixes import delete_cache

        return await asyncio.to_thread(delete_cache, cache)

    def report(self) -> str:
        """Return the last whole run as markdown, redacted; empty before the first."""
        from qwen_tui_diagnostics.privacy import Identity
        from qwen_tui_diagnostics.report_markdown import markdown

        return "" if self._report is None else markdown(self._report, Identity.here())


def _report(run: Run, results: list[CheckResult], started: float, seconds: float) -> Report:
    from qwen_tui_diagnostics.context import describe
    from qwen_tui_diagnostics.report import with_explanations
    from qwen_tui_diagnostics.result import Report

    order = {check.id: index for index, check in enumerate(run.checks)}
    results.sort(key=lambda result: order[result.id])
    return Report(
        results=with_explanations(results),
        started=started,
        duration_ms=seconds * 1000,
        version=__version__,
        target=describe(run.context.target),
        facts=run.tree,
        absent={path: absence.as_json() for path, absence in run.absent.items()},
        simulated=run.context.target.simulated,
    )


def _terminal() -> dict[str, Any]:
    """Describe the terminal as the doctor wants it; Textual replaces ``sys.stdout`` meanwhile."""
    stream = sys.__stdout__
    if stream is None or not stream.isatty():
        return {}
    size = os.get_terminal_size(stream.fileno())
    facts: dict[str, Any] = {
        "stdout_tty": True,
        "columns": size.columns,
        "lines": size.lines,
        "encoding": stream.encoding,
    }
    if os.environ.get("TERM"):
        facts["term"] = os.environ["TERM"]
    return facts
