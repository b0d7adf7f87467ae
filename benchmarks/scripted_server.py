"""An OpenAI-style streaming server whose delays are known: the yardstick for measuring clients.

It answers ``POST /v1/chat/completions`` with a scripted wait, then chunks at scripted gaps. Every
chunk carries the moments of the request's arrival and of its own write on the machine's monotonic
clock (``received``, ``sent``), so that a client on the same machine can be judged exactly.
It does as little as it can per request: what it spends would count as the client's error.

    python benchmarks/scripted_server.py --delay-ms 50 --gap-ms 5 --tokens 64
"""

from __future__ import annotations

import argparse
import asyncio
import re
import selectors
import sys
import time

_HEAD = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n"
)
_MODELS = b'{"object":"list","data":[{"id":"scripted","object":"model","owned_by":"scripted"}]}'
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_LIMIT = re.compile(rb'"max_(?:completion_)?tokens": *(\d+)')
_EVENT = (
    'data: {{"id":"x","object":"chat.completion.chunk","model":"scripted","choices":[{{"index":0,'
    '"delta":{{"content":"{text}"}},"finish_reason":null}}],"usage":{{"prompt_tokens":8,'
    '"completion_tokens":{n},"total_tokens":{total}}},"received":{received:.7f},"sent":{sent:.7f}}}'
    "\n\n"
)
_TAIL = (
    'data: {{"id":"x","object":"chat.completion.chunk","model":"scripted","choices":[{{"index":0,'
    '"delta":{{}},"finish_reason":"stop"}}]}}\n\n'
    'data: {{"id":"x","object":"chat.completion.chunk","model":"scripted","choices":[],"usage":'
    '{{"prompt_tokens":8,"completion_tokens":{n},"total_tokens":{total}}}}}\n\n'
    "data: [DONE]\n\n"
)

AWAKE_S = 0.0008


class Scripted(asyncio.Protocol):
    """One connection; requests come one after the other."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.args = args
        self.loop = asyncio.get_running_loop()
        self.buffer = b""
        self.transport: asyncio.Transport
        self.received = self.at = 0.0
        self.sent = self.tokens = 0
        self.close = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        now = time.perf_counter()
        self.buffer += data
        end = self.buffer.find(b"\r\n\r\n")
        if end < 0:
            return
        length = _LENGTH.search(self.buffer, 0, end)
        total = end + 4 + (int(length.group(1)) if length else 0)
        if len(self.buffer) < total:
            return
        request, self.buffer = self.buffer[:total], self.buffer[total:]
        self.close = b"onnection: close" in request
        if not request.startswith(b"POST"):
            self.transport.write(
                b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
                % len(_MODELS)
                + _MODELS
            )
            if self.close:
                self.transport.close()
            return
        limit = _LIMIT.search(request)
        self.tokens = min(self.args.tokens, int(limit.group(1)) if limit else self.args.tokens)
        self.sent = 0
        self.received = now
        self.at = now + self.args.delay_ms / 1000
        self.transport.write(_HEAD)
        self._next()

    def _next(self) -> None:
        # The first token's delay is what clients are judged by, and a sleeping process wakes late
        # by a third of a millisecond on a virtual machine: the last part of it is spent awake.
        awake_s = AWAKE_S if not self.sent else 0.0
        self.loop.call_later(max(0.0, self.at - awake_s - time.perf_counter()), self._emit)

    def _emit(self) -> None:
        if self.transport.is_closing():
            return
        while not self.sent and time.perf_counter() < self.at:
            pass
        n = min(self.args.per_chunk, self.tokens - self.sent)
        self.sent += n
        self._raw(
            _EVENT.format(
                text="tok " * n,
                n=self.sent,
                total=self.sent + 8,
                received=self.received,
                sent=time.perf_counter(),
            )
        )
        if self.sent < self.tokens:
            self.at += self.args.gap_ms / 1000
            self._next()
            return
        self._raw(_TAIL.format(n=self.tokens, total=self.tokens + 8))
        self.transport.write(b"0\r\n\r\n")
        if self.close:
            self.transport.close()

    def _raw(self, text: str) -> None:
        data = text.encode()
        self.transport.write(b"%x\r\n%b\r\n" % (len(data), data))


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--delay-ms", type=float, default=50)
    parser.add_argument("--gap-ms", type=float, default=5)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--per-chunk", type=int, default=1, help="tokens a chunk (speculation)")
    args = parser.parse_args()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Scripted(args), "127.0.0.1", args.port, backlog=256)
    print(server.sockets[0].getsockname()[1], flush=True)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    try:
        # select() waits to the microsecond; epoll's timeout is rounded up to a whole millisecond.
        with asyncio.Runner(
            loop_factory=lambda: asyncio.SelectorEventLoop(selectors.SelectSelector())
        ) as runner:
            runner.run(main())
    except KeyboardInterrupt:
        sys.exit(130)
