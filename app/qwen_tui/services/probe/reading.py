"""From a recorded stream to the figures of one request.

* TTFT: request sent → first token of any kind (reasoning, text or tool call).
* TTFO: request sent → first visible token: text or tool call, after the reasoning.
* Decoding ends at the last token, not at the usage chunk and not at ``[DONE]``.
* A chunk may carry several tokens (speculation): the gap between chunks and the time per token are
  two figures. Tokens are counted by the server (``usage``), never by chunks.
"""

from __future__ import annotations

import itertools
import json
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from qwen_tui_profiles.foreign import clean, redact
from qwen_tui_profiles.text import Text, t

if TYPE_CHECKING:
    from qwen_tui.services.probe.stream import Recording

_THINK_START = "<think>"
_THINK_END = "</think>"

__all__ = ["Chunk", "StreamFigures", "error_text", "read_stream"]

_STEP_TOKENS = 16
"""More tokens than one step of speculation brings. A first chunk that holds more shows that earlier
tokens had no text, so that it does not tell when the first token came (seen on SGLang 0.5.17 with
random weights: 384 tokens, two chunks, the first after 3,988 ms)."""


_LEAST_S = 0.02
"""Chunks that all came within less say nothing about the speed at which they were generated."""


@dataclass(slots=True)
class Chunk:
    """A chunk that carried tokens."""

    at: float
    visible: bool
    """Text or tool call, not reasoning."""
    tokens_so_far: int | None
    """Completion tokens including this chunk, as the server counts; ``None`` = not told."""
    text: str = ""
    """Its part of the message's text."""


@dataclass(slots=True)
class StreamFigures:
    """One request, measured."""

    ttft_ms: float | None = None
    ttfo_ms: float | None = None
    tokens: int | None = None
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None
    accept_length: float | None = None
    decode_tok_s: float | None = None
    chunks: int = 0
    chunk_gap_p50_ms: float | None = None
    chunk_gap_p95_ms: float | None = None
    chunk_gap_max_ms: float | None = None
    ms_per_token: float | None = None
    finish_reason: str | None = None
    outcome: str = "ok"
    """``ok``, ``empty``, ``only_reasoning``, ``refused``, ``error_in_stream``, ``no_done``,
    ``cut``, ``timeout``, ``no_stream``."""
    error: Text | None = None
    note: Text | None = None
    """Why a figure is missing although the request went well."""
    text: str = ""
    """The visible answer; used for checks, never stored."""
    tool_names: list[str] = field(default_factory=list)
    model: str | None = None


def read_stream(recording: Recording) -> StreamFigures:
    """Take a recording apart; never raises: whatever is odd becomes the outcome."""
    out = StreamFigures()
    answer = recording.answer
    if answer.status != 200:
        out.outcome = "refused"
        out.error = _refusal(answer.status, answer.body)
        return out
    chunks: list[Chunk] = []
    done = False
    failed: str | None = None
    for event in recording.events:
        if event.data.strip() == "[DONE]":
            done = True
            continue
        document = _load(event.data)
        if document is None:
            continue
        if "error" in document or document.get("object") == "error":
            failed = error_text(event.data.encode())
            continue
        _take_chunk(document, event.at, out, chunks)
    _hide_raw_thoughts(chunks, out)
    _measure(recording.sent_at, chunks, out)
    _judge(recording, out, chunks, done=done, failed=failed)
    return out


def _take_chunk(
    document: dict[str, Any], at: float, out: StreamFigures, chunks: list[Chunk]
) -> None:
    usage = document.get("usage")
    counted = _take_usage(usage, out) if isinstance(usage, dict) else None
    _take_details(document.get("sglext"), out)
    model = document.get("model")
    if isinstance(model, str):
        out.model = clean(model)[:200]
    choices = document.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    if not isinstance(choice, dict):
        return
    reason = choice.get("finish_reason")
    if isinstance(reason, str):
        out.finish_reason = clean(reason)[:40]
    delta = choice.get("delta")
    if not isinstance(delta, dict):
        return
    text = delta.get("content")
    thought = delta.get("reasoning_content") or delta.get("reasoning")
    calls = delta.get("tool_calls")
    visible = False
    if isinstance(text, str) and text:
        out.text += text
        visible = True
    if isinstance(calls, list) and calls:
        visible = True
        for call in calls:
            function = call.get("function") if isinstance(call, dict) else None
            name = function.get("name") if isinstance(function, dict) else None
            if isinstance(name, str) and name:
                out.tool_names.append(clean(name)[:100])
    if visible or (isinstance(thought, str) and thought):
        chunks.append(Chunk(at, visible, counted, text if isinstance(text, str) else ""))


def _hide_raw_thoughts(chunks: list[Chunk], out: StreamFigures) -> None:
    """Take reasoning out of the text of a server that runs without a reasoning parser.

    The opening tag may be missing (chat templates put it into the prompt), the closing one tells.
    """
    end = out.text.find(_THINK_END)
    if end < 0 and not out.text.lstrip().startswith(_THINK_START):
        return
    visible_from = len(out.text) if end < 0 else end + len(_THINK_END)
    # The blank lines after the closing tag are not an answer yet.
    while visible_from < len(out.text) and out.text[visible_from].isspace():
        visible_from += 1
    at = 0
    for chunk in chunks:
        at += len(chunk.text)
        if chunk.text and at <= visible_from:
            chunk.visible = False
    out.text = out.text[visible_from:]


def _take_usage(usage: dict[str, Any], out: StreamFigures) -> int | None:
    counted = _whole(usage.get("completion_tokens"))
    if counted is not None:
        out.tokens = max(out.tokens or 0, counted)
    prompt = _whole(usage.get("prompt_tokens"))
    if prompt is not None:
        out.prompt_tokens = prompt
    for source, key in (
        (usage.get("prompt_tokens_details"), "cached_tokens"),
        (usage.get("completion_tokens_details"), "reasoning_tokens"),
        (usage, "reasoning_tokens"),
    ):
        value = _whole(source.get(key)) if isinstance(source, dict) else None
        if value is not None:
            setattr(out, key, value)
    return counted


def _take_details(sglext: object, out: StreamFigures) -> None:
    """Read SGLang's per-request extension: cached tokens by tier, and speculation."""
    if not isinstance(sglext, dict):
        return
    cached = sglext.get("cached_tokens_details")
    if isinstance(cached, dict):
        tiers = [_whole(cached.get(name)) for name in ("device", "host", "storage")]
        known = [n for n in tiers if n is not None]
        if known:
            out.cached_tokens = sum(known)
    spec = sglext.get("spec_tokens_details")
    if isinstance(spec, list):
        spec = spec[0] if spec else None
    if isinstance(spec, dict):
        steps = _whole(spec.get("spec_verify_ct"))
        correct = _whole(spec.get("spec_num_correct_drafts"))
        if steps and correct is not None:
            # One bonus token a step: the definition of the engine's own log and average.
            out.accept_length = 1 + correct / steps
        elif steps:
            length = spec.get("spec_accept_length")
            out.accept_length = float(length) if isinstance(length, int | float) else None


def _measure(sent_at: float, chunks: list[Chunk], out: StreamFigures) -> None:
    out.chunks = len(chunks)
    if not chunks:
        return
    first, last = chunks[0], chunks[-1]
    hidden = (first.tokens_so_far or 1) - 1
    if hidden < _STEP_TOKENS:
        out.ttft_ms = (first.at - sent_at) * 1000
    else:
        out.note = t("The first {n} tokens had no text; when they came is not known.", n=hidden)
    visible = next((c for c in chunks if c.visible), None)
    out.ttfo_ms = None if visible is None else (visible.at - sent_at) * 1000
    gaps = sorted((b.at - a.at) * 1000 for a, b in itertools.pairwise(chunks))
    if gaps:
        out.chunk_gap_p50_ms = _nearest(gaps, 0.50)
        out.chunk_gap_p95_ms = _nearest(gaps, 0.95)
        out.chunk_gap_max_ms = gaps[-1]
    # Tokens after the first chunk, over the time that they took. Where the server does not say
    # how many the first chunk held it is one: the first token comes from prefill, not a draft.
    seconds = last.at - first.at
    total = last.tokens_so_far if last.tokens_so_far is not None else out.tokens
    if total is not None:
        later = total - (first.tokens_so_far or 1)
        if seconds < _LEAST_S:
            if later > _STEP_TOKENS:
                out.note = t(
                    "The whole answer came at once: something on the way collects it, so the "
                    "speed is not known."
                )
        # Where most tokens had no text, the few chunks that did are no measure of the speed.
        elif later > 0 and 2 * later >= total - 1:
            out.decode_tok_s = later / seconds
            out.ms_per_token = seconds * 1000 / later


def _judge(
    recording: Recording,
    out: StreamFigures,
    chunks: list[Chunk],
    *,
    done: bool,
    failed: str | None,
) -> None:
    """Tell apart how it ended; the first that applies wins."""
    is_stream = "event-stream" in recording.answer.headers.get("content-type", "")
    if failed is not None:
        out.outcome = "error_in_stream"
        out.error = t("The stream ended in an error: {reason}", reason=failed)
    elif not recording.in_time:
        out.outcome = "timeout"
        out.error = t("The stream did not end in time; {n} chunks came.", n=len(chunks))
    elif not is_stream and not recording.events:
        out.outcome = "no_stream"
        out.error = t("The server answered 200 without a stream.")
    elif not recording.answer.complete:
        out.outcome = "cut"
        out.error = t("The connection broke in the middle of the stream.")
    elif not done:
        out.outcome = "no_done"
        out.error = t("The stream ended without [DONE]: the answer may be cut short.")
    elif not chunks:
        out.outcome = "empty"
        out.error = (
            t("The stream carried no token at all.")
            if not out.tokens
            else t("{n} tokens were generated and none had any text.", n=out.tokens)
        )
    elif out.ttfo_ms is None:
        out.outcome = "only_reasoning"
        out.error = t("Only reasoning came; the answer did not start within the token limit.")


def _refusal(status: int, body: bytes) -> Text:
    reason = error_text(body)
    if "No connected db" in reason:
        return t(
            "The gateway refused the request with {status}: {reason} (LiteLLM without a database "
            "says so of a key that is not its master key.)",
            status=status,
            reason=reason,
        )
    if status >= 500:
        return t(
            "The server failed at the request with {status}: {reason}", status=status, reason=reason
        )
    return t("The server refused the request with {status}: {reason}", status=status, reason=reason)


def error_text(body: bytes) -> str:
    """Take the message out of any of the engines' error bodies."""
    document = _load(body.decode("utf-8", "replace"))
    found: object = None
    if document is not None:
        error = document.get("error", document)
        found = error.get("message") if isinstance(error, dict) else error
        found = found or document.get("message") or document.get("detail")
    text = found if isinstance(found, str) else body.decode("utf-8", "replace")
    return redact(clean(text.strip()))[:500] or "—"


def _load(text: str) -> dict[str, Any] | None:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None


def _nearest(ordered: list[float], q: float) -> float:
    """Return the nearest-rank percentile of an ascending list."""
    return ordered[max(0, math.ceil(q * len(ordered)) - 1)]


def _whole(value: object) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        return None
    return value
