"""Pause, resume, cancel and the speed limit, shared by all transfers of a worker."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from typing import TYPE_CHECKING

from qwen_tui.services.download.problems import Cancelled

if TYPE_CHECKING:
    from collections.abc import Iterator

    import httpx2

__all__ = ["Control"]


class Control:
    """What the user wants now. Every method but the setters may block its caller.

    Attributes:
        cancelled: Set once, for good.
        interruptions: How often all connections were closed on purpose.
    """

    def __init__(self, limit_bytes_s: int | None = None) -> None:
        self.cancelled = threading.Event()
        self._running = threading.Event()
        self._running.set()
        self._streams: set[socket.socket] = set()
        self.interruptions = 0
        self._lock = threading.Lock()
        self._limit = limit_bytes_s
        self._allowance = 0.0
        self._stamp = time.monotonic()

    @property
    def paused(self) -> bool:
        """Whether transfers wait for :meth:`resume`."""
        return not self._running.is_set()

    def pause(self) -> None:
        """Close all connections and wait."""
        self._running.clear()
        self._break()

    def resume(self) -> None:
        """Go on."""
        self._running.set()

    def cancel(self) -> None:
        """Stop for good; whatever was received is kept by its transfer."""
        self.cancelled.set()
        self._running.set()
        self._break()

    def checkpoint(self) -> None:
        """Wait while paused.

        Raises:
            Cancelled: It was cancelled.
        """
        self._running.wait()
        if self.cancelled.is_set():
            raise Cancelled

    def wait(self, seconds: float) -> None:
        """Sleep, unless cancelled.

        Raises:
            Cancelled: It was cancelled.
        """
        if self.cancelled.wait(seconds):
            raise Cancelled

    @contextlib.contextmanager
    def breakable(self, response: httpx2.Response) -> Iterator[None]:
        """Let :meth:`pause` and :meth:`cancel` end a blocking read of this response.

        Raises:
            Cancelled: It was cancelled before the read began.
        """
        stream = response.extensions.get("network_stream")
        raw = stream.get_extra_info("socket") if stream is not None else None
        if not isinstance(raw, socket.socket):
            yield
            return
        with self._lock:
            self._streams.add(raw)
        try:
            if self.cancelled.is_set():
                raise Cancelled
            yield
        finally:
            with self._lock:
                self._streams.discard(raw)

    def spend(self, count: int) -> None:
        """Account for received bytes and slow down to the limit; end the stream when paused.

        Raises:
            Cancelled: It was cancelled.
        """
        if self.cancelled.is_set():
            raise Cancelled
        if self._limit is None:
            return
        with self._lock:
            now = time.monotonic()
            # A second's worth may be saved up, no more.
            earned = (now - self._stamp) * self._limit
            self._allowance = min(self._allowance + earned, float(self._limit)) - count
            self._stamp = now
            debt = -self._allowance / self._limit
        if debt > 0 and self.cancelled.wait(debt):
            raise Cancelled

    def _break(self) -> None:
        with self._lock:
            self.interruptions += 1
            for stream in self._streams:
                with contextlib.suppress(OSError):
                    stream.shutdown(socket.SHUT_RDWR)
