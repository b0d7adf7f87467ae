"""Speculation and cache figures of one request from the server's counters, where it tells no other.

SGLang counts them when a request ends. Exactly one request ended between two scrapes: ours; then
the differences are those of our request. With any other traffic they are not used.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from qwen_tui.services.live.exposition import ExpositionParser
from qwen_tui.services.live.http1 import FetchError, get
from qwen_tui.services.live.normalise import normalise, wanted_names
from qwen_tui.services.probe.served import bearer

if TYPE_CHECKING:
    from qwen_tui.services.live.http1 import Target
    from qwen_tui.services.probe.reading import StreamFigures

__all__ = ["CounterMark", "fill_from_counters", "take_mark"]

_KEYS = ("requests", "output_tokens", "verify_steps", "cached_tokens", "prompt_tokens")
_TRIES, _PAUSE_S = 5, 0.1


@dataclass(frozen=True, slots=True)
class CounterMark:
    """Totals of the counters that move when a request ends."""

    totals: dict[str, float]


async def take_mark(target: Target, api_key: str | None) -> CounterMark | None:
    """Scrape once; ``None`` when the server exports no such counters."""
    try:
        answer = await get(
            target,
            "/metrics",
            timeout_s=3.0,
            limit_bytes=4 * 1024 * 1024,
            headers=bearer(api_key),  # the engine wants none, a proxy in front may
        )
    except FetchError:
        return None
    if answer.status != 200:
        return None
    wanted = wanted_names()
    parsed = ExpositionParser(wanted.__contains__).parse(answer.body.decode("utf-8", "replace"))
    reading = normalise(parsed)
    if reading.engine != "sglang":
        return None
    return CounterMark({key: sum(reading.counters.get(key, {}).values()) for key in _KEYS})


async def fill_from_counters(
    target: Target, before: CounterMark | None, figures: StreamFigures, api_key: str | None
) -> None:
    """Fill in accept length and cached tokens if exactly our request ended since ``before``."""
    if before is None or figures.tokens is None:
        return
    if figures.accept_length is not None and figures.cached_tokens is not None:
        return
    for _ in range(_TRIES):
        after = await take_mark(target, api_key)
        if after is None:
            return
        grown = {key: after.totals[key] - before.totals[key] for key in _KEYS}
        if grown["requests"] == 0:
            await asyncio.sleep(_PAUSE_S)  # counted a moment after the last chunk
            continue
        ours = grown["requests"] == 1 and grown["output_tokens"] == figures.tokens
        if ours and figures.accept_length is None and grown["verify_steps"] > 0:
            figures.accept_length = max(1.0, (figures.tokens - 1) / grown["verify_steps"])
        if ours and figures.cached_tokens is None:
            figures.cached_tokens = round(grown["cached_tokens"])
        return
