"""Runs the collectors in children that can be killed, judges the facts, yields the results.

A check is judged as soon as its collectors have answered and every check that may explain it has
been judged; so each result is final when it is yielded.
"""

from __future__ import annotations

import asyncio
import fnmatch
import json
import time
from contextlib import aclosing, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from qwen_tui_diagnostics.checks import CHECKS
from qwen_tui_diagnostics.facts import Absence, Facts, MissingFact, absences_from_json
from qwen_tui_diagnostics.probes.collectors import COLLECTORS, Collector
from qwen_tui_diagnostics.result import CheckResult, SkipReason, Status, Verdict
from qwen_tui_profiles.errors import UsageError
from qwen_tui_profiles.text import t

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence

    from qwen_tui_diagnostics.check import Check
    from qwen_tui_diagnostics.context import Context, Target
    from qwen_tui_profiles.text import Text

__all__ = ["Run", "judge", "run_checks", "select"]

DEFAULT_TIMEOUT_S = 60.0
_CHILD = "qwen_tui_diagnostics.probes.child"
_LINE_LIMIT_BYTES = 16 * 1024 * 1024


def select(only: Sequence[str] = (), skip: Sequence[str] = ()) -> tuple[Check, ...]:
    """Return the checks whose ids match the globs, in table order.

    Raises:
        UsageError: a glob matches no check.
    """
    ids = [check.id for check in CHECKS]
    for pattern in (*only, *skip):
        if not fnmatch.filter(ids, pattern):
            raise UsageError(
                t("No check is called {pattern}.", pattern=repr(pattern)),
                t("`qwen-tui doctor --list-checks` shows them all."),
            )

    def matches(name: str, patterns: Sequence[str]) -> bool:
        return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)

    return tuple(
        check
        for check in CHECKS
        if (not only or matches(check.id, only)) and not matches(check.id, skip)
    )


class Run:
    """One run: its facts, and the results as they come."""

    def __init__(self, context: Context, checks: Sequence[Check]) -> None:
        self.context = context
        self.checks = tuple(checks)
        self.tree: dict[str, Any] = {}
        self.absent: dict[str, Absence] = {}
        self.raw: dict[str, str] = {}
        self.times_ms: dict[str, float] = {}
        self._running: set[str] = set()

    def merge(self, answer: Mapping[str, Any]) -> None:
        """Take in what a collector found."""
        for name, values in answer["values"].items():
            self.tree[name] = values
        self.absent.update(absences_from_json(answer["absent"]))
        self.raw.update(answer["raw"])
        self.times_ms[answer["name"]] = float(answer["ms"])

    def fail(self, name: str, absence: Absence, ms: float) -> None:
        """Note that a collector did not answer."""
        self.absent[name] = absence
        self.times_ms[name] = ms

    async def results(self, timeout_s: float | None = None) -> AsyncGenerator[CheckResult, None]:
        """Collect, judge and yield; the children are gone when it ends, however it ends."""
        target = self.context.target
        needed = {
            source
            for check in self.checks
            if check.wanted(target) is None
            for source in check.sources
        }
        if self.context.raw:
            needed.add("raw")
        collectors = [c for c in COLLECTORS if c.name in needed]
        waiting = list(self.checks)
        self._running = needed
        judged: dict[str, CheckResult] = {}
        known = {check.id for check in self.checks}
        answered: set[str] = set()
        async with aclosing(_collect(self, collectors, timeout_s)) as names:
            async for name in names:
                answered.add(name)
                for result in self._ready(waiting, judged, known, answered):
                    yield result
        every_source = {source for check in self.checks for source in check.sources}
        for result in self._ready(waiting, judged, known, every_source):
            yield result

    def judge_all(self) -> list[CheckResult]:
        """Judge every check over the facts that are there (a bundle); nothing is collected."""
        every_source = {source for check in self.checks for source in check.sources}
        return self._ready(list(self.checks), {}, {c.id for c in self.checks}, every_source)

    def _ready(
        self,
        waiting: list[Check],
        judged: dict[str, CheckResult],
        known: set[str],
        answered: set[str],
    ) -> list[CheckResult]:
        results: list[CheckResult] = []
        progress = True
        while progress:
            progress = False
            for check in list(waiting):
                explainers = [name for name in check.explained_by if name in known]
                awaited = set(check.sources) | set(check.uses) & self._running
                if not awaited <= answered or not set(explainers) <= set(judged):
                    continue
                waiting.remove(check)
                result = judge(check, Facts(self.tree, self.absent), self.context.target)
                took = max((self.times_ms.get(source, 0.0) for source in check.sources), default=0)
                result = replace(result, duration_ms=took)
                judged[check.id] = _explain(result, explainers, judged)
                results.append(judged[check.id])
                progress = True
        return results


async def run_checks(
    context: Context,
    only: Sequence[str] = (),
    skip: Sequence[str] = (),
    timeout_s: float | None = None,
) -> AsyncGenerator[CheckResult, None]:
    """Run the doctor and yield each result when it is final.

    Raises:
        UsageError: a glob in ``only`` or ``skip`` matches no check.
    """
    run = Run(context, select(only, skip))
    async with aclosing(run.results(timeout_s)) as results:
        async for result in results:
            yield result


def judge(check: Check, facts: Facts, target: Target) -> CheckResult:
    """Judge one check. An absent fact is never OK; a judge that raises becomes a finding."""
    required = check.required(target)
    try:
        why_not = check.wanted(target) or check.applies(facts, target)
        if why_not is not None:
            verdict = Verdict(Status.SKIP, why_not, reason=SkipReason.NOT_APPLICABLE)
        else:
            verdict = check.judge(facts, target)
    except MissingFact as missing:
        verdict = _unknown(check, missing.path, missing.absence, required=required)
    except Exception as error:  # noqa: BLE001 - the check runner's edge
        line = " ".join(str(error).split())[:200]
        verdict = Verdict(
            Status.FAIL if required else Status.WARN,
            t("the check itself failed: {kind}: {line}", kind=type(error).__name__, line=line),
        )
    return CheckResult(
        id=check.id,
        group=check.group,
        title=check.title,
        status=verdict.status,
        observed=verdict.observed,
        expected=verdict.expected,
        detail=verdict.detail,
        consequence=verdict.consequence,
        remedy=verdict.remedy,
        reason=verdict.reason,
        required=required,
    )


def _unknown(check: Check, path: str, absence: Absence, *, required: bool) -> Verdict:
    detail = absence.detail
    if absence.reason in {SkipReason.NOT_APPLICABLE, SkipReason.DISABLED} and str(detail):
        observed = detail
    elif str(detail) in {"", absence.reason.value}:
        observed = t("could not be read: {fact} ({reason})", fact=path, reason=absence.word)
    else:
        observed = t(
            "could not be read: {fact} ({reason}: {detail})",
            fact=path,
            reason=absence.word,
            detail=detail,
        )
    if absence.reason in {SkipReason.NOT_APPLICABLE, SkipReason.DISABLED}:
        return Verdict(Status.SKIP, observed, reason=absence.reason)
    if absence.reason is SkipReason.TIMEOUT or absence.whole:
        # The source itself failed: nothing is known, and that is worse than one missing value.
        status = Status.FAIL if required else Status.WARN
        return Verdict(status, t("{title} {observed}", title=check.title, observed=observed))
    if required:
        shown = t("{title} {observed}", title=check.title, observed=observed)
        return Verdict(Status.WARN, shown)
    return Verdict(Status.SKIP, observed, reason=absence.reason)


def _explain(
    result: CheckResult, explainers: Iterable[str], judged: dict[str, CheckResult]
) -> CheckResult:
    """Attach a result to the first failure that explains it."""
    if result.status is Status.OK or result.reason is SkipReason.NOT_APPLICABLE:
        return result
    for name in explainers:
        root = judged[name]
        if root.status is not Status.FAIL:
            continue
        return replace(result, explained_by=root.explained_by or root.id)
    return result


# --- collecting ---------------------------------------------------------------------------------


async def _collect(
    run: Run, collectors: Sequence[Collector], timeout_s: float | None
) -> AsyncGenerator[str, None]:
    """Run the collectors and yield each name when it has answered, failed or timed out."""
    queue: asyncio.Queue[str] = asyncio.Queue()
    groups: dict[str, list[Collector]] = {}
    for collector in collectors:
        known = None if collector.known is None else collector.known(run.context)
        if known is None:
            groups.setdefault(collector.child, []).append(collector)
        else:
            run.merge(known)
            queue.put_nowait(collector.name)
    tasks: list[asyncio.Task[None]] = []
    for group in sorted(groups.values(), key=lambda members: members[0].last):
        before = tuple(tasks) if group[0].last else ()
        tasks.append(asyncio.create_task(_serve_child(run, group, timeout_s, queue, before)))
    complete = False
    try:
        for _ in range(len(collectors)):
            yield await queue.get()
        complete = True
    finally:
        if not complete:
            for task in tasks:
                task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _serve_child(
    run: Run,
    collectors: Sequence[Collector],
    timeout_s: float | None,
    queue: asyncio.Queue[str],
    before: Sequence[asyncio.Task[None]],
) -> None:
    if before:
        await asyncio.wait(before)
    pending = {collector.name: collector for collector in collectors}
    began = time.monotonic()
    limits = {
        name: min(collector.limit_s, timeout_s or collector.limit_s)
        for name, collector in pending.items()
    }

    def give_up(name: str, reason: SkipReason, detail: Text) -> None:
        del pending[name]
        run.fail(name, Absence(reason, detail), (time.monotonic() - began) * 1000)
        queue.put_nowait(name)

    try:
        child = await asyncio.create_subprocess_exec(
            run.context.python, "-P", "-X", "utf8", "-m", _CHILD,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            env=dict(run.context.env),
            limit=_LINE_LIMIT_BYTES,
            start_new_session=True,
        )  # fmt: skip
    except OSError as error:
        for name in list(pending):
            give_up(
                name, SkipReason.UNSUPPORTED, t("no child process: {reason}", reason=error.strerror)
            )
        return
    try:
        request = {
            "context": run.context.as_json(),
            "collectors": [[c.name, c.module] for c in collectors],
        }
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdin.write(json.dumps(request).encode() + b"\n")
        with suppress(OSError):
            await child.stdin.drain()
        child.stdin.close()
        while pending:
            left = {name: began + limits[name] - time.monotonic() for name in pending}
            try:
                async with asyncio.timeout(max(0, min(left.values()))):
                    line = await child.stdout.readline()
            except TimeoutError:
                for name in [n for n in pending if began + limits[n] <= time.monotonic()]:
                    give_up(name, SkipReason.TIMEOUT, t("no answer within {s:g} s", s=limits[name]))
                continue
            if not line:
                break
            answer = json.loads(line)
            if answer["name"] in pending:
                del pending[answer["name"]]
                run.merge(answer)
                queue.put_nowait(answer["name"])
        for name in list(pending):
            give_up(name, SkipReason.UNSUPPORTED, t("the child process ended without an answer"))
    finally:
        await _end(child)


async def _end(child: asyncio.subprocess.Process) -> None:
    """Kill the child with its tools; one that sits in the kernel is left to the kernel."""
    if child.returncode is None:
        import os
        import signal

        with suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, signal.SIGKILL)
    with suppress(TimeoutError):
        async with asyncio.timeout(1.0):
            await child.wait()
