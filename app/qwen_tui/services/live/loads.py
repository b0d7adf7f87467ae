"""SGLang's ``/v1/loads``: the scheduler's own prefill clock, which ``/metrics`` lacks.

``total_prefill_uncached_tokens`` ÷ ``total_prefill_busy_us`` (seen from 0.5.17) is what prefill
speed should be: computed tokens over the time in which the scheduler ran prefill.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

__all__ = ["PrefillClock", "read_prefill_clock"]


@dataclass(frozen=True, slots=True)
class PrefillClock:
    """Totals since the engine's start, over all replicas."""

    tokens: float
    seconds: float


def read_prefill_clock(body: bytes) -> PrefillClock | None:
    """Read an answer of ``/v1/loads``; ``None`` when it has no prefill clock."""
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        return None
    loads = document.get("loads") if isinstance(document, dict) else None
    if not isinstance(loads, list) or not loads:
        return None
    tokens = seconds = 0.0
    for load in loads:
        count = _number(load, "total_prefill_uncached_tokens")
        busy_us = _number(load, "total_prefill_busy_us")
        if count is None or busy_us is None:
            return None
        tokens += count
        seconds += busy_us / 1e6
    return PrefillClock(tokens, seconds)


def _number(load: Any, key: str) -> float | None:
    value = load.get(key) if isinstance(load, dict) else None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 2**63:
        return None
    return float(value)
