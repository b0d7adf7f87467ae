"""What the endpoints share: bodies as SGLang writes them."""

from __future__ import annotations

import asyncio
import json
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from starlette.responses import JSONResponse

if TYPE_CHECKING:
    from starlette.requests import Request as HttpRequest

    from qwen_tui.demo_engine.engine import Engine
    from qwen_tui.demo_engine.replies import Piece
    from qwen_tui.demo_engine.request import Request

__all__ = [
    "BadRequest",
    "collect",
    "engine_of",
    "error_body",
    "error_response",
    "event",
    "read_object",
]


class BadRequest(ValueError):  # noqa: N818 - becomes a 400 body
    """The body cannot be used; ``str()`` says why."""


def engine_of(http: HttpRequest) -> Engine:
    """Return the engine behind a request."""
    engine: Engine = http.app.state.engine
    return engine


def error_body(message: str, *, kind: str = "BadRequestError", code: int = 400) -> dict[str, Any]:
    """Return the error object of the OpenAI-style endpoints."""
    return {"object": "error", "message": message, "type": kind, "param": None, "code": code}


def error_response(message: str, *, kind: str = "BadRequestError", code: int = 400) -> JSONResponse:
    """Return that object as a response."""
    return JSONResponse(error_body(message, kind=kind, code=code), status_code=code)


def event(payload: object) -> bytes:
    """Return one server-sent event."""
    return b"data: " + json.dumps(payload, ensure_ascii=False).encode() + b"\n\n"


async def read_object(http: HttpRequest) -> dict[str, Any]:
    """Read a JSON object.

    Raises:
        BadRequest: The body is no JSON object.
    """
    try:
        body = json.loads(await http.body())
    except ValueError as error:
        message = f"Invalid JSON body: {error}"
        raise BadRequest(message) from error
    if not isinstance(body, dict):
        message = "The request body must be a JSON object."
        raise BadRequest(message)
    return body


async def collect(
    http: HttpRequest, engine: Engine, request: Request
) -> tuple[list[Piece], dict[str, Any]]:
    """Run a request to its end and return its tokens and finish reason.

    A client that hangs up meanwhile ends it, as in SGLang.

    Raises:
        QueueFull: The queue is as long as it may be.
    """
    parts: list[Piece] = []
    finish: dict[str, Any] = {}
    gone = asyncio.create_task(_until_gone(http, engine, request))
    try:
        async with aclosing(engine.generate(request)) as chunks:
            async for chunk in chunks:
                parts += chunk.pieces
                finish = chunk.finish or finish
    finally:
        gone.cancel()
    return parts, finish


async def _until_gone(http: HttpRequest, engine: Engine, request: Request) -> None:
    while (await http.receive())["type"] != "http.disconnect":
        pass
    engine.scheduler.cancel(request)
