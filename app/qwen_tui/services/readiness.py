"""Ready means one generated token: the smoke request, and the cheap question "do you answer?"."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Protocol

from qwen_tui.services.live.http1 import Answer, Connection, FetchError, Target, get, read_answer
from qwen_tui_profiles.foreign import clean, redact
from qwen_tui_profiles.text import t

if TYPE_CHECKING:
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

    async def answers(self, url: str, *, timeout_s: float) -> bool:
        """Tell whether an HTTP server answers there at all. Costs the engine no generation."""
        ...


class HttpSmoke:
    """The real one."""

    async def smoke(self, url: str, *, engine: str, api_key: str | None, timeout_s: float) -> Smoke:
        """Ask for one token: ``/generate`` on SGLang, ``/v1/completions`` elsewhere."""
        began = time.monotonic()
        client = _Client(Target.parse(url), api_key, began + timeout_s)
        try:
            answer = None
            if engine != "vllm":
                answer = await client.ask("POST", "/generate", _GENERATE)
            if answer is None or answer.status == HTTPStatus.NOT_FOUND:
                body = _completion(await client.ask("GET", "/v1/models"))
                answer = await client.ask("POST", "/v1/completions", body)
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
                    body=redact(clean(answer.body[:300].decode("utf-8", "replace"))).strip(),
                ),
            )
        tokens = _tokens(answer.body)
        if not tokens:
            return Smoke(
                ok=False,
                seconds=seconds,
                tokens=tokens,
                error=t("the answer to the request for one token holds none"),
            )
        return Smoke(ok=True, seconds=seconds, tokens=tokens)

    async def answers(self, url: str, *, timeout_s: float) -> bool:
        """Tell whether an HTTP server answers there at all (401 is an answer)."""
        try:
            await get(
                Target.parse(url), "/v1/models", timeout_s=timeout_s, limit_bytes=_LIMIT_BYTES
            )
        except FetchError:
            return False
        return True


_LIMIT_BYTES = 1 << 20
# A few tokens: the first comes from the prefill alone, and some configurations die at the first
# decode or verify step. One token is what counts.
_TOKENS = 4
_GENERATE: dict[str, object] = {
    "text": "1 2 3",
    "sampling_params": {"max_new_tokens": _TOKENS, "temperature": 0},
}


class _Client:
    """Requests that share one deadline."""

    def __init__(self, target: Target, api_key: str | None, deadline: float) -> None:
        self._target = target
        self._deadline = deadline
        self._headers = {"Content-Type": "application/json"}
        if api_key is not None:
            self._headers["Authorization"] = f"Bearer {api_key}"

    async def ask(self, method: str, path: str, body: object = None) -> Answer:
        """Send one request and read the whole answer.

        Raises:
            FetchError: no usable answer before the deadline.
        """
        connection = await Connection.open(
            self._target, timeout_s=self._left(), limit_bytes=_LIMIT_BYTES
        )
        try:
            connection.send(
                method,
                path,
                headers=self._headers,
                body=b"" if body is None else json.dumps(body).encode(),
            )
            if not await connection.wait(self._left()):
                raise FetchError("timeout", t("no token came in time"))
            answer = read_answer(connection.recorder.pieces, eof=connection.recorder.eof)
            if not answer.complete:
                raise FetchError("cut", t("the connection broke during the first token"))
            return answer
        finally:
            connection.close()

    def _left(self) -> float:
        return max(self._deadline - time.monotonic(), 0.05)


def _completion(models: Answer) -> dict[str, object]:
    try:
        listing = json.loads(models.body)
        name = listing["data"][0]["id"]
    except (ValueError, LookupError, TypeError):
        name = None
    return {"model": name, "prompt": "1 2 3", "max_tokens": _TOKENS, "temperature": 0}


def _tokens(body: bytes) -> int | None:
    """Return the completion tokens as the server counts them."""
    try:
        answer = json.loads(body)
    except ValueError:
        return None
    if not isinstance(answer, dict):
        return None
    meta = answer.get("meta_info") or answer.get("usage") or {}
    tokens = meta.get("completion_tokens") if isinstance(meta, dict) else None
    return tokens if isinstance(tokens, int) else None
