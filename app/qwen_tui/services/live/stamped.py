"""A TCP socket that knows when the kernel received what it reads (Linux, ``SO_TIMESTAMPNS``).

The clock of a program says when the program was woken: a fifth of a millisecond late on an idle
machine, and as late as its event loop is busy. The kernel's stamp is of the packet itself. Of a
read that holds several packets (the end of the stream is one) it is the last one's: never later
than the program's own clock.
"""

from __future__ import annotations

import socket
import struct
import sys
import time

__all__ = ["StampedSocket"]

_SO_TIMESTAMPNS = 35
"""asm-generic/socket.h; Python has no name for it. The same number is the message's type."""
_TIMESPEC = struct.Struct("@qq")
_SPACE = socket.CMSG_SPACE(_TIMESPEC.size) if hasattr(socket, "CMSG_SPACE") else 0
_MOST_BYTES = 32 * 1024
"""asyncio asks for 256 KiB. The C library maps and unmaps so much anew for every read, which costs
more than the read."""
_OLDEST_S = 10.0
"""A stamp that is older cannot be told from a clock that was set meanwhile."""


class StampedSocket(socket.socket):
    """Reads like any socket; :meth:`arrival` then says when the last data came."""

    _stamp_ns: int | None = None

    @classmethod
    def open(cls, address: str) -> StampedSocket | None:
        """Return a non-blocking TCP socket for a numeric address, not connected yet.

        ``None`` where the kernel does not stamp.
        """
        if not sys.platform.startswith("linux"):
            return None
        made = cls(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM)
        try:
            made.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
        except OSError:
            made.close()
            return None
        made.setblocking(False)
        return made

    def recv(self, bufsize: int, flags: int = 0, /) -> bytes:
        """Receive; this is what asyncio's transport calls."""
        data, messages, _, _ = self.recvmsg(min(bufsize, _MOST_BYTES), _SPACE, flags)
        self._stamp_ns = None
        for level, kind, raw in messages:
            if (level, kind) == (socket.SOL_SOCKET, _SO_TIMESTAMPNS) and len(raw) >= _TIMESPEC.size:
                seconds, nanoseconds = _TIMESPEC.unpack_from(raw)
                self._stamp_ns = seconds * 1_000_000_000 + nanoseconds
        return data

    def arrival(self, now: float) -> float:
        """Return when the last data arrived, on the clock that gave ``now`` (perf_counter).

        ``now`` itself where the kernel said nothing, or nothing that can be.
        """
        if self._stamp_ns is None:
            return now
        age_s = (time.time_ns() - self._stamp_ns) / 1e9
        return now - age_s if 0.0 <= age_s <= _OLDEST_S else now
