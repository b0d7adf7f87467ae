"""The ``qwen-tui.probe/1`` document: in English, unknown is null."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qwen_tui.services.probe.compare import Comparison
    from qwen_tui.services.snapshots import ProbeResult
    from qwen_tui_profiles.findings import Finding

__all__ = ["PROBE_SCHEMA", "probe_json", "result_json"]

PROBE_SCHEMA = "qwen-tui.probe/1"


def probe_json(
    url: str,
    results: Sequence[ProbeResult],
    comparison: Comparison | None = None,
    gateway_url: str | None = None,
    findings: Sequence[Finding] = (),
) -> dict[str, Any]:
    """Return the document: the last run's figures at the top, every run in ``runs``."""
    document: dict[str, Any] = {"schema": PROBE_SCHEMA, "url": url, **result_json(results[-1])}
    document["runs"] = [result_json(r) for r in results]
    if comparison is not None:
        document["gateway"] = {
            "url": gateway_url,
            "ttft_added_ms": _r(comparison.ttft_added_ms),
            "ttfo_added_ms": _r(comparison.ttfo_added_ms),
            "decode_ratio": _r(comparison.decode_ratio),
            "queue_time_ms": None
            if comparison.queue_time is None
            else {
                "p50": _r(comparison.queue_time.p50_ms),
                "p95": _r(comparison.queue_time.p95_ms),
                "mean": _r(comparison.queue_time.mean_ms),
                "n": comparison.queue_time.n,
            },
            "runs": [result_json(r) for r in comparison.gateway],
            "findings": [f.as_json() for f in findings],
        }
    return document


def result_json(result: ProbeResult) -> dict[str, Any]:
    """Return one run."""
    return {
        "kind": result.kind,
        "model": result.model,
        "outcome": result.outcome,
        "error": None if result.error is None else str(result.error),
        "detail": None if result.detail is None else str(result.detail),
        "ttft_ms": _r(result.ttft_ms),
        "ttfo_ms": _r(result.ttfo_ms),
        "tokens": result.tokens,
        "reasoning_tokens": result.reasoning_tokens,
        "prompt_tokens": result.prompt_tokens,
        "cached_tokens": result.cached_tokens,
        "decode_tok_s": _r(result.decode_tok_s),
        "ms_per_token": _r(result.ms_per_token),
        "accept_length": _r(result.accept_length),
        "chunks": result.chunks,
        "chunk_gap_ms": {
            "p50": _r(result.chunk_gap_p50_ms),
            "p95": _r(result.chunk_gap_p95_ms),
            "max": _r(result.chunk_gap_max_ms),
        },
        "finish_reason": result.finish_reason,
    }


def _r(value: float | None) -> float | None:
    return None if value is None else round(value, 3)
