"""Readings predicted by hand from the engines' grammar, before the reader had seen the logs."""

from __future__ import annotations

import json

import pytest

from enginelog.reading import adjusted, clamps, read_text
from enginelog.sglang_lines import ARGS, READY, SUMMARY, at
from qwen_tui_diagnostics.enginelog import LogReader

SITE = "/opt/venv/lib/python3.12/site-packages"


def uncaught(error: str, *frames: tuple[str, str]) -> str:
    lines = [f'  File "{file}", line 9, in {name}\n    x()\n' for file, name in frames]
    return "Traceback (most recent call last):\n" + "".join(lines) + error + "\n"


def core(text: str, level: str = "INFO", proc: str = "EngineCore") -> str:
    return f"({proc} pid=9) {level} 09-01 10:01:00 [core.py:700] {text}\n"


ARGV = "non-default args: {{'model': '/m', 'max_model_len': {len}, {more}}}"


# --- refused before the engine starts --------------------------------------------------------


@pytest.mark.parametrize(
    "frames",
    [
        [("<frozen runpy>", "_run_module_as_main"),
         (f"{SITE}/sglang/srt/server_args.py", "__post_init__")],
        [("/opt/venv/bin/sglang", "<module>"),
         (f"{SITE}/sglang/srt/arg_groups/mamba_hook.py", "apply")],
        [("/srv/run.py", "<module>"), (f"{SITE}/sglang/srt/server_args.py", "check_server_args")],
    ],
)  # fmt: skip
@pytest.mark.parametrize("error", ["AssertionError", "ValueError: --foo needs --bar"])
def test_a_check_without_words_of_its_own_is_a_bad_argument(
    frames: list[tuple[str, str]], error: str
) -> None:
    report = read_text(uncaught(error, *frames))
    assert report.fatal is not None
    assert report.fatal.kind == "bad_argument"
    assert (report.engine, report.phase, report.ready) == ("sglang", "args", False)
    assert report.facts["phase_at_failure"] == "args"


@pytest.mark.parametrize("script", ["/opt/venv/bin/vllm", "/srv/serve.py"])
@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ("ValueError: num_speculative_tokens:3 must be divisible by n_predict=2", "bad_argument"),
        ("pydantic_core.ValidationError: 1 validation error for ModelConfig\n  Value error, "
         "User-specified max_model_len (300000) is greater than the derived max_model_len "
         "(max_position_embeddings=262144 or model_max_length=None in model's config.json).",
         "context_too_long"),
        ("pydantic_core.ValidationError: 1 validation error for VllmConfig\n  Value error, "
         "Unknown quantization method: nvfp9. Must be one of ['awq'].",
         "quantization_unsupported"),
        ("pydantic_core.ValidationError: 1 validation error for CacheConfig\nblock_size\n  "
         "Input should be 16", "bad_argument"),
    ],
)  # fmt: skip
def test_vllm_names_the_cause_inside_a_validation_error(script: str, error: str, kind: str) -> None:
    text = core("vLLM API server version 0.14.1", proc="APIServer") + uncaught(
        error, (script, "<module>"), (f"{SITE}/vllm/engine/arg_utils.py", "create_engine_config")
    )
    report = read_text(text)
    assert report.fatal is not None
    assert (report.fatal.kind, report.phase) == (kind, "args")


def test_an_import_that_fails_and_is_caught_is_no_death() -> None:
    text = (
        uncaught("ModuleNotFoundError: No module named 'x'", (f"{SITE}/a/b.py", "<module>"))
        + at(ARGS.format(asked=4))
        + at("Load weight begin. avail mem=30.00 GB", 1)
    )
    assert read_text(text).fatal is None


@pytest.mark.parametrize(
    ("line", "engine"),
    [
        ("vllm serve: error: argument --kv-cache-dtype: invalid choice: 'fp9' (choose from auto)",
         "vllm"),
        ("launch_server.py: error: unrecognized arguments: --foo", "sglang"),
    ],
)  # fmt: skip
def test_argparse_tells_whose_it_is(line: str, engine: str) -> None:
    assert read_text(line + "\n").engine == engine


# --- ends ------------------------------------------------------------------------------------


def test_ctrl_c_that_a_scheduler_reports_is_a_stop() -> None:
    text = READY + at("Scheduler hit an exception: Traceback (most recent call last):", 60)
    text += f'  File "{SITE}/x.py", line 1, in event_loop_overlap\nKeyboardInterrupt\n\n'
    text += at("SIGQUIT received. signum=None, frame=None. It usually means one child failed.", 60)
    report = read_text(text)
    assert (report.phase, report.fatal, report.ready) == ("stopping", None, True)


@pytest.mark.parametrize(
    "before",
    [
        "INFO 08-20 20:01:00 [__init__.py:216] Automatically detected platform cuda.\n",
        "usage: bench\n",
    ],
)
def test_a_client_is_a_client_whatever_library_it_imports(before: str) -> None:
    text = before + "Starting initial single prompt test run...\n"
    text += uncaught(
        "ValueError: Initial test run failed",
        (f"{SITE}/sglang/bench_serving.py", "<module>"),
    )
    report = read_text(text)
    assert (report.subject, report.engine, report.fatal) == ("client", None, None)


def test_a_web_server_that_is_no_engine_is_not_ready() -> None:
    line = '10.0.0.1 - - [20/Aug/2026:20:00:00 +0000] "POST /v1/completions HTTP/1.1" 200 5\n'
    report = read_text(line * 5)
    assert (report.ready, report.subject) == (False, None)


def test_requests_inside_json_records_count() -> None:
    line = at('INFO:     10.0.0.1:9 - "POST /generate HTTP/1.1" 200 OK').rstrip("\n")
    report = read_text(json.dumps({"log": line + "\n", "stream": "stderr"}) + "\n")
    assert report.coverage == 1.0
    assert read_text((json.dumps({"log": line}) + "\n") * 3).ready


@pytest.mark.parametrize(
    "quoted",
    [
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.",
        "AssertionError: Can not alloc mamba cache",
        "Scheduler hit an exception: Traceback (most recent call last):",
        "Received sigquit from a child process. It usually means the child failed.",
        "Subprocess scheduler_0 (pid=2) crashed with exit code -9. Triggering SIGQUIT",
        "SIGTERM received. signum=None frame=None. Draining requests and shutting down...",
        "EngineCore failed to start.",
    ],
)
@pytest.mark.parametrize(
    "logged",
    [
        "Receive: obj=GenerateReqInput(rid='a', text='why: {quoted}', sampling_params={{}})",
        "Finish: obj=GenerateReqInput(rid='a'), out={{'text': '{quoted}'}}",
        '{{"event": "request.received", "text": "{quoted}"}}',
    ],
)
def test_what_people_ask_about_is_no_death(logged: str, quoted: str) -> None:
    line = logged.format(quoted=quoted)
    for text in (at(line, 60), line + "\n"):
        report = read_text(at(ARGS.format(asked=4)) + READY + text)
        assert (report.ready, report.phase, report.fatal) == (True, "ready", None)


# --- which boot a line belongs to ------------------------------------------------------------


def test_announcements_before_the_arguments_belong_to_the_next_boot() -> None:
    before = at("Attention backend not specified. Use flashinfer backend by default.")
    before += at("Max running requests is reset to 48 for speculative decoding. You can x")
    boot = before + at(ARGS.format(asked=48)) + at(SUMMARY.format(running=13)) + READY
    reader = LogReader()
    reader.feed((boot * 3).encode())
    assert reader.boots == 3
    for report in reader.reports():
        assert adjusted(report)["--attention-backend"] == (None, "flashinfer")
        assert adjusted(report)["--max-running-requests"] == (None, 13)
        assert report.clamps == ()


def test_the_notice_of_48_is_enough_to_know_that_nothing_was_asked() -> None:
    text = at("Max running requests is reset to 48 for speculative decoding. You can x")
    text += at(
        "max_running_requests is capped to 13 by the mamba state cache (max_mamba_cache_size=41, 3 "
        "state slots per request). To raise it: x"
    )
    report = read_text(text)
    assert report.clamps == ()
    assert adjusted(report)["--max-running-requests"] == (None, 13)


# --- values ----------------------------------------------------------------------------------


def test_hicache_layout_and_backend_are_two_arguments() -> None:
    text = at("Kernel io backend does not support page first direct layout, switching to direct io "
              "backend")  # fmt: skip
    assert adjusted(read_text(text)) == {"--hicache-io-backend": ("kernel", "direct")}
    text = at("Page first layout is not supported with direct IO backend, switching to page first "
              "direct layout")  # fmt: skip
    assert adjusted(read_text(text)) == {
        "--hicache-mem-layout": ("page_first", "page_first_direct")
    }


def test_auto_context_names_the_limit_that_did_not_fit() -> None:
    text = core(ARGV.format(len=-1, more="'max_num_seqs': 16"), proc="APIServer") + core(
        "Auto-fit max_model_len: reduced from 262144 to 65536 to fit in available GPU memory (8.5 "
        "GiB available for KV cache)"
    )
    report = read_text(text)
    assert clamps(report) == [("--max-model-len", 262144, 65536)]
    assert report.facts["context_len_requested"] is None


def test_a_share_that_stands_is_no_clamp() -> None:
    text = core(ARGV.format(len=8192, more="'gpu_memory_utilization': 0.92"), proc="APIServer")
    report = read_text(text + core(
        "CUDA graph memory profiling is enabled (default since v0.21.0). The current "
        "--gpu-memory-utilization=0.9200 is equivalent to --gpu-memory-utilization=0.9040 without "
        "CUDA graph memory profiling. x"
    ))  # fmt: skip
    assert report.clamps == ()
    assert adjusted(report)["--gpu-memory-utilization"] == (0.92, 0.904)


@pytest.mark.parametrize("share", ["'gpu_memory_utilization': 0.92", "'seed': 1"])
def test_a_share_beside_a_fixed_pool_is_ignored(share: str) -> None:
    more = f"'kv_cache_memory_bytes': 9126805504, {share}"
    text = core(ARGV.format(len=8192, more=more), proc="APIServer") + core(
        "Initial free memory 30.9 GiB, reserved 8.5 GiB memory for KV Cache as specified by "
        "kv_cache_memory_bytes config and skipped memory profiling. This does not respect the "
        "gpu_memory_utilization config. x"
    )
    wanted = [("--gpu-memory-utilization", 0.92, "ignored")] if "0.92" in share else []
    assert clamps(read_text(text)) == wanted


def test_the_pool_of_full_attention_counts() -> None:
    text = at("Use sliding window memory pool. full_layer_tokens=90000, swa_layer_tokens=72000")
    text += at("KV Cache is allocated. dtype: torch.bfloat16, #tokens: 72000, K size: 1.00 GB, V "
               "size: 1.00 GB")  # fmt: skip
    assert read_text(text).facts["kv_tokens"] == 90000


def test_hit_rate_of_0_6_6_stands_on_a_line_of_its_own() -> None:
    text = "INFO 08-20 20:01:00 metrics.py:12] Prefix cache hit rate: GPU: 33.25%, CPU: 0.00%\n"
    report = read_text(text)
    assert (report.facts["prefix_hit_last"], report.coverage) == (33.25, 1.0)


@pytest.mark.parametrize("ranks", [("Worker_PCP1", "Worker_PCP0"), ("Worker_DCP1", "Worker_DCP0")])
def test_context_parallel_workers_have_ranks(ranks: tuple[str, str]) -> None:
    text = core("Available KV cache memory: 8.1 GiB", proc=ranks[0])
    text += core("Available KV cache memory: 8.5 GiB", proc=ranks[1])
    assert read_text(text).facts["available_kv_gib"] == 8.5


def test_a_server_without_a_logo_names_its_model() -> None:
    report = read_text(core("vLLM server version 0.28.0, serving model /m", proc="APIServer"))
    assert (report.engine_version, report.facts["model"]) == ("0.28.0", "/m")


def test_seconds_of_loads_before_0_5_9_come_from_the_clock() -> None:
    text = (
        at("Load weight begin. avail mem=30.00 GB", 6)
        + at("Load weight end. type=Qwen3_5ForConditionalGeneration, dtype=torch.bfloat16, avail "
             "mem=12.00 GB, mem usage=18.00 GB.", 15)
        + at("KV Cache is allocated. #tokens: 50000, K size: 3.0 GB, V size: 3.0 GB", 17)
        + at("Load weight begin. avail mem=5.50 GB", 21)
        + at("Load weight end. type=Qwen3_5ForCausalLMMTP, dtype=torch.bfloat16, avail mem=0.10 "
             "GB, mem usage=5.40 GB.", 22)
    )  # fmt: skip
    spans = {s.phase: s.seconds for s in read_text(text).timeline}
    assert (spans["load_weights"], spans["load_draft"]) == (9.0, 1.0)


def test_what_a_line_explains_is_no_silent_change() -> None:
    text = (
        at("server_args={'chunked_prefill_size': 8192}")
        + at("Chunked prefill is disabled for multimodal models with the Transformers backend to x")
        + at("max_total_num_tokens=840736, chunked_prefill_size=-1, max_running_requests=4, "
             "context_len=32768, available_gpu_mem=5.04 GB")
    )  # fmt: skip
    report = read_text(text)
    assert report.clamps == ()
    assert adjusted(report)["--chunked-prefill-size"] == (None, -1)
    asked = ["sglang", "--chunked-prefill-size", "8192"]
    assert clamps(read_text(text, asked)) == [("--chunked-prefill-size", 8192, -1)]


@pytest.mark.parametrize(
    ("dtype", "entry"),
    [("torch.float8_e4m3fn", ("auto", "torch.float8_e4m3fn")), ("torch.bfloat16", None)],
)
def test_an_8_bit_cache_that_the_checkpoint_declares(dtype: str, entry: object) -> None:
    text = at("server_args={'kv_cache_dtype': 'auto'}")
    text += at(f"KV Cache is allocated. dtype: {dtype}, #tokens: 9, K size: 4.1 GB, V size: 4.1 GB")
    report = read_text(text)
    assert report.clamps == ()
    assert adjusted(report).get("--kv-cache-dtype") == entry


def test_memory_that_the_trial_run_lacks_is_not_answered_with_the_share() -> None:
    text = core("Starting to load model /m...") + core("EngineCore failed to start.", "ERROR")
    for line in (
        "Traceback (most recent call last):",
        f'  File "{SITE}/vllm/v1/worker/gpu_model_runner.py", line 1, in profile_run',
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.37 GiB.",
    ):
        text += core(line, "ERROR")
    fatal = read_text(text).fatal
    assert fatal is not None
    assert "--max-num-batched-tokens" in str(fatal.remedy)
    assert "memory-utilization" not in str(fatal.remedy)


def test_runtime_of_old_and_new_releases() -> None:
    old = (
        "INFO 01-02 10:00:00 metrics.py:467] Avg prompt throughput: 1.0 tokens/s, Avg generation "
        "throughput: 42.5 tokens/s, Running: 2 reqs, Swapped: 0 reqs, Pending: 3 reqs, GPU KV "
        "cache usage: 12.5%, CPU KV cache usage: 0.0%.\n"
    )
    facts = read_text(old).facts
    assert (facts["gen_tps_last"], facts["running_last"], facts["waiting_last"]) == (42.5, 2, 3)
    assert facts["kv_usage_last"] == 0.125
    assert facts["prefix_hit_last"] is None
    new = core(
        "2 Engines Aggregated: Avg prompt throughput: 471.1 tokens/s, Avg generation throughput: "
        "34.8 tokens/s, Running: 1 reqs, Waiting: 0 reqs, Deferred: 0 reqs, Preemptions: 0, GPU KV "
        "cache usage: 4.4%, Prefix cache hit rate: 93.4%"
    ) + core(
        "SpecDecoding metrics: Mean acceptance length: 6.82, Current speculative depth: 7, "
        "Accepted throughput: 6.46 tokens/s, Accepted: 256 tokens, Drafted: 308 tokens"
    )
    facts = read_text(new).facts
    assert (facts["gen_tps_last"], facts["prefix_hit_last"]) == (34.8, 93.4)
    assert facts["accept_len_last"] == 6.82
