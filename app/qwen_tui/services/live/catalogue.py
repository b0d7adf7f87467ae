"""What each engine exports and what it means to us: rows of data, one name of ours each.

The version ranges and remarks come from reading the released engines; ``names`` lists alternatives
in order of preference, because engines rename. Series of one metric are combined over ranks and
labels as the row says: tensor-parallel copies of a figure are never added (see ``normalise``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

__all__ = ["ENGINES", "FRONTS", "Counter", "Engine", "Gauge", "Histogram"]


@dataclass(frozen=True, slots=True)
class Gauge:
    """A value of the moment."""

    key: str
    names: tuple[str, ...]
    over: str = "sum"
    """How data-parallel replicas combine: ``sum`` (requests, tokens) or ``max`` (shares)."""
    where: tuple[tuple[str, str], ...] = ()
    """Labels that a series must have."""
    note: str = ""
    less: float = 0.0
    """What is in it that is ours, such as the scrape itself."""


@dataclass(frozen=True, slots=True)
class Counter:
    """A count that only grows until the engine restarts; replicas add up."""

    key: str
    names: tuple[str, ...]
    where: tuple[tuple[str, str], ...] = ()
    note: str = ""
    among: tuple[str, tuple[str, ...]] | None = None
    """A label and how its values end that count; a series without the label counts."""


@dataclass(frozen=True, slots=True)
class Histogram:
    """A distribution in seconds; replicas add up. Bounds are read from the ``le`` labels."""

    key: str
    names: tuple[str, ...]
    """Without ``_bucket``, ``_sum``, ``_count``."""
    where: tuple[tuple[str, str], ...] = ()
    note: str = ""


@dataclass(frozen=True, slots=True)
class Engine:
    """One engine's export."""

    name: str
    prefix: str
    """What stands before the colon of its metric names; recognises the engine."""
    gauges: tuple[Gauge, ...]
    counters: tuple[Counter, ...]
    histograms: tuple[Histogram, ...]
    boot_marks: tuple[str, ...]
    """Metrics whose values differ from boot to boot and never change within one."""


def _mode(name: str) -> tuple[tuple[str, str], ...]:
    return (("mode", name),)


def _from(source: str) -> tuple[tuple[str, str], ...]:
    return (("cache_source", source),)


SGLANG: Final = Engine(
    "sglang",
    "sglang",
    gauges=(
        Gauge("running", ("sglang:num_running_reqs",), note="refreshed at prefill and log lines"),
        Gauge("queue", ("sglang:num_queue_reqs",), note="refreshed at prefill and log lines"),
        Gauge("retracted_now", ("sglang:num_retracted_reqs",), note="0.5.2.."),
        Gauge("kv_used", ("sglang:full_token_usage",), over="max", note="0.5.10.."),
        # Before 0.5.10 token_usage is the KV pool's; later it is the maximum over all pools.
        Gauge("pool_used_max", ("sglang:token_usage",), over="max"),
        Gauge("kv_used_tokens", ("sglang:kv_used_tokens", "sglang:num_used_tokens")),
        Gauge("kv_free_tokens", ("sglang:kv_available_tokens",), note="0.5.11.."),
        Gauge("kv_evictable_tokens", ("sglang:kv_evictable_tokens",), note="0.5.11.."),
        Gauge("kv_tokens", ("sglang:max_total_num_tokens",), note="0.5.6.."),
        Gauge("context_len", ("sglang:context_len",), over="max", note="declared; 0.5.11.."),
        Gauge("mamba_used", ("sglang:mamba_usage",), over="max", note="0.5.6..; no evictable"),
        Gauge("mamba_used_slots", ("sglang:mamba_used_tokens",), note="slots; 0.5.12.."),
        Gauge("mamba_free_slots", ("sglang:mamba_available_tokens",), note="slots; 0.5.12.."),
        Gauge("mamba_evictable_slots", ("sglang:mamba_evictable_tokens",), note="0.5.12.."),
        Gauge("decode_seq_tokens", ("sglang:decode_sum_seq_lens",), note="of running requests"),
        Gauge("accept_length_last", ("sglang:spec_accept_length",), over="max"),
        Gauge("draft_steps", ("sglang:spec_num_steps",), over="max", note="0.5.13.."),
        Gauge("draft_tokens", ("sglang:spec_num_draft_tokens",), over="max", note="0.5.13.."),
        Gauge("hicache_used_tokens", ("sglang:hicache_host_used_tokens",), note="0.5.10.."),
        Gauge("hicache_tokens", ("sglang:hicache_host_total_tokens",), note="0.5.10.."),
    ),
    counters=(
        Counter("prompt_tokens", ("sglang:prompt_tokens_total",), note="at request end"),
        Counter("output_tokens", ("sglang:generation_tokens_total",), note="at request end"),
        Counter("cached_tokens", ("sglang:cached_tokens_total",), note="at request end"),
        Counter("cached_host", ("sglang:cached_tokens_total",), _from("host"), "0.5.9.."),
        Counter("cached_storage", ("sglang:cached_tokens_total",), _from("storage"), "0.5.9.."),
        Counter("requests", ("sglang:num_requests_total",), note="at request end"),
        Counter("aborted", ("sglang:num_aborted_requests_total",), note="0.5.4.."),
        Counter("retracted", ("sglang:num_retracted_requests_total",), note="0.5.7.."),
        Counter("verify_steps", ("sglang:spec_verify_calls_total",), note="at end; 0.5.13.."),
        # Moves with every decode step (read in 0.5.23), so it is the live decode counter.
        Counter("decoded", ("sglang:realtime_tokens_total",), _mode("decode"), "0.5.7.."),
        Counter("prefilled", ("sglang:realtime_tokens_total",), _mode("prefill_compute")),
        Counter("prefill_cached", ("sglang:realtime_tokens_total",), _mode("prefill_cache")),
        Counter("prefix_input", ("sglang:prefill_effective_tokens_total",), _mode("input")),
        Counter("prefix_device", ("sglang:prefill_effective_tokens_total",), _mode("device_hit")),
        Counter("prefix_host", ("sglang:prefill_effective_tokens_total",), _mode("host_hit")),
        Counter("prefix_storage", ("sglang:prefill_effective_tokens_total",), _mode("storage_hit")),
        # Summed over requests; with one request at a time it is the prefill's wall time.
        Counter(
            "prefill_sample_s",
            ("sglang:per_stage_req_latency_seconds_sum",),
            (("stage", "prefill_forward"),),
            "0.5.4..",
        ),
        Counter(
            "prefill_sample_tokens", ("sglang:realtime_tokens_total",), _mode("prefill_compute")
        ),
        Counter("scheduler_idle_s", ("sglang:scheduler_idle_seconds_total",), note="1 s steps"),
        Counter("scheduler_cpu_s", ("sglang:scheduler_process_cpu_seconds_total",)),
        Counter("graph_none", ("sglang:cuda_graph_passes_total",), _mode("decode_none")),
        Counter("graph_used", ("sglang:cuda_graph_passes_total",), _mode("decode_cuda_graph")),
    ),
    histograms=(
        Histogram("ttft", ("sglang:time_to_first_token_seconds",)),
        # Up to 0.5.22 a request that does not stream reports its first *batch* of about 50 tokens
        # as the first token (upstream PR 23215, PR 38600; seen in a 0.5.17 recording; the label
        # came with 0.5.17, the cure is in 0.5.23).
        Histogram(
            "ttft_streaming", ("sglang:time_to_first_token_seconds",), (("is_streaming", "true"),)
        ),
        Histogram(
            "ttft_whole", ("sglang:time_to_first_token_seconds",), (("is_streaming", "false"),)
        ),
        Histogram("itl", ("sglang:inter_token_latency_seconds",), note="per token"),
        Histogram("e2e", ("sglang:e2e_request_latency_seconds",)),
        Histogram("queue_time", ("sglang:queue_time_seconds",), note="0.5.4.."),
        Histogram("tpot", ("sglang:request_time_per_output_token_seconds",), note="0.5.22.."),
    ),
    boot_marks=("sglang:startup_time_seconds", "sglang:startup_available_gpu_memory_gb"),
)

VLLM: Final = Engine(
    "vllm",
    "vllm",
    gauges=(
        Gauge("running", ("vllm:num_requests_running",)),
        Gauge("queue", ("vllm:num_requests_waiting",)),
        Gauge(
            "queue_capacity",
            ("vllm:num_requests_waiting_by_reason",),
            where=(("reason", "capacity"),),
            note="0.20.0..",
        ),
        Gauge(
            "kv_used",
            ("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"),
            over="max",
            note="0 to 1 in spite of its name",
        ),
    ),
    counters=(
        Counter("prompt_tokens", ("vllm:prompt_tokens_total",), note="cached ones included"),
        Counter("decoded", ("vllm:generation_tokens_total",), note="every engine step"),
        Counter("requests", ("vllm:request_success_total",)),
        Counter(
            "aborted",
            ("vllm:request_success_total",),
            (("finished_reason", "abort"),),
        ),
        Counter("retracted", ("vllm:num_preemptions_total",), note="vLLM says preempted"),
        Counter(
            "prefix_queries",
            ("vllm:prefix_cache_queries_total", "vllm:gpu_prefix_cache_queries_total"),
            note="tokens",
        ),
        Counter(
            "prefix_hits",
            ("vllm:prefix_cache_hits_total", "vllm:gpu_prefix_cache_hits_total"),
            note="tokens",
        ),
        Counter("cached_tokens", ("vllm:prompt_tokens_cached_total",), note="0.16.0.."),
        Counter(
            "prefilled",
            ("vllm:prompt_tokens_by_source_total",),
            (("source", "local_compute"),),
            "0.16.0..",
        ),
        # Both at request end, so that they belong together; computed tokens from 0.13.0.
        Counter("prefill_sample_s", ("vllm:request_prefill_time_seconds_sum",)),
        Counter("prefill_sample_tokens", ("vllm:request_prefill_kv_computed_tokens_sum",)),
        Counter("verify_steps", ("vllm:spec_decode_num_drafts_total",)),
        Counter("drafted", ("vllm:spec_decode_num_draft_tokens_total",)),
        Counter("accepted", ("vllm:spec_decode_num_accepted_tokens_total",)),
    ),
    histograms=(
        Histogram("ttft", ("vllm:time_to_first_token_seconds",)),
        Histogram(
            "itl",
            ("vllm:inter_token_latency_seconds", "vllm:time_per_output_token_seconds"),
            note="per engine output: with speculation a sample covers several tokens",
        ),
        Histogram("e2e", ("vllm:e2e_request_latency_seconds",)),
        Histogram("queue_time", ("vllm:request_queue_time_seconds",)),
        Histogram("tpot", ("vllm:request_time_per_output_token_seconds",), note="0.11.2.."),
    ),
    boot_marks=("process_start_time_seconds",),
)

_ROUTES = ("/completions", "/responses", "/messages", "/embeddings")

# What stands in front of engines. Read off sglang-router 0.3.2, SMG 1.13.0 and LiteLLM 1.108.7 as
# they ran before engines; of the older router, its source.
SMG: Final = Engine(
    "smg",
    "smg",
    gauges=(
        Gauge("running", ("smg_worker_requests_active",), note="by worker; not by round_robin"),
        Gauge("queue", ("smg_pd_prefill_admission_queued",), note="only with split prefill"),
        Gauge("healthy", ("smg_worker_health",), note="1 or 0 by worker"),
    ),
    counters=(
        # Not smg_http_requests_total: it counts every look at /health and /workers as well.
        Counter("requests", ("smg_router_requests_total",), note="from the first request on"),
        Counter("decoded", ("smg_router_tokens_total",), (("token_type", "output"),)),
        Counter("prompt_tokens", ("smg_router_tokens_total",), (("token_type", "input"),)),
    ),
    # No end-to-end time: the clock of smg_http_request_duration_seconds and of
    # smg_router_request_duration_seconds stops at the head of a streamed answer, which SGLang
    # 0.5.23 sends with its first token.
    histograms=(
        Histogram("ttft", ("smg_router_ttft_seconds",), note="gRPC workers only"),
        Histogram("queue_time", ("smg_pd_prefill_admission_wait_seconds",)),
    ),
    boot_marks=(),
)

SGL_ROUTER: Final = Engine(
    "sgl_router",
    "sgl_router",
    gauges=(
        Gauge("running", ("sgl_router_running_requests",), note="by worker"),
        Gauge("healthy", ("sgl_router_worker_health",), note="1 or 0 by worker"),
    ),
    counters=(Counter("requests", ("sgl_router_requests_total",)),),
    histograms=(Histogram("e2e", ("sgl_router_generate_duration_seconds",)),),
    boot_marks=(),
)

LITELLM: Final = Engine(
    "litellm",
    "litellm",
    gauges=(
        Gauge(
            "running",
            ("litellm_in_flight_requests",),
            note="every HTTP request, the scrape included",
            less=1.0,
        ),
    ),
    counters=(
        # Refused looks at /metrics and /v1/models are counted too, under their route.
        Counter(
            "requests",
            ("litellm_proxy_total_requests_metric_total",),
            note="failed ones included",
            among=("route", _ROUTES),
        ),
        Counter("prompt_tokens", ("litellm_input_tokens_metric_total",), note="at request end"),
        Counter("output_tokens", ("litellm_output_tokens_metric_total",), note="at request end"),
    ),
    histograms=(
        # The queue is where a busy proxy loses time; its own overhead metric only wraps the call
        # to the engine (seed 000 measured 0.6 ms shown against 2.1 s lost), and only of requests
        # that do not stream.
        Histogram("queue_time", ("litellm_request_queue_time_seconds",)),
        Histogram("overhead", ("litellm_overhead_latency_metric",)),
        Histogram("ttft", ("litellm_llm_api_time_to_first_token_metric",), note="streaming ones"),
        Histogram("e2e", ("litellm_request_total_latency_metric",)),
    ),
    boot_marks=("process_start_time_seconds",),
)

ENGINES: Final = (SGLANG, VLLM, SMG, SGL_ROUTER, LITELLM)
"""Exports that we know, in the order in which they are tried: engines before what fronts them."""
FRONTS: Final = frozenset({"smg", "sgl_router", "litellm"})
"""Names of those that are no engines: routers and gateways."""
