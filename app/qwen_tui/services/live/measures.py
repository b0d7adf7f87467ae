"""Definitions of the figures over one window, each in one function. Unknown is ``None``.

What a figure means, in short: hit rate = cached ÷ prompt tokens; decode speed = generated tokens ÷
time in which tokens were generated; accept length = tokens per verify step, bonus token included,
pooled over requests; acceptance rate = accepted ÷ drafted tokens.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from qwen_tui.services.live.catalogue import FRONTS
from qwen_tui.services.snapshots import LiveWindow

if TYPE_CHECKING:
    from qwen_tui.services.live.windows import Window

__all__ = [
    "accept_length",
    "accept_rate",
    "decode_tok_s",
    "hit_rate",
    "live_window",
    "prefill_tok_s",
]

_LEAST_BUSY_S = 0.02
"""A shorter busy time says nothing about speed."""


def hit_rate(window: Window, engine: str) -> float | None:
    """Return cached ÷ prompt tokens, 0 to 1; ``None`` without prompts, or from what does not tell.

    SGLang counts both when a request ends; while none has ended, its live prefill counters tell
    the same of the prompts admitted so far. The engine's own gauge is the last batch: never used.
    """
    rate = None
    if engine in FRONTS:  # they count prompt tokens, and cached ones of some answers at most
        return None
    if window.get("prefix_queries") is not None:  # vLLM
        rate = window.ratio("prefix_hits", "prefix_queries")
    elif window.get("prompt_tokens"):
        # SGLang makes the counter when the first cached token comes: absent means none.
        rate = (window.get("cached_tokens") or 0.0) / (window.get("prompt_tokens") or 1.0)
    elif window.get("prefilled") is not None:
        cached = window.get("prefill_cached") or 0.0
        everything = cached + (window.get("prefilled") or 0.0)
        rate = cached / everything if everything > 0 else None
    return None if rate is None else min(1.0, max(0.0, rate))


def decode_tok_s(window: Window) -> float | None:
    """Return generated tokens ÷ time in which tokens were generated; ``None`` without tokens.

    The engine's throughput gauge keeps its last value when idle, so it is not used.
    """
    for kind in ("busy", "edge"):
        tokens, seconds = window.get(f"{kind}_tokens"), window.get(f"{kind}_s")
        if tokens and seconds and tokens > 0 and seconds >= _LEAST_BUSY_S:
            return tokens / seconds
    return None


def stream_tok_s(window: Window, engine: str) -> float | None:
    """Return the speed that one stream sees: tokens ÷ (seconds of decoding, summed over streams).

    Only where the inter-token histogram covers the tokens, which it does for streaming requests.
    """
    itl = window.distributions.get("itl")
    if itl is None or itl.sum_s is None or itl.sum_s <= 0:
        return None
    if engine == "sglang":
        return itl.counts[-1] / itl.sum_s
    # The first output of a request is no interval; the others hold the rest of its tokens.
    tokens, begun = window.get("decoded"), requests_begun(window)
    return (tokens - begun) / itl.sum_s if tokens is not None and tokens > begun else None


def requests_begun(window: Window) -> float:
    """Return how many requests had their first token in the window."""
    ttft = window.distributions.get("ttft")
    return 0.0 if ttft is None else ttft.counts[-1]


def prefill_tok_s(window: Window) -> float | None:
    """Return computed prompt tokens ÷ prefill time; ``None`` where the engine tells no time.

    Never the log's "input throughput", which divides by the time since the previous prefill.
    """
    for tokens_key, seconds_key in (
        ("prefill_busy_tokens", "prefill_busy_s"),  # the scheduler's own clock (SGLang)
        ("prefill_sample_tokens", "prefill_sample_s"),  # summed over requests
    ):
        tokens, seconds = window.get(tokens_key), window.get(seconds_key)
        if tokens and seconds and tokens > 0 and seconds > 0:
            return tokens / seconds
    return None


def accept_length(window: Window, engine: str) -> float | None:
    """Return tokens per verify step with the bonus token; ``None`` without verify steps."""
    steps = window.get("verify_steps")
    if not steps or steps <= 0:
        return None
    if engine == "vllm":
        accepted = window.get("accepted")
        return None if accepted is None else 1 + accepted / steps
    tokens = window.get("output_tokens")
    if not tokens:
        return None
    # Every request's first token comes from its prefill, not from a verify step.
    return max(1.0, (tokens - (window.get("requests") or 0.0)) / steps)


def accept_rate(window: Window, engine: str, draft_tokens: int | None) -> float | None:
    """Return accepted ÷ drafted tokens, 0 to 1.

    SGLang's draft tokens count the bonus token, so that D - 1 are drafted a step.
    """
    if engine == "vllm":
        return window.ratio("accepted", "drafted")
    length = accept_length(window, engine)
    if length is None or draft_tokens is None or draft_tokens < 2:
        return None
    return min(1.0, (length - 1) / (draft_tokens - 1))


def _accept_at(window: Window) -> tuple[float, ...]:
    steps = window.get("verify_steps")
    out: list[float] = []
    while steps and (share := window.get(f"accepted_at_{len(out)}")) is not None:
        out.append(share / steps)
    return tuple(out)


def _aborted(window: Window, engine: str) -> int | None:
    """Return aborted requests; vLLM's 0 says nothing, as those whose client went away are missing.

    Seen with 0.32.0 and in its source: the front end forgets such a request before it counts.
    """
    count = _whole(window.get("aborted"))
    return None if engine == "vllm" and not count else count


def live_window(
    window: Window, engine: str, *, draft_tokens: int | None, ttft_key: str = "ttft"
) -> LiveWindow:
    """Return every figure of one window."""
    energy, energy_tokens = window.get("energy_j"), window.get("energy_tokens")
    output = window.get("output_tokens" if engine in {"sglang", "litellm"} else "decoded")
    return LiveWindow(
        window_s=window.seconds,
        decode_tok_s=decode_tok_s(window),
        stream_tok_s=stream_tok_s(window, engine),
        prefill_tok_s=prefill_tok_s(window),
        prompt_tokens=_whole(window.get("prompt_tokens")),
        output_tokens=_whole(output),
        cached_tokens=_whole(window.get("cached_tokens" if engine == "sglang" else "prefix_hits")),
        cached_host_tokens=_whole(window.get("cached_host")),
        cached_storage_tokens=_whole(window.get("cached_storage")),
        cache_hit_rate=hit_rate(window, engine),
        accept_length=accept_length(window, engine),
        accept_rate=accept_rate(window, engine, draft_tokens),
        accept_at=_accept_at(window),
        verify_steps=_whole(window.get("verify_steps")),
        requests=_whole(window.get("requests")),
        aborted=_aborted(window, engine),
        retracted=_whole(window.get("retracted")),
        ttft=window.latency(ttft_key),
        itl=window.latency("itl"),
        e2e=window.latency("e2e"),
        queue_time=window.latency("queue_time"),
        overhead=window.latency("overhead"),
        tpot=window.latency("tpot"),
        energy_j_per_1k=energy / energy_tokens * 1000 if energy and energy_tokens else None,
    )


def _whole(value: float | None) -> int | None:
    return None if value is None else round(value)
