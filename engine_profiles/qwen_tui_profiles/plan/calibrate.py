"""Corrections learned from earlier boots on one machine, engine and model. Pure functions."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from statistics import median
from typing import TYPE_CHECKING, cast

from qwen_tui_profiles.plan.weights import GIB

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from qwen_tui_profiles.plan.predict_sglang import Computed

__all__ = ["BootRecord", "Calibration", "calibrate", "record_boot"]

_LAST = 10
_MEASURED_NOISE_GIB = 0.02
"""Run-to-run noise of the free memory seen on the boxes of both seeds."""


@dataclass(frozen=True, slots=True)
class BootRecord:
    """One boot, predicted and measured; sizes in GiB as the engine prints them."""

    predicted_tokens: int | None
    measured_tokens: int
    live_free_gib: float | None
    """Free on the card before the launch."""
    printed_free_gib: float | None
    """At ``Load weight begin``."""
    target_gib: float | None
    """``mem usage`` of the target."""
    draft_gib: float | None
    unaccounted_gib: float | None
    """What the arithmetic has left over once printed sizes replace computed ones; None where the
    user's own limit decided the pool."""

    @property
    def error_pct(self) -> float | None:
        """Error of the prediction in percent of the measured pool."""
        if self.predicted_tokens is None or self.measured_tokens <= 0:
            return None
        return (self.predicted_tokens / self.measured_tokens - 1) * 100

    def as_json(self) -> dict[str, object]:
        """Return the record for storage."""
        return asdict(self)

    @classmethod
    def from_json(cls, document: Mapping[str, object]) -> BootRecord | None:
        """Read a stored record; None where it is not one."""
        values = {f.name: document.get(f.name) for f in fields(cls)}
        numbers = all(
            value is None or (isinstance(value, int | float) and not isinstance(value, bool))
            for value in values.values()
        )
        if not numbers or not isinstance(values["measured_tokens"], int):
            return None
        return cls(**cast("dict[str, int]", values))


@dataclass(frozen=True, slots=True)
class Calibration:
    """What earlier boots showed; None = nothing learned about it."""

    boots: int
    gain_gib: float | None = None
    """Free memory at the end of the distributed init above the printed one."""
    overhead_gib: float | None = None
    """Free memory before the launch above the printed one."""
    target_gib: float | None = None
    draft_gib: float | None = None
    unaccounted_gib: float = 0.0
    noise_gib: float = _MEASURED_NOISE_GIB
    """Half the width of the interval that is left."""
    error_pct: float | None = None
    """Largest error of the last predictions, in percent."""

    def as_json(self) -> dict[str, object]:
        """Return the calibration as shown beside a plan."""
        return {
            "boots": self.boots,
            "error_pct": None if self.error_pct is None else round(self.error_pct, 3),
            "overhead_gib": self.overhead_gib,
            "weights_gib": self.target_gib,
            "draft_gib": self.draft_gib,
            "unaccounted_gib": round(self.unaccounted_gib, 4),
        }


def record_boot(
    computed: Computed,
    *,
    tokens: int,
    slots: int | None,
    requests: int | None,
    printed_free_gib: float | None,
    target_gib: float | None,
    draft_gib: float | None,
    live_free_gib: float | None = None,
) -> BootRecord:
    """Score a prediction against the boot that followed it.

    Args:
        computed: The arithmetic of the prediction, with the flags of the boot.
        tokens: Pool size of the summary line.
        slots: State slots of the log.
        requests: Concurrent requests of the summary line.
        printed_free_gib: ``Load weight begin. avail mem``.
        target_gib: ``mem usage`` of the target's ``Load weight end``.
        draft_gib: The same of the draft.
        live_free_gib: Free memory before the launch.
    """
    predicted = computed.value.tokens if computed.value.failure is None else None
    inputs = computed.inputs
    limited = inputs.max_total_tokens is not None and tokens <= inputs.max_total_tokens
    unaccounted = None
    if printed_free_gib is not None and target_gib is not None and not limited:
        loaded = target_gib + (draft_gib or 0.0 if computed.drafts else 0.0)
        gain = computed.free.gain
        static = (printed_free_gib - loaded - (printed_free_gib + gain) * (1 - inputs.fraction)) - (
            inputs.reserve + computed.rotary_growth
        ) / GIB
        observed = tokens * inputs.cell + _state_charge(computed, slots, requests)
        # Half a page is the expected remainder of the rounding.
        unaccounted = static - (observed + inputs.page * inputs.cell / 2) / GIB
    return BootRecord(
        predicted, tokens, live_free_gib, printed_free_gib, target_gib, draft_gib, unaccounted
    )


def calibrate(records: Sequence[BootRecord]) -> Calibration | None:
    """Learn from the last boots of one machine, engine release and model; None without any."""
    last = list(records)[-_LAST:]
    if not last:
        return None
    overheads = [
        r.live_free_gib - r.printed_free_gib
        for r in last
        if r.live_free_gib is not None and r.printed_free_gib is not None
    ]
    unaccounted = [r.unaccounted_gib for r in last if r.unaccounted_gib is not None]
    errors = [abs(r.error_pct) for r in last if r.error_pct is not None]
    spread = max(unaccounted) - min(unaccounted) if len(unaccounted) > 1 else 0.0
    return Calibration(
        boots=len(last),
        overhead_gib=_median(overheads),
        target_gib=_median([r.target_gib for r in last if r.target_gib is not None]),
        draft_gib=_median([r.draft_gib for r in last if r.draft_gib is not None]),
        unaccounted_gib=_median(unaccounted) or 0.0,
        noise_gib=max(_MEASURED_NOISE_GIB, spread),
        error_pct=max(errors) if errors else None,
    )


def _median(values: Sequence[float]) -> float | None:
    return median(values) if values else None


def _state_charge(computed: Computed, slots: int | None, requests: int | None) -> float:
    """Bytes that the solver charged for the state that the boot really got."""
    from qwen_tui_profiles.plan.solve_sglang import budget_rule

    inputs = computed.inputs
    if inputs.slot == 0 or slots is None:
        return computed.value.main + computed.value.intermediate
    rule = budget_rule(computed.settings.version)
    padding = 1 if rule.padding_slot else 0
    main = (slots + padding) * (inputs.slot + inputs.extra_per_slot) + inputs.fixed_state
    running = computed.value.requests if requests is None else requests
    if not rule.clamped_intermediates:
        running, padding = inputs.requests_asked or 0, 0
    drafts = inputs.draft_tokens if inputs.intermediates else 0
    return float(main + inputs.slot * drafts * (running + padding))
