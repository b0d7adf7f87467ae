"""What one request may really be, from what the boot log says."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from qwen_tui_diagnostics.enginelog import LogReport

__all__ = ["context_usable", "max_running_requests"]

_SGLANG_RESERVED = 6
"""Tokens that SGLang keeps of the shorter of context and pool (its ``max_req_input_len``)."""


def context_usable(report: LogReport | None) -> int | None:
    """Return the longest request in tokens; ``None`` = the log does not say.

    SGLang takes a declared context that exceeds its pool and refuses long requests later; vLLM
    refuses to boot, so its declared context is the usable one.
    """
    if report is None:
        return None
    context = _integer(report.facts.get("context_len"))
    pool = _integer(report.facts.get("kv_tokens"))
    if report.engine == "vllm":
        return context
    if report.engine != "sglang" or context is None or pool is None:
        return None
    return min(context, pool) - _SGLANG_RESERVED


def max_running_requests(report: LogReport | None) -> int | None:
    """Return how many requests really run at once, all replicas together; ``None`` = unknown."""
    if report is None:
        return None
    together = _integer(report.facts.get("max_running_requests_all"))
    each = _integer(report.facts.get("max_running_requests_effective"))
    return each if together is None else together


def _integer(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
