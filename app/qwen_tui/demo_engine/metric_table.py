"""Names, types, labels and buckets of SGLang 0.5.23's metrics, in the order it exports them.

Read from a recorded ``/metrics`` of 0.5.23; families that only speculation, retraction or aborts
bring up are from the released source. The help texts are ours.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from qwen_tui.demo_engine.metrics import Registry

__all__ = ["GRAPH_PHASES", "IDLE_GAUGES", "declare_all"]

GRAPH_PHASES = (
    "prefill",
    "decode",
    "target_verify",
    "draft_prefill",
    "draft_decode",
    "draft_extend",
)

_TTFT = (0.1, 0.2, 0.4, 0.6, 0.8, 1, 2, 4, 6, 8, 10, 20, 40, 60, 80, 100, 200, 400)
_E2E = (*_TTFT, 600, 1200, 1800, 2400)
_ITL = (
    *(0.002, 0.004, 0.006, 0.008, 0.01, 0.015, 0.02, 0.025, 0.03, 0.035, 0.04, 0.06, 0.08, 0.1),
    *(0.2, 0.4, 0.6, 0.8, 1, 2, 4, 6, 8),
)
_TOKENS = (
    *(100, 300, 500, 700, 1000, 1500, 2000, 3000, 4000, 5000, 6000, 7000, 8000, 9000, 10000),
    *(12500, 15000, 17500, 20000, 22500, 25000, 27500, 30000, 35000, 40000, 60000, 80000),
    *(100000, 200000, 300000, 400000, 600000, 800000, 1000000, 1100000),
)
_IMBALANCE = (1, 1.5, 2, 2.5, 3, 4, 5, 7.5, 10, 15, 20, 30, 45, 60)
_SYNC = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1)
_STAGE = tuple(0.001 * 1.62**i for i in range(30))
_QUEUE = (
    *(0, 0.001, 0.005, 0.01, 0.05, 0.1, 0.2, 0.5, 1, 2, 3, 4, 5, 10, 15, 20, 30, 40, 50, 60),
    *(70, 80, 90, 100, 200, 300, 400, 500, 600, 700, 800, 900, 1000, 1200, 1400, 1600, 1800),
    *(2000, 2500, 3000),
)

_FAMILIES: tuple[tuple[str, str, str, tuple[float, ...]], ...] = (
    ("prefill_effective_tokens_total", "counter", "Prefill tokens by where they came from.", ()),
    ("scheduler_idle_seconds_total", "counter", "Seconds without work.", ()),
    ("scheduler_process_cpu_seconds_total", "counter", "CPU seconds of the scheduler.", ()),
    ("scheduler_stage_seconds_total", "counter", "Seconds of the loop by stage.", ()),
    ("dp_attention_tokens_total", "counter", "Tokens of data-parallel attention steps.", ()),
    ("dp_attention_steps_total", "counter", "Data-parallel attention steps.", ()),
    ("dp_attention_pairs_total", "counter", "Attended pairs of those steps.", ()),
    ("cuda_graph_passes_total", "counter", "Forwards by graph mode.", ()),
    ("realtime_tokens_total", "counter", "Tokens processed, by mode.", ()),
    ("max_total_num_tokens", "gauge", "Size of the KV pool in tokens.", ()),
    ("weight_memory_usage_gb", "gauge", "Memory of the weights.", ()),
    ("kv_cache_memory_usage_gb", "gauge", "Memory of the KV pools.", ()),
    ("graph_memory_usage_gb", "gauge", "Memory of the captured graphs.", ()),
    ("page_size", "gauge", "Tokens a page.", ()),
    ("num_pages", "gauge", "Pages of the KV pool.", ()),
    ("context_len", "gauge", "Declared context length.", ()),
    ("startup_available_gpu_memory_gb", "gauge", "Free memory after the start.", ()),
    ("num_running_reqs", "gauge", "Running requests.", ()),
    ("num_queue_reqs", "gauge", "Waiting requests.", ()),
    ("num_grammar_queue_reqs", "gauge", "Requests that wait for a grammar.", ()),
    ("gen_throughput", "gauge", "Generated tokens a second.", ()),
    ("cache_hit_rate", "gauge", "Hit rate of the last prefill batch.", ()),
    ("decode_sum_seq_lens", "gauge", "Sum of sequence lengths in decode.", ()),
    ("token_usage", "gauge", "Largest usage over the pools.", ()),
    ("full_token_usage", "gauge", "Usage of the full-attention pool.", ()),
    ("swa_token_usage", "gauge", "Usage of the sliding-window pool.", ()),
    ("mamba_usage", "gauge", "Usage of the state slots.", ()),
    ("num_used_tokens", "gauge", "Tokens in use.", ()),
    ("kv_available_tokens", "gauge", "Free tokens.", ()),
    ("kv_evictable_tokens", "gauge", "Cached tokens.", ()),
    ("kv_used_tokens", "gauge", "Tokens in active use.", ()),
    ("swa_available_tokens", "gauge", "Free sliding-window tokens.", ()),
    ("swa_evictable_tokens", "gauge", "Cached sliding-window tokens.", ()),
    ("swa_used_tokens", "gauge", "Sliding-window tokens in use.", ()),
    ("mamba_available_tokens", "gauge", "Free state slots.", ()),
    ("mamba_evictable_tokens", "gauge", "Cached state slots.", ()),
    ("mamba_used_tokens", "gauge", "State slots in use.", ()),
    ("spec_accept_length", "gauge", "Tokens a verify step over the last interval.", ()),
    ("spec_accept_rate", "gauge", "Share of accepted drafts over the last interval.", ()),
    ("spec_cap_length", "gauge", "Mean verify window with a cap.", ()),
    ("spec_block_accept_length", "gauge", "Mean accept length without a cap.", ()),
    ("spec_num_steps", "gauge", "Draft steps.", ()),
    ("spec_num_draft_tokens", "gauge", "Tokens verified a step.", ()),
    ("num_prefill_bootstrap_queue_reqs", "gauge", "Disaggregation: bootstrap queue.", ()),
    ("num_prefill_inflight_queue_reqs", "gauge", "Disaggregation: in flight.", ()),
    ("num_decode_prealloc_queue_reqs", "gauge", "Disaggregation: preallocation.", ()),
    ("num_decode_transfer_queue_reqs", "gauge", "Disaggregation: transfer.", ()),
    ("num_decode_host_receive_queue_reqs", "gauge", "Disaggregation: host receive.", ()),
    ("num_decode_deferred_kv_release_reqs", "gauge", "Disaggregation: deferred release.", ()),
    ("pending_prealloc_token_usage", "gauge", "Disaggregation: pending tokens.", ()),
    ("prealloc_full_token_usage", "gauge", "Disaggregation: preallocated share.", ()),
    ("prealloc_swa_token_usage", "gauge", "Disaggregation: preallocated window share.", ()),
    ("utilization", "gauge", "Utilization.", ()),
    ("fwd_occupancy", "gauge", "Occupancy of the forward.", ()),
    ("new_token_ratio", "gauge", "Ratio reserved for new tokens.", ()),
    ("is_cuda_graph", "gauge", "Whether the last batch ran in a graph.", ()),
    ("num_unique_running_routing_keys", "gauge", "Routing keys that run.", ()),
    ("num_retracted_reqs", "gauge", "Retracted requests.", ()),
    ("num_paused_reqs", "gauge", "Paused requests.", ()),
    ("time_to_first_token_seconds", "histogram", "Time to the first token.", _TTFT),
    ("e2e_request_latency_seconds", "histogram", "Time of a whole request.", _E2E),
    ("request_time_per_output_token_seconds", "histogram", "Mean time a token.", _ITL),
    ("prompt_tokens_histogram", "histogram", "Prompt lengths.", _TOKENS),
    ("uncached_prompt_tokens_histogram", "histogram", "Prompt tokens not cached.", _TOKENS),
    ("generation_tokens_histogram", "histogram", "Output lengths.", _TOKENS),
    ("inter_token_latency_seconds", "histogram", "Time between tokens.", _ITL),
    ("routing_keys_active", "gauge", "Active routing keys.", ()),
    ("http_requests_active", "gauge", "Open HTTP requests.", ()),
    ("process_cpu_seconds_total", "counter", "CPU seconds by component.", ()),
    ("startup_time_seconds", "gauge", "Start-up time by phase.", ()),
    ("startup_cuda_graph_time_seconds", "gauge", "Graph capture time by phase.", ()),
    ("http_requests_total", "counter", "HTTP requests.", ()),
    ("http_responses_total", "counter", "HTTP responses.", ()),
    ("prompt_tokens_total", "counter", "Prompt tokens of finished requests.", ()),
    ("generation_tokens_total", "counter", "Generated tokens of finished requests.", ()),
    ("spec_verify_calls_total", "counter", "Verify steps of finished requests.", ()),
    ("num_requests_total", "counter", "Finished requests.", ()),
    ("cached_tokens_total", "counter", "Cached prompt tokens of finished requests.", ()),
    ("num_aborted_requests_total", "counter", "Aborted requests.", ()),
    ("num_retracted_requests_total", "counter", "Retractions.", ()),
    ("dp_attention_token_imbalance_ratio", "histogram", "Imbalance between ranks.", _IMBALANCE),
    ("dp_attention_sync_wait_seconds", "histogram", "Wait for other ranks.", _SYNC),
    ("per_stage_req_latency_seconds", "histogram", "Request time by stage.", _STAGE),
    ("queue_time_seconds", "histogram", "Time in the queue.", _QUEUE),
)

IDLE_GAUGES = tuple(
    name
    for name, kind, _, _ in _FAMILIES[: [f[0] for f in _FAMILIES].index("num_retracted_reqs")]
    if kind == "gauge" and name != "graph_memory_usage_gb"
)
"""Gauges of the scheduler that are exported from the start, with the scheduler's labels."""


def declare_all(registry: Registry) -> None:
    """Declare every family under its ``sglang:`` name."""
    for name, kind, text, bounds in _FAMILIES:
        registry.declare(f"sglang:{name}", kind, text, bounds)
