"""The plan: what a launch will get, each figure with its basis."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from qwen_tui_profiles.text import Text, t

if TYPE_CHECKING:
    from collections.abc import Mapping

    from qwen_tui_profiles.findings import Clamp, Finding

__all__ = [
    "LIMITS",
    "SCHEMA",
    "Assumption",
    "BudgetLine",
    "Interval",
    "Knob",
    "Plan",
    "StatePlan",
    "Wanted",
]

SCHEMA = "qwen-tui.plan/1"

LIMITS: Mapping[str, Text] = {
    "mamba state slots": t("mamba state slots"),
    "KV pool": t("KV pool"),
    "state blocks": t("state blocks"),
}
"""Words for people of what ``limited_by`` names."""


@dataclass(frozen=True, slots=True)
class Interval:
    """A predicted number and the bounds that its assumed inputs leave."""

    value: int | None
    low: int | None
    high: int | None

    def as_json(self) -> dict[str, object]:
        """Return ``{value, low, high}``."""
        return {"value": self.value, "low": self.low, "high": self.high}


@dataclass(frozen=True, slots=True)
class BudgetLine:
    """One part of the GPU's (or the host's) memory."""

    part: str
    """``weights``, ``draft_weights``, ``state``, ``rollback_states``, ``kv_cache``, …"""
    gib: float | None
    basis: Text
    title: Text
    where: str = "gpu"
    """``gpu``, ``host`` or ``disk``."""

    def as_json(self) -> dict[str, object]:
        """Return ``{part, gib, basis, title, where}`` in English."""
        return {
            "part": self.part,
            "gib": _rounded(self.gib),
            "basis": str(self.basis),
            "title": str(self.title),
            "where": self.where,
        }


@dataclass(frozen=True, slots=True)
class StatePlan:
    """Recurrent state of a hybrid model, as the engine allocates it."""

    slots: int | None
    slots_per_request: int | None
    main_gib: float | None
    intermediate_gib: float | None
    slot_mib: float | None
    strategy: str | None

    def as_json(self) -> dict[str, object]:
        """Return ``{slots, slots_per_request, main_gib, intermediate_gib, …}``."""
        return {
            "slots": self.slots,
            "slots_per_request": self.slots_per_request,
            "main_gib": _rounded(self.main_gib),
            "intermediate_gib": _rounded(self.intermediate_gib),
            "slot_mib": _rounded(self.slot_mib),
            "strategy": self.strategy,
        }


@dataclass(frozen=True, slots=True)
class Assumption:
    """An input that was not given, and what was taken for it."""

    name: str
    value: str | float | int | None
    reason: Text


@dataclass(frozen=True, slots=True)
class Knob:
    """What one change of a flag buys or costs, all else equal."""

    flag: str
    change: Text
    tokens: int | None
    """Difference of the KV pool in tokens; None where it cannot be told."""
    requests: int | None
    """Difference of the concurrent requests."""
    context: int | None = None
    """Usable context after the change."""

    def as_json(self) -> dict[str, object]:
        """Return ``{flag, change, tokens, requests, context}`` in English."""
        return {
            "flag": self.flag,
            "change": str(self.change),
            "tokens": self.tokens,
            "requests": self.requests,
            "context": self.context,
        }


@dataclass(frozen=True, slots=True)
class Wanted:
    """What was wanted, whether it can be had, and by which changes."""

    context: int | None
    requests: int | None
    reached: bool
    args: tuple[str, ...]
    """The engine arguments after the changes."""
    steps: tuple[Knob, ...]
    tokens: int | None
    got_requests: int | None
    slack_gib: float | None
    why: Text | None = None
    """Why it cannot be had."""

    def as_json(self) -> dict[str, object]:
        """Return the answer in English."""
        return {
            "context": self.context,
            "requests": self.requests,
            "reached": self.reached,
            "args": list(self.args),
            "steps": [step.as_json() for step in self.steps],
            "kv_tokens": self.tokens,
            "max_running_requests": self.got_requests,
            "slack_gib": None if self.slack_gib is None else round(self.slack_gib, 3),
            "why": None if self.why is None else str(self.why),
        }


@dataclass(frozen=True, slots=True)
class Plan:
    """The prediction for one launch."""

    fits: bool | None
    """None where it cannot be judged."""
    failure: Text | None
    failure_class: str | None
    minimum_fraction: float | None
    kv_tokens: Interval
    requests_asked: int | None
    requests: int | None
    limited_by: str | None
    """A key of :data:`LIMITS`; None where the asked number is kept."""
    state: StatePlan | None
    weights_gib: float | None
    draft_gib: float | None
    kv_gib: float | None
    context_declared: int | None
    context_usable: int | None
    slack_gib: float | None
    """Left on the card for graphs, activations and workspaces once everything is allocated."""
    budget: tuple[BudgetLine, ...]
    clamps: tuple[Clamp, ...]
    adjustments: tuple[Clamp, ...]
    findings: tuple[Finding, ...]
    assumed: tuple[Assumption, ...]
    engine: str
    engine_version: str | None
    fraction: float | None = None
    cell_bytes: int | None = None
    """Bytes that the engine charges for one token of the pool."""
    knobs: tuple[Knob, ...] = ()
    wanted: Wanted | None = None
    calibration: dict[str, object] | None = None
    failure_certain: bool = False
    """The launch fails at the upper end of the interval, too."""
    live_free_gib: float | None = None
    """Free on the card when the plan was made; None where it was not asked."""
    details: dict[str, object] = field(default_factory=dict)
    """Figures of one engine only (vLLM: blocks, block size, blocks per request)."""

    def as_json(self) -> dict[str, object]:
        """Return the document ``qwen-tui.plan/1`` in English."""
        document: dict[str, object] = {
            "schema": SCHEMA,
            "fits": self.fits,
            "kv_tokens": self.kv_tokens.as_json(),
            "max_running_requests": {
                "asked": self.requests_asked,
                "predicted": self.requests,
                "limited_by": self.limited_by,
            },
            "mamba": None if self.state is None else self.state.as_json(),
            "weights_gib": _rounded(self.weights_gib),
            "draft_gib": _rounded(self.draft_gib),
            "kv_gib": _rounded(self.kv_gib),
            "context": {"declared": self.context_declared, "usable": self.context_usable},
            "slack_gib": _rounded(self.slack_gib),
            "budget": [line.as_json() for line in self.budget],
            "clamps": [clamp.as_json() for clamp in self.clamps],
            "findings": [finding.as_json() for finding in self.findings],
            "assumed": {
                "engine": self.engine,
                "engine_version": self.engine_version,
                **{item.name: item.value for item in self.assumed},
                "reasons": {item.name: str(item.reason) for item in self.assumed},
            },
            "adjustments": [clamp.as_json() for clamp in self.adjustments],
            "failure": None
            if self.failure is None
            else {
                "class": self.failure_class,
                "summary": str(self.failure),
                "minimum_mem_fraction_static": self.minimum_fraction,
            },
            "mem_fraction_static": _rounded(self.fraction),
            "bytes_per_token": self.cell_bytes,
            "knobs": [knob.as_json() for knob in self.knobs],
            "wanted": None if self.wanted is None else self.wanted.as_json(),
            "calibration": self.calibration,
        }
        document.update(self.details)
        return document


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)
