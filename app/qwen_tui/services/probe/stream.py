"""One streaming chat request, recorded at the socket and taken apart afterwards."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from qwen_tui.services.live.http1 import (
    Answer,
    Connection,
    FetchError,
    Target,
    read_answer,
    too_big,
)
from qwen_tui_profiles.text import t

__all__ = [
    "RawRecording",
    "Recording",
    "SseEvent",
    "chat_body",
    "post_json",
    "record_chat",
    "record_raw",
    "sse_events",
]

CHAT_PATH = "/v1/chat/completions"
_LIMIT_BYTES = 32 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class SseEvent:
    """One server-sent event."""

    at: float
    """When what completed it arrived, on perf_counter's clock."""
    data: str


@dataclass(frozen=True, slots=True)
class Recording:
    """What came back, and when."""

    sent_at: float
    answer: Answer
    events: tuple[SseEvent, ...]
    in_time: bool
    """False = our own time limit ended the stream."""
    closed: bool
    """The peer closed the connection."""


def chat_body(
    model: str,
    messages: list[dict[str, Any]],
    *,
    max_tokens: int,
    sglang: bool,
    extra: dict[str, Any] | None = None,
) -> bytes:
    """Return the JSON body of a streaming chat request that asks for every count there is."""
    request: dict[str, Any] = {
        "model": model,
        "messages": messages,
        "stream": True,
        "max_tokens": max_tokens,
        # Per-chunk usage tells how many tokens a chunk carries: with speculation several.
        "stream_options": {"include_usage": True, "continuous_usage_stats": True},
        **(extra or {}),
    }
    if sglang:
        request["return_cached_tokens_details"] = True
        request["return_spec_tokens_details"] = True
    return json.dumps(request, ensure_ascii=False, separators=(",", ":")).encode()


@dataclass(frozen=True, slots=True)
class RawRecording:
    """An answer as the socket gave it; taking it apart can wait until nothing is measured."""

    sent_at: float
    pieces: list[tuple[float, bytes]]
    in_time: bool
    closed: bool

    def read(self) -> Recording:
        """Take it apart.

        Raises:
            FetchError: it is not an HTTP answer.
        """
        answer = read_answer(self.pieces, eof=self.closed, keep_pieces=True)
        events = tuple(sse_events(answer.pieces))
        return Recording(self.sent_at, answer, events, self.in_time, self.closed)


async def record_raw(
    target: Target,
    body: bytes,
    *,
    api_key: str | None = None,
    timeout_s: float = 120.0,
    connect_timeout_s: float = 5.0,
    path: str = CHAT_PATH,
    limit_bytes: int = _LIMIT_BYTES,
) -> RawRecording:
    """Send one request and record the answer to its end, reading nothing of it yet.

    With several streams at once, reading one answer would delay the stamps of the others.

    Raises:
        FetchError: no connection, or more than ``limit_bytes``.
    """
    connection = await Connection.open(
        target, timeout_s=connect_timeout_s, limit_bytes=limit_bytes, timed=True
    )
    try:
        headers = {"Content-Type": "application/json", "Accept": "text/event-stream"}
        if api_key is not None:
            headers["Authorization"] = f"Bearer {api_key}"
        connection.send("POST", path, headers=headers, body=body)
        in_time = await connection.wait(timeout_s)
        recorder = connection.recorder
        if recorder.too_big:
            raise too_big(target, path, limit_bytes)
        return RawRecording(connection.sent_at, recorder.pieces, in_time, recorder.eof)
    finally:
        connection.close()


async def record_chat(
    target: Target,
    body: bytes,
    *,
    api_key: str | None = None,
    timeout_s: float = 120.0,
    connect_timeout_s: float = 5.0,
    path: str = CHAT_PATH,
    limit_bytes: int = _LIMIT_BYTES,
) -> Recording:
    """Send one streaming request, record the answer to its end and take it apart.

    Raises:
        FetchError: no connection, not an HTTP answer, or more than ``limit_bytes``.
    """
    raw = await record_raw(
        target,
        body,
        api_key=api_key,
        timeout_s=timeout_s,
        connect_timeout_s=connect_timeout_s,
        path=path,
        limit_bytes=limit_bytes,
    )
    return raw.read()


async def post_json(
    target: Target,
    path: str,
    document: dict[str, Any],
    *,
    api_key: str | None = None,
    timeout_s: float = 60.0,
) -> Answer:
    """Post a JSON document and return the whole answer.

    Raises:
        FetchError: no connection, no complete answer in time, or not HTTP.
    """
    body = json.dumps(document, separators=(",", ":")).encode()
    recording = await record_chat(target, body, api_key=api_key, timeout_s=timeout_s, path=path)
    if not recording.in_time or not recording.answer.complete:
        raise FetchError(
            "timeout" if not recording.in_time else "cut",
            t(
                "{url}{path} gave no complete answer within {seconds} s.",
                url=target.url,
                path=path,
                seconds=f"{timeout_s:g}",
            ),
            t("The server may be overloaded or stopped; its log tells."),
        )
    return recording.answer


def sse_events(pieces: tuple[tuple[float, bytes], ...]) -> list[SseEvent]:
    """Split a body into events; each is stamped with the read that brought its last byte."""
    events: list[SseEvent] = []
    rest = b""
    for at, piece in pieces:
        rest += piece
        if b"\n" not in piece:
            continue
        *blocks, rest = rest.replace(b"\r\n", b"\n").split(b"\n\n")
        for block in blocks:
            data = _event_data(block)
            if data is not None:
                events.append(SseEvent(at, data))
    data = _event_data(rest)
    if data is not None and pieces:
        events.append(SseEvent(pieces[-1][0], data))
    return events


def _event_data(block: bytes) -> str | None:
    lines = [
        line[5:].removeprefix(b" ") for line in block.split(b"\n") if line.startswith(b"data:")
    ]
    return b"\n".join(lines).decode("utf-8", "replace") if lines else None
