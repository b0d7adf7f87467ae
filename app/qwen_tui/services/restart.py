"""When a dead server may be started again: with back-off, and never in a loop on the same cause."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["DETERMINISTIC", "Death", "RestartPolicy"]

DETERMINISTIC = frozenset(
    {
        "kv_pool_no_memory",
        "context_exceeds_kv",
        "context_too_long",
        "mamba_pool_too_small",
        "kernel_unsupported",
        "missing_weights",
        "quantization_unsupported",
        "bad_argument",
        "module_missing",
        "port_in_use",
        "engine_start_failed",
    }
)
"""Causes that the same launch meets again each time."""


@dataclass(frozen=True, slots=True)
class Death:
    """One end of a server that should have gone on."""

    at: float
    """Seconds on any clock."""
    cause: str | None
    """Class of the cause in the log; ``None`` = the log does not tell."""
    was_ready: bool


@dataclass(frozen=True, slots=True)
class RestartPolicy:
    """How often, and how soon."""

    most: int = 3
    """Restarts within the window."""
    window_s: float = 1800.0
    first_s: float = 5.0
    """Delay of the first restart; each further one within the window doubles it."""
    longest_s: float = 120.0

    def delay_s(self, deaths: Sequence[Death]) -> float | None:
        """Return how long to wait before the next start; ``None`` = do not start again.

        Args:
            deaths: All deaths so far, oldest first; not empty.
        """
        last = deaths[-1]
        if last.cause in DETERMINISTIC or not last.was_ready:
            return None
        recent = [d for d in deaths if last.at - d.at <= self.window_s]
        if len(recent) > self.most:
            return None
        # Twice in a row of the same named cause: the load brings it back, whatever it is.
        if len(recent) > 2 and last.cause is not None and {d.cause for d in recent} == {last.cause}:
            return None
        return min(self.first_s * 2.0 ** (len(recent) - 1), self.longest_s)
