"""The report of a run: text for people, one JSON document for programs."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from qwen_tui_diagnostics.checks import GROUPS
from qwen_tui_diagnostics.result import Report, Status
from qwen_tui_profiles.foreign import redact
from qwen_tui_profiles.text import t, tr

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from qwen_tui_diagnostics.result import CheckResult

__all__ = ["SCHEMA", "as_json", "dump_json", "header", "private", "text_lines", "with_explanations"]

SCHEMA = "qwen-tui.doctor/1"
_ORDER = (Status.FAIL, Status.WARN, Status.OK, Status.SKIP)


def with_explanations(results: Sequence[CheckResult]) -> tuple[CheckResult, ...]:
    """Give every root cause the ids that it explains."""
    explained: dict[str, list[str]] = {}
    for result in results:
        if result.explained_by is not None:
            explained.setdefault(result.explained_by, []).append(result.id)
    return tuple(
        replace(result, explains=tuple(explained.get(result.id, ()))) for result in results
    )


def header(version: str, profile: str | None, started: float) -> str:
    """Return the first line, which is printed before anything is known."""
    when = time.strftime("%Y-%m-%d %H:%M", time.localtime(started))
    judged = t("profile {name}", name=profile) if profile else t("this machine, without a profile")
    return f"qwen-tui doctor {version}   {tr(judged)}   {when}"


def text_lines(report: Report, *, verbose: bool = False) -> Iterator[str]:
    """Yield the report below its header: ASCII status words, FAIL and WARN first in each group."""
    for group, title in GROUPS.items():
        shown = [r for r in report.results if r.group == group and r.counted]
        if not shown:
            continue
        yield tr(title)
        for status in _ORDER:
            members = [r for r in shown if r.status is status]
            if status is Status.OK and not verbose and len(members) > 1:
                yield f"  OK    {', '.join(tr(r.title) for r in members)}"
                continue
            for result in members:
                yield from _result_lines(result, verbose)
    yield tr(summary(report))


def _result_lines(result: CheckResult, verbose: bool) -> Iterator[str]:
    line = f"  {result.status.value:<4}  {tr(result.observed)}"
    if result.status in {Status.WARN, Status.FAIL} and result.expected is not None:
        line += f" ({tr(t('expected: {what}', what=result.expected))})"
    yield line
    if result.status in {Status.OK, Status.SKIP} and not verbose:
        return
    for detail in result.detail:
        yield f"        {tr(detail)}"
    if result.consequence is not None:
        yield f"        {tr(result.consequence)}"
    if result.remedy is not None:
        yield f"        → {tr(result.remedy.text)}"
        for command in result.remedy.commands:
            yield f"          {command}"
    if result.explains:
        yield f"        {tr(t('explains: {ids}', ids=', '.join(result.explains)))}"


def summary(report: Report) -> Any:
    """Return the verdict line: the counts, and what would happen."""
    counts = report.counts
    what = {
        "ready": t("nothing stands in the way of this launch"),
        "ready-with-warnings": t("this launch can start; read the warnings"),
        "blocked": t("this launch would fail"),
        "unknown": t("nothing could be judged"),
    }[report.verdict]
    return t(
        "{fail} failed, {warn} warned, {skip} skipped, {ok} ok: {what}",
        fail=counts["fail"],
        warn=counts["warn"],
        skip=counts["skip"],
        ok=counts["ok"],
        what=what,
    )


def as_json(report: Report) -> dict[str, Any]:
    """Return the document ``qwen-tui.doctor/1``."""
    return {
        "schema": SCHEMA,
        "tool": "qwen-tui",
        "version": report.version,
        "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(report.started)),
        "duration_ms": round(report.duration_ms, 1),
        "profile": report.target.get("profile"),
        "simulated": report.simulated,
        "target": dict(report.target),
        "verdict": report.verdict,
        "counts": report.counts,
        "checks": [result.as_json() for result in report.results],
        "facts": dict(report.facts),
        "absent": dict(report.absent),
    }


def dump_json(report: Report, home: Path, hostname: str) -> str:
    """Return the document as text, without what identifies the person or the machine."""
    return json.dumps(private(as_json(report), home, hostname), indent=2, ensure_ascii=False)


def private(value: Any, home: Path, hostname: str) -> Any:
    """Take home folder, host name and secrets out of every string of a document."""
    if isinstance(value, str):
        text = redact(value)
        if str(home) not in {"/", ""}:
            text = text.replace(str(home), "~")
        if len(hostname) > 3:
            text = text.replace(hostname, "HOST")
        return text
    if isinstance(value, dict):
        return {key: private(item, home, hostname) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [private(item, home, hostname) for item in value]
    return value
