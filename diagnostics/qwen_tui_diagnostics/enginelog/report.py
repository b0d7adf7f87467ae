"""What an engine log says: the frozen result of reading it (JSON schema ``qwen-tui.log/1``)."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from qwen_tui_profiles.findings import Clamp, Evidence, Finding, Value
    from qwen_tui_profiles.text import Text

__all__ = ["PHASES", "BudgetPart", "Fatal", "LogReport", "PhaseSpan"]

PHASES = (
    "args",
    "distributed",
    "load_weights",
    "load_draft",
    "state_pool",
    "kv_pool",
    "graph_capture",
    "tree_cache",
    "warmup",
    "ready",
    "serving",
    "stopping",
)
"""Boot phases in the order in which an engine goes through them."""


@dataclass(frozen=True, slots=True)
class PhaseSpan:
    """One phase of a boot."""

    phase: str
    started: float | None
    """Seconds since the epoch as the log's clock says (no time zone is known: local time)."""
    seconds: float | None
    """Duration; ``None`` while it runs or when the log has no clock."""

    def as_json(self) -> dict[str, object]:
        """Return ``{phase, started, seconds}``."""
        return {"phase": self.phase, "started": self.started, "seconds": self.seconds}


@dataclass(frozen=True, slots=True)
class Fatal:
    """Why the engine died: the root cause, not its echoes."""

    kind: str
    """One of design §4's classes (``cuda_oom``, ``mamba_slots_exhausted``, …)."""
    summary: Text
    remedy: Text | None
    evidence: tuple[Evidence, ...]

    def as_json(self) -> dict[str, object]:
        """Return ``{class, summary, remedy, evidence}``."""
        return {
            "class": self.kind,
            "summary": str(self.summary),
            "remedy": None if self.remedy is None else str(self.remedy),
            "evidence": [e.as_json() for e in self.evidence],
        }


@dataclass(frozen=True, slots=True)
class BudgetPart:
    """One step of the memory waterfall, per GPU of rank 0."""

    part: str
    """``free_before_load``, ``weights``, ``draft``, ``state_pool``, ``state_intermediate``,
    ``kv_pool``, ``draft_kv``, ``graphs``, ``activation``, ``non_torch``, ``other``, ``late_freed``,
    ``free`` (and ``total``, ``share`` where the engine states them)."""
    gib: float
    """GiB: the amount of a level (``free_before_load``, ``total``, ``share``, ``free``), or what a
    part takes; ``late_freed`` comes back, ``other`` is what the printed figures leave open."""
    basis: Text
    """``line 12``, or ``lines 12, 15`` for a difference."""

    def as_json(self) -> dict[str, object]:
        """Return ``{part, gib, basis}``."""
        return {"part": self.part, "gib": self.gib, "basis": str(self.basis)}


@dataclass(frozen=True, slots=True, eq=False)
class LogReport:
    """Everything that one boot in a log says. A fact that the log does not state is absent."""

    engine: str | None
    engine_version: str | None
    ready: bool
    """Whether this boot ever reached readiness (or is seen serving)."""
    phase: str | None
    facts: Mapping[str, Value] = field(default_factory=lambda: MappingProxyType({}))
    """By the names of design §4: ``kv_tokens``, ``max_running_requests_effective``, …"""
    clamps: tuple[Clamp, ...] = ()
    adjustments: tuple[Clamp, ...] = ()
    timeline: tuple[PhaseSpan, ...] = ()
    fatal: Fatal | None = None
    unread_lines: int = 0
    coverage: float | None = None
    """Share of engine lines that the grammar recognised; ``None`` when there were none."""
    budget: tuple[BudgetPart, ...] = ()
    """The memory waterfall; empty when the log prints too little of it."""
    findings: tuple[Finding, ...] = ()
    """What the figures mean beyond clamps: idle memory, a draft that does not work, …"""
    version_range: tuple[str | None, str | None] | None = None
    """Releases whose wording fits what was read (first, last), where no version is printed."""
    subject: str | None = None
    """``engine``; ``client`` for the output of a benchmark or evaluation; ``None`` = unknown."""
    boot: int = 1
    """Which boot of the log this is, from 1."""
    first_line: int = 1
    """1-based line at which it begins."""
    unread: tuple[tuple[int, str], ...] = ()
    """The first unrecognised engine lines: number, text (redacted)."""

    @property
    def requests_a_replica(self) -> int | None:
        """How many requests may run at once in each replica, as the log says (effective)."""
        found = self.facts.get("max_running_requests_effective")
        return found if isinstance(found, int) else None

    def as_json(self) -> dict[str, object]:
        """Return the ``qwen-tui.log/1`` document, in English."""
        return {
            "schema": "qwen-tui.log/1",
            "engine": self.engine,
            "engine_version": self.engine_version,
            "ready": self.ready,
            "phase": self.phase,
            "facts": dict(self.facts),
            "clamps": [c.as_json() for c in self.clamps],
            "adjustments": [c.as_json() for c in self.adjustments],
            "timeline": [p.as_json() for p in self.timeline],
            "fatal": None if self.fatal is None else self.fatal.as_json(),
            "unread_lines": self.unread_lines,
            "coverage": self.coverage,
            "budget": [b.as_json() for b in self.budget],
            "findings": [f.as_json() for f in self.findings],
            "version_range": None if self.version_range is None else list(self.version_range),
            "subject": self.subject,
            "boot": self.boot,
            "first_line": self.first_line,
        }
