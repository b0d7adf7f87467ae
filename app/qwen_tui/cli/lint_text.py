"""How findings look on paper, and as a document."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from qwen_tui_profiles.citations import cited
from qwen_tui_profiles.findings import Severity
from qwen_tui_profiles.text import t, tr, tr_shipped
from qwen_tui_profiles.wrapping import columns, wrapped

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from qwen_tui_profiles.findings import Finding
    from qwen_tui_profiles.rules import Judgement

__all__ = ["finding_lines", "judgement_document", "judgement_lines", "rules_lines"]

_WORDS = {Severity.ERROR: "ERROR", Severity.WARN: "WARN ", Severity.INFO: "INFO "}


def judgement_document(judgement: Judgement) -> dict[str, object]:
    """Return the JSON document of ``lint`` (``qwen-tui.lint/1``)."""
    return {
        "schema": "qwen-tui.lint/1",
        "findings": [finding.as_json() for finding in judgement.findings],
        "ignored": [finding.as_json() for finding in judgement.ignored],
        "assumed": {
            "engine": judgement.engine.value,
            "engine_version": judgement.version,
            "stated": judgement.version_stated,
            "model": judgement.model_kind,
            "model_stated": judgement.model_stated,
        },
    }


def judgement_lines(judgement: Judgement, reasons: Mapping[str, str]) -> Iterator[str]:
    """Yield findings worst first, then what was overridden, then one line of result."""
    for finding in judgement.findings:
        yield from finding_lines(finding)
    for finding in judgement.ignored:
        reason = reasons.get(finding.rule) or tr(t("no reason given"))
        yield from _wrapped(
            tr(
                t(
                    "{rule}: {title} (overridden: {reason})",
                    rule=finding.rule,
                    title=finding.title,
                    reason=reason,
                )
            ),
            "IGNORED  ",
        )
    counts = {s: sum(f.severity is s for f in judgement.findings) for s in Severity}
    how = t("assumed; name another with --engine") if not judgement.version_stated else t("stated")
    yield tr(
        t(
            "{engine} {version} ({how}): errors {errors}, warnings {warnings}, notes {notes}",
            errors=counts[Severity.ERROR],
            warnings=counts[Severity.WARN],
            notes=counts[Severity.INFO],
            engine=judgement.engine.value,
            version=judgement.version,
            how=how,
        )
    )


def finding_lines(finding: Finding) -> Iterator[str]:
    """Yield one finding: what, what happens, what was seen, what to do, who says so."""
    yield from _wrapped(f"{tr(finding.title)}  [{finding.rule}]", f"{_WORDS[finding.severity]}    ")
    if finding.detail is not None:
        yield from _wrapped(tr(finding.detail), "         ")
    yield from _wrapped(tr(finding.evidence), "         > ")
    if finding.remedy is not None:
        yield from _wrapped(tr(finding.remedy), "         → ")
    span = _span(finding)
    yield from _wrapped(f"{cited(finding.source)}{f' ({span})' if span else ''}", "         ")


def rules_lines() -> Iterator[str]:
    """Yield every rule, one a line."""
    from qwen_tui_profiles.rules import RULES

    width = max(len(rule.id) for rule in RULES)
    for rule in RULES:
        span = f"{rule.since or ''}..{rule.until or ''}"
        engine = rule.engine.value if rule.engine else "any"
        template = tr_shipped(rule.title.template).replace("{{", "{").replace("}}", "}")
        yield f"{rule.id:<{width}}  {_WORDS[rule.severity]}  {engine:<6}  {span:<16}  {template}"


def _span(finding: Finding) -> str:
    if finding.since and finding.until:
        return tr(t("{since} to {until}", since=finding.since, until=finding.until))
    if finding.since:
        return tr(t("from {since} on", since=finding.since))
    return tr(t("up to {until}", until=finding.until)) if finding.until else ""


def _wrapped(text: str, indent: str) -> list[str]:
    width = min(shutil.get_terminal_size((100, 24)).columns, 110)
    return wrapped(text, max(width, columns(indent) + 20), indent) or [indent.rstrip()]
