"""The ``qwen-tui.live/1`` document of a snapshot: in English, unknown is null, never 0."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from qwen_tui.services.snapshots import (
        Alarm,
        Bound,
        GpuSnapshot,
        LatencySummary,
        LiveSnapshot,
        LiveWindow,
    )

__all__ = ["LIVE_SCHEMA", "gpu_json", "live_json"]

LIVE_SCHEMA = "qwen-tui.live/1"


def live_json(
    snapshot: LiveSnapshot, url: str | None = None, gpus: tuple[GpuSnapshot, ...] | None = None
) -> dict[str, Any]:
    """Return the document of one snapshot; ``gpus`` = None when NVML was not asked."""
    return {
        "schema": LIVE_SCHEMA,
        "url": url,
        "at": round(snapshot.at, 3),
        "source": snapshot.source,
        "engine_version": snapshot.engine_version,
        "models": list(snapshot.models),
        "stale_s": _r(snapshot.stale_s),
        "error": _text(snapshot.error),
        "running": snapshot.running,
        "queue": snapshot.queue,
        "max_running_requests": snapshot.max_running_requests,
        "context_usable": snapshot.context_usable,
        "kv_used": _r(snapshot.kv_used, 4),
        "kv_used_tokens": snapshot.kv_used_tokens,
        "kv_evictable_tokens": snapshot.kv_evictable_tokens,
        "kv_tokens": snapshot.kv_tokens,
        "mamba_used": _r(snapshot.mamba_used, 4),
        "mamba_used_slots": snapshot.mamba_used_slots,
        "mamba_evictable_slots": snapshot.mamba_evictable_slots,
        "mamba_slots": snapshot.mamba_slots,
        "hicache_used_tokens": snapshot.hicache_used_tokens,
        "hicache_tokens": snapshot.hicache_tokens,
        "decode_tok_s": _r(snapshot.decode_tok_s),
        "prefill_tok_s": _r(snapshot.prefill_tok_s),
        "cache_hit_rate": _r(snapshot.cache_hit_rate, 4),
        "accept_length": _r(snapshot.accept_length),
        "accept_rate": _r(snapshot.accept_rate, 4),
        "draft_tokens": snapshot.draft_tokens,
        "draft_steps": snapshot.draft_steps,
        "ttft_ms": _latency(snapshot.ttft),
        "window_s": _r(snapshot.window_s),
        "energy_j_per_1k": _r(snapshot.energy_j_per_1k),
        "bound_by": _text(snapshot.bound_by),
        "bound": None if snapshot.bound is None else _bound(snapshot.bound),
        "alarms": [_alarm(a) for a in snapshot.alarms],
        "peaks": {name: _r(value) for name, value in snapshot.peaks.items()},
        "windows": [_window(w) for w in snapshot.windows],
        "replicas": [
            {
                "rank": r.rank,
                "running": r.running,
                "queue": r.queue,
                "kv_used": _r(r.kv_used, 4),
                "healthy": r.healthy,
            }
            for r in snapshot.replicas
        ],
        "boots": snapshot.boots,
        "notes": [str(note) for note in snapshot.notes],
        "gpu": None if gpus is None else [gpu_json(g) for g in gpus],
    }


def _window(window: LiveWindow) -> dict[str, Any]:
    return {
        "window_s": _r(window.window_s),
        "decode_tok_s": _r(window.decode_tok_s),
        "stream_tok_s": _r(window.stream_tok_s),
        "prefill_tok_s": _r(window.prefill_tok_s),
        "prompt_tokens": window.prompt_tokens,
        "output_tokens": window.output_tokens,
        "cached_tokens": window.cached_tokens,
        "cached_host_tokens": window.cached_host_tokens,
        "cached_storage_tokens": window.cached_storage_tokens,
        "cache_hit_rate": _r(window.cache_hit_rate, 4),
        "accept_length": _r(window.accept_length),
        "accept_rate": _r(window.accept_rate, 4),
        "accept_at": [_r(share, 4) for share in window.accept_at],
        "verify_steps": window.verify_steps,
        "requests": window.requests,
        "aborted": window.aborted,
        "retracted": window.retracted,
        "ttft_ms": _latency(window.ttft),
        "itl_ms": _latency(window.itl),
        "e2e_ms": _latency(window.e2e),
        "queue_time_ms": _latency(window.queue_time),
        "overhead_ms": _latency(window.overhead),
        "tpot_ms": _latency(window.tpot),
        "energy_j_per_1k": _r(window.energy_j_per_1k),
    }


def _latency(summary: LatencySummary | None) -> dict[str, Any] | None:
    if summary is None:
        return None
    return {
        "p50": _r(summary.p50_ms),
        "p90": _r(summary.p90_ms),
        "p95": _r(summary.p95_ms),
        "p99": _r(summary.p99_ms),
        "mean": _r(summary.mean_ms),
        "p50_bucket": _bucket(summary.p50_bucket_ms),
        "p95_bucket": _bucket(summary.p95_bucket_ms),
        "n": summary.n,
        "window_s": _r(summary.window_s),
    }


def _bucket(bucket: tuple[float, float | None] | None) -> list[float | None] | None:
    return None if bucket is None else [_r(bucket[0]), _r(bucket[1])]


def _bound(bound: Bound) -> dict[str, Any]:
    return {
        "kind": bound.kind,
        "text": str(bound.text),
        "knob": _text(bound.knob),
        "price": _text(bound.price),
    }


def _alarm(alarm: Alarm) -> dict[str, Any]:
    return {
        "kind": alarm.kind,
        "severity": alarm.severity.value,
        "text": str(alarm.text),
        "remedy": _text(alarm.remedy),
        "since": round(alarm.since, 3),
    }


def gpu_json(gpu: GpuSnapshot) -> dict[str, Any]:
    """Return one GPU's figures."""
    return {
        "index": gpu.index,
        "name": gpu.name,
        "memory_total_bytes": gpu.memory_total_bytes,
        "memory_used_bytes": gpu.memory_used_bytes,
        "memory_ours_bytes": gpu.memory_ours_bytes,
        "unified": gpu.unified,
        "utilisation": _r(gpu.utilisation),
        "power_w": _r(gpu.power_w),
        "power_limit_w": _r(gpu.power_limit_w),
        "temperature_c": _r(gpu.temperature_c),
        "clock_sm_mhz": gpu.clock_sm_mhz,
        "clock_sm_max_mhz": gpu.clock_sm_max_mhz,
        "pcie": {
            "generation": gpu.pcie_generation,
            "width": gpu.pcie_width,
            "generation_max": gpu.pcie_generation_max,
            "width_max": gpu.pcie_width_max,
        },
        "throttle": _text(gpu.throttle),
        "throttle_reasons": list(gpu.throttle_reasons),
    }


def _r(value: float | None, digits: int = 3) -> float | None:
    return None if value is None else round(value, digits)


def _text(text: object) -> str | None:
    return None if text is None else str(text)
