"""The frozen snapshots that services yield and the console shows. ``None`` always means unknown.

They compare by identity (``eq=False``), so assigning one to a reactive never compares big data.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from qwen_tui_diagnostics.enginelog import LogReport
    from qwen_tui_profiles.text import Text

__all__ = [
    "GpuSnapshot",
    "LatencySummary",
    "LiveSnapshot",
    "ProbeResult",
    "ServerSnapshot",
    "ServerState",
]


class ServerState(StrEnum):
    """State of the server that we launched or watch; ``phase`` and ``ready`` are separate."""

    STOPPED = "stopped"
    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    EXITED = "exited"
    """Ended by itself, without a failure that we know of."""
    FATAL = "fatal"
    """Died, or never became ready; the cause is kept until acknowledged."""
    UNREACHABLE = "unreachable"
    """A process or address that should serve and does not answer."""


@dataclass(frozen=True, slots=True, eq=False)
class ServerSnapshot:
    """What is known of the server at one moment."""

    state: ServerState
    phase: str | None = None
    """Boot phase of design §4 (``load_weights``, ``kv_pool``, …)."""
    ready: bool = False
    """Whether one token was generated since the boot."""
    profile: str | None = None
    engine: str | None = None
    """``sglang``, ``vllm`` or ``demo``."""
    engine_version: str | None = None
    simulated: bool = False
    attached: bool = False
    """We did not start it: no stop, no swap."""
    pid: int | None = None
    started: float | None = None
    """Unix time of the launch."""
    url: str | None = None
    log_path: Path | None = None
    report: LogReport | None = None
    """What the boot log says so far: asked → got, facts, timeline, cause of death."""
    message: Text | None = None
    """One sentence for the person: how it ended, what is waited for."""


@dataclass(frozen=True, slots=True)
class LatencySummary:
    """Percentiles from histogram deltas over a window (linear inside a bucket)."""

    p50_ms: float | None
    p95_ms: float | None
    window_s: float
    n: int


@dataclass(frozen=True, slots=True, eq=False)
class LiveSnapshot:
    """One moment of a serving engine, from ``/metrics`` and ``/server_info``."""

    at: float
    """Unix time of the scrape."""
    source: str
    """``sglang``, ``vllm`` or ``other`` (answers, but exports nothing that we know)."""
    stale_s: float | None = None
    """Age of the figures when the last scrape failed; ``None`` = fresh."""
    error: Text | None = None
    running: int | None = None
    queue: int | None = None
    kv_used: float | None = None
    """Share of the KV pool in use, 0 to 1."""
    kv_used_tokens: int | None = None
    kv_tokens: int | None = None
    mamba_used: float | None = None
    """Share of the state slots in use, 0 to 1."""
    mamba_used_slots: int | None = None
    mamba_slots: int | None = None
    decode_tok_s: float | None = None
    """Generated tokens ÷ busy time over the window; ``None`` while nothing decodes."""
    prefill_tok_s: float | None = None
    accept_length: float | None = None
    """Tokens per verify step with the bonus token; ``None`` without speculation."""
    draft_tokens: int | None = None
    cache_hit_rate: float | None = None
    """Δcached ÷ Δprompt over the window, 0 to 1; never the engine's last-batch gauge."""
    window_s: float = 60.0
    """Window of the rates above, in seconds."""
    ttft: LatencySummary | None = None
    max_running_requests: int | None = None
    """Effective limit, as the engine reports it."""
    context_usable: int | None = None
    """Longest request that the engine would take, in tokens."""
    bound_by: Text | None = None


@dataclass(frozen=True, slots=True, eq=False)
class GpuSnapshot:
    """One GPU at one moment, from NVML."""

    index: int
    name: str
    memory_total_bytes: int | None
    memory_used_bytes: int | None
    memory_ours_bytes: int | None
    utilisation: float | None
    """0 to 1."""
    power_w: float | None
    power_limit_w: float | None
    temperature_c: float | None
    throttle: Text | None
    """Why the clocks are lowered, in words; ``None`` = not throttled or not known."""


@dataclass(frozen=True, slots=True, eq=False)
class ProbeResult:
    """One streaming request of our own, timed at the socket."""

    ttft_ms: float | None
    """Request sent → first token of any kind."""
    ttfo_ms: float | None
    """Request sent → first visible output token (after reasoning)."""
    tokens: int | None
    """Completion tokens as the server counts them."""
    decode_tok_s: float | None
    cached_tokens: int | None
    prompt_tokens: int | None
    accept_length: float | None
    kind: str = "prose"
    error: Text | None = None
