"""The exported metrics against a recorded /metrics of SGLang 0.5.23."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from prometheus_client.parser import text_string_to_metric_families as parse

from qwen_tui.demo_engine.metrics import Registry
from support.demo_server import HYBRID, DemoServer, running

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prometheus_client.metrics_core import Metric

RECORDED = Path(__file__).parent / "data" / "sglang-0.5.23-cpu.metrics.prom"
# Only with a plugin, in disaggregation or for routing keys; never on one card with this model.
ABSENT = {
    "sglang:routing_key_running_req_count",
    "sglang:routing_key_all_req_count",
    "sglang:scheduler_stage_seconds",
    "sglang:dp_attention_tokens",
    "sglang:dp_attention_steps",
    "sglang:dp_attention_pairs",
}


@pytest.fixture(scope="module")
def server() -> Iterator[DemoServer]:
    with running(*HYBRID) as server:
        yield server


def families(text: str) -> dict[str, Metric]:
    return {family.name: family for family in parse(text)}


def samples(server: DemoServer, name: str) -> dict[tuple[tuple[str, str], ...], float]:
    _, text = server.ask("/metrics")
    return {
        tuple(sorted(s.labels.items())): s.value
        for f in parse(text)
        for s in f.samples
        if s.name == name
    }


def total(server: DemoServer, name: str) -> float:
    return sum(samples(server, name).values())


def chat(server: DemoServer, text: str, **more: object) -> dict[str, Any]:
    body = {"messages": [{"role": "user", "content": text}], "max_tokens": 120, **more}
    status, answer = server.ask("/v1/chat/completions", body)
    assert status == 200
    usage: dict[str, Any] = answer["usage"]
    return usage


def test_names_types_labels_and_buckets_are_the_recorded_ones(server: DemoServer) -> None:
    # Twice the same prompt, so that cached tokens are counted; a stream, for the time per token.
    for _ in range(2):
        chat(server, "Write code. " * 60)
    server.events(
        "/v1/chat/completions",
        {"messages": [{"role": "user", "content": "x"}], "stream": True, "max_tokens": 9},
    )
    _, text = server.ask("/metrics")
    ours, real = families(text), families(RECORDED.read_text())
    assert set(real) - set(ours) == ABSENT
    assert set(ours) - set(real) == {"sglang:spec_verify_calls"}
    for name, family in real.items():
        if name in ABSENT:
            continue
        assert ours[name].type == family.type, name
        assert _labels(ours[name]) == _labels(family), name
        if family.type == "histogram":
            assert _edges(ours[name]) == _edges(family), name


def _labels(family: Metric) -> set[tuple[str, ...]]:
    return {tuple(sorted(s.labels)) for s in family.samples}


def _edges(family: Metric) -> set[str]:
    return {s.labels["le"] for s in family.samples if "le" in s.labels}


def test_counters_count_what_the_answers_say(server: DemoServer) -> None:
    names = ("prompt_tokens_total", "generation_tokens_total", "num_requests_total")
    before = [total(server, f"sglang:{n}") for n in (*names, "cached_tokens_total")]
    usages = [chat(server, f"Tell a long story about the number {n}. " * 40) for n in (1, 1, 2)]
    after = [total(server, f"sglang:{n}") for n in (*names, "cached_tokens_total")]
    details = [u["prompt_tokens_details"] for u in usages]
    cached = sum(d["cached_tokens"] for d in details if d is not None)
    assert [b - a for a, b in zip(before, after, strict=True)] == [
        sum(u["prompt_tokens"] for u in usages),
        sum(u["completion_tokens"] for u in usages),
        3,
        cached,
    ]
    assert cached > 0


def test_histograms_hold_one_sample_a_request(server: DemoServer) -> None:
    name = "sglang:time_to_first_token_seconds_count"
    before = samples(server, name)
    chat(server, "hello")
    after = samples(server, name)
    grown = {k: v - before.get(k, 0) for k, v in after.items() if v != before.get(k, 0)}
    assert list(grown.values()) == [1]
    assert ("is_streaming", "false") in next(iter(grown))


def test_the_health_probe_is_not_counted(server: DemoServer) -> None:
    before = total(server, "sglang:num_requests_total")
    assert server.ask("/health")[0] == 200
    assert total(server, "sglang:num_requests_total") == before


def test_exposition_of_large_numbers_and_nan() -> None:
    """As the official client writes them (seen in the recording: le="1e+06", le="1.1e+06")."""
    registry = Registry()
    registry.declare("h", "histogram", "x", (0.5, 1000000, 1100000))
    registry.declare("g", "gauge", "x")
    registry.observe("h", {}, 7, times=3)
    registry.set("g", {"a": 'q"\\\n'}, float("nan"))
    text = registry.render()
    for part in ('le="0.5"} 0.0', 'le="1e+06"} 3.0', 'le="1.1e+06"} 3.0', "h_sum 21.0"):
        assert part in text
    assert 'g{a="q\\"\\\\\\n"} NaN' in text
