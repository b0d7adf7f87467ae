"""``/v1/chat/completions``, ``/v1/completions`` and ``/v1/models``."""

from __future__ import annotations

import time
from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from starlette.responses import JSONResponse, Response, StreamingResponse

from qwen_tui.demo_engine.api.common import (
    BadRequest,
    collect,
    engine_of,
    error_body,
    error_response,
    event,
    read_object,
)
from qwen_tui.demo_engine.engine import TooLong
from qwen_tui.demo_engine.replies import plan_chat, plan_text
from qwen_tui.demo_engine.request import Request
from qwen_tui.demo_engine.scheduler import QueueFull
from qwen_tui.demo_engine.tokens import chat_tokens, message_text, token_ids

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from starlette.requests import Request as HttpRequest

    from qwen_tui.demo_engine.engine import Engine
    from qwen_tui.demo_engine.replies import Piece

__all__ = ["chat_completions", "completions", "models"]


@dataclass(frozen=True, slots=True)
class _Shape:
    """How the parts of a reply are told to the client."""

    chat: bool
    reasoning: bool
    """Thoughts have a field of their own (``--reasoning-parser``)."""
    tools: bool
    """Tool calls have one (``--tool-call-parser``)."""
    usage: bool
    continuous: bool
    model: str
    created: int


async def models(http: HttpRequest) -> Response:
    """Answer ``/v1/models``: ``max_model_len`` is the declared context, not what fits."""
    engine = engine_of(http)
    name = engine.settings.served_name
    entry = {
        "id": name,
        "object": "model",
        "created": int(engine.started),
        "owned_by": "sglang",
        "root": name,
        "parent": None,
        "max_model_len": engine.settings.context_len,
    }
    return JSONResponse({"object": "list", "data": [entry]})


async def chat_completions(http: HttpRequest) -> Response:
    """Answer a chat."""
    engine = engine_of(http)
    try:
        body = await read_object(http)
        request = _chat_request(engine, body)
    except TooLong as error:
        return _too_long(error, stream=bool(body.get("stream")))
    except BadRequest as error:
        return error_response(str(error))
    return await _answer(http, engine, request, _shape(engine, body, chat=True))


async def completions(http: HttpRequest) -> Response:
    """Continue a plain prompt."""
    engine = engine_of(http)
    try:
        body = await read_object(http)
        prompt = body.get("prompt")
        if not isinstance(prompt, str):
            message = "prompt must be a string"
            raise BadRequest(message)
        tokens = token_ids(prompt) or [0]
        request = Request(
            prompt=tokens,
            reply=plan_text(prompt, endless=bool(body.get("ignore_eos")), seed=engine.demo.seed),
            max_new=engine.limit_output(len(tokens), _count(body, "max_tokens") or 16),
            stream=bool(body.get("stream")),
        )
    except TooLong as error:
        return _too_long(error, stream=bool(body.get("stream")))
    except BadRequest as error:
        return error_response(str(error))
    return await _answer(http, engine, request, _shape(engine, body, chat=False))


def _chat_request(engine: Engine, body: dict[str, Any]) -> Request:
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        message = "messages must be a list with at least one message"
        raise BadRequest(message)
    if not all(isinstance(m, dict) for m in messages):
        message = "each message must be an object"
        raise BadRequest(message)
    extra = body.get("chat_template_kwargs") or {}
    thinking = not (isinstance(extra, dict) and extra.get("enable_thinking") is False)
    tools = body.get("tools") if body.get("tool_choice") != "none" else None
    tokens = chat_tokens(messages, tools, thinking=thinking)
    asked = _count(body, "max_completion_tokens") or _count(body, "max_tokens")
    return Request(
        prompt=tokens,
        reply=plan_chat(
            messages,
            text=message_text(messages[-1]),
            tools=tools if isinstance(tools, list) else None,
            thinking=thinking,
            endless=bool(body.get("ignore_eos")),
            seed=engine.demo.seed,
        ),
        max_new=engine.limit_output(len(tokens), asked),
        stream=bool(body.get("stream")),
    )


def _count(body: dict[str, Any], name: str) -> int | None:
    value = body.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        message = f"{name} must be at least 1, got {value}."
        raise BadRequest(message)
    return value


def _shape(engine: Engine, body: dict[str, Any], *, chat: bool) -> _Shape:
    options = body.get("stream_options")
    options = options if isinstance(options, dict) else {}
    return _Shape(
        chat=chat,
        reasoning=engine.settings.reasoning_parser is not None
        and body.get("separate_reasoning") is not False,
        tools=engine.settings.tool_parser is not None,
        usage=bool(options.get("include_usage")),
        continuous=bool(options.get("continuous_usage_stats")),
        model=str(body.get("model", "default")),
        created=int(time.time()),
    )


def _too_long(error: TooLong, *, stream: bool) -> Response:
    if error.late and stream:
        payload = event({"error": error_body(str(error))}) + b"data: [DONE]\n\n"
        return Response(payload, media_type="text/event-stream")
    return error_response(str(error))


async def _answer(http: HttpRequest, engine: Engine, request: Request, shape: _Shape) -> Response:
    if engine.settings.max_queued is not None and (
        len(engine.scheduler.waiting) >= engine.settings.max_queued
    ):
        return error_response("The request queue is full.", kind="SERVICE_UNAVAILABLE", code=503)
    if request.stream:
        return StreamingResponse(_stream(engine, request, shape), media_type="text/event-stream")
    try:
        parts, finish = await collect(http, engine, request)
    except QueueFull:
        return error_response("The request queue is full.", kind="SERVICE_UNAVAILABLE", code=503)
    if finish.get("type") == "abort":
        return error_response(
            str(finish["message"]), kind="InternalServerError", code=finish["status_code"]
        )
    return JSONResponse(_document(engine, request, shape, parts, finish))


def _document(
    engine: Engine,
    request: Request,
    shape: _Shape,
    parts: Sequence[Piece],
    finish: dict[str, Any],
) -> dict[str, Any]:
    tool_call = shape.tools and request.reply.tool_name is not None
    choice: dict[str, Any] = {
        "index": 0,
        "logprobs": None,
        "finish_reason": _finish_reason(finish, tool_call=tool_call),
        "matched_stop": finish.get("matched"),
    }
    visible = [p for p in parts if p.channel != "tool" or not shape.tools]
    if not shape.chat:
        choice["text"] = "".join(p.text for p in parts)
    else:
        choice["message"] = {
            "role": "assistant",
            "content": _content(visible, shape) or (None if tool_call else ""),
            "reasoning_content": "".join(p.text for p in parts if p.channel == "reasoning") or None
            if shape.reasoning
            else None,
            "tool_calls": [_call(request, "".join(p.text for p in parts if p.channel == "tool"))]
            if tool_call
            else None,
        }
    return {
        "id": request.rid,
        "object": "chat.completion" if shape.chat else "text_completion",
        "created": shape.created,
        "model": shape.model,
        "choices": [choice],
        "usage": _usage(engine, request),
        "metadata": {"weight_version": "default"},
    }


def _content(parts: Sequence[Piece], shape: _Shape) -> str:
    thought = "".join(p.text for p in parts if p.channel == "reasoning")
    rest = "".join(p.text for p in parts if p.channel != "reasoning")
    if shape.reasoning or not thought:
        return rest
    return f"{thought}</think>\n\n{rest}"


def _call(request: Request, arguments: str) -> dict[str, Any]:
    return {
        "id": f"call_{request.rid[:24]}",
        "index": 0,
        "type": "function",
        "function": {"name": request.reply.tool_name, "arguments": arguments},
    }


def _finish_reason(finish: dict[str, Any], *, tool_call: bool) -> str:
    return "tool_calls" if tool_call and finish.get("type") == "stop" else str(finish.get("type"))


def _usage(engine: Engine, request: Request) -> dict[str, Any]:
    cached = request.cached_tokens if engine.settings.cache_report else 0
    return {
        "prompt_tokens": len(request.prompt),
        "total_tokens": len(request.prompt) + len(request.output),
        "completion_tokens": len(request.output),
        "prompt_tokens_details": {"cached_tokens": cached} if cached else None,
        "reasoning_tokens": request.reasoning_tokens,
    }


async def _stream(engine: Engine, request: Request, shape: _Shape) -> AsyncIterator[bytes]:
    head = {
        "id": request.rid,
        "object": "chat.completion.chunk" if shape.chat else "text_completion",
        "created": shape.created,
        "model": shape.model,
    }
    tool_call = shape.tools and request.reply.tool_name is not None
    started = called = False
    async with aclosing(engine.generate(request)) as chunks:
        async for chunk in chunks:
            if chunk.finish is not None and chunk.finish["type"] == "abort":
                message = str(chunk.finish["message"])
                yield event({"error": error_body(message, code=chunk.finish["status_code"])})
                break
            if shape.chat and not started:
                started = True
                yield event(
                    _chunk(engine, request, shape, head, {"role": "assistant", "content": ""})
                )
            for delta in _deltas(request, shape, chunk.pieces, called=called):
                called = called or "tool_calls" in delta
                yield event(_chunk(engine, request, shape, head, delta))
            if chunk.finish is not None:
                reason = _finish_reason(chunk.finish, tool_call=tool_call)
                matched = chunk.finish.get("matched")
                yield event(
                    _chunk(engine, request, shape, head, {}, finish=reason, matched=matched)
                )
        if shape.usage:
            yield event({**head, "choices": [], "usage": _usage(engine, request)})
    yield b"data: [DONE]\n\n"


def _deltas(
    request: Request, shape: _Shape, parts: Sequence[Piece], *, called: bool
) -> list[dict[str, Any]]:
    """Return the deltas of one forward: at most one for each field, in the order of the text."""
    texts: dict[str, str] = {}
    for part in parts:
        field = "content"
        if part.channel == "reasoning" and shape.reasoning:
            field = "reasoning_content"
        elif part.channel == "tool" and shape.tools:
            field = "tool_calls"
        texts[field] = texts.get(field, "") + part.text
    out: list[dict[str, Any]] = []
    for field, text in texts.items():
        if field != "tool_calls":
            out.append({field: text})
            continue
        if not called:
            out.append({"tool_calls": [_call(request, "")]})
        rest = {"id": None, "index": 0, "type": "function"}
        out.append({"tool_calls": [{**rest, "function": {"name": None, "arguments": text}}]})
    return out


def _chunk(
    engine: Engine,
    request: Request,
    shape: _Shape,
    head: dict[str, Any],
    delta: dict[str, Any],
    *,
    finish: str | None = None,
    matched: object = None,
) -> dict[str, Any]:
    choice: dict[str, Any] = {
        "index": 0,
        "logprobs": None,
        "finish_reason": finish,
        "matched_stop": matched,
    }
    if shape.chat:
        blank = {"role": None, "content": None, "reasoning_content": None, "tool_calls": None}
        choice["delta"] = {**blank, **delta}
    else:
        choice["text"] = delta.get("content", "")
    usage = _usage(engine, request) if shape.continuous else None
    return {**head, "choices": [choice], "usage": usage}
