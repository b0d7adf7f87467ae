"""Ready means one generated token: the smoke request, and what a profile asks for beyond it."""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Protocol

from qwen_tui.services.asking import Asker, completion_tokens, json_body, shown_body
from qwen_tui.services.live.http1 import FetchError, Target, get
from qwen_tui_profiles.text import t

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qwen_tui_profiles.text import Text

__all__ = ["Http", "HttpSmoke", "Smoke"]


@dataclass(frozen=True, slots=True)
class Smoke:
    """What one request for one token gave."""

    ok: bool
    seconds: float
    tokens: int | None = None
    """Completion tokens as the server counts them."""
    starting: bool = False
    """The server says that it is not ready yet, or nothing listens: ask again."""
    error: Text | None = None


class Http(Protocol):
    """What the supervisor asks of a server; a seam for tests."""

    async def smoke(self, url: str, *, engine: str, api_key: str | None, timeout_s: float) -> Smoke:
        """Ask for one token."""
        ...

    async def declared(
        self,
        url: str,
        names: Sequence[str],
        *,
        api_key: str | None,
        context_tokens: int | None,
        timeout_s: float,
    ) -> Text | None:
        """Try what a profile asks of a boot; returns why it failed, ``None`` when all is well."""
        ...

    async def answers(self, url: str, *, timeout_s: float) -> bool:
        """Tell whether an HTTP server answers there at all. Costs the engine no generation."""
        ...


# A few tokens: the first comes from the prefill alone, and some configurations die at the first
# decode or verify step. One token is what counts.
_TOKENS = 4
_GENERATE = {"text": "1 2 3", "sampling_params": {"max_new_tokens": _TOKENS, "temperature": 0}}
_LONG_TOKENS = 12_000
"""Longer than any chunk of a chunked prefill in our profiles."""
_TOOL = {
    "type": "function",
    "function": {
        "name": "get_time",
        "description": "Returns the time of a city.",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}},
            "required": ["city"],
        },
    },
}


class HttpSmoke:
    """The real one."""

    async def smoke(self, url: str, *, engine: str, api_key: str | None, timeout_s: float) -> Smoke:
        """Ask for one token: ``/generate`` on SGLang, ``/v1/completions`` elsewhere."""
        began = time.monotonic()
        asker = Asker(url, api_key, timeout_s)
        try:
            answer = None
            if engine != "vllm":
                answer = await asker.ask("POST", "/generate", _GENERATE)
            if answer is None or answer.status == HTTPStatus.NOT_FOUND:
                body = {
                    "model": await asker.model(),
                    "prompt": "1 2 3",
                    "max_tokens": _TOKENS,
                    "temperature": 0,
                }
                answer = await asker.ask("POST", "/v1/completions", body)
        except FetchError as error:
            return Smoke(
                ok=False,
                seconds=time.monotonic() - began,
                starting=error.kind == "refused",
                error=error.message,
            )
        seconds = time.monotonic() - began
        if answer.status != HTTPStatus.OK:
            return Smoke(
                ok=False,
                seconds=seconds,
                starting=answer.status == HTTPStatus.SERVICE_UNAVAILABLE,
                error=t(
                    "the request for one token was answered with {code}: {body}",
                    code=answer.status,
                    body=shown_body(answer),
                ),
            )
        tokens = completion_tokens(json_body(answer))
        if not tokens:
            return Smoke(
                ok=False,
                seconds=seconds,
                tokens=tokens,
                error=t("the answer to the request for one token holds none"),
            )
        return Smoke(ok=True, seconds=seconds, tokens=tokens)

    async def declared(
        self,
        url: str,
        names: Sequence[str],
        *,
        api_key: str | None,
        context_tokens: int | None,
        timeout_s: float,
    ) -> Text | None:
        """Try what a profile asks of a boot; returns why it failed, ``None`` when all is well."""
        asker = Asker(url, api_key, timeout_s)
        try:
            model = await asker.model()
            for name in names:
                failure = None
                if name == "tool-call":
                    failure = await _tool_call(asker, model)
                elif name in {"long-prompt", "stress"}:
                    count = 2 if name == "stress" else 1
                    failure = await _long_prompts(asker, model, count, context_tokens)
                if failure is not None:
                    return failure
        except FetchError as error:
            return error.message
        return None

    async def answers(self, url: str, *, timeout_s: float) -> bool:
        """Tell whether an HTTP server answers there at all (401 is an answer)."""
        try:
            await get(Target.parse(url), "/v1/models", timeout_s=timeout_s, limit_bytes=1 << 20)
        except FetchError:
            return False
        return True


async def _tool_call(asker: Asker, model: str | None) -> Text | None:
    answer = await asker.ask(
        "POST",
        "/v1/chat/completions",
        {
            "model": model,
            "messages": [{"role": "user", "content": "What time is it in Oslo? Use the tool."}],
            "tools": [_TOOL],
            "tool_choice": "auto",
            "max_tokens": 2048,
            "temperature": 0,
        },
    )
    if answer.status != HTTPStatus.OK:
        return t(
            "the tool call was answered with {code}: {body}",
            code=answer.status,
            body=shown_body(answer),
        )
    try:
        call = json_body(answer)["choices"][0]["message"]["tool_calls"][0]["function"]
        arguments = json.loads(call["arguments"])
    except (LookupError, TypeError, ValueError):
        return t(
            "no tool call could be read from the answer; --tool-call-parser may be missing or "
            "wrong: {body}",
            body=shown_body(answer),
        )
    if call.get("name") != "get_time" or not isinstance(arguments, dict):
        return t("the tool call names another tool: {body}", body=shown_body(answer))
    return None


async def _long_prompts(
    asker: Asker, model: str | None, count: int, context_tokens: int | None
) -> Text | None:
    """Send long prompts at the same time, each different so that no prefix is shared."""
    words = _LONG_TOKENS if context_tokens is None else min(_LONG_TOKENS, context_tokens // 2)

    async def one(number: int) -> Text | None:
        answer = await asker.ask(
            "POST",
            "/v1/completions",
            {
                "model": model,
                "prompt": f"{number} " + " the" * words,
                "max_tokens": 16,
                "temperature": 0,
            },
        )
        tokens = completion_tokens(json_body(answer))
        if answer.status == HTTPStatus.OK and tokens:
            return None
        return t(
            "a prompt of about {words:,} tokens was answered with {code}: {body}",
            words=words,
            code=answer.status,
            body=shown_body(answer),
        )

    for failure in await asyncio.gather(*(one(number) for number in range(count))):
        if failure is not None:
            return failure
    return None
