"""What a swap says of itself: its states, its moments, how it ended, how it is to be done."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from qwen_tui.services.snapshots import ServerSnapshot
    from qwen_tui_profiles.text import Text

__all__ = ["SwapOptions", "SwapOutcome", "SwapStep", "SwapStepName"]


class SwapStepName(StrEnum):
    """The states of a swap, in order."""

    VALIDATE = "validate"
    DRAIN = "drain"
    STOP = "stop"
    MEMORY = "memory"
    """The old server is gone; its GPU memory and port come free."""
    START = "start"
    FIRST_TOKEN = "first_token"
    READ_BACK = "read_back"
    ROLL_BACK = "roll_back"
    DONE = "done"


class SwapOutcome(StrEnum):
    """How a swap ended."""

    SWAPPED = "swapped"
    CANCELLED = "cancelled"
    """Before anything was touched: the old server serves on."""
    ROLLED_BACK = "rolled back"
    """The old profile serves again."""
    FAILED = "failed"
    """Nothing serves."""


@dataclass(frozen=True, slots=True, eq=False)
class SwapStep:
    """One moment of a swap. The last one has an outcome."""

    name: SwapStepName
    text: Text
    seconds: float
    """Since the swap began."""
    failed: bool = False
    snapshot: ServerSnapshot | None = None
    outcome: SwapOutcome | None = None


@dataclass(frozen=True, slots=True)
class SwapOptions:
    """How a swap is done."""

    interpreter: str | None = None
    force: str | None = None
    drain_s: float = 0.0
    """How long to wait for running requests before the stop; 0 = leave the drain to the stop."""
    stop_s: float = 60.0
    """Limit of the stop, then KILL."""
