"""The boundary probe: does the usable context hold what it promises, and does the server survive?

One request a little shorter than the limit must be answered, one just over it must be refused with
400, and afterwards the server must still generate. Token counts are exact because the prompt is
sent as token ids. It fills the KV pool once, so cached prefixes of others may be evicted.
"""

from __future__ import annotations

import json
import secrets
from typing import TYPE_CHECKING, Any, NamedTuple

from qwen_tui.services.probe.served import usable_context
from qwen_tui.services.probe.stream import post_json
from qwen_tui.services.snapshots import ProbeResult
from qwen_tui_profiles.foreign import clean, redact
from qwen_tui_profiles.text import Text, t

if TYPE_CHECKING:
    from qwen_tui.services.live.http1 import Answer, Target
    from qwen_tui.services.probe.served import Served

__all__ = ["MARGIN_TOKENS", "probe_boundary"]

MARGIN_TOKENS = 8
"""How much shorter than the limit the request is that must be answered."""
_TIMEOUT_S = 900.0
_HEALTH_TIMEOUT_S = 60.0


class _Dialect(NamedTuple):
    """How an engine takes token ids."""

    path: str
    prompt: str
    more: dict[str, Any]


_SGLANG = _Dialect(
    "/generate", "input_ids", {"sampling_params": {"max_new_tokens": 1, "temperature": 0}}
)
_OPENAI = _Dialect("/v1/completions", "prompt", {"max_tokens": 1, "temperature": 0})


async def probe_boundary(target: Target, served: Served, *, api_key: str | None) -> ProbeResult:
    """Try both sides of the limit.

    Raises:
        FetchError: the server stopped answering on the way.
    """
    limit = await usable_context(target, served, api_key=api_key)
    if limit is None or limit <= 2 * MARGIN_TOKENS:
        return _result(
            "not_applicable",
            t("The server does not say how long a request may be."),
            None,
        )
    dialect = _SGLANG if served.sglang else _OPENAI

    async def ask(n: int, timeout_s: float) -> Answer:
        document = {dialect.prompt: _token_ids(n), **dialect.more}
        if not served.sglang:
            document["model"] = served.model
        return await post_json(target, dialect.path, document, api_key=api_key, timeout_s=timeout_s)

    short = await ask(limit - MARGIN_TOKENS, _TIMEOUT_S)
    if short.status != 200:
        return _result(
            "too_small",
            t(
                "{n} tokens should fit ({limit} usable) and were refused with {status}: {reason}",
                n=f"{limit - MARGIN_TOKENS:,}",
                limit=f"{limit:,}",
                status=short.status,
                reason=_reason(short),
            ),
            limit,
        )
    long = await ask(limit + 1, _TIMEOUT_S)
    health = await ask(4, _HEALTH_TIMEOUT_S)
    if health.status != 200:
        return _result(
            "unhealthy",
            t(
                "After the request over the limit the server answers {status}: {reason}",
                status=health.status,
                reason=_reason(health),
            ),
            limit,
        )
    if long.status == 200:
        return _result(
            "not_refused",
            t(
                "{n} tokens were accepted although {limit} are usable: the input may be cut "
                "silently (--allow-auto-truncate).",
                n=f"{limit + 1:,}",
                limit=f"{limit:,}",
            ),
            limit,
        )
    if long.status != 400:
        return _result(
            "unhealthy",
            t(
                "{n} tokens should be refused with 400 and got {status}: {reason}",
                n=f"{limit + 1:,}",
                status=long.status,
                reason=_reason(long),
            ),
            limit,
        )
    return _result("ok", None, limit)


def _result(outcome: str, error: Text | None, limit: int | None) -> ProbeResult:
    detail = None
    if outcome == "ok" and limit is not None:
        detail = t(
            "{fits} tokens answered, {over} refused with 400, and it still generates.",
            fits=f"{limit - MARGIN_TOKENS:,}",
            over=f"{limit + 1:,}",
        )
    return ProbeResult(
        ttft_ms=None,
        ttfo_ms=None,
        tokens=None,
        decode_tok_s=None,
        cached_tokens=None,
        prompt_tokens=None,
        accept_length=None,
        kind="boundary",
        error=error,
        outcome=outcome,
        detail=detail,
    )


def _token_ids(n: int) -> list[int]:
    """Return ``n`` small token ids that every vocabulary has; a fresh start misses the cache."""
    first = secrets.randbelow(40)
    return [10 + (first + i * 7) % 50 for i in range(n)]


def _reason(answer: Answer) -> str:
    text = answer.body.decode("utf-8", "replace")
    try:
        document = json.loads(text)
        error = document.get("error", document) if isinstance(document, dict) else document
        found = error.get("message") if isinstance(error, dict) else error
    except (ValueError, RecursionError):
        found = None
    return redact(clean(found if isinstance(found, str) else text))[:300] or "—"
