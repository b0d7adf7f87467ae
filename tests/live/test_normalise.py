"""One scrape in our own words: ranks, replicas, priorities, vLLM's names, routers."""

from __future__ import annotations

import math

import pytest

from qwen_tui.services.live.serverinfo import ServerLimits
from support.exporter import Exporter
from support.live_watch import Watcher


def sglang(**base: str) -> Exporter:
    return Exporter({"model_name": "m", "engine_type": "unified", **base})


def test_tensor_parallel_copies_are_not_added() -> None:
    exporter = sglang()
    for rank in "0123":
        exporter.set("sglang:num_running_reqs", 2, tp_rank=rank, pp_rank="0")
        exporter.set("sglang:max_total_num_tokens", 1000, tp_rank=rank, pp_rank="0")
        exporter.set("sglang:realtime_tokens_total", 50, tp_rank=rank, pp_rank="0", mode="decode")
    reading = Watcher().read(exporter.text())
    assert reading.gauges["running"] == 2
    assert reading.gauges["kv_tokens"] == 1000
    assert sum(reading.counters["decoded"].values()) == 50
    assert len(reading.replicas) == 1


def test_data_parallel_replicas_add_up_and_the_fullest_counts_for_shares() -> None:
    exporter = sglang()
    # With DP attention each replica's lowest tensor rank differs.
    for dp, tp, running, share in (("0", "0", 3, 0.5), ("1", "4", 1, 0.9)):
        for copy in (0, 1):
            labels = {"dp_rank": dp, "tp_rank": str(int(tp) + copy)}
            exporter.set("sglang:num_running_reqs", running, **labels)
            exporter.set("sglang:full_token_usage", share, **labels)
            exporter.set("sglang:max_total_num_tokens", 1000, **labels)
            exporter.set("sglang:kv_used_tokens", 1000 * share, **labels)
            exporter.set("sglang:context_len", 4096, **labels)
    watcher = Watcher()
    watcher.scrape(exporter)
    shown = watcher.scrape(exporter)
    assert shown.running == 4
    assert shown.kv_used == 0.9
    assert (shown.kv_used_tokens, shown.kv_tokens) == (1400, 2000)
    # A request lives on one replica: its pool of 1,000 limits it, not the sum.
    assert shown.context_usable == 1000 - 6
    assert [(r.rank, r.running, r.kv_used) for r in shown.replicas] == [
        ("0", 3, 0.5),
        ("1", 1, 0.9),
    ]


def test_with_priorities_the_total_is_not_counted_twice() -> None:
    exporter = sglang(tp_rank="0")
    exporter.set("sglang:num_queue_reqs", 5, priority="")
    exporter.set("sglang:num_queue_reqs", 2, priority="1")
    exporter.set("sglang:num_queue_reqs", 3, priority="2")
    assert Watcher().read(exporter.text()).gauges["queue"] == 5


def test_a_replica_that_is_unknown_makes_the_sum_unknown() -> None:
    exporter = sglang(tp_rank="0")
    exporter.set("sglang:num_running_reqs", 5, dp_rank="0")
    exporter.set("sglang:num_running_reqs", math.nan, dp_rank="1")
    assert "running" not in Watcher().read(exporter.text()).gauges


VLLM_BOUNDS = [0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0]


def vllm() -> Exporter:
    exporter = Exporter({"model_name": "m", "engine": "0"})
    exporter.set("vllm:num_requests_running", 3)
    exporter.set("vllm:num_requests_waiting", 2)
    exporter.set("vllm:kv_cache_usage_perc", 0.47)
    exporter.set(
        "vllm:cache_config_info",
        1,
        num_gpu_blocks="936",
        block_size="1600",
        kv_cache_size_tokens="1394129",
        kv_cache_max_concurrency="5.32",
    )
    for name in (
        "vllm:prompt_tokens_total",
        "vllm:generation_tokens_total",
        "vllm:num_preemptions_total",
        "vllm:prefix_cache_queries_total",
        "vllm:prefix_cache_hits_total",
        "vllm:spec_decode_num_drafts_total",
        "vllm:spec_decode_num_draft_tokens_total",
        "vllm:spec_decode_num_accepted_tokens_total",
    ):
        exporter.set(name, 0)
    exporter.set("vllm:request_success_total", 0, finished_reason="stop")
    for position in "012":
        exporter.set("vllm:spec_decode_num_accepted_tokens_per_pos_total", 0, position=position)
    exporter.observe("vllm:time_to_first_token_seconds", 0.1, VLLM_BOUNDS, n=0)
    exporter.observe("vllm:inter_token_latency_seconds", 0.05, VLLM_BOUNDS, n=0)
    return exporter


def test_vllm_by_its_own_names() -> None:
    exporter = vllm()
    watcher = Watcher()
    watcher.scrape(exporter)
    exporter.add("vllm:prompt_tokens_total", 8000)
    exporter.add("vllm:prefix_cache_queries_total", 8000)
    exporter.add("vllm:prefix_cache_hits_total", 6400)
    exporter.add("vllm:generation_tokens_total", 300)
    # 100 verify steps, 3 drafts each, 200 accepted: 90, 70 and 40 by position.
    exporter.add("vllm:spec_decode_num_drafts_total", 100)
    exporter.add("vllm:spec_decode_num_draft_tokens_total", 300)
    exporter.add("vllm:spec_decode_num_accepted_tokens_total", 200)
    for position, n in (("0", 90), ("1", 70), ("2", 40)):
        exporter.add("vllm:spec_decode_num_accepted_tokens_per_pos_total", n, position=position)
    exporter.add("vllm:num_preemptions_total", 1)
    exporter.add("vllm:request_success_total", 2, finished_reason="stop")
    exporter.add("vllm:request_success_total", 1, finished_reason="abort")
    exporter.observe("vllm:time_to_first_token_seconds", 0.2, VLLM_BOUNDS, n=3)
    # 100 engine outputs of 3 tokens, 8 ms apart: the samples are not per token.
    exporter.observe("vllm:inter_token_latency_seconds", 0.008, VLLM_BOUNDS, n=100)
    shown = watcher.scrape(exporter)
    window = shown.windows[0]
    assert shown.source == "vllm"
    assert (shown.running, shown.queue, shown.kv_used) == (3, 2, 0.47)
    assert shown.kv_tokens == 1_394_129
    assert shown.cache_hit_rate == pytest.approx(0.8)
    assert shown.accept_length == pytest.approx(3.0)  # 1 + 200/100
    assert shown.accept_rate == pytest.approx(2 / 3)
    assert window.accept_at == pytest.approx((0.9, 0.7, 0.4))
    # In SGLang's words: 3 drafted one after the other, 4 with the bonus token.
    assert (shown.draft_steps, shown.draft_tokens) == (3, 4)
    assert (window.requests, window.aborted, window.retracted) == (3, 1, 1)
    # 300 tokens in the 0.8 s that decoding took, not in the second between the scrapes.
    assert shown.decode_tok_s == pytest.approx(300 / 0.8)
    assert shown.ttft is not None
    assert shown.ttft.p50_bucket_ms == (100, 250)
    assert shown.mamba_slots is None


def test_two_engines_of_a_vllm_have_two_pools() -> None:
    exporter = Exporter({"model_name": "m"})
    for engine, share, tokens in (("0", 0.2, "1000"), ("1", 0.97, "700")):
        exporter.set("vllm:num_requests_running", 1, engine=engine)
        exporter.set("vllm:kv_cache_usage_perc", share, engine=engine)
        exporter.set("vllm:cache_config_info", 1, engine=engine, kv_cache_size_tokens=tokens)
    shown = Watcher().scrape(exporter)
    assert shown.kv_tokens == 1700
    assert shown.kv_used == 0.97
    assert shown.draft_tokens is None


@pytest.mark.parametrize("size", ["None", "9" * 400, "-1", ""])
def test_a_pool_that_is_no_figure_is_unknown(size: str) -> None:
    exporter = Exporter({"model_name": "m"})
    exporter.set("vllm:num_requests_running", 1, engine="0")
    exporter.set("vllm:cache_config_info", 1, engine="0", kv_cache_size_tokens=size)
    assert Watcher().scrape(exporter).kv_tokens is None


def test_the_pool_of_one_replica_is_not_that_of_two() -> None:
    watcher = Watcher()
    watcher.limits = ServerLimits(kv_tokens=8192)
    exporter = Exporter({})
    exporter.set("sglang:num_running_reqs", 1, dp_rank="0")
    assert watcher.scrape(exporter).kv_tokens == 8192
    exporter.set("sglang:num_running_reqs", 1, dp_rank="1")
    assert watcher.scrape(exporter).kv_tokens is None


def test_vllm_without_prefix_caching_has_no_hit_rate() -> None:
    exporter = vllm()
    watcher = Watcher()
    watcher.scrape(exporter)
    exporter.add("vllm:prompt_tokens_total", 8000)
    exporter.add("vllm:generation_tokens_total", 10)
    assert watcher.scrape(exporter).cache_hit_rate is None


def test_old_vllm_names_are_understood() -> None:
    exporter = Exporter({"model_name": "m"})
    exporter.set("vllm:num_requests_running", 1)
    exporter.set("vllm:gpu_cache_usage_perc", 0.25)
    exporter.set("vllm:gpu_prefix_cache_queries_total", 0)
    exporter.set("vllm:gpu_prefix_cache_hits_total", 0)
    watcher = Watcher()
    watcher.scrape(exporter)
    exporter.add("vllm:gpu_prefix_cache_queries_total", 100)
    exporter.add("vllm:gpu_prefix_cache_hits_total", 25)
    shown = watcher.scrape(exporter)
    assert shown.kv_used == 0.25
    assert shown.cache_hit_rate == 0.25


def test_a_router_shows_its_workers() -> None:
    exporter = Exporter()
    for worker, active, healthy in (("http://a:1", 2, 1), ("http://b:1", 0, 0)):
        exporter.set("smg_worker_requests_active", active, worker=worker)
        exporter.set("smg_worker_health", healthy, worker=worker)
    shown = Watcher().scrape(exporter)
    assert shown.source == "smg"
    assert shown.running == 2
    assert [(r.rank, r.running, r.healthy) for r in shown.replicas] == [
        ("http://a:1", 2, True),
        ("http://b:1", 0, False),
    ]


def test_the_older_router_and_a_proxy_are_recognised() -> None:
    router = Exporter()
    router.set("sgl_router_running_requests", 1, worker="http://a:1")
    assert Watcher().scrape(router).source == "sgl_router"
    proxy = Exporter()
    proxy.set("litellm_in_flight_requests", 5)  # the scrape is one of them
    proxy.observe("litellm_request_queue_time_seconds", 0.1, [0.5, 1.0, 2.5, 5.0], n=0)
    watcher = Watcher()
    watcher.scrape(proxy)
    proxy.observe("litellm_request_queue_time_seconds", 2.1, [0.5, 1.0, 2.5, 5.0], n=4)
    shown = watcher.scrape(proxy)
    assert shown.source == "litellm"
    assert shown.running == 4
    queue_time = shown.windows[0].queue_time
    assert queue_time is not None
    assert queue_time.mean_ms == pytest.approx(2100)


def test_workers_behind_a_router_are_replicas_of_one_server() -> None:
    """SGLang's router re-exports its workers' metrics with their address as a label."""
    exporter = sglang(tp_rank="0")
    for address, running in (("http://a:1", 2), ("http://b:1", 3)):
        exporter.set("sglang:num_running_reqs", running, worker_addr=address)
    shown = Watcher().scrape(exporter)
    assert shown.running == 5
    assert [r.rank for r in shown.replicas] == ["http://a:1", "http://b:1"]


def test_a_router_that_writes_underscores_for_colons_is_read_all_the_same() -> None:
    """As sglang-router 0.3.2 passes its workers' metrics on."""
    exporter = sglang(tp_rank="0")
    for address, running in (("http://a:1", 2), ("http://b:1", 3)):
        exporter.set("sglang_num_running_reqs", running, worker_addr=address)
        exporter.set("sglang_max_total_num_tokens", 1000, worker_addr=address)
    shown = Watcher().scrape(exporter)
    assert (shown.source, shown.running, shown.kv_tokens) == ("sglang", 5, 2000)


def test_a_worker_that_was_left_out_of_a_scrape_adds_only_what_it_did_meanwhile() -> None:
    bounds = [0.1, 1.0]

    def scrape(**decoded: int) -> Exporter:
        out = sglang(tp_rank="0")
        for worker, tokens in decoded.items():
            out.set("sglang:num_running_reqs", 1, worker_addr=worker)
            out.set("sglang:startup_time_seconds", ord(worker), worker_addr=worker, phase="all")
            out.set("sglang:generation_tokens_total", tokens, worker_addr=worker)
            out.observe("sglang:queue_time_seconds", 0.05, bounds, n=tokens, worker_addr=worker)
        return out

    watcher = Watcher()
    for exporter in (
        scrape(a=1_000_000, b=500),
        scrape(b=510),  # a was too slow to answer
        scrape(a=1_000_030, b=520),
        scrape(a=1_000_030, b=520, c=7_000),  # c has only just joined
        scrape(a=1_000_030, b=520, c=7_005),
    ):
        shown = watcher.scrape(exporter)
    window = shown.windows[0]
    assert window.output_tokens == 30 + 20 + 5
    assert window.queue_time is not None
    assert window.queue_time.n == 30 + 20 + 5
    assert shown.boots == 1


def test_a_stale_gauge_is_not_shown_as_a_running_request() -> None:
    """The engine refreshes its gauge at log lines; its HTTP server knows that nothing is open."""
    exporter = sglang(tp_rank="0")
    exporter.set("sglang:num_running_reqs", 1)
    exporter.set("sglang:num_queue_reqs", 0)
    exporter.set("sglang:gen_throughput", 148.0)
    exporter.set("sglang:realtime_tokens_total", 900, mode="decode")
    exporter.set("sglang:http_requests_active", 0, endpoint="/v1/chat/completions", method="POST")
    watcher = Watcher()
    watcher.scrape(exporter)
    shown = watcher.scrape(exporter)
    assert shown.running == 0
    assert shown.decode_tok_s is None


def test_ttft_of_requests_that_do_not_stream_is_left_out_where_the_engine_times_them_wrong() -> (
    None
):
    name, bounds = "sglang:time_to_first_token_seconds", [0.1, 0.2, 0.4, 1.0, 2.0]
    exporter = sglang()
    exporter.set("sglang:num_running_reqs", 0)
    exporter.observe(name, 0.05, bounds, n=0, is_streaming="true")
    exporter.observe(name, 0.05, bounds, n=0, is_streaming="false")
    for version, n in (("0.5.17", 2), (None, 2), ("0.5.23", 5)):
        watcher = Watcher()
        watcher.limits = type(watcher.limits)(version=version)
        watcher.scrape(exporter)
        exporter.observe(name, 0.15, bounds, n=2, is_streaming="true")
        exporter.observe(name, 1.5, bounds, n=3, is_streaming="false")
        shown = watcher.scrape(exporter)
        assert shown.ttft is not None
        assert shown.ttft.n == n
        assert bool(shown.notes) is (n == 2)
