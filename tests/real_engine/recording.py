"""Keeps the raw scrapes beside what the product shows, and reads them with another library."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING

from prometheus_client.parser import text_string_to_metric_families

from qwen_tui.services.live import MetricPoller

if TYPE_CHECKING:
    from qwen_tui.services.live.answer import Answer

__all__ = ["RecordingPoller", "quantile_ms", "total"]


class RecordingPoller(MetricPoller):
    """Keeps every raw scrape with its time."""

    scrapes: list[tuple[float, str]]

    async def _get(self, path: str) -> Answer:
        if path == "/metrics":
            answer = await super()._get(path)
            self.scrapes.append((time.monotonic(), answer.body.decode()))
            return answer
        return await super()._get(path)


def total(text: str, name: str, **labels: str) -> float:
    """Add up the series of ``name`` that carry ``labels``."""
    return sum(
        s.value
        for family in text_string_to_metric_families(text)
        for s in family.samples
        if s.name == name and all(s.labels.get(k) == v for k, v in labels.items())
    )


def quantile_ms(q: float, first: str, last: str, name: str) -> float:
    """Interpolate inside the bucket of what a histogram grew by, in milliseconds."""
    bounds = sorted(
        float(s.labels["le"])
        for family in text_string_to_metric_families(last)
        for s in family.samples
        if s.name == f"{name}_bucket"
    )
    below, low = 0.0, 0.0
    whole = total(last, f"{name}_count") - total(first, f"{name}_count")
    for bound in bounds:
        le = "+Inf" if math.isinf(bound) else str(bound)
        count = total(last, f"{name}_bucket", le=le) - total(first, f"{name}_bucket", le=le)
        if count >= q * whole:
            return 1000 * (low + (bound - low) * (q * whole - below) / (count - below))
        below, low = count, bound
    raise AssertionError(name)
