"""What a check says: status, evidence, consequence and remedy; and the report of a whole run."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING

from qwen_tui_profiles.text import Text, t

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["REASONS", "CheckResult", "Remedy", "Report", "SkipReason", "Status", "Verdict"]


class Status(StrEnum):
    """The four words of the report. There is no fifth: unknown is SKIP, WARN or FAIL, never OK."""

    OK = "OK"
    WARN = "WARN"
    FAIL = "FAIL"
    SKIP = "SKIP"


class SkipReason(StrEnum):
    """Why a check was not judged, or why a fact is absent."""

    NOT_APPLICABLE = "not-applicable"
    NOT_PERMITTED = "not-permitted"
    UNSUPPORTED = "unsupported"
    NO_TOOL = "no-tool"
    TIMEOUT = "timeout"
    DISABLED = "disabled"


REASONS: Mapping[SkipReason, Text] = {
    SkipReason.NOT_APPLICABLE: t("not-applicable"),
    SkipReason.NOT_PERMITTED: t("not-permitted"),
    SkipReason.UNSUPPORTED: t("unsupported"),
    SkipReason.NO_TOOL: t("no-tool"),
    SkipReason.TIMEOUT: t("timeout"),
    SkipReason.DISABLED: t("disabled"),
}
"""The reasons for people; in English they are the words of the documents."""


@dataclass(frozen=True, slots=True)
class Remedy:
    """What to do about a finding."""

    text: Text
    commands: tuple[str, ...] = ()
    """Shell commands to copy, in order; none is ever run without ``--fix``."""
    env: tuple[tuple[str, str], ...] = ()
    """Variables that ``--fix`` can set for the engine, in a copy of the profile."""
    port: int | None = None
    """Free port that ``--fix`` can write into a copy of the profile."""
    privileged: bool = False
    """The commands need root."""
    docs: str | None = None
    """Address of the public report or documentation behind it."""

    @property
    def auto(self) -> bool:
        """Whether ``--fix`` can do it: reversible, local, unprivileged."""
        return bool(self.env) or self.port is not None

    def as_json(self) -> dict[str, object]:
        """Return ``{text, commands, auto, env, port, privileged, docs}``."""
        return {
            "text": str(self.text),
            "commands": list(self.commands),
            "auto": self.auto,
            "env": dict(self.env),
            "port": self.port,
            "privileged": self.privileged,
            "docs": self.docs,
        }


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a judge returns: pure, from facts alone."""

    status: Status
    observed: Text
    expected: Text | None = None
    detail: tuple[Text, ...] = ()
    """Further lines of evidence."""
    consequence: Text | None = None
    remedy: Remedy | None = None
    reason: SkipReason | None = None
    """Only with SKIP."""


@dataclass(frozen=True, slots=True)
class CheckResult:
    """One check of one run."""

    id: str
    group: str
    title: Text
    status: Status
    observed: Text
    expected: Text | None = None
    detail: tuple[Text, ...] = ()
    consequence: Text | None = None
    remedy: Remedy | None = None
    reason: SkipReason | None = None
    required: bool = False
    """The launch depends on it: it is never skipped because something could not be read."""
    explains: tuple[str, ...] = ()
    """Ids of results that this one explains; the text report leaves them out."""
    explained_by: str | None = None
    """Id of the result that explains this one."""
    duration_ms: float = 0.0

    @property
    def counted(self) -> bool:
        """Whether it counts by itself: a consequence of another finding does not."""
        return self.explained_by is None

    def as_json(self) -> dict[str, object]:
        """Return the check as in the document ``qwen-tui.doctor/1``, in English."""
        return {
            "id": self.id,
            "group": self.group,
            "title": str(self.title),
            "status": self.status.value,
            "reason": None if self.reason is None else self.reason.value,
            "required": self.required,
            "observed": str(self.observed),
            "expected": None if self.expected is None else str(self.expected),
            "detail": [str(line) for line in self.detail],
            "consequence": None if self.consequence is None else str(self.consequence),
            "remedy": None if self.remedy is None else self.remedy.as_json(),
            "explains": list(self.explains),
            "explained_by": self.explained_by,
            "duration_ms": round(self.duration_ms, 1),
        }


@dataclass(frozen=True, slots=True)
class Report:
    """A whole run."""

    results: tuple[CheckResult, ...]
    started: float
    """Unix time."""
    duration_ms: float
    version: str
    """Version of qwen-tui."""
    target: Mapping[str, object] = field(default_factory=lambda: MappingProxyType({}))
    """What was judged: ``{profile, interpreter, model_path, host, port, …}``."""
    facts: Mapping[str, object] = field(default_factory=lambda: MappingProxyType({}))
    """What the collectors found, nested: bytes and numbers, never formatted strings."""
    absent: Mapping[str, object] = field(default_factory=lambda: MappingProxyType({}))
    """Path of a fact → why it is absent."""
    simulated: bool = False
    """The profile runs the simulated engine."""

    @property
    def counts(self) -> dict[str, int]:
        """Results by status; those that another result explains are counted apart."""
        counts = {status.value.lower(): 0 for status in Status}
        counts["explained"] = 0
        for result in self.results:
            counts[result.status.value.lower() if result.counted else "explained"] += 1
        return counts

    @property
    def verdict(self) -> str:
        """``ready``, ``ready-with-warnings``, ``blocked`` or ``unknown`` (nothing was judged)."""
        counts = self.counts
        if counts["fail"]:
            return "blocked"
        if not counts["ok"] and not counts["warn"]:
            return "unknown"
        return "ready-with-warnings" if counts["warn"] else "ready"

    def exit_code(self, *, strict: bool = False) -> int:
        """0 no failure · 1 a failure, or a warning when strict · 2 nothing could be judged."""
        verdict = self.verdict
        if verdict == "unknown":
            return 2
        return int(verdict == "blocked" or (strict and verdict == "ready-with-warnings"))
