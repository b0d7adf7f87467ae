"""A small HTTP client for questions of our own: requests that share one deadline."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

from qwen_tui.services.live.http1 import Connection, FetchError, Target, read_answer
from qwen_tui_profiles.foreign import clean, redact
from qwen_tui_profiles.text import t

if TYPE_CHECKING:
    from qwen_tui.services.live.http1 import Answer

__all__ = ["Asker", "completion_tokens", "json_body", "shown_body"]

_LIMIT_BYTES = 4 << 20
_SHOWN_CHARACTERS = 300


class Asker:
    """Asks one server; every request must be answered before the same deadline."""

    def __init__(self, url: str, api_key: str | None, timeout_s: float) -> None:
        self._target = Target.parse(url)
        self._deadline = time.monotonic() + timeout_s
        self._headers = {"Content-Type": "application/json"}
        if api_key is not None:
            self._headers["Authorization"] = f"Bearer {api_key}"

    async def ask(self, method: str, path: str, body: object = None) -> Answer:
        """Send one request and read the whole answer.

        Raises:
            FetchError: no usable answer before the deadline.
        """
        connection = await Connection.open(
            self._target, timeout_s=self._left_s(), limit_bytes=_LIMIT_BYTES
        )
        try:
            connection.send(
                method,
                path,
                headers=self._headers,
                body=b"" if body is None else json.dumps(body).encode(),
            )
            if not await connection.wait(self._left_s()):
                raise FetchError("timeout", t("no token came in time"))
            answer = read_answer(connection.recorder.pieces, eof=connection.recorder.eof)
            if not answer.complete:
                raise FetchError("cut", t("the connection broke during the first token"))
            return answer
        finally:
            connection.close()

    async def model(self) -> str | None:
        """Return the first model's name; ``None`` when the server does not tell.

        Raises:
            FetchError: no usable answer before the deadline.
        """
        document = json_body(await self.ask("GET", "/v1/models"))
        try:
            name = document["data"][0]["id"]
        except (LookupError, TypeError):
            return None
        return name if isinstance(name, str) else None

    def _left_s(self) -> float:
        return max(self._deadline - time.monotonic(), 0.05)


def json_body(answer: Answer) -> dict[str, Any]:
    """Return the object in an answer; empty when there is none."""
    try:
        document = json.loads(answer.body)
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}


def completion_tokens(document: dict[str, Any]) -> int | None:
    """Return the completion tokens as the server counts them."""
    counts = document.get("meta_info") or document.get("usage") or {}
    tokens = counts.get("completion_tokens") if isinstance(counts, dict) else None
    return tokens if isinstance(tokens, int) else None


def shown_body(answer: Answer) -> str:
    """Return the beginning of an answer as it may be shown."""
    text = answer.body[:_SHOWN_CHARACTERS].decode("utf-8", "replace")
    return redact(clean(text)).strip()
