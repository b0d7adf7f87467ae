"""Routers and gateways that show no figures where they were asked: what they are, where those are.

SGLang's routers (sglang-router, SMG) have them on a port of their own; LiteLLM has none until its
Prometheus callback is switched on. Read off sglang-router 0.3.2, SMG 1.13.0 and LiteLLM 1.108.7.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from qwen_tui.services.live.answer import FetchError
from qwen_tui.services.live.catalogue import FRONTS
from qwen_tui.services.snapshots import ReplicaSnapshot
from qwen_tui_profiles.foreign import clean
from qwen_tui_profiles.text import Text, t

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from qwen_tui.services.live.http1 import Answer
    from qwen_tui.services.live.normalise import Reading
    from qwen_tui.services.snapshots import LatencySummary, LiveSnapshot

    Ask = Callable[[str], Awaitable[Answer]]

__all__ = [
    "ROUTED",
    "Front",
    "FrontWatch",
    "find_front",
    "front_words",
    "is_litellm",
    "with_workers",
    "workers_note",
]

ROUTED = "/engine_metrics"
"""Where SGLang's routers show the metrics of all their workers, by ``worker_addr``."""
_MOST_WORKERS = 256


@dataclass(frozen=True, slots=True)
class Front:
    """What answers instead of an engine."""

    source: str
    text: Text
    """What it is, and where its figures are."""
    workers: tuple[ReplicaSnapshot, ...] = ()


@dataclass(slots=True)
class FrontWatch:
    """Knows what stands at one address; asks seldom."""

    ask: Ask
    again_s: float
    """How long an answer holds; a router's workers are asked for at every look."""
    workers_s: float
    """How often the workers behind figures are asked for."""
    _front: Front | None = None
    _asked_at: float | None = None
    _workers: tuple[ReplicaSnapshot, ...] = ()
    _workers_at: float | None = None

    async def look(self, now: float) -> Front | None:
        """Return what stands there at ``now`` (monotonic seconds).

        Raises:
            FetchError: no answer.
        """
        known = self._asked_at is not None and now - self._asked_at < self.again_s
        if not known or (self._front is not None and self._front.source == "smg"):
            self._front = await find_front(self.ask)
            self._asked_at = now
        return self._front

    async def workers(self, now: float) -> tuple[ReplicaSnapshot, ...]:
        """Return a router's workers; none when it does not tell."""
        if self._workers_at is None or now - self._workers_at >= self.workers_s:
            self._workers_at = now
            try:
                answer = await self.ask("/workers")
            except FetchError:
                return ()
            found = _workers(answer.body) if answer.status == 200 else None
            self._workers = found or ()
        return self._workers


def with_workers(reading: Reading, workers: tuple[ReplicaSnapshot, ...]) -> Reading:
    """Add to the figures of a router's workers which of them are healthy.

    A worker that is down exports nothing, so that without this it would just be missing.
    """
    replicas = {rank: dict(gauges) for rank, gauges in reading.replicas.items()}
    for worker in workers:
        if worker.healthy is None:
            continue
        ranks = [r for r in replicas if r == worker.rank or r.startswith(f"{worker.rank} ")]
        for rank in ranks or [worker.rank]:
            replicas.setdefault(rank, {})["healthy"] = float(worker.healthy)
    return replace(reading, replicas=replicas) if workers else reading


def workers_note(live: LiveSnapshot) -> Text:
    """Say whose figures a router passes on."""
    everyone = {r.worker for r in live.replicas}
    down = {r.worker for r in live.replicas if r.healthy is False}
    return t(
        "A router answers here: these are the figures of {n} of its {all} workers together. Its "
        "own are at its --prometheus-port (29000 unless set otherwise).",
        n=len(everyone) - len(down) or 1,
        all=len(everyone) or 1,
    )


def is_litellm(body: bytes) -> bool:
    """Tell LiteLLM by its refusal of ``/metrics``, which names the setting behind it."""
    return b"litellm_settings" in body[:4096]


def front_words(live: LiveSnapshot) -> Text | None:
    """Say in a line what a router or gateway does; ``None`` = it is an engine."""
    if live.source not in FRONTS:
        return None
    window = next((w for w in live.windows if w.window_s == live.window_s), None)
    requests = None if window is None else window.requests
    when = _when(live.window_s)
    if live.source == "litellm":
        return t(
            "LiteLLM: {running} in flight; {when} {requests} ended, in queue p50 {queued} ms, adds "
            "p50 {added} ms, TTFT p50 {p50} p95 {p95} ms",
            running=_figure(live.running, "d"),
            when=when,
            requests=_figure(requests, ",d"),
            queued=_p50(None if window is None else window.queue_time),
            added=_p50(None if window is None else window.overhead),
            p50=_p50(live.ttft),
            p95=_figure(None if live.ttft is None else live.ttft.p95_ms, ",.0f"),
        )
    told = [w.healthy for w in live.replicas if w.healthy is not None]
    return t(
        "router: {healthy} of {n} workers healthy, {running} in flight; {when} {requests} requests "
        "taken",
        healthy=_figure(sum(told) if told else None, "d"),
        n=_figure(len(live.replicas) or None, "d"),
        running=_figure(live.running, "d"),
        when=when,
        requests=_figure(requests, ",d"),
    )


def _when(window_s: float | None) -> Text:
    """Say of which time a figure is."""
    if window_s is None:
        return t("since its start")
    if not window_s:
        return t("so far")  # the first look of a watch: nothing to subtract from
    return t("in the last {seconds} s", seconds=f"{window_s:.0f}")


def _p50(summary: LatencySummary | None) -> str:
    return _figure(None if summary is None else summary.p50_ms, ",.1f")


def _figure(value: float | None, form: str) -> str:
    return "—" if value is None else format(value, form)


async def find_front(ask: Ask) -> Front | None:
    """Find out what stands at an address without metrics; ``None`` = no router or gateway we know.

    Args:
        ask: Fetches one path; nothing that it is given costs the peer a token.

    Raises:
        FetchError: no answer.
    """
    answer = await ask("/workers")
    workers = _workers(answer.body) if answer.status == 200 else None
    if workers is not None:
        return Front("smg", _router_text(workers), workers)
    if answer.status in {401, 403} and (await ask(ROUTED)).status == 500:
        return Front(
            "smg",
            t(
                "A router of SGLang whose workers show no metrics. Its own figures are at its "
                "--prometheus-port (29000 unless set otherwise); what its workers are, it tells "
                "only with an API key."
            ),
        )
    answer = await ask("/health/liveliness")  # costs nothing, unlike an engine's /health
    if answer.status == 200 and b"I'm alive!" in answer.body[:64]:
        return Front(
            "litellm",
            t(
                "LiteLLM without figures: write callbacks: [prometheus] under litellm_settings in "
                "its configuration (it needs prometheus_client)."
            ),
        )
    return None


def _router_text(workers: tuple[ReplicaSnapshot, ...]) -> Text:
    if not workers:
        return t("A router of SGLang without a worker.")
    told = [w.healthy for w in workers if w.healthy is not None]
    if len(told) == len(workers) and not any(told):
        return t("A router of SGLang, none of whose {n} workers is healthy.", n=len(workers))
    return t(
        "A router of SGLang, {healthy} of {n} workers healthy; no metrics of theirs came through "
        "it. They need --enable-metrics. The router's own figures are at its --prometheus-port "
        "(29000 unless set otherwise).",
        healthy=_figure(sum(told) if told else None, "d"),
        n=len(workers),
    )


def _workers(body: bytes) -> tuple[ReplicaSnapshot, ...] | None:
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        return None
    rows = document.get("workers") if isinstance(document, dict) else None
    if not isinstance(rows, list) or "total" not in document:
        return None
    return tuple(_worker(row) for row in rows[:_MOST_WORKERS] if isinstance(row, dict))


def _worker(row: dict[str, Any]) -> ReplicaSnapshot:
    healthy = row.get("is_healthy")
    return ReplicaSnapshot(
        clean(str(row.get("url", "—")))[:80],
        None,  # its "load" is the router's own count, and not kept up by every policy
        None,
        None,
        healthy if isinstance(healthy, bool) else None,
    )
