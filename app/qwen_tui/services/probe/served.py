"""What a server says of itself before a probe: model, engine, vision, limits."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from qwen_tui.services.live.http1 import FetchError, get
from qwen_tui.services.live.serverinfo import read_models, read_server_info
from qwen_tui.services.probe.reading import error_text
from qwen_tui_profiles.text import t

if TYPE_CHECKING:
    from qwen_tui.services.live.http1 import Answer, Target

__all__ = ["Served", "bearer", "find_served", "has_vision", "longest_input", "usable_context"]

_TIMEOUT_S = 5.0
_LIMIT_BYTES = 2 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Served:
    """What ``/v1/models`` says."""

    model: str
    owner: str | None
    """``owned_by``: ``sglang``, ``vllm``; a gateway says something else."""
    max_model_len: int | None

    @property
    def sglang(self) -> bool:
        """Whether SGLang's own request fields may be used."""
        return self.owner == "sglang"


def bearer(api_key: str | None) -> dict[str, str]:
    """Return the header that carries the key."""
    return {} if api_key is None else {"Authorization": f"Bearer {api_key}"}


async def find_served(target: Target, *, api_key: str | None, model: str | None = None) -> Served:
    """Ask ``/v1/models`` for the model's name.

    With ``model`` given, a server that does not list its models is taken at that: the request
    itself will tell what is wrong.

    Raises:
        FetchError: no answer, or one without a model.
    """
    answer = await _ask(target, "/v1/models", api_key)
    if answer.status in {401, 403}:
        raise FetchError(
            "unauthorized",
            t("The server at {url} wants an API key.", url=target.url),
            t("Give it with --api-key-env NAME."),
        )
    name, context = read_models(answer.body)
    if answer.status != 200 and model is not None:
        return Served(model, None, None)
    if answer.status != 200:
        raise FetchError(
            "malformed",
            t(
                "{url}/v1/models answered {status}: {reason}",
                url=target.url,
                status=answer.status,
                reason=error_text(answer.body),
            ),
            t("Check that the address is the engine's HTTP port."),
        )
    if name is None:
        raise FetchError(
            "malformed",
            t(
                "{url}/v1/models answered {status} and names no model.",
                url=target.url,
                status=answer.status,
            ),
            t("Check that the address is the engine's HTTP port."),
        )
    data = _load(answer).get("data")
    first = data[0] if isinstance(data, list) and data and isinstance(data[0], dict) else {}
    owner = first.get("owned_by")
    return Served(name, owner if isinstance(owner, str) else None, context)


async def has_vision(target: Target, *, api_key: str | None) -> bool | None:
    """Ask SGLang whether the model takes pictures; ``None`` when the server does not say."""
    try:
        answer = await _ask(target, "/model_info", api_key)
    except FetchError:
        return None
    said = _load(answer).get("has_image_understanding")
    return said if isinstance(said, bool) else None


async def usable_context(target: Target, served: Served, *, api_key: str | None) -> int | None:
    """Return the longest input that the server says it takes, in tokens."""
    if not served.sglang:
        return served.max_model_len
    try:
        for path in ("/server_info", "/get_server_info"):
            answer = await _ask(target, path, api_key)
            if answer.status == 200:
                return read_server_info(answer.body).context_usable
    except FetchError:
        return None
    return None


async def longest_input(target: Target, *, api_key: str | None) -> int | None:
    """Return the longest input that a server takes, in tokens; ``None`` = it does not tell."""
    try:
        served = await find_served(target, api_key=api_key)
    except FetchError:
        return None
    return await usable_context(target, served, api_key=api_key)


async def _ask(target: Target, path: str, api_key: str | None) -> Answer:
    return await get(
        target, path, timeout_s=_TIMEOUT_S, limit_bytes=_LIMIT_BYTES, headers=bearer(api_key)
    )


def _load(answer: Answer) -> dict[str, Any]:
    try:
        document = json.loads(answer.body)
    except (ValueError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}
