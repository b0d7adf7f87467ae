"""Rules as rows, and the collector that turns a broken rule into a finding."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING

from qwen_tui_diagnostics.checkpoint.report import MOST_EXAMPLES, CheckpointFinding
from qwen_tui_profiles.findings import Severity
from qwen_tui_profiles.foreign import clean
from qwen_tui_profiles.text import Text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["Findings", "Rule", "all_rules"]

_RANK = {Severity.ERROR: 0, Severity.WARN: 1, Severity.INFO: 2}


@dataclass(frozen=True, slots=True)
class Rule:
    """One row: what is wrong, what the engine does with it, what to do, who says so."""

    id: str
    severity: Severity
    """As a rule; a finding may be milder or worse with its circumstances."""
    title: Text
    consequence: Text
    """In SGLang."""
    remedy: Text | None
    source: str
    vllm: Text | None = None
    """The consequence in vLLM, where it differs."""


@cache
def all_rules() -> Mapping[str, Rule]:
    """Return every rule; the order is that of causes before effects."""
    from qwen_tui_diagnostics.checkpoint.rules import files, hub, model, quantization

    rows = (
        *files.RULES,
        *hub.BEFORE,
        *model.CONFIG_RULES,
        *quantization.CONFIG_RULES,
        *model.RULES,
        *quantization.RULES,
        *hub.AFTER,
    )
    return {row.id: row for row in rows}


@dataclass(slots=True)
class Findings:
    """What was found so far. One finding per rule and cause."""

    engine: str
    found: list[CheckpointFinding] = field(default_factory=list)

    def add(
        self,
        rule: str,
        *,
        evidence: Text | str,
        severity: Severity | None = None,
        detail: Text | None = None,
        consequence: Text | None = None,
        remedy: Text | None = None,
        tensors: Iterable[str] = (),
        count: int | None = None,
        files: Iterable[str] = (),
        fields: Mapping[str, object] | None = None,
    ) -> None:
        """Record a broken rule; ``fields`` fill the templates of its row."""
        row = all_rules()[rule]
        names = [clean(name)[:240] for name in tensors]
        places = tuple(dict.fromkeys(clean(name)[:240] for name in files))
        said = consequence or (row.vllm if self.engine == "vllm" and row.vllm else row.consequence)
        advice = remedy or row.remedy
        self.found.append(
            CheckpointFinding(
                rule=rule,
                severity=severity or row.severity,
                title=_filled(row.title, fields or {}),
                detail=detail,
                evidence=_cleaned(evidence),
                consequence=_filled(said, fields or {}),
                remedy=None if advice is None else _filled(advice, fields or {}),
                source=row.source,
                tensors=tuple(names[:MOST_EXAMPLES]),
                count=count if count is not None else max(len(names), len(places), 1),
                files=places,
            )
        )

    def has(self, *rules: str, severity: Severity | None = None) -> bool:
        """Whether one of the rules was broken (with that severity)."""
        return any(
            f.rule in rules and (severity is None or f.severity is severity) for f in self.found
        )

    def errors(self, letters: str) -> bool:
        """Whether a rule of these passes (``FN``) ended in an error."""
        return any(f.severity is Severity.ERROR and f.rule[0] in letters for f in self.found)

    def sorted(self) -> tuple[CheckpointFinding, ...]:
        """Errors first; within a severity causes before effects."""
        order = {rule: number for number, rule in enumerate(all_rules())}
        return tuple(sorted(self.found, key=lambda f: (_RANK[f.severity], order[f.rule])))


def _cleaned(evidence: Text | str) -> Text | str:
    if isinstance(evidence, str):
        return clean(evidence)
    return Text(evidence.template, {k: _plain(value) for k, value in evidence.fields.items()})


def _plain(value: object) -> object:
    return _cleaned(value) if isinstance(value, str | Text) else value


def _filled(text: Text, fields: Mapping[str, object]) -> Text:
    return Text(text.template, {**text.fields, **fields}) if fields else text
