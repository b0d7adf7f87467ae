"""From readings and windows to the snapshot that people see."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from qwen_tui.services.live.alarms import AlarmBoard
from qwen_tui.services.live.bound import find_bound
from qwen_tui.services.live.catalogue import FRONTS
from qwen_tui.services.live.evidence import Evidence
from qwen_tui.services.live.measures import live_window, requests_begun
from qwen_tui.services.live.windows import WINDOWS_S
from qwen_tui.services.snapshots import LiveSnapshot, LiveWindow, ReplicaSnapshot
from qwen_tui_profiles.errors import InputError
from qwen_tui_profiles.text import t
from qwen_tui_profiles.versions import Version

if TYPE_CHECKING:
    from collections.abc import Iterator

    from qwen_tui.services.live.context import LiveContext
    from qwen_tui.services.live.normalise import Reading
    from qwen_tui.services.live.serverinfo import ServerLimits
    from qwen_tui.services.live.windows import History, Window
    from qwen_tui.services.snapshots import ProbeResult
    from qwen_tui_profiles.text import Text

__all__ = ["FigureMaker"]

_SPEED, _MAIN = 0, 1
"""Places in ``windows``: 10 s for speeds (a minute would hide a slow-down), 1 min for rates."""
_PEAKS = ("decode_tok_s", "prefill_tok_s", "running", "queue", "kv_used", "mamba_used")
_LEAST_TOKENS_FOR_PEAK = 30
_VLLM_DRAFTS = ("verify_steps", "drafted")
_TTFT_RIGHT_SINCE = Version.parse("0.5.23")
"""First SGLang known to time requests that do not stream right (see the catalogue)."""


@dataclass(slots=True)
class FigureMaker:
    """Makes snapshots; remembers only what outlives one: peaks and alarms."""

    _peaks: dict[str, float] = field(default_factory=dict)
    _alarms: AlarmBoard = field(default_factory=AlarmBoard)
    _idle: Window | None = None
    """Totals at the last scrape at which nothing ran."""

    def forget(self) -> None:
        """Start again: the engine restarted."""
        self._peaks = {}
        self._alarms = AlarmBoard()
        self._idle = None

    def note_probe(self, result: ProbeResult, at: float) -> None:
        """Take a probe's accept length into the alarms."""
        self._alarms.note_probe(result, at)

    def snapshot(
        self,
        reading: Reading,
        history: History,
        limits: ServerLimits,
        context: LiveContext,
        *,
        at: float,
        windowed: bool = True,
    ) -> LiveSnapshot:
        """Return everything known after one scrape.

        Args:
            reading: The scrape.
            history: What came before it.
            limits: What the server says of itself.
            context: What others know (GPUs, clamps).
            at: Unix time of the scrape.
            windowed: False = a single look without a past: rates are those since the start.
        """
        gauges = reading.gauges
        steps = _draft_steps(reading)
        drafts = _draft_tokens(reading, limits, steps)
        ttft_key, note = _ttft_key(reading, history, limits)
        raw = [history.window(s) for s in WINDOWS_S]
        start = history.since_start()
        windows = tuple(
            LiveWindow(0.0)
            if w is None
            else live_window(w, reading.engine, draft_tokens=drafts, ttft_key=ttft_key)
            for w in (*raw, start)
        )
        main = windows[_MAIN] if windowed or raw[_MAIN] is not None else windows[-1]
        speed = windows[_SPEED]
        running, queue = _requests(reading, raw[_SPEED], history)
        kv_tokens, kv_used_tokens = (
            _whole(gauges.get("kv_tokens")),
            _whole(gauges.get("kv_used_tokens")),
        )
        slots = _mamba_slots(reading, limits)
        accept, accept_share = _accept(reading, limits, main, raw[_SPEED], drafts)
        snapshot = LiveSnapshot(
            at=at,
            source=reading.engine,
            running=running,
            queue=queue,
            kv_used=_kv_used(reading, kv_used_tokens, kv_tokens),
            kv_used_tokens=kv_used_tokens,
            kv_tokens=_kv_tokens(reading, limits),
            mamba_used=gauges.get("mamba_used") if slots else None,
            mamba_used_slots=_whole(gauges.get("mamba_used_slots")) if slots else None,
            mamba_slots=slots,
            decode_tok_s=None if running == 0 else speed.decode_tok_s,
            prefill_tok_s=main.prefill_tok_s,
            accept_length=accept,
            draft_tokens=drafts,
            cache_hit_rate=main.cache_hit_rate,
            window_s=main.window_s,
            ttft=main.ttft,
            max_running_requests=_request_limit(reading, limits, context),
            context_usable=_context_usable(reading, limits),
            windows=windows,
            kv_evictable_tokens=_whole(gauges.get("kv_evictable_tokens")),
            mamba_evictable_slots=_whole(gauges.get("mamba_evictable_slots")) if slots else None,
            hicache_used_tokens=_whole(gauges.get("hicache_used_tokens")),
            hicache_tokens=_whole(gauges.get("hicache_tokens")) or None,
            draft_steps=steps if drafts else None,
            accept_rate=accept_share,
            energy_j_per_1k=main.energy_j_per_1k,
            models=reading.models or ((limits.model,) if limits.model else ()),
            engine_version=limits.version,
            replicas=_replica_list(reading),
            boots=history.boots,
            notes=tuple(_notes(history, note)),
        )
        evidence = Evidence(
            snapshot,
            reading,
            limits,
            context,
            raw[_SPEED],
            raw[_MAIN],
            raw[_MAIN + 1],
            self._alone(snapshot, start),
        )
        bound = find_bound(evidence)
        self._note_peaks(snapshot, raw[_SPEED])
        return replace(
            snapshot,
            bound=bound,
            bound_by=None if bound is None else bound.text,
            alarms=self._alarms.update(evidence),
            peaks=MappingProxyType(dict(self._peaks)),
        )

    def _alone(self, snapshot: LiveSnapshot, start: Window | None) -> float | None:
        """Return the length in tokens of the one request that runs on a vLLM, where that is known.

        It began after a scrape at which nothing ran, no other began since, and none ended.
        """
        if snapshot.source != "vllm" or start is None:
            return None
        if snapshot.running == 0 and snapshot.queue == 0:
            self._idle = start
        before = self._idle
        if (
            snapshot.running != 1
            or before is None
            or requests_begun(start) - requests_begun(before) != 1
        ):
            return None

        def grown(key: str) -> float:
            return (start.get(key) or 0.0) - (before.get(key) or 0.0)

        return None if grown("requests") else grown("prompt_tokens") + grown("decoded")

    def _note_peaks(self, snapshot: LiveSnapshot, speed: Window | None) -> None:
        for name in _PEAKS:
            value = getattr(snapshot, name)
            if value is None:
                continue
            if name == "decode_tok_s" and (
                speed is None or (speed.get("busy_tokens") or 0) < _LEAST_TOKENS_FOR_PEAK
            ):
                continue  # a handful of tokens is no speed to remember
            self._peaks[name] = max(self._peaks.get(name, value), value)


def _ttft_key(reading: Reading, history: History, limits: ServerLimits) -> tuple[str, Text | None]:
    """Choose the samples of TTFT that can be trusted, and say what was left out."""
    start = history.since_start()
    if reading.engine != "sglang" or start is None:
        return "ttft", None
    whole = start.distributions.get("ttft_whole")
    if whole is None or whole.counts[-1] <= 0:
        return "ttft", None
    version = _version(limits.version)
    if version is not None and version >= _TTFT_RIGHT_SINCE:
        return "ttft", None
    return "ttft_streaming", t(
        "TTFT counts streaming requests only: SGLang before 0.5.23 times the others at about "
        "their 50th token."
    )


def _notes(history: History, about_ttft: Text | None) -> Iterator[Text]:
    if history.several:
        yield t(
            "Several engines answer at this address in turn, so there are no rates: "
            "watch each at its own, or their router."
        )
    if about_ttft is not None:
        yield about_ttft


def _version(text: str | None) -> Version | None:
    try:
        return None if text is None else Version.parse(text)
    except InputError:
        return None


def _accept(
    reading: Reading,
    limits: ServerLimits,
    main: LiveWindow,
    speed: Window | None,
    drafts: int | None,
) -> tuple[float | None, float | None]:
    """Return accept length and rate: from counters, else the engine's interval if it is fresh."""
    if main.accept_length is not None:
        return main.accept_length, main.accept_rate
    if reading.engine != "sglang" or drafts is None or speed is None:
        return None, None
    # The gauge keeps its last value when nothing decodes.
    last = reading.gauges.get("accept_length_last")
    if not last or last < 1 or not speed.get("decoded"):
        return None, None
    return last, min(1.0, (last - 1) / (drafts - 1)) if drafts > 1 else None


def _draft_steps(reading: Reading) -> int | None:
    """Return how many tokens are drafted one after the other; ``None`` without speculation."""
    if reading.engine != "vllm":
        return _whole(reading.gauges.get("draft_steps")) or None
    drafts, drafted = (sum(reading.counters.get(k, {}).values()) for k in _VLLM_DRAFTS)
    # A draft near the end of a request is shorter, so the mean lies a little below.
    return round(drafted / drafts) or None if drafts > 0 else None


def _draft_tokens(reading: Reading, limits: ServerLimits, steps: int | None) -> int | None:
    """Return the draft tokens a step as SGLang counts them; ``None`` without speculation."""
    if reading.engine == "vllm":
        return None if steps is None else steps + 1  # SGLang counts the bonus token too
    gauge = _whole(reading.gauges.get("draft_tokens"))
    if limits.speculative is False:
        return None
    if limits.speculative is None and not gauge and not reading.gauges.get("accept_length_last"):
        return None
    return gauge or limits.draft_tokens or None


def _requests(
    reading: Reading, speed: Window | None, history: History
) -> tuple[int | None, int | None]:
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


def _replica_list(reading: Reading) -> tuple[ReplicaSnapshot, ...]:
    """Return the replicas when there is more than one, or when a router names its only one."""
    named = any(reading.replicas) and reading.engine in FRONTS
    if len(reading.replicas) <= 1 and not named:
        return ()
    return tuple(
        ReplicaSnapshot(
            rank,
            _whole(gauges.get("running")),
            _whole(gauges.get("queue")),
            gauges.get("kv_used"),
            None if (healthy := gauges.get("healthy")) is None else healthy > 0,
        )
        for rank, gauges in sorted(reading.replicas.items())
    )


def _kv_tokens(reading: Reading, limits: ServerLimits) -> int | None:
    found = _whole(reading.gauges.get("kv_tokens"))
    if found is None and _with_figures(reading) == 1:
        return limits.kv_tokens  # of several replicas, whose pools may be unlike, it is the first's
    return found


def _kv_used(reading: Reading, used: int | None, total: int | None) -> float | None:
    share = reading.gauges.get("kv_used")
    # Of several replicas the fullest counts: that the others have room does not help it.
    if used is not None and total and (share is None or _with_figures(reading) == 1):
        return min(1.0, used / total)
    if share is None:
        share = reading.gauges.get("pool_used_max")
    return None if share is None else min(1.0, max(0.0, share))


def _mamba_slots(reading: Reading, limits: ServerLimits) -> int | None:
    """Return all state slots; ``None`` for a model without recurrent state."""
    if limits.mamba_slots:
        return limits.mamba_slots * _with_figures(reading)
    # Used, free and evictable slots make up the pool.
    names = ("mamba_used_slots", "mamba_free_slots", "mamba_evictable_slots")
    known = [p for name in names if (p := reading.gauges.get(name)) is not None]
    return round(sum(known)) or None if len(known) == len(names) else None


def _context_usable(reading: Reading, limits: ServerLimits) -> int | None:
    if limits.context_usable is not None:
        return limits.context_usable
    context, pool = reading.gauges.get("context_len"), reading.gauges.get("kv_tokens")
    if not context or not pool:
        return None
    # SGLang keeps 6 tokens back: max_req_input_len = min(context_len, pool of a replica) - 6.
    return max(0, int(min(context, pool / _with_figures(reading))) - 6)


def _with_figures(reading: Reading) -> int:
    """Return how many replicas the sums are of: a worker that is down has only its health."""
    return max(1, sum(1 for gauges in reading.replicas.values() if gauges.keys() - {"healthy"}))


def _request_limit(reading: Reading, limits: ServerLimits, context: LiveContext) -> int | None:
    """Return how many requests may run at once; of vLLM only the boot's log tells."""
    known = context.requests_a_replica
    if reading.engine != "vllm" or known is None:
        return limits.max_running_requests
    return known * max(1, len(reading.replicas))


def _whole(value: float | None) -> int | None:
    return None if value is None else round(value)
