"""The probe: find out what serves there, send one request of the chosen kind, judge the answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from qwen_tui.services.live.http1 import FetchError, Target, get
from qwen_tui.services.live.serverinfo import read_models
from qwen_tui.services.probe.kinds import KINDS, Kind
from qwen_tui.services.probe.reading import StreamFigures, read_stream
from qwen_tui.services.probe.stream import chat_body, record_chat
from qwen_tui.services.snapshots import ProbeResult
from qwen_tui_profiles.errors import UsageError
from qwen_tui_profiles.text import Text, t

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Served", "find_served", "kind_names", "probe"]

_MODELS_TIMEOUT_S = 5.0
_MODELS_LIMIT = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Served:
    """What ``/v1/models`` says."""

    model: str
    sglang: bool
    """The server names itself SGLang, so its extra request fields may be used."""
    max_model_len: int | None


def kind_names() -> Sequence[str]:
    """Return the names of all kinds of probe."""
    return tuple(KINDS)


async def probe(
    url: str,
    *,
    kind: str = "prose",
    api_key: str | None = None,
    model: str | None = None,
) -> ProbeResult:
    """Send one streaming request and return what a client sees of it.

    Everything about the peer, failures included, is in the result (``error``, ``outcome``).

    Raises:
        UsageError: ``url`` is not an address or ``kind`` is not known.
    """
    row = KINDS.get(kind)
    if row is None:
        raise UsageError(
            t("There is no kind of probe called {kind}.", kind=repr(kind)),
            t("Kinds: {kinds}.", kinds=", ".join(kind_names())),
        )
    target = Target.parse(url)
    try:
        # Also warms our own code and the path to the server before the clock starts.
        served = await find_served(target, api_key=api_key)
        body = chat_body(
            served.model if model is None else model,
            row.messages(),
            max_tokens=row.max_tokens,
            sglang=served.sglang,
            extra=dict(row.extra),
        )
        recording = await record_chat(target, body, api_key=api_key, timeout_s=row.timeout_s)
    except FetchError as error:
        return _failed(kind, error.message, "no_answer")
    figures = read_stream(recording)
    return _result(row, figures)


async def find_served(target: Target, *, api_key: str | None) -> Served:
    """Ask ``/v1/models`` for the model's name.

    Raises:
        FetchError: no answer, or one without a model.
    """
    headers = {} if api_key is None else {"Authorization": f"Bearer {api_key}"}
    answer = await get(
        target,
        "/v1/models",
        timeout_s=_MODELS_TIMEOUT_S,
        limit_bytes=_MODELS_LIMIT,
        headers=headers,
    )
    if answer.status in {401, 403}:
        raise FetchError(
            "unauthorized",
            t("The server at {url} wants an API key.", url=target.url),
            t("Give it with --api-key-env NAME."),
        )
    name, context = read_models(answer.body)
    if answer.status != 200 or name is None:
        raise FetchError(
            "malformed",
            t(
                "{url}/v1/models answered {status} and names no model.",
                url=target.url,
                status=answer.status,
            ),
            t("Check that the address is the engine's HTTP port."),
        )
    return Served(name, b'"owned_by":"sglang"' in answer.body.replace(b" ", b""), context)


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
    )


def _check(kind: Kind, figures: StreamFigures) -> tuple[str, Text | None]:
    """Judge the content where the kind has a checkable answer."""
    if kind.wants_tool is not None and kind.wants_tool not in figures.tool_names:
        return "wrong_answer", t(
            "The model answered in text instead of calling the tool; "
            "is --tool-call-parser set on the server?"
        )
    if kind.accept:
        words = figures.text.lower()
        if not any(word in words for word in kind.accept):
            return "wrong_answer", t(
                "The answer does not name {expected}.", expected=" / ".join(sorted(kind.accept))
            )
    return "ok", None


def _failed(kind: str, error: Text, outcome: str) -> ProbeResult:
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
