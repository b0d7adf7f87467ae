"""The report of a run as text for people, and as one JSON document for programs."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from qwen_tui_diagnostics.groups import GROUPS
from qwen_tui_diagnostics.privacy import private
from qwen_tui_diagnostics.result import Report, SkipReason, Status
from qwen_tui_profiles.text import Text, joined, t, tr

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from qwen_tui_diagnostics.privacy import Identity
    from qwen_tui_diagnostics.result import CheckResult

__all__ = [
    "SCHEMA",
    "as_json",
    "dump_json",
    "header",
    "own_server",
    "summary",
    "text_lines",
    "with_explanations",
]

SCHEMA = "qwen-tui.doctor/1"
STATUS_ORDER = (Status.FAIL, Status.WARN, Status.OK, Status.SKIP)
_EXPLAINED_SHOWN = 3


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


def own_server(target: Mapping[str, Any]) -> Text | None:
    """Say that a server of ours runs, and how that is judged; ``None`` when none does.

    Args:
        target: The ``target`` object of the report.
    """
    if target.get("own_profile") is None:
        return None
    return t(
        "our own server runs (profile {name}): its port and its memory count as free",
        name=target["own_profile"],
    )


def text_lines(report: Report, *, verbose: bool = False) -> Iterator[str]:
    """Yield the report below its header: ASCII status words, FAIL and WARN first in each group.

    What does not apply to the launch is only counted, unless ``verbose``.
    """
    for group, title in GROUPS.items():
        shown = [r for r in report.results if r.group == group and r.counted]
        if not verbose:
            shown = [r for r in shown if r.reason is not SkipReason.NOT_APPLICABLE]
        if not shown:
            continue
        yield tr(title)
        for status in STATUS_ORDER:
            members = [r for r in shown if r.status is status]
            if status is Status.SKIP:
                yield from _skips(members)
            elif status is Status.OK and not verbose and members:
                yield f"  OK    {joined(r.title for r in members)}"
            else:
                for result in members:
                    yield from _result_lines(result, verbose=verbose)
    yield tr(summary(report))


def _skips(members: Sequence[CheckResult]) -> Iterator[str]:
    """Join the checks that are skipped for the same reason."""
    by_reason: dict[str, list[str]] = {}
    for result in members:
        by_reason.setdefault(tr(result.observed), []).append(tr(result.title))
    for reason, titles in by_reason.items():
        yield "  SKIP  " + tr(t("{what}: {reason}", what=joined(titles), reason=reason))


def _result_lines(result: CheckResult, *, verbose: bool) -> Iterator[str]:
    line = f"  {result.status.value:<4}  {tr(result.observed)}"
    troubled = result.status in {Status.WARN, Status.FAIL}
    if troubled and result.expected is not None:
        line += f" ({tr(t('expected: {what}', what=result.expected))})"
    yield line
    if not troubled and not verbose:
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
        yield f"        {tr(_explains(result, verbose=verbose))}"


def _explains(result: CheckResult, *, verbose: bool) -> Text:
    ids = result.explains
    if verbose or len(ids) <= _EXPLAINED_SHOWN:
        return t("explains: {ids}", ids=", ".join(ids))
    return t(
        "explains {count} more findings: {ids}, …",
        count=len(ids),
        ids=", ".join(ids[:_EXPLAINED_SHOWN]),
    )


def summary(report: Report) -> Text:
    """Return the verdict line: the counts, and what would happen."""
    counts = report.counts
    idle = sum(r.reason is SkipReason.NOT_APPLICABLE and r.counted for r in report.results)
    profile = report.target.get("profile") is not None
    blocked = t("this launch would fail") if profile else t("launches here would fail")
    ready = (
        t("nothing stands in the way of this launch") if profile else t("nothing stands in the way")
    )
    warned = t("this launch can start; read the warnings") if profile else t("read the warnings")
    what = {
        "ready": ready,
        "ready-with-warnings": warned,
        "blocked": blocked,
        "unknown": t("nothing could be judged"),
    }[report.verdict]
    return t(
        "{fail} failed, {warn} warned, {ok} ok, {skip} skipped, {idle} not applicable: {what}",
        fail=counts["fail"],
        warn=counts["warn"],
        ok=counts["ok"],
        skip=counts["skip"] - idle,
        idle=idle,
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
        "facts": {name: value for name, value in report.facts.items() if name != "model"}
        | {"model": _short_model(report.facts.get("model"))},
        "absent": dict(report.absent),
        "checks": [result.as_json() for result in report.results],
    }


def _short_model(model: Any) -> Any:
    """Leave the checkpoint's whole configuration out: it is big and not about the machine."""
    if not isinstance(model, dict):
        return model
    return {name: value for name, value in model.items() if name != "document"}


def dump_json(report: Report, identity: Identity) -> str:
    """Return the document as text, without what identifies the person or the machine."""
    return json.dumps(private(as_json(report), identity), indent=2, ensure_ascii=False)
