"""The HTTP/1.1 that measuring needs: one request a connection, every socket read stamped.

Written on asyncio's protocol interface because measuring is the product: an HTTP library hands the
body over after its own buffers, which costs 1.5 ms and more of the time to the first token. Here
``data_received`` takes the clock (the kernel's, where a request is to be timed) and keeps the
bytes; the answer is taken apart afterwards.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from dataclasses import dataclass, field

from qwen_tui.services.live.answer import Answer, FetchError, all_chunks_there, read_answer
from qwen_tui.services.live.resolve import addresses_of
from qwen_tui.services.live.stamped import StampedSocket
from qwen_tui.services.live.target import Target
from qwen_tui_profiles.foreign import clean
from qwen_tui_profiles.text import t

__all__ = ["Answer", "Connection", "FetchError", "Target", "get", "read_answer", "too_big"]

_MAX_HEAD = 64 * 1024
"""Longest status line and headers that are accepted, in bytes."""

_ACCEPT_S = 0.005
"""The kernel connects before the server has noticed. A request that is sent at once would be timed
with the server's accepting it."""


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
        "sock",
        "tail",
        "too_big",
        "transport",
    )

    def __init__(self, limit: int, sock: StampedSocket | None = None) -> None:
        self.sock = sock
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
        if self.sock is not None:
            now = self.sock.arrival(now)
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
        cls,
        target: Target,
        *,
        timeout_s: float,
        limit_bytes: int = 8 * 1024 * 1024,
        timed: bool = False,
    ) -> Connection:
        """Connect; nothing is sent yet, so connecting never counts in a measurement.

        Args:
            target: Where to.
            timeout_s: For connecting.
            limit_bytes: An answer that is longer is given up.
            timed: Stamp what is read with the kernel's clock where there is one (not with TLS).

        Raises:
            FetchError: nobody listens there, or not in time.
        """
        try:
            async with asyncio.timeout(timeout_s):
                transport, recorder = await _connect(target, limit_bytes, timed=timed)
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
        if not self.recorder.chunked:
            return True
        return all_chunks_there(b"".join(data for _, data in self.recorder.pieces))

    def close(self) -> None:
        """Drop the connection at once; never waits for the peer."""
        if not self._closed:
            self._closed = True
            self.transport.abort()


async def _connect(
    target: Target, limit_bytes: int, *, timed: bool
) -> tuple[asyncio.Transport, _Recorder]:
    addresses = await addresses_of(target.host, target.port)
    for address in addresses:
        sock = StampedSocket.open(address) if timed and target.scheme == "http" else None
        try:
            if sock is None:
                return await _connect_plain(target, address, limit_bytes)
            return await _connect_timed(sock, address, target.port, limit_bytes)
        except OSError:
            if address == addresses[-1]:
                raise
    raise OSError("no address")


async def _connect_plain(
    target: Target, address: str, limit_bytes: int
) -> tuple[asyncio.Transport, _Recorder]:
    tls = target.scheme == "https"
    return await asyncio.get_running_loop().create_connection(
        lambda: _Recorder(limit_bytes),
        address,
        target.port,
        ssl=ssl.create_default_context() if tls else None,
        server_hostname=target.host if tls else None,
    )


async def _connect_timed(
    sock: StampedSocket, address: str, port: int, limit_bytes: int
) -> tuple[asyncio.Transport, _Recorder]:
    loop = asyncio.get_running_loop()
    try:
        await loop.sock_connect(sock, (address, port))
    except BaseException:
        sock.close()
        raise
    made = await loop.create_connection(lambda: _Recorder(limit_bytes, sock), sock=sock)
    await asyncio.sleep(_ACCEPT_S)
    return made


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
            raise too_big(target, path, limit_bytes)
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


def too_big(target: Target, path: str, limit_bytes: int) -> FetchError:
    """Return the error of a peer that floods."""
    return FetchError(
        "too_big",
        t(
            "{url}{path} sent more than {limit} MiB.",
            url=target.url,
            path=path,
            limit=f"{limit_bytes / 2**20:g}",
        ),
        t("This is not an engine's answer; check what serves there."),
    )


def _reason(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror:
        return clean(error.strerror)
    return clean(str(error)) or type(error).__name__
