"""From readings and windows to the figures that people see. Every definition stands here, once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qwen_tui.services.snapshots import LiveSnapshot

if TYPE_CHECKING:
    from qwen_tui.services.live.normalise import Reading
    from qwen_tui.services.live.serverinfo import ServerLimits
    from qwen_tui.services.live.windows import History, Window

__all__ = ["FigureMaker", "accept_length", "decode_tok_s", "hit_rate"]

MAIN_WINDOW_S = 60.0
"""The window of the figures on the main screen."""
_SPEED_WINDOW_S = 10.0
"""Speeds change faster than rates: a minute would hide a slow-down."""


class FigureMaker:
    """Makes snapshots; keeps nothing but what a person asked to be remembered (peaks)."""

    def snapshot(
        self, reading: Reading, history: History, limits: ServerLimits, *, at: float
    ) -> LiveSnapshot:
        """Return everything known after one scrape."""
        gauges = reading.gauges
        main = history.window(MAIN_WINDOW_S)
        speed = history.window(_SPEED_WINDOW_S)
        kv_tokens = _whole(gauges.get("kv_tokens"))
        kv_used_tokens = _whole(gauges.get("kv_used_tokens"))
        slots = _mamba_slots(reading, limits)
        running, queue = _requests(reading, history)
        return LiveSnapshot(
            at=at,
            source=reading.engine,
            running=running,
            queue=queue,
            kv_used=_kv_used(reading, kv_used_tokens, kv_tokens),
            kv_used_tokens=kv_used_tokens,
            kv_tokens=kv_tokens if kv_tokens is not None else limits.kv_tokens,
            mamba_used=gauges.get("mamba_used") if slots else None,
            mamba_used_slots=_whole(gauges.get("mamba_used_slots")) if slots else None,
            mamba_slots=slots,
            decode_tok_s=decode_tok_s(speed, running),
            prefill_tok_s=None,
            accept_length=accept_length(reading, main, limits),
            draft_tokens=_draft_tokens(reading, limits),
            cache_hit_rate=hit_rate(main),
            window_s=_seconds(main),
            ttft=main.latency("ttft") if main is not None else None,
            max_running_requests=limits.max_running_requests,
            context_usable=_context_usable(reading, limits),
        )


def hit_rate(window: Window | None) -> float | None:
    """Return cached ÷ prompt tokens over the window, 0 to 1; None without prompts.

    SGLang counts both when a request ends; while none has ended, its live prefill counters tell
    the same of the prompts admitted so far. The engine's own gauge is the last batch: never used.
    """
    if window is None:
        return None
    rate = window.ratio("prefix_hits", "prefix_queries")  # vLLM
    if rate is None and window.get("prompt_tokens"):
        # SGLang makes the counter when the first cached token comes: absent means none.
        rate = (window.get("cached_tokens") or 0.0) / (window.get("prompt_tokens") or 1.0)
        if window.get("prefix_queries") is not None:
            rate = None  # vLLM with the cache off: nothing was asked for
    if rate is None and window.get("prefilled") is not None:
        cached = window.get("prefill_cached") or 0.0
        everything = cached + (window.get("prefilled") or 0.0)
        rate = cached / everything if everything > 0 else None
    return None if rate is None else min(1.0, max(0.0, rate))


def decode_tok_s(window: Window | None, running: int | None) -> float | None:
    """Return generated tokens ÷ time in which tokens were generated; None while nothing decodes.

    The engine's throughput gauge keeps its last value when idle, so it is not used.
    """
    if window is None or running == 0:
        return None
    for kind in ("busy", "edge"):
        tokens, seconds = window.get(f"{kind}_tokens"), window.get(f"{kind}_s")
        if tokens and seconds and tokens > 0 and seconds > 0.05:
            return tokens / seconds
    return None


def accept_length(reading: Reading, window: Window | None, limits: ServerLimits) -> float | None:
    """Return tokens per verify step with the bonus token, pooled; None without speculation.

    From counters over the window where the engine has them, else the engine's own last interval.
    """
    if window is not None:
        drafts = window.get("verify_steps")
        if reading.engine == "vllm":
            accepted = window.get("accepted")
            return 1 + accepted / drafts if drafts and accepted is not None else None
        tokens = window.get("output_tokens")
        if drafts and tokens:
            # Every request's first token comes from its prefill, not from a verify step.
            return max(1.0, (tokens - (window.get("requests") or 0.0)) / drafts)
    if reading.engine != "sglang" or not _speculates(reading, limits):
        return None
    last = reading.gauges.get("accept_length_last")
    return last if last and last >= 1 else None


def _speculates(reading: Reading, limits: ServerLimits) -> bool:
    if limits.speculative is not None:
        return limits.speculative
    return (reading.gauges.get("draft_steps") or reading.gauges.get("accept_length_last") or 0) > 0


def _draft_tokens(reading: Reading, limits: ServerLimits) -> int | None:
    if not _speculates(reading, limits):
        return None
    return limits.draft_tokens or _whole(reading.gauges.get("draft_tokens")) or None


def _requests(reading: Reading, history: History) -> tuple[int | None, int | None]:
    """Return running and queued requests; the engine's HTTP server overrules a stale gauge.

    SGLang refreshes these gauges at prefill and decode log lines only, so they can show a request
    that ended long ago. When its HTTP server holds no generation request, there is none.
    """
    running, queue = _whole(reading.gauges.get("running")), _whole(reading.gauges.get("queue"))
    if reading.http_active == 0:
        moved = history.window(0.0)
        if moved is not None and not moved.get("decoded") and not moved.get("prefilled"):
            return (None if running is None else 0, None if queue is None else 0)
    return running, queue


def _kv_used(reading: Reading, used: int | None, total: int | None) -> float | None:
    if used is not None and total:
        return min(1.0, used / total)
    share = reading.gauges.get("kv_used")
    if share is None:
        share = reading.gauges.get("pool_used_max")
    return None if share is None else min(1.0, max(0.0, share))


def _mamba_slots(reading: Reading, limits: ServerLimits) -> int | None:
    """Return all state slots; None for a model without recurrent state."""
    gauges = reading.gauges
    parts = [
        gauges.get(k) for k in ("mamba_used_slots", "mamba_free_slots", "mamba_evictable_slots")
    ]
    if all(p is not None for p in parts):
        total = sum(p for p in parts if p is not None)
        return round(total) or None
    return limits.mamba_slots


def _context_usable(reading: Reading, limits: ServerLimits) -> int | None:
    if limits.context_usable is not None:
        return limits.context_usable
    context, pool = reading.gauges.get("context_len"), reading.gauges.get("kv_tokens")
    if not context or not pool:
        return None
    # SGLang keeps 6 tokens back: max_req_input_len = min(context_len, pool of a replica) - 6.
    return max(0, int(min(context, pool / reading.replicas)) - 6)


def _seconds(window: Window | None) -> float:
    return MAIN_WINDOW_S if window is None or window.seconds is None else window.seconds


def _whole(value: float | None) -> int | None:
    return None if value is None else round(value)
