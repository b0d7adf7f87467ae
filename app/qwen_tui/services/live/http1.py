"""The HTTP/1.1 that measuring needs: one request a connection, every socket read stamped.

Written on asyncio's protocol interface because measuring is the product: an HTTP library hands the
body over after its own buffers, which costs 1.5 ms and more of the time to the first token. Here
``data_received`` takes the clock and keeps the bytes; the answer is taken apart afterwards.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from qwen_tui_profiles.errors import ProbeError, UsageError
from qwen_tui_profiles.foreign import clean, redact
from qwen_tui_profiles.text import Text, t

__all__ = ["Answer", "Connection", "FetchError", "Target", "get", "read_answer"]

_MAX_HEAD = 64 * 1024
"""Longest status line and headers that are accepted, in bytes."""


class FetchError(ProbeError):
    """A request got no usable answer; ``kind`` tells machines why.

    Kinds: ``refused``, ``unreachable``, ``timeout``, ``too_big``, ``malformed``, ``cut``.
    """

    def __init__(self, kind: str, message: Text, remedy: Text | None = None) -> None:
        super().__init__(message, remedy)
        self.kind = kind


@dataclass(frozen=True, slots=True)
class Target:
    """Where a server is: the parts of its base URL."""

    scheme: str
    host: str
    port: int
    prefix: str = ""
    """Path before every request's path, without a final slash (``/v1`` is taken off)."""

    @classmethod
    def parse(cls, url: str) -> Target:
        """Read a base URL such as ``http://127.0.0.1:30000`` (a final ``/v1`` is ignored).

        Raises:
            UsageError: it is not an http or https URL.
        """
        text = url if "://" in url else f"http://{url}"
        try:
            parts = urlsplit(text)
            port = parts.port
        except ValueError as error:
            raise _bad_url(url) from error
        host = parts.hostname
        if parts.scheme not in {"http", "https"} or not host or not text.isprintable():
            raise _bad_url(url)
        prefix = parts.path.rstrip("/")
        prefix = prefix.removesuffix("/v1")
        if " " in prefix or " " in host:
            raise _bad_url(url)
        default = 443 if parts.scheme == "https" else 80
        return cls(parts.scheme, host, default if port is None else port, prefix)

    @property
    def url(self) -> str:
        """The base URL, without credentials."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}{self.prefix}"

    @property
    def authority(self) -> str:
        """Value of the Host header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


def _bad_url(url: str) -> UsageError:
    return UsageError(
        t("{url} is not the address of a server.", url=repr(redact(clean(url)))),
        t("Write it as http://HOST:PORT."),
    )


@dataclass(frozen=True, slots=True)
class Answer:
    """A complete answer. ``body`` is decoded from its transfer encoding."""

    status: int
    headers: dict[str, str]
    """Names in lower case."""
    body: bytes
    complete: bool
    """Whether the framing said that this is all; False = the peer stopped in the middle."""
    pieces: tuple[tuple[float, bytes], ...] = ()
    """Body as it arrived: (perf_counter at the socket read, bytes). Only when asked for."""


class _Recorder(asyncio.Protocol):
    """Stamps and keeps what the socket gives; no parsing while the clock matters."""

    __slots__ = (
        "chunked",
        "done",
        "eof",
        "error",
        "first",
        "framed",
        "limit",
        "need",
        "pieces",
        "size",
        "tail",
        "too_big",
        "transport",
    )

    def __init__(self, limit: int) -> None:
        self.pieces: list[tuple[float, bytes]] = []
        self.size = 0
        self.limit = limit
        self.eof = False
        self.error: Exception | None = None
        self.too_big = False
        self.done: asyncio.Event = asyncio.Event()
        self.first: asyncio.Event = asyncio.Event()
        self.tail = b""
        self.framed = False
        self.chunked = False
        self.need: int | None = None
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        now = time.perf_counter()
        self.pieces.append((now, data))
        self.size += len(data)
        if self.size > self.limit:
            self.too_big = True
            self._finish()
            return
        if not self.framed:
            self._frame()
            self.first.set()
        if self.chunked:
            self.tail = (self.tail + data)[-7:]
            if self.tail.endswith(b"\n0\r\n\r\n"):
                self.done.set()
        elif self.need is not None and self.size >= self.need:
            self.done.set()

    def eof_received(self) -> bool:
        self.eof = True
        self._finish()
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self.error = self.error or exc
        self.eof = True
        self._finish()

    def _finish(self) -> None:
        self.first.set()
        self.done.set()

    def _frame(self) -> None:
        """Once the head is complete, find out how the body ends."""
        raw = b"".join(piece for _, piece in self.pieces)
        end = raw.find(b"\r\n\r\n")
        if end < 0:
            if len(raw) > _MAX_HEAD:
                self.too_big = True
                self._finish()
            return
        self.framed = True
        head = raw[:end].lower()
        if b"\r\ntransfer-encoding:" in head and b"chunked" in head:
            self.chunked = True
            return
        for line in head.split(b"\r\n")[1:]:
            name, _, value = line.partition(b":")
            if name.strip() == b"content-length" and value.strip().isdigit():
                self.need = end + 4 + int(value)
        status = head.split(b" ", 2)
        if len(status) > 1 and status[1] in {b"204", b"304"}:
            self.need = end + 4


@dataclass(slots=True)
class Connection:
    """One TCP (or TLS) connection for one request."""

    target: Target
    recorder: _Recorder
    transport: asyncio.Transport
    sent_at: float = 0.0
    """perf_counter right before the request was handed to the socket."""
    _closed: bool = field(default=False)

    @classmethod
    async def open(
        cls, target: Target, *, timeout_s: float, limit_bytes: int = 8 * 1024 * 1024
    ) -> Connection:
        """Connect; nothing is sent yet, so connecting never counts in a measurement.

        Raises:
            FetchError: nobody listens there, or not in time.
        """
        loop = asyncio.get_running_loop()
        context = ssl.create_default_context() if target.scheme == "https" else None
        try:
            async with asyncio.timeout(timeout_s):
                transport, recorder = await loop.create_connection(
                    lambda: _Recorder(limit_bytes), target.host, target.port, ssl=context
                )
        except TimeoutError as error:
            raise FetchError(
                "timeout",
                t(
                    "No connection to {url} within {seconds} s.",
                    url=target.url,
                    seconds=f"{timeout_s:g}",
                ),
                t("Check the address, and that nothing filters the port."),
            ) from error
        except ConnectionRefusedError as error:
            raise FetchError(
                "refused",
                t("Nobody listens at {url}.", url=target.url),
                t("Start the server, or check the port."),
            ) from error
        except (OSError, UnicodeError) as error:
            raise FetchError(
                "unreachable",
                t("Cannot connect to {url}: {reason}.", url=target.url, reason=_reason(error)),
                t("Check the address and the network."),
            ) from error
        return cls(target, recorder, transport)

    def send(
        self,
        method: str,
        path: str,
        *,
        headers: dict[str, str] | None = None,
        body: bytes = b"",
    ) -> None:
        """Write the request and take :attr:`sent_at`."""
        lines = [
            f"{method} {self.target.prefix}{path} HTTP/1.1",
            f"Host: {self.target.authority}",
            "Connection: close",
            "User-Agent: qwen-tui",
        ]
        lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
        if body or method == "POST":
            lines.append(f"Content-Length: {len(body)}")
        data = "\r\n".join([*lines, "", ""]).encode("latin-1", "replace") + body
        self.sent_at = time.perf_counter()
        self.transport.write(data)

    async def wait(self, timeout_s: float) -> bool:
        """Wait until the answer is complete or the peer is done; False = time is up."""
        recorder = self.recorder
        try:
            async with asyncio.timeout(timeout_s):
                await recorder.done.wait()
                # The end was recognised by its last bytes; a body may hold the same bytes.
                while not (recorder.eof or recorder.too_big) and not self._all_there():
                    recorder.done.clear()
                    await recorder.done.wait()
        except TimeoutError:
            return False
        return True

    def _all_there(self) -> bool:
        try:
            return read_answer(self.recorder.pieces, eof=False).complete
        except FetchError:
            return True

    def close(self) -> None:
        """Drop the connection at once; never waits for the peer."""
        if not self._closed:
            self._closed = True
            self.transport.abort()


async def get(
    target: Target,
    path: str,
    *,
    timeout_s: float,
    limit_bytes: int,
    headers: dict[str, str] | None = None,
) -> Answer:
    """Fetch one document, bounded in time and size.

    Raises:
        FetchError: no usable answer; the kind says which way.
    """
    started = time.monotonic()
    connection = await Connection.open(target, timeout_s=timeout_s, limit_bytes=limit_bytes)
    try:
        connection.send("GET", path, headers=headers)
        in_time = await connection.wait(max(0.05, timeout_s - (time.monotonic() - started)))
        recorder = connection.recorder
        if recorder.too_big:
            raise FetchError(
                "too_big",
                t(
                    "{url}{path} sent more than {limit} MiB.",
                    url=target.url,
                    path=path,
                    limit=f"{limit_bytes / 2**20:g}",
                ),
                t("This is not an engine's answer; check what serves there."),
            )
        if not in_time:
            raise FetchError(
                "timeout",
                t(
                    "{url}{path} gave no complete answer within {seconds} s.",
                    url=target.url,
                    path=path,
                    seconds=f"{timeout_s:g}",
                ),
                t("The server may be overloaded or stopped; its log tells."),
            )
        answer = read_answer(recorder.pieces, eof=recorder.eof)
        if not answer.complete:
            raise FetchError(
                "cut",
                t("{url}{path} broke off in the middle.", url=target.url, path=path),
                t("The server may be restarting; its log tells."),
            )
        return answer
    finally:
        connection.close()


def read_answer(
    pieces: list[tuple[float, bytes]], *, eof: bool, keep_pieces: bool = False
) -> Answer:
    """Take a recorded answer apart: head, then the body freed from its framing.

    Raises:
        FetchError: it is not HTTP/1.x.
    """
    raw = b"".join(data for _, data in pieces)
    end = raw.find(b"\r\n\r\n")
    if end < 0 and not raw:
        raise FetchError(
            "cut",
            t("The peer closed the connection without an answer."),
            t("The server may be stopping; its log tells."),
        )
    status, headers = _read_head(raw[:end] if end >= 0 else raw, complete=end >= 0)
    body_at = end + 4
    stamps = _body_stamps(pieces, body_at)
    if "chunked" in headers.get("transfer-encoding", "").lower():
        parts, complete = _dechunk(raw, body_at, stamps)
    else:
        length = headers.get("content-length", "").strip()
        body = raw[body_at:]
        if length.isdigit():
            body = body[: int(length)]
            complete = len(body) == int(length)
        else:
            complete = eof or status in {204, 304}
        parts = _split_by_stamps(body, body_at, stamps)
    return Answer(
        status,
        headers,
        b"".join(data for _, data in parts),
        complete,
        tuple(parts) if keep_pieces else (),
    )


def _read_head(head: bytes, *, complete: bool) -> tuple[int, dict[str, str]]:
    lines = head.decode("latin-1").split("\r\n")
    start = lines[0].split(" ", 2)
    if (
        not complete
        or len(start) < 2
        or not start[0].startswith("HTTP/1.")
        or not (start[1].isdigit() and len(start[1]) == 3)
    ):
        raise FetchError(
            "malformed",
            t(
                "The peer does not speak HTTP/1.1: it said {start}.",
                start=repr(clean(lines[0])[:60]),
            ),
            t("Check that the address is the engine's HTTP port."),
        )
    headers: dict[str, str] = {}
    for line in lines[1:]:
        name, colon, value = line.partition(":")
        if colon:
            headers[name.strip().lower()] = clean(value.strip())
    return int(start[1]), headers


def _body_stamps(pieces: list[tuple[float, bytes]], body_at: int) -> list[tuple[int, float]]:
    """Return (offset behind the piece, time) for every piece that reaches into the body."""
    stamps: list[tuple[int, float]] = []
    at = 0
    for when, data in pieces:
        at += len(data)
        if at > body_at:
            stamps.append((at, when))
    return stamps


def _split_by_stamps(
    body: bytes, body_at: int, stamps: list[tuple[int, float]]
) -> list[tuple[float, bytes]]:
    parts: list[tuple[float, bytes]] = []
    start = 0
    for end, when in stamps:
        cut = min(end - body_at, len(body))
        if cut > start:
            parts.append((when, body[start:cut]))
            start = cut
    return parts


def _dechunk(
    raw: bytes, at: int, stamps: list[tuple[int, float]]
) -> tuple[list[tuple[float, bytes]], bool]:
    """Undo chunked encoding; a chunk is stamped when its last byte was read."""
    parts: list[tuple[float, bytes]] = []
    stamp = 0
    while True:
        line_end = raw.find(b"\r\n", at)
        if line_end < 0:
            return parts, False
        digits = raw[at:line_end].split(b";", 1)[0].strip()
        try:
            size = int(digits, 16)
        except ValueError:
            return parts, False
        if size < 0 or b"_" in digits:
            return parts, False
        data_at = line_end + 2
        if size == 0:
            return parts, True
        data = raw[data_at : data_at + size]
        last = data_at + len(data)
        while stamp < len(stamps) - 1 and stamps[stamp][0] < last:
            stamp += 1
        if data and stamps:
            parts.append((stamps[stamp][1], data))
        if len(data) < size:
            return parts, False
        at = data_at + size + 2


def _reason(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror:
        return clean(error.strerror)
    return clean(str(error)) or type(error).__name__
