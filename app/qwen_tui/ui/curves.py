"""The curves of a serving engine, as data: label, where the values come from, how they are said."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from qwen_tui.ui import figures
from qwen_tui_profiles.text import Text, t, tr

if TYPE_CHECKING:
    from collections.abc import Callable

    from qwen_tui.services.snapshots import LatencySummary, LiveSnapshot
    from qwen_tui.ui.state import Series

__all__ = ["ALWAYS", "CURVES", "Curve", "curves_with_news", "percentile"]


@dataclass(frozen=True, slots=True)
class Curve:
    """One figure with its past."""

    label: Text
    series: str
    """Name in :class:`~qwen_tui.ui.state.Series`."""
    style: str
    figure: Callable[[LiveSnapshot], str]
    top: float | None = None
    """Value of a full cell; ``None`` = the largest shown."""
    latency: Callable[[LiveSnapshot], LatencySummary | None] | None = None
    """Where the values are percentiles of a histogram: which."""

    def peak(self, series: Series, live: LiveSnapshot) -> str | None:
        """Return the largest value shown; ``None`` where saying it would mislead.

        A share has its top anyway. The largest of interpolated values says nothing when all that is
        known is "below 100 ms".
        """
        highest = series.peak(self.series)
        if highest is None or self.top is not None:
            return None
        if self.latency is None:
            return figures.decimal(highest, 1)
        summary = self.latency(live)
        bucket = None if summary is None else summary.p50_bucket_ms
        unknown = bucket is not None and bucket[0] <= 0
        return None if unknown else figures.latency(highest)


def percentile(milliseconds: float | None, bucket: tuple[float, float | None] | None) -> str:
    """Say no more than the histogram knows about a value in its first or last bucket."""
    if bucket is not None and milliseconds is not None:
        low, high = bucket
        if high is None:
            return f"> {figures.latency(low)}"
        if low <= 0:
            return f"< {figures.latency(high)}"
    return figures.latency(milliseconds)


def _latency(summary: LatencySummary | None) -> str:
    if summary is None:
        return figures.plain(None)
    p50 = percentile(summary.p50_ms, summary.p50_bucket_ms)
    p95 = percentile(summary.p95_ms, summary.p95_bucket_ms)
    return f"{p50} p50  {p95} p95"


def _accept(live: LiveSnapshot) -> str:
    if live.accept_length is None:
        return figures.plain(None)
    of = ""
    if live.draft_tokens is not None:
        of = " " + tr(t("of {count} drafted", count=live.draft_tokens))
    return figures.decimal(live.accept_length) + of


def _speed(tok_s: float | None) -> str:
    if tok_s is None:
        return figures.plain(None)
    return tr(t("{rate} tok/s", rate=figures.count(tok_s)))


def _energy(live: LiveSnapshot) -> str:
    if live.energy_j_per_1k is None:
        return figures.plain(None)
    return tr(t("{joules} J per 1,000 tokens", joules=figures.count(live.energy_j_per_1k)))


def _histogram(label: Text, series: str, name: str) -> Curve:
    """Return the curve of a histogram's median over the last minute."""

    def summary(live: LiveSnapshot) -> LatencySummary | None:
        if name == "ttft":
            return live.ttft
        found: LatencySummary | None = getattr(live.minute, name, None)
        return found

    return Curve(label, series, "$accent", lambda live: _latency(summary(live)), latency=summary)


CURVES: tuple[Curve, ...] = (
    _histogram(t("TTFT"), "ttft_ms", "ttft"),
    Curve(t("decode"), "decode_tok_s", "$success", lambda live: _speed(live.decode_tok_s)),
    Curve(t("accept"), "accept_length", "$success", _accept),
    Curve(
        t("hit rate"),
        "cache_hit_rate",
        "$accent",
        lambda live: figures.share(live.cache_hit_rate),
        top=1.0,
    ),
    _histogram(t("ITL"), "itl_ms", "itl"),
    Curve(t("prefill"), "prefill_tok_s", "$success", lambda live: _speed(live.prefill_tok_s)),
    _histogram(t("in queue"), "queue_time_ms", "queue_time"),
    _histogram(t("e2e"), "e2e_ms", "e2e"),
    Curve(t("energy"), "energy_j_per_1k", "$warning", _energy),
)
"""The first :data:`ALWAYS` have their place; the others are shown once they have news."""
ALWAYS = 4


def curves_with_news(series: Series) -> tuple[Curve, ...]:
    """Return the curves that have something to say, the important ones first."""
    rest = (c for c in CURVES[ALWAYS:] if series.known(c.series))
    return (*CURVES[:ALWAYS], *rest)
