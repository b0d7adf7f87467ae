"""What ``qwen-tui status`` says: the server, its limits, live figures and GPUs, in one document."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from qwen_tui.services.gpu import GpuSampler
from qwen_tui.services.instants import instant
from qwen_tui.services.limits import context_usable, max_running_requests
from qwen_tui.services.live import LiveContext, MetricPoller
from qwen_tui.services.state import ServerState

if TYPE_CHECKING:
    from qwen_tui.services.snapshots import GpuSnapshot, LiveSnapshot, ServerSnapshot
    from qwen_tui.services.supervisor import ServerSupervisor

__all__ = ["STATUS_SCHEMA", "Status", "read_status"]

STATUS_SCHEMA = "qwen-tui.status/1"
_NVML_S = 3.0


@dataclass(frozen=True, slots=True, eq=False)
class Status:
    """One look at everything."""

    server: ServerSnapshot
    live: LiveSnapshot | None
    """``None`` unless the server runs."""
    gpus: tuple[GpuSnapshot, ...] | None
    """``None`` when NVML cannot be asked."""
    predicted_kv_tokens: int | None = None
    front: dict[str, Any] | None = None
    """Address and counters of the hold-and-forward endpoint; ``None`` = there is none."""

    def as_json(self) -> dict[str, Any]:
        """Return the ``qwen-tui.status/1`` document, in English."""
        server = self.server
        report = server.report
        facts = {} if report is None else report.facts
        fatal = None if report is None else report.fatal
        kv_tokens = _integer(facts.get("kv_tokens"))
        return {
            "schema": STATUS_SCHEMA,
            "state": server.state.value,
            "phase": server.phase,
            "ready": server.ready,
            "profile": server.profile,
            "engine": server.engine,
            "engine_version": server.engine_version,
            "simulated": server.simulated,
            "attached": server.attached,
            "pid": server.pid,
            "started": instant(server.started),
            "url": server.url,
            "log": None if server.log_path is None else str(server.log_path),
            "message": None if server.message is None else str(server.message),
            "fatal": None if fatal is None else fatal.as_json(),
            "acknowledged": server.acknowledged,
            "asked_got": None if report is None else [c.as_json() for c in report.clamps],
            "facts": None if report is None else dict(facts),
            "limits": {
                "context_usable": self._context_usable(),
                "max_running_requests": self._max_running(),
            },
            "live": None if self.live is None else _live(self.live),
            "gpu": None if self.gpus is None else [_gpu(g) for g in self.gpus],
            "prediction": {
                "kv_tokens": self.predicted_kv_tokens,
                "error_pct": _error_pct(self.predicted_kv_tokens, kv_tokens),
            },
            "front": self.front,
        }

    def _context_usable(self) -> int | None:
        if self.live is not None and self.live.context_usable is not None:
            return self.live.context_usable
        return context_usable(self.server.report)

    def _max_running(self) -> int | None:
        if self.live is not None and self.live.max_running_requests is not None:
            return self.live.max_running_requests
        return max_running_requests(self.server.report)


async def read_status(supervisor: ServerSupervisor, *, sample_s: float = 0.0) -> Status:
    """Look at everything once.

    Args:
        supervisor: Of the state folder to look at.
        sample_s: With more than 0, live figures are taken twice this far apart, which gives the
            rates that one look cannot give.

    Raises:
        ConfigError: the state folder cannot be read.
    """
    server = await supervisor.settle()
    live = None
    if server.state in {ServerState.RUNNING, ServerState.UNREACHABLE} and server.url is not None:
        limit = None if server.report is None else server.report.requests_a_replica
        context = LiveContext(requests_a_replica=limit)
        poller = MetricPoller(server.url, supervisor.api_key(), context=lambda: context)
        live = await poller.poll()
        if sample_s > 0 and live.stale_s is None:
            await asyncio.sleep(sample_s)
            live = await poller.poll()
    record = supervisor.record
    predicted = None if record is None else _integer(record.prediction.get("kv_tokens"))
    gpus = await read_gpus(server.pid)
    return Status(server, live, gpus, predicted, await _front(supervisor))


async def _front(supervisor: ServerSupervisor) -> dict[str, Any] | None:
    info = supervisor.front.find()
    if info is None:
        return None
    counters = await supervisor.front.counters() or {}
    counters.pop("schema", None)
    return {"url": info.url, "pid": info.pid, "hold_s": info.hold_s, **counters}


async def read_gpus(server_pid: int | None) -> tuple[GpuSnapshot, ...] | None:
    """Return the GPUs; ``None`` when NVML cannot be asked or does not answer."""
    sampler = GpuSampler(server_pid=lambda: server_pid, timeout_s=_NVML_S)
    try:
        gpus = await sampler.sample()
    except TimeoutError:
        return None
    finally:
        sampler.close()
    return None if sampler.error is not None else gpus


def _live(live: LiveSnapshot) -> dict[str, Any]:
    ttft = live.ttft
    return {
        "ttft_ms": None
        if ttft is None
        else {"p50": ttft.p50_ms, "p95": ttft.p95_ms, "window_s": ttft.window_s, "n": ttft.n},
        # Only a request of our own can tell when the first visible token came.
        "ttfo_ms": None,
        "accept_length": live.accept_length,
        "cache_hit_rate": live.cache_hit_rate,
        "decode_tok_s": live.decode_tok_s,
        "queue": live.queue,
        "running": live.running,
        "kv_used": live.kv_used,
        "mamba_used": live.mamba_used,
        "bound_by": None if live.bound_by is None else str(live.bound_by),
        "source": live.source,
        "stale_s": live.stale_s,
        "window_s": live.window_s,
        "error": None if live.error is None else str(live.error),
    }


def _gpu(gpu: GpuSnapshot) -> dict[str, Any]:
    return {
        "index": gpu.index,
        "name": gpu.name,
        "memory_total_bytes": gpu.memory_total_bytes,
        "memory_used_bytes": gpu.memory_used_bytes,
        "memory_ours_bytes": gpu.memory_ours_bytes,
        "utilisation": gpu.utilisation,
        "power_w": gpu.power_w,
        "power_limit_w": gpu.power_limit_w,
        "temperature_c": gpu.temperature_c,
        "throttle": None if gpu.throttle is None else str(gpu.throttle),
    }


def _integer(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _error_pct(predicted: int | None, measured: int | None) -> float | None:
    if predicted is None or not measured:
        return None
    return round(100 * (predicted - measured) / measured, 3)
