"""The probe: find out what serves there, send one request of the chosen kind, judge the answer."""

from __future__ import annotations

import json
import re
import shlex
from typing import TYPE_CHECKING

from qwen_tui.services.live.http1 import FetchError, Target
from qwen_tui.services.probe.boundary import probe_boundary
from qwen_tui.services.probe.kinds import KINDS
from qwen_tui.services.probe.ownmark import fill_from_counters, take_mark
from qwen_tui.services.probe.reading import read_stream
from qwen_tui.services.probe.served import find_served, has_vision, usable_context
from qwen_tui.services.probe.stream import CHAT_PATH, chat_body, record_chat
from qwen_tui.services.snapshots import ProbeResult
from qwen_tui_profiles.errors import UsageError
from qwen_tui_profiles.text import Text, t

if TYPE_CHECKING:
    from qwen_tui.services.probe.kinds import Kind
    from qwen_tui.services.probe.reading import StreamFigures

__all__ = ["BOUNDARY", "curl_command", "kind_names", "probe"]

BOUNDARY = "boundary"
_LIMIT_BYTES = 2 * 1024 * 1024
"""Several times the longest answer of any kind: 512 chunks of less than 1 KB."""


def kind_names() -> tuple[str, ...]:
    """Return the names of all kinds of probe."""
    return (*KINDS, BOUNDARY)


async def probe(
    url: str,
    *,
    kind: str = "prose",
    api_key: str | None = None,
    model: str | None = None,
    context: int | None = None,
) -> ProbeResult:
    """Send one streaming request and return what a client sees of it.

    Everything about the peer, failures included, is in the result (``error``, ``outcome``).

    Args:
        url: Base URL of the server.
        kind: See :func:`kind_names`.
        api_key: Sent as a bearer token.
        model: Its name there; asked for when not given.
        context: Longest input in tokens, where it is known better than the server tells.

    Raises:
        UsageError: ``url`` is not an address or ``kind`` is not known.
    """
    if kind not in kind_names():
        raise UsageError(
            t("There is no kind of probe called {kind}.", kind=repr(kind)),
            t("Kinds: {kinds}.", kinds=", ".join(kind_names())),
        )
    target = Target.parse(url)
    try:
        if kind == BOUNDARY:
            served = await find_served(target, api_key=api_key)
            return await probe_boundary(target, served, api_key=api_key)
        return await _chat(target, KINDS[kind], api_key=api_key, model=model, context=context)
    except FetchError as error:
        return _without_figures(kind, error.message, "no_answer")


async def _chat(
    target: Target, kind: Kind, *, api_key: str | None, model: str | None, context: int | None
) -> ProbeResult:
    # These also warm our own code and the path to the server before the clock starts.
    served = await find_served(target, api_key=api_key, model=model)
    if kind.wants_vision and await has_vision(target, api_key=api_key) is False:
        return _without_figures(
            kind.name, t("This server takes no pictures: it has no vision tower."), "not_applicable"
        )
    messages = kind.messages()
    if kind.within is not None:
        usable = context or await usable_context(target, served, api_key=api_key)
        messages = messages if usable is None else kind.within(usable)
    mark = await take_mark(target, api_key) if served.sglang else None
    body = chat_body(
        served.model if model is None else model,
        messages,
        max_tokens=kind.max_tokens,
        sglang=served.sglang,
        extra=dict(kind.extra),
    )
    recording = await record_chat(
        target, body, api_key=api_key, timeout_s=kind.timeout_s, limit_bytes=_LIMIT_BYTES
    )
    figures = read_stream(recording)
    await fill_from_counters(target, mark, figures, api_key)
    return _result(kind, figures)


def curl_command(
    url: str, kind: str, model: str, *, key_variable: str | None = None, sglang: bool = True
) -> str:
    """Return the probe's request as a shell command; the key stays in its variable.

    Raises:
        UsageError: the kind is not known, or not one request.
    """
    row = KINDS.get(kind)
    if row is None:
        raise UsageError(
            t("There is no single request behind {kind}.", kind=repr(kind)),
            t("Kinds: {kinds}.", kinds=", ".join(KINDS)),
        )
    body = chat_body(
        model, row.messages(), max_tokens=row.max_tokens, sglang=sglang, extra=dict(row.extra)
    )
    text = json.dumps(json.loads(body), ensure_ascii=False)
    command = [
        "curl",
        "-N",
        Target.parse(url).url + CHAT_PATH,
        "-H",
        "Content-Type: application/json",
    ]
    quoted = [shlex.quote(part) for part in command]
    if key_variable is not None:
        quoted += ["-H", f'"Authorization: Bearer ${{{key_variable}}}"']
    return " ".join([*quoted, "-d", shlex.quote(text)])


def _result(kind: Kind, figures: StreamFigures) -> ProbeResult:
    outcome, error = figures.outcome, figures.error
    if outcome == "ok":
        outcome, error = _check(kind, figures)
    return ProbeResult(
        ttft_ms=figures.ttft_ms,
        ttfo_ms=figures.ttfo_ms,
        tokens=figures.tokens,
        decode_tok_s=figures.decode_tok_s,
        cached_tokens=figures.cached_tokens,
        prompt_tokens=figures.prompt_tokens,
        accept_length=figures.accept_length,
        kind=kind.name,
        error=error,
        outcome=outcome,
        chunks=figures.chunks,
        chunk_gap_p50_ms=figures.chunk_gap_p50_ms,
        chunk_gap_p95_ms=figures.chunk_gap_p95_ms,
        chunk_gap_max_ms=figures.chunk_gap_max_ms,
        ms_per_token=figures.ms_per_token,
        reasoning_tokens=figures.reasoning_tokens,
        finish_reason=figures.finish_reason,
        model=figures.model,
        detail=figures.note,
    )


def _check(kind: Kind, figures: StreamFigures) -> tuple[str, Text | None]:
    """Judge the content where the kind has a checkable answer."""
    if kind.wants_tool is not None and kind.wants_tool not in figures.tool_names:
        return "wrong_answer", t(
            "The model answered in text instead of calling the tool; "
            "is --tool-call-parser set on the server?"
        )
    # Whole words: "tired" does not name red.
    if kind.accept and kind.accept.isdisjoint(re.findall(r"\w+", figures.text.lower())):
        return "wrong_answer", t(
            "The answer does not name {expected}.", expected=" / ".join(sorted(kind.accept))
        )
    return "ok", None


def _without_figures(kind: str, error: Text, outcome: str) -> ProbeResult:
    return ProbeResult(
        ttft_ms=None,
        ttfo_ms=None,
        tokens=None,
        decode_tok_s=None,
        cached_tokens=None,
        prompt_tokens=None,
        accept_length=None,
        kind=kind,
        error=error,
        outcome=outcome,
    )
