"""One scrape in our own words: samples of any engine become the keys of ``catalogue``.

Rules of combination, stated once:

* Tensor-, pipeline- and expert-parallel ranks repeat the same figure: of each data-parallel
  replica only the lowest of them counts.
* Data-parallel replicas add up, except shares, of which the largest counts.
* With priority scheduling the series without a priority is the total; the others are its parts.
* A gauge that is no count (NaN, infinite, negative, beyond what a float counts) is unknown, a
  counter that is so is left out.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from qwen_tui.services.live.catalogue import ENGINES
from qwen_tui_profiles.foreign import clean

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from qwen_tui.services.live.catalogue import Counter, Engine, Gauge, Histogram
    from qwen_tui.services.live.exposition import Exposition, Labels, Sample

__all__ = ["Buckets", "Reading", "normalise", "recognise", "wanted_names"]

_RANKS = ("pp_rank", "tp_rank", "moe_ep_rank", "attn_cp_rank", "moe_dp_rank")
_PER_POSITION = "vllm:spec_decode_num_accepted_tokens_per_pos_total"
_VLLM_INFO = "vllm:cache_config_info"
_HTTP_ACTIVE = "sglang:http_requests_active"
_GENERATING = frozenset(
    {"/generate", "/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/messages"}
)
_OF_REPLICAS = frozenset({"running", "queue", "kv_used", "healthy"})
# Which replica a series belongs to: SGLang's DP rank, vLLM's engine index, and the worker that a
# router put in front.
_REPLICA_LABELS = ("worker_addr", "worker", "dp_rank", "engine")
_EXTRA = frozenset({_PER_POSITION, _VLLM_INFO, _HTTP_ACTIVE})
_MOST = 2.0**53
"""Beyond it a float cannot count by ones. No figure of an engine comes near; sums stay finite."""
_DIGITS = 15
"""The same of a figure that is written in a label."""


@dataclass(frozen=True, slots=True)
class Buckets:
    """A histogram series: cumulative counts at ascending upper bounds (the last is +Inf)."""

    bounds: tuple[float, ...]
    counts: tuple[float, ...]
    total: float
    """Sum of the samples, in seconds; NaN = not told."""


@dataclass(frozen=True, slots=True, eq=False)
class Reading:
    """One scrape, normalised. A key that the engine does not export is absent."""

    engine: str
    gauges: Mapping[str, float] = field(default_factory=dict)
    counters: Mapping[str, Mapping[Labels, float]] = field(default_factory=dict)
    """Per series, so that the restart of one replica is seen as such."""
    histograms: Mapping[str, Mapping[Labels, Buckets]] = field(default_factory=dict)
    boot: tuple[float, ...] = ()
    """Fingerprint of this boot of the engine; empty when it exports none."""
    models: tuple[str, ...] = ()
    replicas: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Gauges of each replica by its rank or address; one entry where there is only one."""
    http_active: int | None = None
    """Generation requests open at the engine's HTTP server right now (SGLang)."""
    broken_lines: int = 0


def wanted_names() -> frozenset[str]:
    """Return every sample name that :func:`normalise` looks at."""
    names: set[str] = set(_EXTRA)
    for engine in ENGINES:
        names.update(engine.boot_marks)
        names.update(n for gauge in engine.gauges for n in gauge.names)
        names.update(n for counter in engine.counters for n in counter.names)
        for histogram in engine.histograms:
            for name in histogram.names:
                names.update({f"{name}_bucket", f"{name}_sum", f"{name}_count"})
    return frozenset(names)


def recognise(exposition: Exposition) -> Engine | None:
    """Tell which engine wrote this by its metric names; None = none that we know."""
    return next((e for e in ENGINES if e.prefix in exposition.prefixes), None)


def normalise(exposition: Exposition) -> Reading:
    """Combine the samples of a scrape into a :class:`Reading` (``other`` when unrecognised)."""
    engine = recognise(exposition)
    if engine is None:
        return Reading("other", broken_lines=exposition.broken_lines)
    samples = exposition.samples
    gauges = {
        row.key: value for row in engine.gauges if (value := _gauge(samples, row)) is not None
    }
    pool = _vllm_pool(samples.get(_VLLM_INFO, []))
    if pool is not None:
        gauges["kv_tokens"] = pool
    counters: dict[str, dict[Labels, float]] = {}
    for row in engine.counters:
        series = _counter(_pick(samples, row.names), row)
        if series:
            counters[row.key] = series
    for sample in samples.get(_PER_POSITION, ()):
        position = dict(sample.labels).get("position")
        if position is not None and position.isdigit() and _is_amount(sample.value):
            rest = tuple(p for p in sample.labels if p[0] != "position")
            counters.setdefault(f"accepted_at_{int(position)}", {})[rest] = sample.value
    histograms = {
        row.key: found for row in engine.histograms if (found := _histogram(samples, row))
    }
    return Reading(
        engine.name,
        gauges,
        counters,
        histograms,
        boot=_boot(samples, engine),
        models=_models(samples, engine),
        replicas=_replicas(samples, engine),
        http_active=_http_active(samples.get(_HTTP_ACTIVE)),
        broken_lines=exposition.broken_lines,
    )


def _pick(samples: Mapping[str, list[Sample]], names: Iterable[str]) -> list[Sample]:
    return next((found for name in names if (found := samples.get(name))), [])


def _first_ranks(samples: list[Sample], where: Labels) -> list[Sample]:
    """Drop the copies that tensor-parallel and other ranks export of the same figure."""
    kept: dict[Labels, tuple[tuple[int, ...], Sample]] = {}
    for sample in samples:
        labels = dict(sample.labels)
        if any(labels.get(name) != value for name, value in where):
            continue
        ranks = tuple(int(v) if (v := labels.pop(name, "")).isdigit() else -1 for name in _RANKS)
        labels.pop("pid", None)
        identity = tuple(labels.items())
        known = kept.get(identity)
        if known is None or ranks < known[0]:
            kept[identity] = (ranks, sample)
    return [sample for _, sample in kept.values()]


def _gauge(samples: Mapping[str, list[Sample]], row: Gauge) -> float | None:
    found = _first_ranks(_pick(samples, row.names), row.where)
    if len(found) > 1:
        totals = [s for s in found if not dict(s.labels).get("priority")]
        found = totals or found
    values = [s.value for s in found if _is_amount(s.value)]
    if not values or len(values) < len(found):
        # A replica that is unknown makes the sum unknown: a part of it would be a wrong number.
        return None
    value = max(values) if row.over == "max" else sum(values)
    return max(0.0, value - row.less)


def _counter(found: list[Sample], row: Counter) -> dict[Labels, float]:
    if row.among is not None:
        name, ends = row.among
        found = [s for s in found if dict(s.labels).get(name, ends[0]).endswith(ends)]
    return {
        sample.labels: sample.value
        for sample in _first_ranks(found, row.where)
        if _is_amount(sample.value)
    }


def _histogram(samples: Mapping[str, list[Sample]], row: Histogram) -> dict[Labels, Buckets]:
    name = next((n for n in row.names if f"{n}_bucket" in samples), None)
    if name is None:
        return {}
    sums = {s.labels: s.value for s in samples.get(f"{name}_sum", ())}
    series: dict[Labels, list[tuple[float, float]]] = {}
    for sample in samples[f"{name}_bucket"]:
        bound: float | None = None
        rest: list[tuple[str, str]] = []
        for pair in sample.labels:
            if pair[0] == "le":
                bound = _bound(pair[1])
            else:
                rest.append(pair)
        if bound is not None:
            series.setdefault(tuple(rest), []).append((bound, sample.value))
    out: dict[Labels, Buckets] = {}
    for kept in _first_ranks([_as_sample(labels) for labels in series], row.where):
        pairs = sorted(series[kept.labels])
        counts = tuple(count for _, count in pairs)
        total = sums.get(kept.labels, math.nan)
        if not _is_amount(total):
            total = math.nan
        if math.isinf(pairs[-1][0]) and all(_is_amount(c) for c in counts):
            out[kept.labels] = Buckets(tuple(bound for bound, _ in pairs), counts, total)
    return out


def _as_sample(labels: Labels) -> Sample:
    from qwen_tui.services.live.exposition import Sample

    return Sample(labels, 0.0)


def _bound(text: str) -> float | None:
    try:
        bound = float(text)
    except ValueError:
        return None
    return None if math.isnan(bound) else bound


def _boot(samples: Mapping[str, list[Sample]], engine: Engine) -> tuple[float, ...]:
    marks: list[float] = []
    for name in engine.boot_marks:
        # Of workers behind a router, which come and go, the marks would tell another story.
        marks += sorted(
            s.value
            for s in samples.get(name, ())
            if math.isfinite(s.value) and all(label != "worker_addr" for label, _ in s.labels)
        )
    return tuple(marks)


def _models(samples: Mapping[str, list[Sample]], engine: Engine) -> tuple[str, ...]:
    names: dict[str, None] = {}
    for row in engine.gauges:
        for sample in _pick(samples, row.names):
            model = dict(sample.labels).get("model_name")
            if model:
                names[clean(model)[:200]] = None
        if names:
            break
    return tuple(names)


def _replicas(samples: Mapping[str, list[Sample]], engine: Engine) -> dict[str, dict[str, float]]:
    out: dict[str, dict[str, float]] = {}
    for row in engine.gauges:
        if row.key not in _OF_REPLICAS:
            continue
        by_rank: dict[str, list[Sample]] = {}
        for sample in _pick(samples, row.names):
            labels = dict(sample.labels)
            parts = [labels[name] for name in _REPLICA_LABELS if labels.get(name)]
            by_rank.setdefault(" ".join(parts), []).append(sample)
        for rank, found in by_rank.items():
            value = _gauge({row.names[0]: found}, row)
            if value is not None:
                out.setdefault(clean(rank)[:80], {})[row.key] = value
    return out


def _http_active(found: list[Sample] | None) -> int | None:
    if not found:
        return None
    values = [s.value for s in found if dict(s.labels).get("endpoint") in _GENERATING]
    return int(sum(values)) if all(_is_amount(v) for v in values) else None


def _is_amount(value: float) -> bool:
    return 0 <= value <= _MOST  # False for NaN


def _vllm_pool(found: list[Sample]) -> float | None:
    """Return the KV pool of all engines in tokens, which vLLM tells by a label (0.24.0..)."""
    sizes = [dict(s.labels).get("kv_cache_size_tokens", "") for s in _first_ranks(found, ())]
    if not sizes or not all(size.isdecimal() and len(size) <= _DIGITS for size in sizes):
        return None
    return float(sum(map(int, sizes)))
