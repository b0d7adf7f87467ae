"""Words and values of a stop, shared by the kinds of runs and by those who watch."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from qwen_tui_profiles.text import t

if TYPE_CHECKING:
    from qwen_tui_profiles.text import Text

__all__ = [
    "DEFAULT_STOP_S",
    "LOSING",
    "Ended",
    "StopHow",
    "StopProgress",
    "StopResult",
    "draining",
    "log_size",
    "requests_left",
]

DEFAULT_STOP_S = 60.0
"""Limit before KILL. SGLang polls its drain every 5 s and gives its schedulers 15 s to go."""

_REMAINING = re.compile(rb"Remaining number of requests[: ]+(\d+)")
_TAIL_BYTES = 65536


class StopHow(StrEnum):
    """How a stop ended, honestly."""

    DRAINED = "drained"
    """It ended by itself after TERM, requests finished."""
    ABORTED = "aborted"
    """It ended by itself after TERM; this engine does not wait for its requests."""
    BOOT_BROKEN_OFF = "boot broken off"
    """It was still booting."""
    KILLED = "killed"
    """The limit passed, or leftovers had to be killed."""
    DIED = "died"
    """It was asked to end and died of something else first."""
    ALREADY_GONE = "already gone"
    """Nothing ran when the stop began."""


LOSING = frozenset({StopHow.KILLED, StopHow.DIED})
"""Ends at which the requests that were left are lost."""


@dataclass(frozen=True, slots=True)
class StopProgress:
    """One moment of a stop."""

    step: str
    """``draining``, ``killing``, ``children``, ``memory``, ``port``."""
    seconds: float
    requests_left: int | None
    """As the engine's log says; ``None`` while it has not said."""
    text: Text


@dataclass(frozen=True, slots=True)
class Ended:
    """How the processes of a run were ended."""

    how: StopHow
    killed: tuple[int, ...] = ()
    """Pids that had to be killed."""
    requests_left: int | None = None


@dataclass(frozen=True, slots=True)
class StopResult:
    """How the whole stop ended."""

    how: StopHow
    seconds: float
    exit_code: int | None
    killed: tuple[int, ...]
    """Pids that had to be killed."""
    requests_left: int | None
    port_free: bool | None
    """``None`` when nothing was to be freed."""
    text: Text
    memory_freed: bool | None = None
    """Whether the GPU memory of its processes is back; ``None`` = no GPU was asked."""

    def as_json(self) -> dict[str, object]:
        """Return the result with plain values, in English."""
        return {
            "how": self.how.value,
            "seconds": round(self.seconds, 2),
            "exit_code": self.exit_code,
            "killed": list(self.killed),
            "requests_left": self.requests_left,
            "port_free": self.port_free,
            "memory_freed": self.memory_freed,
            "message": str(self.text),
        }


def draining(seconds: float, left: int | None, limit_s: float) -> StopProgress:
    """Return the progress of a server that was asked to end."""
    if left is None:
        text = t(
            "Stopping: {seconds:.0f} s of at most {limit:.0f} s.", seconds=seconds, limit=limit_s
        )
    else:
        text = t(
            "Draining: {left} requests left, {seconds:.0f} s of at most {limit:.0f} s.",
            left=left,
            seconds=seconds,
            limit=limit_s,
        )
    return StopProgress("draining", seconds, left, text)


def log_size(path: str | None) -> int:
    """Return the size of a log in bytes, 0 when there is none."""
    try:
        return Path(path).stat().st_size if path is not None else 0
    except OSError:
        return 0


def requests_left(path: str | None, since_bytes: int) -> int | None:
    """Return the last count of remaining requests that a log has after ``since_bytes``."""
    if path is None:
        return None
    try:
        with Path(path).open("rb") as file:
            file.seek(max(since_bytes, file.seek(0, 2) - _TAIL_BYTES))
            found = _REMAINING.findall(file.read())
    except OSError:
        return None
    return int(found[-1]) if found else None
