"""Every figure against a computation by hand from raw scrapes of a real SGLang 0.5.23 (CPU).

The recording: six scrapes about a second apart; during it one short streaming request, two long
ones side by side, and one that did not stream. The other side of each comparison reads the raw text
with prometheus_client and plain arithmetic, and shares no code with the product.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from prometheus_client.parser import text_string_to_metric_families

from qwen_tui.services.live.context import LiveContext
from qwen_tui.services.live.exposition import ExpositionParser
from qwen_tui.services.live.figures import FigureMaker
from qwen_tui.services.live.normalise import normalise, wanted_names
from qwen_tui.services.live.serverinfo import read_server_info
from qwen_tui.services.live.windows import History

if TYPE_CHECKING:
    from qwen_tui.services.snapshots import LiveSnapshot, LiveWindow

DATA = Path(__file__).with_name("data") / "real-cpu-0.5.23"
TIMES: list[float] = json.loads((DATA / "times.json").read_text())
TEXTS = [gzip.decompress((DATA / f"scrape-{i}.prom.gz").read_bytes()).decode() for i in range(6)]


class Raw:
    """One scrape as prometheus_client reads it."""

    def __init__(self, text: str) -> None:
        self.samples = [s for f in text_string_to_metric_families(text) for s in f.samples]

    def total(self, name: str, **labels: str) -> float:
        return sum(
            s.value
            for s in self.samples
            if s.name == name and all(s.labels.get(k) == v for k, v in labels.items())
        )

    def buckets(self, name: str) -> dict[float, float]:
        out: dict[float, float] = {}
        for s in self.samples:
            if s.name == f"{name}_bucket":
                out[float(s.labels["le"])] = out.get(float(s.labels["le"]), 0.0) + s.value
        return out


RAW = [Raw(text) for text in TEXTS]


def hand_quantile(q: float, first: Raw, last: Raw, name: str) -> float:
    """Linear interpolation inside the bucket of the delta histogram, in milliseconds."""
    before, after = first.buckets(name), last.buckets(name)
    bounds = sorted(after)
    counts = [after[b] - before.get(b, 0.0) for b in bounds]
    rank = q * counts[-1]
    at = next(i for i, c in enumerate(counts) if c >= rank and c > 0)
    low, below = (0.0, 0.0) if at == 0 else (bounds[at - 1], counts[at - 1])
    return 1000 * (low + (bounds[at] - low) * (rank - below) / (counts[at] - below))


@pytest.fixture(scope="module")
def snapshots() -> list[LiveSnapshot]:
    parser = ExpositionParser(wanted_names().__contains__)
    history, figures = History(), FigureMaker()
    limits = read_server_info((DATA / "server_info.json").read_bytes())
    out = []
    for at, text in zip(TIMES, TEXTS, strict=True):
        reading = normalise(parser.parse(text))
        history.feed(reading, 1000 + at)
        out.append(figures.snapshot(reading, history, limits, LiveContext(), at=2000 + at))
    return out


def window(snapshot: LiveSnapshot) -> LiveWindow:
    return snapshot.windows[0]  # 10 s: longer than the recording, so it is the whole of it


@pytest.mark.parametrize("end", range(1, 6))
def test_gauges_are_the_scrapes_own(snapshots: list[LiveSnapshot], end: int) -> None:
    raw, shown = RAW[end], snapshots[end]
    assert shown.running == raw.total("sglang:num_running_reqs")
    assert shown.queue == raw.total("sglang:num_queue_reqs")
    assert shown.kv_tokens == raw.total("sglang:max_total_num_tokens") == 8192
    assert shown.kv_used_tokens == raw.total("sglang:kv_used_tokens")
    assert shown.kv_used == pytest.approx(raw.total("sglang:kv_used_tokens") / 8192)
    assert shown.kv_evictable_tokens == raw.total("sglang:kv_evictable_tokens")
    assert shown.max_running_requests == 4
    assert shown.context_usable == 4090
    # A plain transformer: no state slots, no speculation; and none are made up.
    assert shown.mamba_slots is None
    assert shown.mamba_used is None
    assert shown.accept_length is None
    assert shown.draft_tokens is None


@pytest.mark.parametrize("end", range(1, 6))
def test_counts_and_rates(snapshots: list[LiveSnapshot], end: int) -> None:
    first, last, shown = RAW[0], RAW[end], window(snapshots[end])

    def grew(name: str, **labels: str) -> float:
        return last.total(name, **labels) - first.total(name, **labels)

    assert shown.window_s == pytest.approx(TIMES[end] - TIMES[0])
    assert shown.prompt_tokens == grew("sglang:prompt_tokens_total")
    assert shown.output_tokens == grew("sglang:generation_tokens_total")
    assert shown.cached_tokens == grew("sglang:cached_tokens_total")
    assert shown.requests == grew("sglang:num_requests_total")
    assert shown.cache_hit_rate == pytest.approx(
        grew("sglang:cached_tokens_total") / grew("sglang:prompt_tokens_total")
    )
    # Not the engine's gauge of the last batch.
    assert snapshots[end].cache_hit_rate == shown.cache_hit_rate


@pytest.mark.parametrize("end", range(1, 5))
def test_decode_speed_while_two_streams_run(snapshots: list[LiveSnapshot], end: int) -> None:
    tokens = RAW[end].total("sglang:realtime_tokens_total", mode="decode") - RAW[0].total(
        "sglang:realtime_tokens_total", mode="decode"
    )
    by_hand = tokens / (TIMES[end] - TIMES[0])
    assert snapshots[end].decode_tok_s == pytest.approx(by_hand, rel=1e-6)
    # The engine's own clock agrees: two streams at the mean of its inter-token histogram.
    itl = "sglang:inter_token_latency_seconds"
    count = RAW[end].total(f"{itl}_count") - RAW[0].total(f"{itl}_count")
    total = RAW[end].total(f"{itl}_sum") - RAW[0].total(f"{itl}_sum")
    assert window(snapshots[end]).stream_tok_s == pytest.approx(count / total)
    assert by_hand == pytest.approx(2 * count / total, rel=0.05)


def test_no_speed_is_shown_when_nothing_runs_although_the_engine_keeps_one(
    snapshots: list[LiveSnapshot],
) -> None:
    assert snapshots[5].running == 0
    assert snapshots[5].decode_tok_s is None
    # The window keeps its speed; the tail that filled half an interval is not in it.
    assert window(snapshots[5]).decode_tok_s == pytest.approx(
        window(snapshots[4]).decode_tok_s or 0
    )


HISTOGRAMS = {
    "ttft": "sglang:time_to_first_token_seconds",
    "itl": "sglang:inter_token_latency_seconds",
    "e2e": "sglang:e2e_request_latency_seconds",
    "queue_time": "sglang:queue_time_seconds",
    "tpot": "sglang:request_time_per_output_token_seconds",
}


@pytest.mark.parametrize("key", HISTOGRAMS)
@pytest.mark.parametrize("end", [1, 5])
def test_percentiles(snapshots: list[LiveSnapshot], key: str, end: int) -> None:
    name = HISTOGRAMS[key]
    shown = getattr(window(snapshots[end]), key)
    n = RAW[end].total(f"{name}_count") - RAW[0].total(f"{name}_count")
    assert shown.n == n
    for q, field in ((0.5, "p50_ms"), (0.9, "p90_ms"), (0.95, "p95_ms"), (0.99, "p99_ms")):
        assert getattr(shown, field) == pytest.approx(hand_quantile(q, RAW[0], RAW[end], name))
    total = RAW[end].total(f"{name}_sum") - RAW[0].total(f"{name}_sum")
    assert shown.mean_ms == pytest.approx(1000 * total / n)


def test_a_percentile_says_how_coarse_it_is(snapshots: list[LiveSnapshot]) -> None:
    ttft = window(snapshots[5]).ttft
    assert ttft is not None
    # All four came within SGLang's first bucket: the true mean is 27 ms, p50 "50 ms" is its middle.
    assert ttft.p50_bucket_ms == (0, 100)
    assert ttft.mean_ms == pytest.approx(26.8, abs=0.1)


def test_since_the_start_is_what_the_engine_counts(snapshots: list[LiveSnapshot]) -> None:
    start = snapshots[5].windows[-1]
    assert start.window_s is None
    assert start.prompt_tokens == RAW[5].total("sglang:prompt_tokens_total")
    assert start.requests == RAW[5].total("sglang:num_requests_total")
    assert start.ttft is not None
    assert start.ttft.n == RAW[5].total("sglang:time_to_first_token_seconds_count")
