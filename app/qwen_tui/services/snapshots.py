"""The frozen snapshots that services yield and the console shows. ``None`` always means unknown.

They compare by identity (``eq=False``), so assigning one to a reactive never compares big data.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING

from qwen_tui.services.state import ServerState

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from qwen_tui_diagnostics.enginelog import LogReport
    from qwen_tui_profiles.findings import Severity
    from qwen_tui_profiles.text import Text

__all__ = [
    "Alarm",
    "Bound",
    "GpuSnapshot",
    "LatencySummary",
    "LiveSnapshot",
    "LiveWindow",
    "ProbeResult",
    "ReplicaSnapshot",
    "ServerSnapshot",
    "ServerState",
]


@dataclass(frozen=True, slots=True, eq=False)
class ServerSnapshot:
    """What is known of the server at one moment."""

    state: ServerState
    phase: str | None = None
    """Boot phase of design §4 (``load_weights``, ``kv_pool``, …)."""
    ready: bool = False
    """Whether one token was generated since the boot."""
    eta_s: float | None = None
    """Seconds to the first token as earlier boots of the profile suggest; ``None`` = none yet."""
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
    acknowledged: bool = False
    """Whether the user has seen how it ended."""
    remedy: Text | None = None
    """What to do about how it ended."""


@dataclass(frozen=True, slots=True)
class LatencySummary:
    """Percentiles from histogram deltas over a window (linear inside a bucket)."""

    p50_ms: float | None
    p95_ms: float | None
    window_s: float | None
    """Length of the window; ``None`` = since the engine started."""
    n: int
    """Samples in the window."""
    p90_ms: float | None = None
    p99_ms: float | None = None
    mean_ms: float | None = None
    p50_bucket_ms: tuple[float, float | None] | None = None
    """The histogram bucket that p50 lies in: all that is really known; ``None`` = no upper end.

    SGLang's first TTFT bucket is 0 to 100 ms: a p50 of 50 ms there means "below 100 ms"."""
    p95_bucket_ms: tuple[float, float | None] | None = None
    p90_bucket_ms: tuple[float, float | None] | None = None
    p99_bucket_ms: tuple[float, float | None] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class LiveWindow:
    """What happened in one window. A figure without events in the window is ``None``."""

    window_s: float | None
    """Its length; ``None`` = since the engine started."""
    decode_tok_s: float | None = None
    """Generated tokens ÷ time in which tokens were generated."""
    stream_tok_s: float | None = None
    """The speed that one stream sees: tokens ÷ seconds of decoding, summed over streams."""
    prefill_tok_s: float | None = None
    """Computed (not cached) prompt tokens ÷ prefill time."""
    prompt_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    cached_host_tokens: int | None = None
    """Of the cached ones, those that HiCache brought back from host memory; ``None`` = none yet."""
    cached_storage_tokens: int | None = None
    """The same from a storage behind it."""
    cache_hit_rate: float | None = None
    accept_length: float | None = None
    """Tokens per verify step with the bonus token, pooled over requests."""
    accept_rate: float | None = None
    """Accepted ÷ drafted tokens, 0 to 1."""
    accept_at: tuple[float, ...] = ()
    """Share of verify steps that accepted position 1, 2, … (vLLM); falls monotonically."""
    verify_steps: int | None = None
    requests: int | None = None
    """Requests that ended."""
    aborted: int | None = None
    retracted: int | None = None
    """Requests thrown out of the running batch for lack of KV (vLLM: preempted)."""
    ttft: LatencySummary | None = None
    itl: LatencySummary | None = None
    """Time between tokens: per token on SGLang, per engine output on vLLM."""
    e2e: LatencySummary | None = None
    queue_time: LatencySummary | None = None
    overhead: LatencySummary | None = None
    """What a gateway says that it adds itself."""
    tpot: LatencySummary | None = None
    """Time per output token, one sample a request."""
    energy_j_per_1k: float | None = None
    """GPU energy per 1,000 generated tokens, in joules, over the time in which tokens came."""


@dataclass(frozen=True, slots=True)
class Bound:
    """What limits the server now, and what could be done about it."""

    kind: str
    """``state_slots``, ``request_limit``, ``kv_pool``, ``thermal``, ``power``, ``prefill``,
    ``scheduler_cpu``, ``decode``, ``client`` or ``idle``."""
    text: Text
    """The evidence in one line."""
    knob: Text | None = None
    """What to turn."""
    price: Text | None = None
    """What that costs, where the plan knows."""


@dataclass(frozen=True, slots=True)
class Alarm:
    """Something is wrong with how it serves; shown until it is over or acknowledged."""

    kind: str
    severity: Severity
    text: Text
    remedy: Text | None
    since: float
    """Unix time at which it was first seen."""


@dataclass(frozen=True, slots=True)
class ReplicaSnapshot:
    """One data-parallel replica or routed worker behind the same address."""

    rank: str
    """Rank (``0``) or the worker's address."""
    running: int | None
    queue: int | None
    kv_used: float | None
    healthy: bool | None = None
    """As the router in front sees it."""

    @property
    def worker(self) -> str:
        """Which worker behind a router it is in: one may run several, side by side."""
        return self.rank.partition(" ")[0]


@dataclass(frozen=True, slots=True, eq=False)
class LiveSnapshot:
    """One moment of a serving engine, from ``/metrics`` and ``/server_info``."""

    at: float
    """Unix time of the scrape."""
    source: str
    """``sglang``, ``vllm``; in front of engines ``smg``, ``sgl_router``, ``litellm``; ``other``
    (answers, but exports nothing that we know); ``unknown`` (never answered)."""
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
    window_s: float | None = 60.0
    """Window of the rates above, in seconds; ``None`` = since the engine started (a single look),
    0 = there is no past yet."""
    ttft: LatencySummary | None = None
    max_running_requests: int | None = None
    """Effective limit, as the engine reports it."""
    context_usable: int | None = None
    """Longest request that the engine would take, in tokens."""
    bound_by: Text | None = None
    """One line: what limits the server now. ``bound`` has the parts."""
    bound: Bound | None = None
    alarms: tuple[Alarm, ...] = ()
    windows: tuple[LiveWindow, ...] = ()
    """10 s, 1 min, 5 min and since the engine started, in this order; shorter while the watch is
    younger than the window."""
    peaks: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    """Largest values of this boot by field name (``decode_tok_s``, ``running``, ``queue``, …)."""
    kv_evictable_tokens: int | None = None
    """Cached tokens that give way when room is needed; not part of ``kv_used``."""
    mamba_evictable_slots: int | None = None
    hicache_used_tokens: int | None = None
    hicache_tokens: int | None = None
    draft_steps: int | None = None
    accept_rate: float | None = None
    energy_j_per_1k: float | None = None
    models: tuple[str, ...] = ()
    engine_version: str | None = None
    replicas: tuple[ReplicaSnapshot, ...] = ()
    """Filled when there is more than one."""
    boots: int = 1
    """Boots of the engine seen; a restart under our eyes clears the windows."""
    notes: tuple[Text, ...] = ()
    """Why a figure is missing or means something else than usual."""

    @property
    def minute(self) -> LiveWindow | None:
        """What happened in the last minute."""
        return self.windows[1] if len(self.windows) > 1 else None

    @property
    def five_minutes(self) -> LiveWindow | None:
        """What happened in the last five minutes: for what seldom happens."""
        return self.windows[2] if len(self.windows) > 2 else None


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
    clock_sm_mhz: int | None = None
    clock_sm_max_mhz: int | None = None
    pcie_generation: int | None = None
    """Of the link now; it drops at idle, which is no fault."""
    pcie_width: int | None = None
    pcie_generation_max: int | None = None
    pcie_width_max: int | None = None
    unified: bool = False
    """CPU and GPU share one memory (GB10): the memory figures are the machine's."""
    throttle_reasons: tuple[str, ...] = ()
    """The same as ``throttle``, as stable English words (``idle`` included)."""
    temperature_slowdown_c: float | None = None


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
    outcome: str = "ok"
    """How it ended, for machines: ``ok``, ``empty``, ``only_reasoning``, ``wrong_answer``,
    ``refused``, ``error_in_stream``, ``no_done``, ``cut``, ``timeout``, ``no_stream``,
    ``no_answer``, ``not_applicable``; of a boundary probe also ``too_small`` (less fits than
    said), ``not_refused`` (more was taken) and ``unhealthy`` (afterwards)."""
    detail: Text | None = None
    """What was found besides times: the boundary, the picture's answer."""
    chunks: int | None = None
    """Chunks that carried tokens; with speculation fewer than tokens."""
    chunk_gap_p50_ms: float | None = None
    """Time between two chunks; with several tokens a chunk this is not the time per token."""
    chunk_gap_p95_ms: float | None = None
    chunk_gap_max_ms: float | None = None
    ms_per_token: float | None = None
    """Decode time ÷ tokens after the first chunk."""
    reasoning_tokens: int | None = None
    finish_reason: str | None = None
    model: str | None = None
