"""The kernel's clock on what a probe reads: right also while the program is busy elsewhere."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import sys
import threading
import time

import pytest

from qwen_tui.services.live.http1 import Connection, Target
from qwen_tui.services.live.stamped import StampedSocket

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"


class SlowServer:
    """Answers one request in two parts, the second a while after the first; notes when."""

    def __init__(self, pause_s: float) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.pause_s = pause_s
        self.wrote: list[float] = []
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()

    def _serve(self) -> None:
        connection, _ = self.listener.accept()
        with connection:
            connection.recv(65536)
            for part in (ANSWER, b"hello"):
                self.wrote.append(time.perf_counter())
                connection.sendall(part)
                time.sleep(self.pause_s)
            with contextlib.suppress(ConnectionResetError):
                connection.recv(1)  # until the client is gone: its end is a packet, too

    async def close(self) -> None:
        await asyncio.to_thread(self.thread.join, 5)  # the loop has to close the client's end
        self.listener.close()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the kernel's stamps are Linux's")
async def test_a_busy_program_does_not_make_an_answer_late() -> None:
    server = SlowServer(0.1)
    try:
        connection = await Connection.open(
            Target("http", "127.0.0.1", server.port), timeout_s=5, timed=True
        )
        connection.send("GET", "/")
        time.sleep(0.5)  # noqa: ASYNC251 - the loop is held up on purpose
        assert await connection.wait(5)
        connection.close()
    finally:
        await server.close()
    pieces = connection.recorder.pieces
    assert b"".join(data for _, data in pieces) == ANSWER + b"hello"
    # Both parts waited in the socket; the stamp is of the last one that a read brought.
    late_s = pieces[-1][0] - server.wrote[1]
    assert 0 <= late_s < 0.05, f"{late_s * 1000:.1f} ms late, not 400"


@pytest.mark.parametrize("platform", ["linux", "darwin"])
async def test_without_the_kernels_stamps_the_programs_clock_counts(
    monkeypatch: pytest.MonkeyPatch, platform: str
) -> None:
    if platform == "linux":
        monkeypatch.setattr(StampedSocket, "arrival", lambda _, now: now)
    else:
        monkeypatch.setattr(sys, "platform", platform)
    server = SlowServer(0.05)
    try:
        connection = await Connection.open(
            Target("http", "127.0.0.1", server.port), timeout_s=5, timed=True
        )
        connection.send("GET", "/")
        assert await connection.wait(5)
        connection.close()
    finally:
        await server.close()
    assert connection.recorder.pieces[-1][0] >= server.wrote[-1]


def test_a_stamp_that_cannot_be_is_not_used() -> None:
    made = StampedSocket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        now = time.perf_counter()
        assert made.arrival(now) == now  # none
        made._stamp_ns = time.time_ns() + 60_000_000_000  # the clock was set back meanwhile
        assert made.arrival(now) == now
        made._stamp_ns = time.time_ns() - 3_600_000_000_000  # or forward
        assert made.arrival(now) == now
        made._stamp_ns = time.time_ns() - 2_000_000
        assert made.arrival(now) == pytest.approx(now - 0.002, abs=0.001)
    finally:
        made.close()
