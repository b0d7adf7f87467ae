"""A scripted HTTP/1.1 server on asyncio streams for tests of the poller and the probe.

Routes map a path to a handler that gets the request and the writer and may do anything to the
connection, so that stalled, lying, cut and endless peers are one function each.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field

__all__ = ["Handler", "Request", "ScriptedServer", "Sse", "document", "serve", "sse"]

CHUNK_END = b"0\r\n\r\n"


@dataclass(frozen=True)
class Request:
    method: str
    path: str
    headers: dict[str, str]
    body: bytes


Handler = Callable[[Request, asyncio.StreamWriter], Awaitable[None]]


@dataclass
class ScriptedServer:
    url: str
    routes: dict[str, Handler]
    seen: list[Request] = field(default_factory=list)

    def paths(self) -> list[str]:
        return [r.path for r in self.seen]


def document(body: bytes | str, status: int = 200, kind: str = "text/plain") -> Handler:
    """Answer with a fixed document."""
    data = body.encode() if isinstance(body, str) else body

    async def handle(_: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(
            f"HTTP/1.1 {status} X\r\nContent-Type: {kind}\r\n"
            f"Content-Length: {len(data)}\r\nConnection: close\r\n\r\n".encode()
            + data
        )
        await writer.drain()

    return handle


class Sse:
    """Streams server-sent events; before each it waits so many seconds.

    What it really did stands in ``writes`` (ms after the request was read), so that on a busy
    machine a test compares with what happened and not with what was meant to happen.
    """

    def __init__(self, steps: list[tuple[float, str]], *, end: bool = True) -> None:
        self.steps = steps
        self.end = end
        self.writes: list[float] = []

    async def __call__(self, _: Request, writer: asyncio.StreamWriter) -> None:
        began = time.perf_counter()
        self.writes = []
        writer.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n"
            b"Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
        )
        for delay, data in self.steps:
            if delay:
                await asyncio.sleep(delay)
            event = f"data: {data}\n\n".encode()
            self.writes.append((time.perf_counter() - began) * 1000)
            writer.write(f"{len(event):x}\r\n".encode() + event + b"\r\n")
            await writer.drain()
        if self.end:
            writer.write(CHUNK_END)
            await writer.drain()


def sse(steps: list[tuple[float, str]], *, end: bool = True) -> Sse:
    """Stream server-sent events (see :class:`Sse`)."""
    return Sse(steps, end=end)


@contextlib.asynccontextmanager
async def serve(routes: dict[str, Handler]) -> AsyncIterator[ScriptedServer]:
    """Serve ``routes`` on a free loopback port; unknown paths get 404."""
    server_side = ScriptedServer("", routes)
    tasks: set[asyncio.Task[None]] = set()

    async def on_connect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        try:
            request = await _read_request(reader)
            server_side.seen.append(request)
            handler = routes.get(request.path, document("not found", 404))
            await handler(request, writer)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            tasks.discard(task)
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()

    server = await asyncio.start_server(on_connect, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()[:2]
    server_side.url = f"http://{host}:{port}"
    try:
        yield server_side
    finally:
        server.close()
        for task in list(tasks):
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=2)
        await server.wait_closed()


async def _read_request(reader: asyncio.StreamReader) -> Request:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    method, path, _ = head[0].split(" ", 2)
    headers = {
        name.strip().lower(): value.strip()
        for name, colon, value in (line.partition(":") for line in head[1:])
        if colon
    }
    length = int(headers.get("content-length", "0"))
    return Request(method, path, headers, await reader.readexactly(length) if length else b"")
