"""The relay: a request in, the same bytes out, held while there is nobody to take it.

A request is sent again only as long as not one byte of an answer has reached the client: when the
connection is refused or breaks before the answer begins, or when the server answers 503 because it
is shutting down. What was answered in part is never repeated.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import httpx2
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from qwen_tui.services.front.gate import Closed, Open

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from qwen_tui.services.front.gate import Gate

__all__ = ["STATUS_PATH", "Counters", "Relay", "build_app"]

STATUS_PATH = "/qwen-tui/front"
CONTEXT_HEADER = b"x-qwen-tui-usable-context"
PROFILE_HEADER = b"x-qwen-tui-profile"

_POLL_S = 0.03
_BODY_LIMIT_BYTES = 64 * 1024 * 1024
_HELD_LIMIT = 256
_RETRY_AFTER_S = 5
# Headers that belong to one connection, not to the message (RFC 9110 §7.6.1).
_HOP = frozenset(
    b"connection keep-alive proxy-authenticate proxy-authorization proxy-connection te trailer "
    b"transfer-encoding upgrade".split()
)


@dataclass(slots=True)
class Counters:
    """What the front has done since it started."""

    in_flight: int = 0
    held_now: int = 0
    forwarded: int = 0
    """Answers that came to their end."""
    held: int = 0
    """Requests that had to wait at least once."""
    repeated: int = 0
    """Sendings beyond the first."""
    refused: int = 0
    """Requests answered with our own 503."""
    broken: int = 0
    """Answers that broke off in the middle: lost."""
    gone: int = 0
    """Clients that left before their answer ended."""


class _ClientGoneError(Exception):
    """The client closed its connection."""


class _NotTakenError(Exception):
    """The server did not take the request; nothing was answered."""


class Relay:
    """An ASGI application that forwards to whatever serves now."""

    def __init__(
        self,
        gate: Gate,
        *,
        hold_s: float,
        transport: httpx2.AsyncBaseTransport | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.counters = Counters()
        self._gate = gate
        self._hold_s = hold_s
        self._monotonic = monotonic
        self._client = httpx2.AsyncClient(
            transport=transport,
            # An answer may take as long as it takes; only the loopback connect is bounded.
            timeout=httpx2.Timeout(None, connect=5.0),
            # A kept connection would lead to a server that is gone after a swap.
            limits=httpx2.Limits(max_connections=None, max_keepalive_connections=0),
            trust_env=False,
        )

    async def close(self) -> None:
        """Let go of the connections."""
        await self._client.aclose()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Relay one request."""
        request = Request(scope, receive)
        try:
            body = await _body(request)
        except ClientDisconnect:
            return
        if body is None:
            await _refusal(413, "The request is larger than 64 MiB.")(scope, receive, send)
            return
        self.counters.in_flight += 1
        gone = asyncio.create_task(_until_gone(receive))
        try:
            await self._serve(scope, receive, send, body, gone)
        except _ClientGoneError:
            self.counters.gone += 1
        finally:
            self.counters.in_flight -= 1
            gone.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await gone

    async def _serve(
        self, scope: Scope, receive: Receive, send: Send, body: bytes, gone: asyncio.Task[None]
    ) -> None:
        end = self._monotonic() + self._hold_s
        attempts = 0
        while True:
            place = await self._wait_open(end, gone, first=attempts == 0)
            if not isinstance(place, Open):
                self.counters.refused += 1
                await _refusal(503, place)(scope, receive, send)
                return
            attempts += 1
            self.counters.repeated += attempts > 1
            try:
                await self._forward(place, scope, send, body, gone)
            except _NotTakenError:
                await asyncio.sleep(_POLL_S)
                continue
            return

    async def _wait_open(self, end: float, gone: asyncio.Task[None], *, first: bool) -> Open | str:
        """Wait until a server takes requests; returns why not when that takes too long."""
        held = False
        try:
            while True:
                place = self._gate.state()
                if isinstance(place, Open):
                    return place
                # After a first sending that failed, the record may not know yet that it is over.
                if isinstance(place, Closed) and first:
                    return f"No server runs: {place.why}."
                if self._monotonic() >= end:
                    return f"Waited {self._hold_s:.0f} s in vain: {place.why}."
                if not held:
                    if self.counters.held_now >= _HELD_LIMIT:
                        return f"{_HELD_LIMIT} requests wait already: {place.why}."
                    held = True
                    self.counters.held_now += 1
                    self.counters.held += first
                await asyncio.wait({gone}, timeout=_POLL_S)
                if gone.done():
                    raise _ClientGoneError
        finally:
            self.counters.held_now -= held

    async def _forward(
        self, place: Open, scope: Scope, send: Send, body: bytes, gone: asyncio.Task[None]
    ) -> None:
        request = httpx2.Request(
            scope["method"],
            _target(place.url, scope),
            headers=_request_headers(scope),
            content=body,
        )
        try:
            answer = await _or_gone(self._client.send(request, stream=True), gone)
        except httpx2.TransportError as error:
            raise _NotTakenError from error
        try:
            if answer.status_code == 503 and not isinstance(self._gate.state(), Open):
                raise _NotTakenError
            await self._pass_on(place, scope, send, answer, gone)
        finally:
            await answer.aclose()

    async def _pass_on(
        self,
        place: Open,
        scope: Scope,
        send: Send,
        answer: httpx2.Response,
        gone: asyncio.Task[None],
    ) -> None:
        headers = _answer_headers(answer, place)
        if place.context_usable is not None and scope["path"].rstrip("/") == "/v1/models":
            data = _with_usable_context(await answer.aread(), place.context_usable)
            headers = [(k, v) for k, v in headers if k.lower() != b"content-length"]
            headers.append((b"content-length", str(len(data)).encode()))
            await send(_start(answer.status_code, headers))
            await send({"type": "http.response.body", "body": data})
            self.counters.forwarded += 1
            return
        pieces = answer.aiter_raw()
        begun = False
        while True:
            try:
                data = await _or_gone(anext(pieces, b""), gone)
            except httpx2.TransportError as error:
                if not begun:
                    raise _NotTakenError from error
                # Ending without the final chunk is how HTTP says that an answer is incomplete.
                self.counters.broken += 1
                raise
            if not begun:
                begun = True
                await send(_start(answer.status_code, headers))
            if not data:
                break
            await send({"type": "http.response.body", "body": data, "more_body": True})
        await send({"type": "http.response.body", "body": b""})
        self.counters.forwarded += 1


def build_app(relay: Relay) -> ASGIApp:
    """Return the application: our own status at one path, the relay everywhere else."""

    async def status(_: Request) -> Response:
        return JSONResponse({"schema": "qwen-tui.front/1", **asdict(relay.counters)})

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> Any:
        yield
        await relay.close()

    app = Starlette(routes=[Route(STATUS_PATH, status)], lifespan=lifespan)
    app.router.default = relay
    return app


async def _body(request: Request) -> bytes | None:
    """Read the whole request, since it may have to be sent twice; ``None`` = too large."""
    pieces: list[bytes] = []
    size = 0
    async for piece in request.stream():
        size += len(piece)
        if size > _BODY_LIMIT_BYTES:
            return None
        pieces.append(piece)
    return b"".join(pieces)


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _or_gone(work: Any, gone: asyncio.Task[None]) -> Any:
    """Await ``work``, or raise when the client leaves first."""
    task = asyncio.ensure_future(work)
    try:
        await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise _ClientGoneError
        return task.result()
    finally:
        if not task.done():
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError, httpx2.HTTPError):
                await task


def _target(url: str, scope: Scope) -> httpx2.URL:
    path: bytes = scope.get("raw_path") or scope["path"].encode()
    query: bytes = scope["query_string"]
    return httpx2.URL(url).copy_with(raw_path=path + b"?" + query if query else path)


def _request_headers(scope: Scope) -> list[tuple[bytes, bytes]]:
    named = _named_by_connection(scope["headers"])
    return [(k, v) for k, v in scope["headers"] if k not in _HOP | named | {b"host"}]


def _answer_headers(answer: httpx2.Response, place: Open) -> list[tuple[bytes, bytes]]:
    raw = [(k.lower(), v) for k, v in answer.headers.raw]
    named = _named_by_connection(raw)
    headers = [(k, v) for k, v in raw if k not in _HOP | named]
    headers.append((PROFILE_HEADER, place.profile.encode("ascii", "replace")))
    if place.context_usable is not None:
        headers.append((CONTEXT_HEADER, str(place.context_usable).encode()))
    return headers


def _named_by_connection(headers: list[tuple[bytes, bytes]]) -> frozenset[bytes]:
    """Return the headers that ``Connection`` declares to be of this connection only."""
    values = [v for k, v in headers if k == b"connection"]
    return frozenset(name.strip().lower() for v in values for name in v.split(b","))


def _with_usable_context(body: bytes, usable: int) -> bytes:
    """Tell clients in ``/v1/models`` what one request may really be.

    The engine states its declared context there, and clients take that as what they may send.
    """
    try:
        document = json.loads(body)
        for model in document["data"]:
            declared = model.get("max_model_len")
            if isinstance(declared, int) and declared > usable:
                model["max_model_len"] = usable
                model["declared_max_model_len"] = declared
    except (ValueError, LookupError, TypeError, AttributeError):
        return body
    return json.dumps(document).encode()


def _start(status: int, headers: list[tuple[bytes, bytes]]) -> Message:
    return {"type": "http.response.start", "status": status, "headers": headers}


def _refusal(status: int, why: str) -> Response:
    kind = "service_unavailable" if status == 503 else "invalid_request_error"
    return JSONResponse(
        {"error": {"message": f"qwen-tui: {why}", "type": kind, "code": status}},
        status_code=status,
        headers={"Retry-After": str(_RETRY_AFTER_S)} if status == 503 else None,
    )
