"""What the rules of ``bound`` and ``alarms`` look at."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from qwen_tui.services.live.context import LiveContext
    from qwen_tui.services.live.normalise import Reading
    from qwen_tui.services.live.serverinfo import ServerLimits
    from qwen_tui.services.live.windows import Window
    from qwen_tui.services.snapshots import LiveSnapshot
    from qwen_tui_profiles.findings import Clamp

__all__ = ["Evidence"]


@dataclass(frozen=True, slots=True, eq=False)
class Evidence:
    """One moment, with its past. Helpers return 0 for what is not known: rules ask for *more*."""

    live: LiveSnapshot
    reading: Reading
    limits: ServerLimits
    context: LiveContext
    ten: Window | None
    minute: Window | None
    five: Window | None
    alone_tokens: float | None = None
    """Length of the one request that runs, where counters tell it (vLLM)."""

    @property
    def running(self) -> int:
        """Requests running."""
        return self.live.running or 0

    @property
    def queue(self) -> int:
        """Requests waiting."""
        return self.live.queue or 0

    @property
    def limit(self) -> int | None:
        """Effective limit of running requests."""
        return self.live.max_running_requests

    @property
    def asked(self) -> int | None:
        """Limit of running requests as it was asked."""
        return self.limits.max_running_requests_asked

    @property
    def at_limit(self) -> bool:
        """Requests wait although the server has no free place for them by count."""
        return self.queue >= 1 and self.limit is not None and self.running >= self.limit

    @property
    def gpu_load(self) -> float | None:
        """Highest utilisation of the GPUs, 0 to 1."""
        loads = [g.utilisation for g in self.context.gpus if g.utilisation is not None]
        return max(loads, default=None)

    def grew(self, key: str, *, minutes: int = 0) -> float:
        """Return the growth of a counter in the last 10 s (or 1 or 5 minutes)."""
        window = {0: self.ten, 1: self.minute, 5: self.five}[minutes]
        return 0.0 if window is None else window.get(key) or 0.0

    def clamp(self, *args: str) -> Clamp | None:
        """Return what the engine changed of one of these arguments."""
        return next((c for c in self.context.clamps if c.arg in args), None)

    def busy_share(self) -> float | None:
        """Return the share of the last minute in which tokens were generated."""
        if self.minute is None or not self.minute.seconds:
            return None
        seconds = (self.minute.get("busy_s") or 0.0) + (self.minute.get("edge_s") or 0.0)
        return min(1.0, seconds / self.minute.seconds)

    def prefill_share(self) -> float | None:
        """Return the share of the last minute that the scheduler spent in prefill."""
        if self.minute is None or not self.minute.seconds or self.minute.seconds < 10:
            return None
        seconds = self.minute.get("prefill_busy_s")
        return None if seconds is None else min(1.0, seconds / self.minute.seconds)
