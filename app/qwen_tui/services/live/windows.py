"""What happened in the last 10 s, minute, five minutes, and since the engine started.

Counters are turned into our own running totals first: every series adds what it grew by, and a
series that fell (its process restarted) adds what it counts now. A window is then one subtraction
of two totals, whatever resets lie between them, and memory is a bounded ring of totals.
"""

from __future__ import annotations

import bisect
import math
from collections import deque
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from qwen_tui.services.live.quantiles import bucket_of, quantile
from qwen_tui.services.snapshots import LatencySummary

if TYPE_CHECKING:
    from collections.abc import Mapping

    from qwen_tui.services.live.exposition import Labels
    from qwen_tui.services.live.normalise import Buckets, Reading

__all__ = ["WINDOWS_S", "History", "Window"]

_V = TypeVar("_V")
_Series: TypeAlias = "Mapping[str, Mapping[Labels, _V]]"

WINDOWS_S = (10.0, 60.0, 300.0)
"""Lengths of the windows in seconds; beside them there is "since the engine's start"."""

_FINE_S = 65.0
"""Every scrape of so many seconds is remembered; of what is older, one every five seconds."""
_COARSE_S = 5.0

_TURNS, _TURNS_S = 3, 60.0
"""So many boots within so many seconds are several engines behind one address: none boots faster
than it reads its weights, again and again."""

_LONGEST_BUSY_S = 2.5
"""A longer interval between two scrapes says too little about how much of it was busy."""
_MOST_SERIES = 5_000
"""Of one metric; beyond it none is remembered that is not there any more."""
_VAGUE = 0.25
"""An interval of which a larger share than this is doubt about when its ends were taken says too
little about speed: a busy server may take seconds to answer."""
_ITL_COVERS = 0.8
"""Share of the tokens that must be in the inter-token histogram to trust its sum as busy time."""


@dataclass(frozen=True, slots=True)
class _Distribution:
    """Our running total of a histogram: cumulative bucket counts, and the sum of samples."""

    bounds: tuple[float, ...]
    counts: tuple[float, ...]
    total: float
    gaps: int = 0
    """How often the growth of ``total`` was not told: it lacks that much."""

    @property
    def sum_s(self) -> float | None:
        """Sum of the samples in seconds; ``None`` = not known whole."""
        return None if self.gaps else self.total


@dataclass(frozen=True, slots=True, eq=False)
class _Mark:
    """Running totals right after one scrape."""

    at: float
    totals: Mapping[str, float]
    distributions: Mapping[str, _Distribution]
    slack_s: float = 0.0
    """The figures may be so much older or newer than ``at``."""


@dataclass(frozen=True, slots=True, eq=False)
class Window:
    """Growth of every total between two scrapes."""

    seconds: float | None
    """Time between the two scrapes; ``None`` = since the engine started, however long that is."""
    totals: Mapping[str, float]
    distributions: Mapping[str, _Distribution]

    def get(self, key: str) -> float | None:
        """Return how much a counter grew; ``None`` when the engine does not export it."""
        return self.totals.get(key)

    def ratio(self, part: str, whole: str) -> float | None:
        """Return Δpart ÷ Δwhole; ``None`` when the whole did not grow."""
        top, bottom = self.totals.get(part), self.totals.get(whole)
        if top is None or not bottom or bottom <= 0:
            return None
        return top / bottom

    def latency(self, key: str) -> LatencySummary | None:
        """Return percentiles of a histogram over the window; ``None`` without samples."""
        found = self.distributions.get(key)
        if found is None or found.counts[-1] <= 0:
            return None

        def at(q: float) -> float | None:
            seconds = quantile(q, found.bounds, found.counts)
            return None if seconds is None else seconds * 1000

        def within(q: float) -> tuple[float, float | None] | None:
            bucket = bucket_of(quantile(q, found.bounds, found.counts), found.bounds)
            if bucket is None:
                return None
            return bucket[0] * 1000, None if bucket[1] is None else bucket[1] * 1000

        n = found.counts[-1]
        mean = None if found.sum_s is None else found.sum_s / n * 1000
        return LatencySummary(
            p50_ms=at(0.50),
            p95_ms=at(0.95),
            window_s=self.seconds,
            n=round(n),
            p90_ms=at(0.90),
            p99_ms=at(0.99),
            mean_ms=mean,
            p50_bucket_ms=within(0.50),
            p95_bucket_ms=within(0.95),
            p90_bucket_ms=within(0.90),
            p99_bucket_ms=within(0.99),
        )


@dataclass(slots=True)
class History:
    """Feeds on readings of one engine and answers for windows."""

    span_s: float = WINDOWS_S[-1]
    boots: int = 1
    """How many boots of the engine were seen; grows when it restarts under our eyes."""
    _marks: deque[_Mark] = field(default_factory=deque)
    _last: Reading | None = None
    _since_start: _Mark | None = None
    _tokens_before: bool = False
    _watched: dict[str, float] = field(default_factory=dict)
    _kept_at: float = -math.inf
    """Time of the newest mark that was thinned out already."""
    _boots_at: deque[float] = field(default_factory=lambda: deque(maxlen=_TURNS))

    def feed(self, reading: Reading, at: float, slack_s: float = 0.0) -> bool:
        """Take one scrape made at ``at`` ± ``slack_s`` (monotonic); True after a restart."""
        last = self._last
        restarted = last is not None and _restarted(last, reading)
        if restarted:
            # The windows describe one boot: figures of two profiles must never be mixed.
            self.boots += 1
            self._boots_at.append(at)
            self._marks.clear()
            self._kept_at = -math.inf
            self._watched = {}
            self._tokens_before = False
            last = None
        self._last = reading if last is None else _carried(last, reading)
        grown = _growth(last, reading)
        if last is not None:
            doubt = slack_s + self._marks[-1].slack_s
            self._note_busy(reading, grown, at - self._marks[-1].at, doubt)
        previous = self._marks[-1] if self._marks else None
        totals = dict(previous.totals) if previous else {}
        for key, amount in {**grown.counters, **self._watched}.items():
            totals[key] = totals.get(key, 0.0) + amount if key in grown.counters else amount
        distributions = dict(previous.distributions) if previous else {}
        for key, added in grown.distributions.items():
            distributions[key] = _plus(distributions.get(key), added)
        self._marks.append(_Mark(at, totals, distributions, slack_s))
        self._forget(at)
        return restarted

    def _forget(self, now: float) -> None:
        """Keep every mark of the last minute, older ones five seconds apart."""
        # One mark older than the longest window stays, so that the window is whole.
        while len(self._marks) > 2 and self._marks[1].at <= now - self.span_s:
            self._marks.popleft()
        index = bisect.bisect_right(self._marks, self._kept_at, key=lambda m: m.at)
        while index < len(self._marks) and self._marks[index].at <= now - _FINE_S:
            if self._marks[index].at - self._kept_at >= _COARSE_S:
                self._kept_at = self._marks[index].at
                index += 1
            else:
                del self._marks[index]

    def window(self, seconds: float) -> Window | None:
        """Return the growth over the last ``seconds`` (or as long as we know); None so far."""
        if len(self._marks) < 2:
            return None
        end = self._marks[-1]
        index = bisect.bisect_right(self._marks, end.at - seconds + 0.25, key=lambda m: m.at) - 1
        start = self._marks[max(0, min(index, len(self._marks) - 2))]
        return Window(
            end.at - start.at,
            {k: v - start.totals.get(k, 0.0) for k, v in end.totals.items()},
            {k: _minus(v, start.distributions.get(k)) for k, v in end.distributions.items()},
        )

    @property
    def several(self) -> bool:
        """Whether several engines seem to answer in turn, as behind a load balancer."""
        seen = self._boots_at
        return (
            len(seen) == _TURNS and bool(self._marks) and self._marks[-1].at - seen[0] <= _TURNS_S
        )

    def last_interval_s(self) -> float | None:
        """Return the time between the last two scrapes."""
        return None if len(self._marks) < 2 else self._marks[-1].at - self._marks[-2].at

    def since_start(self) -> Window | None:
        """Return the totals of this boot, as the engine itself counts from zero.

        Busy time is only known for the part that we watched; so are the totals named after it.
        """
        if not self._marks:
            return None
        end = self._marks[-1]
        return Window(None, end.totals, end.distributions)

    def _note_busy(self, reading: Reading, grown: _Growth, seconds: float, doubt_s: float) -> None:
        """Account decode and prefill time of the interval that just ended.

        Tokens of an interval whose busy time is not known well are kept apart (``edge``), for a
        window in which there is nothing better.
        """
        tokens = grown.counters.get("decoded", 0.0)
        itl = grown.distributions.get("itl")
        exact = None
        per_token = reading.engine == "sglang"  # vLLM's samples may cover several tokens
        if itl is not None and itl.sum_s is not None and itl.sum_s > 0:
            covered = itl.counts[-1] / tokens if per_token and tokens > 0 else 1.0
            if covered >= _ITL_COVERS:
                # Stream-seconds: with one stream that is the busy time, with more an upper bound.
                exact = min(seconds, itl.sum_s)
        if tokens <= 0:
            # With samples, tokens came and are counted later, with those of the next interval.
            self._tokens_before = (
                exact is not None and "decoded" in grown.counters and seconds <= _LONGEST_BUSY_S
            )
            if exact is not None and self._tokens_before:
                self.add("busy_s", exact)
            return
        sharp = seconds <= _LONGEST_BUSY_S and doubt_s <= _VAGUE * seconds
        inside = self._tokens_before and reading.gauges.get("running", 0.0) > 0
        self._tokens_before = True
        if exact is not None and sharp:
            kind, busy = "busy", exact
        elif inside and sharp:
            kind, busy = "busy", seconds
        else:
            kind, busy = "edge", seconds if exact is None else exact
        self.add(f"{kind}_tokens", tokens)
        self.add(f"{kind}_s", busy)

    def add(self, key: str, amount: float) -> None:
        """Add to a total of our own (energy, prefill time); seen with the next scrape."""
        self._watched[key] = self._watched.get(key, 0.0) + amount


@dataclass(slots=True)
class _Growth:
    counters: dict[str, float] = field(default_factory=dict)
    distributions: dict[str, _Distribution] = field(default_factory=dict)


def _carried(last: Reading, now: Reading) -> Reading:
    """Return ``now`` with the series of ``last`` that it lacks.

    A router leaves out a worker that was too slow to answer. When its series come back, they grew
    by the difference, not by all that they ever counted.
    """
    if (
        _has_all(now.counters, last.counters)
        and _has_all(now.histograms, last.histograms)
        and last.replicas.keys() <= now.replicas.keys()
    ):
        return now
    return replace(
        now,
        counters=_with_missing(last.counters, now.counters),
        histograms=_with_missing(last.histograms, now.histograms),
        replicas={**last.replicas, **now.replicas},
    )


def _has_all(now: _Series[_V], last: _Series[_V]) -> bool:
    return all(series.keys() <= now.get(key, {}).keys() for key, series in last.items())


def _with_missing(last: _Series[_V], now: _Series[_V]) -> _Series[_V]:
    merged = {key: {**series, **now.get(key, {})} for key, series in last.items()}
    return {**now, **{k: series for k, series in merged.items() if len(series) <= _MOST_SERIES}}


def _joined(labels: Labels, last: Reading) -> bool:
    """Tell whether a series is one of a worker that the router has only just taken in."""
    worker = next((value for name, value in labels if name == "worker_addr"), None)
    return worker is not None and not any(
        rank == worker or rank.startswith(f"{worker} ")
        for rank, gauges in last.replicas.items()
        if gauges.keys() - {"healthy"}  # a worker may be known before it shows figures
    )


def _growth(last: Reading | None, now: Reading) -> _Growth:
    """Return what was added since ``last`` (since zero when there is none)."""
    out = _Growth()
    for key, series in now.counters.items():
        before = last.counters.get(key, {}) if last is not None else {}
        total = 0.0
        for labels, value in series.items():
            old = before.get(labels)
            if old is None:
                old = value if last is not None and _joined(labels, last) else 0.0
            total += value - old if value >= old else value
        out.counters[key] = total
    for key, buckets in now.histograms.items():
        before_h = last.histograms.get(key, {}) if last is not None else {}
        added: _Distribution | None = None
        for labels, value_h in buckets.items():
            old_h = before_h.get(labels)
            if old_h is None and last is not None and _joined(labels, last):
                old_h = value_h
            one = _bucket_growth(old_h, value_h)
            added = one if added is None else _plus(added, one)
        if added is not None:
            out.distributions[key] = added
    return out


def _bucket_growth(old: Buckets | None, new: Buckets) -> _Distribution:
    counts, total = new.counts, new.total
    if (
        old is not None
        and old.bounds == new.bounds
        and all(n >= o for n, o in zip(new.counts, old.counts, strict=True))
    ):
        counts = tuple(n - o for n, o in zip(new.counts, old.counts, strict=True))
        total = new.total - old.total
    if total >= 0:
        return _Distribution(new.bounds, counts, total)
    return _Distribution(new.bounds, counts, 0.0, gaps=1)  # NaN, or it fell while counts rose


def _plus(old: _Distribution | None, added: _Distribution) -> _Distribution:
    if old is None or old.bounds != added.bounds:
        # Other bounds (two builds side by side): they cannot be added, the newer ones count.
        return added
    if added.counts[-1] == 0:
        return old
    return _Distribution(
        old.bounds,
        tuple(o + a for o, a in zip(old.counts, added.counts, strict=True)),
        old.total + added.total,
        old.gaps + added.gaps,
    )


def _minus(end: _Distribution, start: _Distribution | None) -> _Distribution:
    if start is None or start.bounds != end.bounds:
        return end
    return _Distribution(
        end.bounds,
        tuple(e - s for e, s in zip(end.counts, start.counts, strict=True)),
        end.total - start.total,
        end.gaps - start.gaps,
    )


def _restarted(last: Reading, now: Reading) -> bool:
    """Tell whether ``now`` comes from another boot than ``last``."""
    if last.engine != now.engine:
        return True
    if last.boot and now.boot and last.boot != now.boot:
        return True
    # The server as a whole began again when nothing that was counted is still there. One replica
    # of several that restarts is a series that fell, and no more.
    fallen = False
    for key, series in last.counters.items():
        after = now.counters.get(key, {})
        for labels, value in series.items():
            if value <= 0:
                continue
            if after.get(labels, 0.0) >= value:
                return False
            fallen = True
    return fallen
