"""What one boot and one swap are in the history."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from qwen_tui_profiles.text import Text

__all__ = ["BootRow", "Durations", "SwapRow"]


@dataclass(frozen=True, slots=True)
class BootRow:
    """One boot as history has it."""

    run: str
    started: float
    profile: str
    engine: str
    engine_version: str | None
    asked: tuple[str, ...]
    facts: Mapping[str, Any]
    clamps: tuple[Mapping[str, Any], ...]
    phases: tuple[Mapping[str, Any], ...]
    ready_s: float | None
    """From the launch to the first generated token; ``None`` = never ready."""
    first_token_s: float | None
    predicted_kv_tokens: int | None
    kv_tokens: int | None
    state: str
    how: str | None
    message: Text | None
    cause: str | None
    """Class of the fatal cause (design §4)."""
    ended: float | None
    prints: Mapping[str, str]
    """Fingerprints of engine, model, flags and machine: equal prints, equal conditions."""

    def as_json(self) -> dict[str, Any]:
        """Return the row with plain values."""
        error = None
        if self.predicted_kv_tokens is not None and self.kv_tokens:
            error = round(100 * (self.predicted_kv_tokens - self.kv_tokens) / self.kv_tokens, 3)
        message = None if self.message is None else str(self.message)
        plain = asdict(replace(self, message=None))
        return {**plain, "message": message, "prediction_error_pct": error}


@dataclass(frozen=True, slots=True)
class SwapRow:
    """One swap as history has it."""

    started: float
    before: str | None
    target: str
    outcome: str
    message: Text
    seconds: float
    down_s: float | None
    """From the beginning of the stop to the first token; ``None`` = nothing was stopped."""
    predicted_s: float | None
    held: int | None
    """Requests that the front kept waiting; ``None`` = there was no front."""
    lost: int | None
    """Requests that were killed with the old server; ``None`` = not known."""

    def as_json(self) -> dict[str, Any]:
        """Return the row with plain values."""
        row = {field.name: getattr(self, field.name) for field in fields(self)}
        return {**row, "message": str(self.message)}


@dataclass(frozen=True, slots=True)
class Durations:
    """How long something took before."""

    median_s: float
    longest_s: float
    n: int
