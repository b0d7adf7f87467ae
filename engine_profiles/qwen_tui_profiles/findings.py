"""What the product says about a launch: clamps (asked → got) and findings (rules that fired).

Shared by the planner (predicted), the log reader (observed) and the console. JSON shapes: see
``as_json`` of each; fields may be added, never renamed.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from qwen_tui_profiles.text import Text

__all__ = ["Clamp", "Evidence", "Finding", "Severity", "Value"]

Value = str | int | float | bool | None
"""A flag's value as asked or got. ``None`` = not asked, or not known."""


class Severity(StrEnum):
    """How bad a finding is."""

    ERROR = "error"
    WARN = "warn"
    INFO = "info"


@dataclass(frozen=True, slots=True)
class Evidence:
    """A line of a log or a cited source that proves a statement."""

    line: int | None
    """1-based line number; ``None`` for evidence that is not a log line."""
    text: str
    """The line itself, cleaned and redacted."""

    def as_json(self) -> dict[str, object]:
        """Return ``{line, text}``."""
        return {"line": self.line, "text": self.text}


@dataclass(frozen=True, slots=True)
class Clamp:
    """A value that the engine did not take as it was asked (or a default that it chose)."""

    arg: str
    """The engine's long flag (``--max-running-requests``); its own word where there is none."""
    asked: Value
    got: Value
    by: Text
    """Who changed it: ``mamba state cache``, ``KV pool``, ``speculative decoding``, …"""
    why: Text
    remedy: Text | None
    evidence: Evidence | None

    def as_json(self) -> dict[str, object]:
        """Return ``{arg, asked, got, by, why, remedy, evidence}`` in English."""
        return {
            "arg": self.arg,
            "asked": self.asked,
            "got": self.got,
            "by": str(self.by),
            "why": str(self.why),
            "remedy": None if self.remedy is None else str(self.remedy),
            "evidence": None if self.evidence is None else self.evidence.as_json(),
        }


@dataclass(frozen=True, slots=True)
class Finding:
    """A rule that fired on a command line, profile or checkpoint."""

    rule: str
    severity: Severity
    title: Text
    evidence: Text | str
    """What was seen: the flag as written, the figure, the file; empty = nothing to show."""
    source: str
    """Where the knowledge comes from: seed table, upstream issue, recorded boot."""
    since: str | None
    """First engine version that it holds for; ``None`` = every known one."""
    until: str | None
    """Last engine version that it holds for; ``None`` = the newest checked."""
    remedy: Text | None
    detail: Text | None = None
    """What happens, with the figure that was measured or read."""
    checked: str | None = None
    """Newest engine version that the statement was checked against."""

    def as_json(self) -> dict[str, object]:
        """Return the fields by name (``rule``, ``severity``, …), texts in English."""
        return {
            "rule": self.rule,
            "severity": self.severity.value,
            "title": str(self.title),
            "evidence": str(self.evidence),
            "source": self.source,
            "since": self.since,
            "until": self.until,
            "remedy": None if self.remedy is None else str(self.remedy),
            "detail": None if self.detail is None else str(self.detail),
            "checked": self.checked,
        }
