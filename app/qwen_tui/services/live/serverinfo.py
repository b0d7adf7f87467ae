"""Limits of a running server that ``/metrics`` does not tell, read rarely.

SGLang's ``/server_info`` asks the scheduler, so it is not for ticks. It also carries every
argument, API keys of old versions included: only the figures named here are taken out.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from qwen_tui_profiles.foreign import clean

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["ServerLimits", "read_models", "read_server_info", "read_version"]


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """What the server itself says of its limits; ``None`` = it does not say."""

    version: str | None = None
    model: str | None = None
    max_running_requests: int | None = None
    """Effective: of all replicas together, after the state pool clamped it."""
    max_running_requests_asked: int | None = None
    context_declared: int | None = None
    context_usable: int | None = None
    """Longest input that the server takes, in tokens."""
    kv_tokens: int | None = None
    """KV pool of one replica."""
    mamba_slots: int | None = None
    """State slots of one replica."""
    replicas: int = 1
    """Data-parallel ones. Their pools may be unlike; one is told."""
    accept_length: float | None = None
    """Since the engine's start (SGLang keeps this average)."""
    draft_tokens: int | None = None
    speculative: bool | None = None
    decode_log_interval: int | None = None
    vision: bool | None = None
    """Whether the server takes pictures; ``None`` = not said."""


def read_server_info(body: bytes) -> ServerLimits:
    """Read SGLang's ``/server_info``; whatever is missing or of another type stays unknown."""
    document = _object(body)
    states = [s for s in _list(document.get("internal_states")) if isinstance(s, dict)]
    per_replica = [_whole(s.get("effective_max_running_requests_per_dp")) for s in states]
    effective = None
    replicas = _whole(document.get("dp_size")) or 1
    if per_replica and all(n is not None for n in per_replica):
        effective = sum(cast("list[int]", per_replica))
        # One state is reported for all replicas in some versions.
        if len(per_replica) == 1 and replicas > 1:
            effective *= replicas
    first: Mapping[str, Any] = states[0] if states else {}
    slots = _whole(first.get("max_mamba_cache_size"))
    algorithm = document.get("speculative_algorithm", first.get("speculative_algorithm"))
    known_algorithm = "speculative_algorithm" in document or "speculative_algorithm" in first
    return ServerLimits(
        version=_text(document.get("version")),
        model=_text(document.get("served_model_name")) or _text(document.get("model_path")),
        max_running_requests=effective,
        max_running_requests_asked=_whole(document.get("max_running_requests")),
        context_declared=_whole(document.get("context_length")),
        context_usable=_whole(document.get("max_req_input_len")),
        kv_tokens=_whole(document.get("max_total_num_tokens")),
        mamba_slots=_whole(document.get("max_mamba_cache_size")) if slots is None else slots,
        replicas=replicas,
        accept_length=_number(first.get("avg_spec_accept_length")),
        draft_tokens=_whole(document.get("speculative_num_draft_tokens")),
        speculative=algorithm is not None if known_algorithm else None,
        decode_log_interval=_whole(document.get("decode_log_interval")),
    )


def read_models(body: bytes) -> tuple[str | None, int | None]:
    """Read ``/v1/models``: the first model's name and its ``max_model_len``."""
    data = _list(_object(body).get("data"))
    first = data[0] if data and isinstance(data[0], dict) else {}
    return _text(first.get("id")), _whole(first.get("max_model_len"))


def read_version(body: bytes) -> str | None:
    """Read vLLM's ``/version``."""
    return _text(_object(body).get("version"))


def _object(body: bytes) -> dict[str, Any]:
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _whole(value: object) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**53:
        return None
    return value


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value < 1e12 else None


def _text(value: object) -> str | None:
    return clean(value)[:200] if isinstance(value, str) and value else None
