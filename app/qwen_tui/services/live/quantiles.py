"""Percentiles of a histogram: the one place that interpolates, so that it is stated once.

A histogram only says how many samples fell at or below each bound. The position inside a bucket
is interpolated linearly (as ``histogram_quantile`` of Prometheus does), so a percentile is as
coarse as its bucket: SGLang's TTFT buckets are 0.1, 0.2, 0.4 s …, vLLM's start at 1 ms. Figures
of the two engines below 0.1 s must not be compared.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["bucket_of", "quantile"]


def quantile(q: float, bounds: Sequence[float], counts: Sequence[float]) -> float | None:
    """Return the ``q`` quantile (0 to 1) of cumulative bucket ``counts`` at upper ``bounds``.

    ``bounds`` ascend and end with +Inf; ``counts[i]`` samples are at or below ``bounds[i]``.
    A quantile in the last, open bucket is its lower bound: all that the histogram knows.

    Returns:
        None without samples, or when the histogram contradicts itself (a count that falls).
    """
    if not bounds or len(bounds) != len(counts) or not math.isinf(bounds[-1]):
        return None
    total = counts[-1]
    if not math.isfinite(total) or total <= 0:
        return None
    rank = q * total
    below = 0.0
    lower = 0.0
    for bound, count in zip(bounds, counts, strict=True):
        if not count >= below:
            return None
        if count >= rank and count > below:
            if math.isinf(bound):
                return lower
            floor = min(lower, bound)
            return floor + (bound - floor) * max(0.0, rank - below) / (count - below)
        below, lower = count, bound
    return None


def bucket_of(value: float | None, bounds: Sequence[float]) -> tuple[float, float | None] | None:
    """Return the bucket that a quantile lies in: all that is really known of it.

    The upper end is None in the open last bucket ("at least").
    """
    if value is None or len(bounds) < 2:
        return None
    finite = [b for b in bounds if not math.isinf(b)]
    if value >= finite[-1]:
        return finite[-1], None
    index = next(i for i, bound in enumerate(finite) if value <= bound)
    return (finite[index - 1] if index else 0.0), finite[index]
