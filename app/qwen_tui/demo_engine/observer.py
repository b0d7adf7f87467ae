"""What the engine reports while it serves: batch lines in the log, and the metrics.

As in SGLang the scheduler's gauges move only at a prefill, at every decode-log interval, and when
the last request ends; counters of requests move when a request finishes.
"""

from __future__ import annotations

import os
import resource
import time
from typing import TYPE_CHECKING

from qwen_tui.demo_engine.log import emit
from qwen_tui.demo_engine.metric_table import GRAPH_PHASES, IDLE_GAUGES, declare_all
from qwen_tui.demo_engine.metrics import Registry

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qwen_tui.demo_engine.memory import Budget
    from qwen_tui.demo_engine.pool import Pool
    from qwen_tui.demo_engine.request import Request
    from qwen_tui.demo_engine.settings import Settings

__all__ = ["Observer"]


class Observer:
    """Counts what happens.

    Attributes:
        registry: The metrics.
        last_gen_throughput: Of the last decode line, tokens a second.
        cache_hit_rate: Of the last prefill batch.
        spec_tokens: Tokens that verify steps yielded, since the start or the last flush.
        spec_steps: Verify steps, likewise.
    """

    def __init__(self, settings: Settings, budget: Budget) -> None:
        self.registry = Registry()
        declare_all(self.registry)
        self.last_gen_throughput = 0.0
        self.cache_hit_rate = 0.0
        self.spec_tokens = 0
        self.spec_steps = 0
        self.prefill_tokens = 0
        self.prefill_busy_us = 0
        self.accept_rate = 0.0
        self._s = settings
        self._model = {"engine_type": "unified", "model_name": settings.served_name}
        self._rank = {**self._model, "moe_ep_rank": "0", "pp_rank": "0", "tp_rank": "0"}
        self._forwards = 0
        self._interval_tokens = 0
        self._interval_spec_tokens = 0
        self._interval_spec_steps = 0
        self._last_decode = time.monotonic()
        self._last_prefill = time.monotonic()
        self._idle_since: float | None = time.monotonic()
        self._static(budget)

    def started(self, seconds: dict[str, float], graphs: dict[str, float]) -> None:
        """Publish the start-up times."""
        for phase, value in seconds.items():
            self._set("startup_time_seconds", value, {**self._model, "phase": phase})
        for phase in GRAPH_PHASES:
            labels = {**self._model, "phase": phase}
            self._set("startup_cuda_graph_time_seconds", graphs.get(phase, 0.0), labels)

    def prefill(
        self,
        pool: Pool,
        *,
        requests: Sequence[Request],
        seqs: int,
        new: int,
        cached: int,
        decoding: int,
        queued: int,
        pending: int,
        seconds: float,
    ) -> None:
        """Report a prefill forward."""
        now = time.monotonic()
        speed = new / max(now - self._last_prefill, 1e-6)
        self._last_prefill = now
        emit(
            f"Prefill batch, #new-seq: {seqs}, #new-token: {new}, #cached-token: {cached}, "
            f"{self._usage(pool)}, #running-req: {decoding}, #queue-req: {queued}, "
            f"#pending-token: {pending}, cuda graph: False, "
            f"input throughput (token/s): {speed:.2f}"
        )
        self.prefill_tokens += new
        self.prefill_busy_us += int(seconds * 1e6)
        self.cache_hit_rate = cached / (cached + new) if cached + new else 0.0
        for mode, value in (("prefill_compute", new), ("prefill_cache", cached)):
            self._add("realtime_tokens_total", value, {**self._rank, "mode": mode})
        for mode, value in (("input", new), ("device_hit", cached)):
            self._add("prefill_effective_tokens_total", value, {**self._rank, "mode": mode})
        self._add("cuda_graph_passes_total", 1, {**self._rank, "mode": "prefill_none"})
        for request in requests:
            if request.admitted is not None and request.computed >= request.target:
                stage = {**self._rank, "stage": "prefill_forward"}
                self._observe("per_stage_req_latency_seconds", stage, seconds)
                self._observe("queue_time_seconds", self._rank, request.admitted - request.created)
        self._gauges(pool, running=decoding + seqs, queued=queued)
        self._set("cache_hit_rate", self.cache_hit_rate)
        self._set("is_cuda_graph", 0)
        self._working(now)

    def decode(
        self,
        pool: Pool,
        *,
        running: Sequence[Request],
        queued: int,
        tokens: int,
        steps: int,
        seconds: float,
    ) -> None:
        """Report a decode forward; prints a line every ``--decode-log-interval`` of them."""
        del seconds
        self._working(time.monotonic())
        self._forwards += 1
        self._interval_tokens += tokens
        if steps:
            self.spec_tokens += tokens
            self.spec_steps += steps
            self._interval_spec_tokens += tokens
            self._interval_spec_steps += steps
        if self._forwards % self._s.decode_log_interval == 0:
            self._decode_line(pool, running, queued)

    def _decode_line(self, pool: Pool, running: Sequence[Request], queued: int) -> None:
        now = time.monotonic()
        self.last_gen_throughput = self._interval_tokens / max(now - self._last_decode, 1e-6)
        spec = ""
        length = rate = 0.0
        if self._interval_spec_steps:
            length = self._interval_spec_tokens / self._interval_spec_steps
            rate = (length - 1) / max(self._s.draft_tokens - 1, 1)
            spec = f"accept len: {length:.2f}, accept rate: {rate:.2f}, "
        emit(
            f"Decode batch, #running-req: {len(running)}, #full token: {pool.used}, "
            f"full token usage: {pool.used / pool.capacity:.2f}, mamba num: {pool.slots_used}, "
            f"mamba usage: {pool.slots_used / pool.slots:.2f}, {spec}cuda graph: True, "
            f"gen throughput (token/s): {self.last_gen_throughput:.2f}, #queue-req: {queued}"
        )
        decoded = self._interval_spec_tokens or self._interval_tokens
        self._add("realtime_tokens_total", decoded, {**self._rank, "mode": "decode"})
        passes = {**self._rank, "mode": "decode_cuda_graph"}
        self._add("cuda_graph_passes_total", self._s.decode_log_interval, passes)
        self._gauges(pool, running=len(running), queued=queued)
        self._set("gen_throughput", self.last_gen_throughput)
        self._set("decode_sum_seq_lens", sum(r.length for r in running))
        self._set("is_cuda_graph", 1)
        if self._interval_spec_steps:
            self.accept_rate = rate
            self._set("spec_accept_length", length)
            self._set("spec_accept_rate", rate)
        self._interval_tokens = self._interval_spec_tokens = self._interval_spec_steps = 0
        self._last_decode = now

    def idle(self, pool: Pool) -> None:
        """Note that nothing is left to do."""
        if self._idle_since is None:
            self._idle_since = time.monotonic()
            self._gauges(pool, running=0, queued=0)

    def tokens(self, request: Request, count: int, now: float) -> None:
        """Note ``count`` new tokens of a request."""
        if not request.counted or not count:
            return
        if request.first_token is None:
            request.first_token = now
            labels = self._streaming(request)
            self._observe("time_to_first_token_seconds", labels, now - request.created)
        elif request.stream and request.last_token is not None:
            each = (now - request.last_token) / count
            self.registry.observe("sglang:inter_token_latency_seconds", self._model, each, count)
        request.last_token = now

    def finished(self, request: Request) -> None:
        """Count a request that ended by itself."""
        if not request.counted or request.finished is None:
            return
        labels = self._streaming(request)
        elapsed = request.finished - request.created
        output = len(request.output)
        self._add("prompt_tokens_total", len(request.prompt), labels)
        self._add("generation_tokens_total", output, labels)
        self._add("num_requests_total", 1, labels)
        if request.verify_steps:
            self._add("spec_verify_calls_total", request.verify_steps, self._model)
        if request.cached_tokens:
            cached = {**self._model, "cache_source": "device"}
            self._add("cached_tokens_total", request.cached_tokens, cached)
        self._observe("e2e_request_latency_seconds", labels, elapsed)
        if output > 1 and request.first_token is not None:
            each = (request.finished - request.first_token) / (output - 1)
            self._observe("request_time_per_output_token_seconds", labels, each)
        self._observe("prompt_tokens_histogram", self._model, len(request.prompt))
        uncached = len(request.prompt) - request.cached_tokens
        self._observe("uncached_prompt_tokens_histogram", self._model, uncached)
        self._observe("generation_tokens_histogram", self._model, output)

    def aborted(self, request: Request) -> None:
        """Count a request that was given up."""
        if request.counted:
            self._add("num_aborted_requests_total", 1, self._model)

    def retracted(self) -> None:
        """Count a retraction."""
        self._add("num_retracted_requests_total", 1, self._rank)

    def flushed(self) -> None:
        """Forget the lifetime accept length, as a cache flush does."""
        self.spec_tokens = self.spec_steps = 0

    def http(self, method: str, endpoint: str, status: int | None) -> None:
        """Count an HTTP request (``status`` None = it begins)."""
        labels = {"endpoint": endpoint, "method": method}
        if status is None:
            self._add("http_requests_total", 1, labels)
            self._add("http_requests_active", 1, labels)
        else:
            self._add("http_requests_active", -1, labels)
            self._add("http_responses_total", 1, {**labels, "status_code": str(status)})

    def render(self) -> str:
        """Return the exposition text."""
        usage = resource.getrusage(resource.RUSAGE_SELF)
        cpu = usage.ru_utime + usage.ru_stime
        self._set("scheduler_process_cpu_seconds_total", cpu)
        self._set("process_cpu_seconds_total", cpu, {"component": "tokenizer"})
        if self._idle_since is not None:
            now = time.monotonic()
            self._add("scheduler_idle_seconds_total", now - self._idle_since, self._rank)
            self._idle_since = now
        return self.registry.render()

    def _static(self, budget: Budget) -> None:
        for name in IDLE_GAUGES:
            self._set(name, 0)
        self._set("fwd_occupancy", float("nan"))
        self._set("new_token_ratio", 0.7)
        self._set("max_total_num_tokens", budget.kv_tokens)
        self._set("weight_memory_usage_gb", budget.weights)
        self._set("kv_cache_memory_usage_gb", budget.kv)
        for phase in GRAPH_PHASES:
            value = budget.graphs.get(phase, 0.0)
            self._set("graph_memory_usage_gb", value, {**self._rank, "phase": phase})
        self._set("page_size", self._s.page_size)
        self._set("num_pages", budget.kv_tokens // self._s.page_size)
        self._set("context_len", self._s.context_len)
        self._set("startup_available_gpu_memory_gb", budget.available)
        self._set("kv_available_tokens", budget.kv_tokens)
        self._set("mamba_available_tokens", budget.slots)
        self._set("spec_num_steps", self._s.num_steps)
        self._set("spec_num_draft_tokens", self._s.draft_tokens)
        pid = {**self._rank, "pid": str(os.getpid())}
        self._set("num_retracted_reqs", 0, pid)
        self._set("num_paused_reqs", 0, pid)
        for mode in ("input", "device_hit", "host_hit", "storage_hit"):
            self._set("prefill_effective_tokens_total", 0, {**self._rank, "mode": mode})
        self._set("scheduler_idle_seconds_total", 0)
        self._set("routing_keys_active", 0, {})
        for name in ("dp_attention_token_imbalance_ratio", "dp_attention_sync_wait_seconds"):
            self.registry.touch(f"sglang:{name}", self._rank)

    def _gauges(self, pool: Pool, *, running: int, queued: int) -> None:
        used, slots = pool.used, pool.slots_used
        full, mamba = used / pool.capacity, slots / pool.slots
        values = {
            "num_running_reqs": running,
            "num_queue_reqs": queued,
            "num_used_tokens": used,
            "full_token_usage": full,
            "mamba_usage": mamba,
            "token_usage": max(full, mamba) if running else 0.0,
            "kv_used_tokens": used,
            "kv_available_tokens": pool.free,
            "kv_evictable_tokens": pool.evictable,
            "mamba_used_tokens": slots,
            "mamba_available_tokens": pool.slots_free,
            "mamba_evictable_tokens": pool.slots_evictable,
        }
        for name, value in values.items():
            self._set(name, value)

    def _usage(self, pool: Pool) -> str:
        return (
            f"full token usage: {pool.used / pool.capacity:.2f}, "
            f"mamba usage: {pool.slots_used / pool.slots:.2f}"
        )

    def _working(self, now: float) -> None:
        if self._idle_since is not None:
            self._add("scheduler_idle_seconds_total", now - self._idle_since, self._rank)
            self._idle_since = None

    def _streaming(self, request: Request) -> dict[str, str]:
        return {**self._model, "is_streaming": "true" if request.stream else "false"}

    def _set(self, name: str, value: float, labels: dict[str, str] | None = None) -> None:
        self.registry.set(f"sglang:{name}", self._rank if labels is None else labels, value)

    def _add(self, name: str, value: float, labels: dict[str, str]) -> None:
        self.registry.add(f"sglang:{name}", labels, value)

    def _observe(self, name: str, labels: dict[str, str], value: float) -> None:
        self.registry.observe(f"sglang:{name}", labels, value)
