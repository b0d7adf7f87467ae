"""What a swap is about, on disk while it lasts: for other processes, and for when it is broken off.

The front holds requests while a living process swaps. When that process is killed the intent
stays, and whoever looks next can say what was going on and what to type.
"""

from __future__ import annotations

import contextlib
import json
import os
from dataclasses import asdict, dataclass, fields, replace
from typing import TYPE_CHECKING

from qwen_tui.services.paths import write_private
from qwen_tui.services.process import ProcessId, alive, boot_id, identify

if TYPE_CHECKING:
    from qwen_tui.services.paths import Paths

__all__ = ["SwapIntent", "SwapIntents"]

SCHEMA = "qwen-tui.swap-intent/1"


@dataclass(frozen=True, slots=True)
class SwapIntent:
    """One swap under way."""

    before: str | None
    """The profile that ran; ``None`` when nothing did."""
    target: str
    step: str
    """A value of ``SwapStepName``."""
    started: float
    """Unix time."""
    pid: int
    create_time: float
    """Identity of the process that swaps."""
    boot: str | None

    @property
    def active(self) -> bool:
        """Whether the process that swaps still lives."""
        return self.boot == boot_id() and alive(ProcessId(self.pid, self.create_time))


class SwapIntents:
    """Keeps the one intent there can be. Nothing here raises: a swap never fails for its note."""

    def __init__(self, paths: Paths) -> None:
        self._path = paths.state / "swap.json"

    def note(self, before: str | None, target: str, step: str, started: float) -> None:
        """Write where the swap of this process is."""
        us = identify(os.getpid())
        if us is None:
            return
        intent = SwapIntent(before, target, step, started, us.pid, us.create_time, boot_id())
        with contextlib.suppress(OSError):
            write_private(self._path, json.dumps({"schema": SCHEMA, **asdict(intent)}).encode())

    def abandon(self) -> None:
        """The swap is left in the middle, though this process may live on."""
        intent = self.read()
        if intent is not None and intent.active:
            left = replace(intent, pid=0)
            with contextlib.suppress(OSError):
                write_private(self._path, json.dumps({"schema": SCHEMA, **asdict(left)}).encode())

    def clear(self) -> None:
        """The swap is over."""
        with contextlib.suppress(OSError):
            self._path.unlink()

    def read(self) -> SwapIntent | None:
        """Return the intent; ``None`` when there is none, or none that can be read."""
        try:
            raw = json.loads(self._path.read_bytes())
            if raw.pop("schema") != SCHEMA:
                return None
            return SwapIntent(**{f.name: raw[f.name] for f in fields(SwapIntent)})
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None
