"""SGLang 0.4.6 to 0.5.23: wordings of its releases, boots, clamps, ends."""

from __future__ import annotations

import pytest
from enginelog.reading import adjusted, clamps, load, read, read_text

from qwen_tui_diagnostics.enginelog import LogReader


def at(text: str, second: int = 0, rank: str = "") -> str:
    return f"[2026-11-29 14:{second // 60:02d}:{second % 60:02d}{rank}] {text}\n"


SUMMARY = (
    "max_total_num_tokens=840736, chunked_prefill_size=2048, max_prefill_tokens=16384, "
    "max_running_requests={running}, context_len=32768, available_gpu_mem=5.04 GB"
)
READY = at("The server is fired up and ready to roll!", 50)
ARGS = "server_args=ServerArgs(model_path='/m', max_running_requests={asked}, tp_size=1)"


@pytest.mark.parametrize(
    ("text", "facts"),
    [
        ("Load weight end. type=Qwen3NextForCausalLM, dtype=torch.bfloat16, avail mem=9.29 GB, mem "
         "usage=37.41 GB.", {"mem_usage_gb": 37.41, "architecture": "Qwen3NextForCausalLM"}),
        ("Load weight end. elapsed=12.50 s, type=Qwen3_5ForConditionalGeneration, "
         "dtype=torch.bfloat16, avail mem=9.29 GB, mem usage=17.67 GB.", {"mem_usage_gb": 17.67}),
        ("Load weight end. elapsed=12.50 s, type=Qwen3_5ForConditionalGeneration, "
         "quant=modelopt_fp4, quant_algo=NVFP4, avail mem=9.29 GB, mem usage=17.67 GB.",
         {"mem_usage_gb": 17.67, "quantization": "modelopt_fp4"}),
        ("Load weight end. elapsed=1.50 s, type=Qwen4ExpForCausalLMMTP, avail mem=9.29 GB, mem "
         "usage=0.79 GB.", {"draft_mem_usage_gb": 0.79, "mem_usage_gb": None}),
        ("Load weight end. elapsed=1.50 s, type=LlamaForCausalLMEagle3, avail mem=9.29 GB, mem "
         "usage=0.79 GB.", {"draft_mem_usage_gb": 0.79, "mem_usage_gb": None}),
        ("Using KV cache dtype: torch.float8_e4m3fn", {"kv_dtype": "torch.float8_e4m3fn"}),
        ("Mamba Cache is allocated. conv_state size: 0.02GB, ssm_state size: 0.86GB ",
         {"mamba_slots": None, "mamba_ssm_gb": 0.86}),
        ("Mamba Cache is allocated. max_mamba_cache_size: 82, conv_state size: 0.13GB, ssm_state "
         "size: 7.29GB ", {"mamba_slots": 82, "mamba_conv_gb": 0.13}),
        ("KV Cache is allocated. #tokens: 580364, K size: 4.15 GB, V size: 4.15 GB",
         {"kv_tokens": 580364, "kv_gb": 8.3, "kv_dtype": None}),
        ("KV Cache is allocated. dtype: torch.bfloat16, #tokens: 50000, K size: 0.19 GB, V size: "
         "0.19 GB", {"kv_tokens": 50000, "kv_dtype": "torch.bfloat16"}),
        ("Target full-attention KV Cache is allocated. dtype: torch.bfloat16, #tokens: 50000, KV "
         "size: 0.38 GB", {"kv_tokens": 50000, "kv_gb": 0.38}),
        ("KV Cache VA upper bound. dtype: torch.float8_e4m3fn, #tokens: 70000, K size: 0.5 GB, V "
         "size: 0.5 GB", {"kv_tokens": 70000}),
        ("KV Cache is allocated. K size: 2.82 GB, V size: 2.82 GB.",
         {"kv_tokens": None, "kv_gb": 5.64}),
        ("Reserving 0.10 GB of the KV budget for post-sizing multimodal allocations (x).",
         {"mm_reserve_gib": 0.1}),
        ("max_total_num_tokens=105531, chunked_prefill_size=2048, max_prefill_tokens=16384, "
         "max_running_requests=2049, context_len=131072",
         {"kv_tokens": 105531, "available_gpu_mem_gb": None, "context_usable": 105525}),
        ("max_total_num_tokens=8192, chunked_prefill_size=4096, max_prefill_tokens=16384, "
         "max_running_requests=4, context_len=4096, available_cpu_mem=20.34 GB",
         {"available_cpu_mem_gb": 20.34, "available_gpu_mem_gb": None, "context_usable": 4090}),
    ],
)  # fmt: skip
@pytest.mark.parametrize("rank", ["", " TP0", " DP0 TP0 EP0"])
def test_wordings(text: str, facts: dict[str, object], rank: str) -> None:
    report = read_text(at(text, rank=rank))
    assert report.engine == "sglang"
    assert {k: report.facts.get(k) for k in facts} == facts
    assert report.coverage == 1.0


@pytest.mark.parametrize(
    "begin, end",
    [
        ("Capture cuda graph begin. This can take up to several minutes. avail mem=5.00 GB",
         "Capture cuda graph end. Time elapsed: 1.79 s. mem usage=0.50 GB. avail mem=4.50 GB."),
        ("Capture piecewise CUDA graph begin. avail mem=5.00 GB",
         "Capture piecewise CUDA graph end. Time elapsed: 1.79 s. mem usage=0.50 GB. avail "
         "mem=4.50 GB."),
        ("Capture draft extend cuda graph begin. This can take up to several minutes. avail "
         "mem=5.00 GB", "Capture draft extend cuda graph end. Time elapsed: 1.79 s. mem usage=0.50 "
         "GB. avail mem=4.50 GB."),
        ("Capture target verify CUDA graph begin. backend=full, num_tokens_per_bs=4, bs=[1, 2], "
         "avail mem=5.00 GB", "Capture target verify CUDA graph end. elapsed=1.79 s, mem "
         "usage=0.50 GB, avail mem=4.50 GB."),
        ("Capture draft decode CUDA graph begin. backend=full, num_tokens_per_req=1, avail "
         "mem=5.00 GB", "Capture draft decode CUDA graph end. bs=[1, 2], elapsed=1.79 s, mem "
         "usage=0.50 GB, avail mem=4.50 GB."),
    ],
)  # fmt: skip
def test_graph_capture_in_every_release(begin: str, end: str) -> None:
    report = read_text(at(begin) + at(end, 2))
    assert [(s.phase, s.seconds) for s in report.timeline] == [("graph_capture", 1.79)]
    assert report.phase == "graph_capture"
    parts = {b.part: b.gib for b in report.budget}
    assert parts == {"graphs": 0.5, "free": 4.5}


def test_draft_after_the_graphs_as_before_0_5_14() -> None:
    text = (
        at("Load weight begin. avail mem=30.00 GB")
        + at("Load weight end. elapsed=9.00 s, type=Qwen3_5ForConditionalGeneration, "
             "avail mem=12.00 GB, mem usage=18.00 GB.", 9)
        + at("KV Cache is allocated. dtype: torch.bfloat16, #tokens: 50000, K size: 3.0 GB, V "
             "size: 3.0 GB", 10)
        + at("Memory pool end. avail mem=6.00 GB", 10)
        + at("Capture cuda graph begin. This can take up to several minutes. avail mem=6.00 GB", 11)
        + at("Capture cuda graph end. Time elapsed: 3.00 s. mem usage=0.50 GB. avail mem=5.50 GB.",
             14)
        + at("Load weight begin. avail mem=5.50 GB", 15)
    )  # fmt: skip
    assert read_text(text).phase == "load_draft"
    text += at("Load weight end. elapsed=2.00 s, type=Qwen3_5ForCausalLMMTP, avail mem=0.10 GB, "
               "mem usage=5.40 GB.", 17)  # fmt: skip
    text += at("KV Cache is allocated. dtype: torch.bfloat16, #tokens: 50000, K size: 0.1 GB, V "
               "size: 0.1 GB", 18)  # fmt: skip
    report = read_text(text)
    assert report.phase == "kv_pool"
    assert report.facts["mem_usage_gb"] == 18.0
    assert report.facts["draft_mem_usage_gb"] == 5.4
    assert report.facts["kv_gb"] == 6.0
    assert report.facts["kv_tokens"] == 50000


# --- running requests: announced in each release, and silent ----------------------------------------


@pytest.mark.parametrize(
    ("announced", "by"),
    [
        ("", "engine"),
        ("Max concurrent requests (per dp worker) from the finalized token capacity: "
         "max_num_reqs=2.", "engine"),
        ("max_running_requests was reduced from the requested 4 to 2 (per dp worker) due to the "
         "available KV cache capacity.", "KV pool or mamba state cache"),
        ("max_running_requests is capped to 2 by the mamba state cache (max_mamba_cache_size=8, 4 "
         "state slots per request). To raise it: increase --mamba-full-memory-ratio or "
         "--max-mamba-cache-size, or halve the state size with --mamba-ssm-dtype bfloat16.",
         "mamba state cache"),
    ],
)  # fmt: skip
def test_capped_requests(announced: str, by: str) -> None:
    text = at(ARGS.format(asked=4)) + (at(announced, 1) if announced else "")
    report = read_text(text + at(SUMMARY.format(running=2), 2))
    assert clamps(report) == [("--max-running-requests", 4, 2)]
    assert report.clamps[0].by == by
    assert report.facts["max_running_requests_asked"] == 4


def test_silent_cap_of_the_state_cache_names_it() -> None:
    text = (
        at(ARGS.format(asked=8))
        + at("Mamba Cache is allocated. max_mamba_cache_size: 16, conv_state size: 0.13GB, "
             "ssm_state size: 7.29GB ")
        + at(SUMMARY.format(running=3))
    )  # fmt: skip
    clamp = read_text(text).clamps[0]
    assert (clamp.asked, clamp.got, clamp.by) == (8, 3, "mamba state cache")
    assert clamp.evidence is not None
    assert clamp.evidence.line == 3


def test_requests_shared_by_dp_workers_are_no_clamp() -> None:
    args = "server_args=ServerArgs(model_path='/m', max_running_requests=8, dp_size=2)"
    assert read_text(at(args) + at(SUMMARY.format(running=4))).clamps == ()


def test_more_tokens_than_the_memory_holds() -> None:
    text = (
        at("server_args={'model_path': '/m', 'max_total_tokens': 262144, 'page_size': 1}")
        + at("max_total_tokens=262144 is larger than the profiled value 55228. Use the profiled "
             "value instead.")
        + at("max_total_num_tokens=55228, chunked_prefill_size=2048, max_prefill_tokens=16384, "
             "max_running_requests=2, context_len=32768, available_gpu_mem=5.04 GB")
    )  # fmt: skip
    assert clamps(read_text(text)) == [("--max-total-tokens", 262144, 55228)]


def test_whole_pages_are_an_adjustment() -> None:
    text = at("server_args={'max_total_tokens': 50000, 'page_size': 64}") + at(
        "max_total_num_tokens=49984, chunked_prefill_size=2048, max_running_requests=2, "
        "context_len=32768, available_gpu_mem=5.04 GB"
    )
    report = read_text(text)
    assert report.clamps == ()
    assert adjusted(report)["--max-total-tokens"] == (50000, 49984)


def test_context_larger_than_the_pool_in_words_of_0_5_23() -> None:
    text = at("server_args={'context_length': 159776}") + at(
        "KV pool holds 134016 tokens, fewer than --context-length 159776. One full-length request "
        "cannot fit, so long requests will be refused or truncated at serving time. x"
    ) + at("max_total_num_tokens=134016, chunked_prefill_size=2048, max_running_requests=2, "
           "context_len=159776, available_gpu_mem=5.04 GB")  # fmt: skip
    report = read_text(text)
    assert clamps(report) == [("--context-length", 159776, 134010)]
    assert report.clamps[0].evidence is not None
    assert report.clamps[0].evidence.line == 2


@pytest.mark.parametrize(
    ("text", "clamped"),
    [
        ("Mixed chunked prefill is disabled because of using eagle speculative decoding.",
         [("--enable-mixed-chunk", True, False)]),
        ("Mixed chunked prefill is disabled: EAGLE speculative decoding does not support it.",
         [("--enable-mixed-chunk", True, False)]),
        ("speculative_adaptive disabled: x. Falling back to static speculative params.",
         [("--speculative-adaptive", True, False)]),
        ("Ignoring --speculative-draft-window-size=4: not for this",
         [("--speculative-draft-window-size", 4, None)]),
        ("TensorRT-LLM MHA only supports page_size of 16, 32 or 64, changing page_size from 8 to "
         "64.", [("--page-size", 8, 64)]),
        ("TensorRT-LLM MHA only supports page_size of 16, 32 or 64, changing page_size from 1 to "
         "64.", []),
        ("Overlap scheduler is disabled because of using eagle speculative decoding.", []),
        ("Attention backend not specified. Use trtllm_mha backend by default.", []),
        ("Hybrid GDN model detected, disable radix cache", []),
    ],
)  # fmt: skip
def test_announced_changes(text: str, clamped: list[tuple[str, object, object]]) -> None:
    report = read_text(at(text))
    assert clamps(report) == clamped
    assert bool(report.adjustments) is not bool(clamped)


def test_deprecation_notice_in_yellow_is_read() -> None:
    text = (
        "\x1b[1;33mMax running requests is reset to 48 for speculative decoding. You can x\x1b[0m\n"
    )
    assert adjusted(read_text(text)) == {"--max-running-requests": (None, 48)}


# --- boots, ends -------------------------------------------------------------------------------------


def test_a_restart_loop_is_read_boot_by_boot() -> None:
    one, two = load("h200/b27-notenough.log"), load("h200/cg27-lazy-5-1-6.log")
    reader = LogReader()
    reader.feed(one + two + one)
    reader.finish()
    assert reader.boots == 3
    first, second, third = reader.reports()
    assert [r.boot for r in (first, second, third)] == [1, 2, 3]
    assert first.fatal is not None
    assert first.fatal.kind == "mamba_pool_too_small"
    assert (second.ready, second.fatal) == (True, None)
    assert second.facts["kv_tokens"] == 840736
    assert second.facts == read(two).facts
    assert third.fatal is not None
    assert third.facts["kv_tokens"] is None
    assert second.first_line == one.count(b"\n") + 1
    assert reader.report(2).facts["kv_tokens"] == 840736


def test_a_boot_without_launcher_line_begins_at_its_arguments() -> None:
    boot = at(ARGS.format(asked=4)) + at(SUMMARY.format(running=2)) + READY
    reader = LogReader()
    reader.feed((boot * 3).encode())
    assert reader.boots == 3
    assert reader.report().ready


def test_refused_starts_are_boots_too() -> None:
    reader = LogReader()
    reader.feed(load("h200/tiny-ctx-too-long.log") * 3)
    assert reader.boots == 3
    assert all(r.fatal and r.fatal.kind == "context_too_long" for r in reader.reports())


def test_many_boots_are_counted_and_the_wanted_one_is_kept() -> None:
    reader = LogReader(boot=2)
    reader.feed(load("h200/b27-notenough.log"))
    reader.feed(load("h200/tiny-hicache.log"))
    for _ in range(80):
        reader.feed(at(ARGS.format(asked=4)).encode())
    assert reader.boots == 82
    assert len(reader.reports()) <= 66
    assert reader.report(2).facts["kv_tokens"] == 1599522
    with pytest.raises(KeyError):
        reader.report(1)


def test_a_later_death_does_not_undo_readiness() -> None:
    text = (
        at(ARGS.format(asked=4))
        + at(SUMMARY.format(running=4))
        + READY
        + at("Scheduler hit an exception: Traceback (most recent call last):", 60)
        + '  File "x.py", line 1, in event_loop_overlap\n'
        + "AssertionError: Can not alloc mamba cache\n\n"
        + at("SIGQUIT received. signum=None, frame=None. It usually means one child failed.", 61)
    )
    report = read_text(text)
    assert report.ready
    assert report.fatal is not None
    assert report.fatal.kind == "mamba_slots_exhausted"
    assert (report.phase, report.facts["phase_at_failure"]) == ("serving", "serving")


def test_term_to_the_group_is_a_stop() -> None:
    text = (
        at(ARGS.format(asked=4))
        + READY
        + at("Subprocess scheduler_0 (pid=28231) crashed with exit code -15. Triggering SIGQUIT "
             "for cleanup...", 60)
        + at("SIGQUIT received. signum=None, frame=None. It usually means one child failed.", 60)
    )  # fmt: skip
    report = read_text(text)
    assert (report.phase, report.fatal, report.ready) == ("stopping", None, True)


@pytest.mark.parametrize(
    ("code", "kind"), [("-9", "killed"), ("-11", "scheduler_crash"), ("1", "scheduler_crash")]
)
def test_exit_codes(code: str, kind: str) -> None:
    text = READY + at(f"Subprocess scheduler_0 (pid=2) crashed with exit code {code}. Triggering "
                      "SIGQUIT for cleanup...", 60)  # fmt: skip
    fatal = read_text(text).fatal
    assert fatal is not None
    assert fatal.kind == kind


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("Rank 0 scheduler died during initialization (exit code: -9). If exit code is -9 "
         "(SIGKILL), a common cause is the OS OOM killer.", "killed"),
        ("ERROR:    [Errno 98] error while attempting to bind on address ('127.0.0.1', 30000): "
         "address already in use", "port_in_use"),
        ("Scheduler watchdog timeout (self.watchdog_timeout=300, self.soft=False)",
         "watchdog_timeout"),
        ("Initialization failed. warmup error: Traceback (most recent call last):",
         "engine_start_failed"),
    ],
)  # fmt: skip
def test_deaths_in_one_line(line: str, kind: str) -> None:
    fatal = read_text(at(ARGS.format(asked=4)) + at(line, 9)).fatal
    assert fatal is not None
    assert fatal.kind == kind


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("launch_server.py: error: unrecognized arguments: --bogus 1", "bad_argument"),
        ("sglang serve: error: ambiguous option: --cuda-graph-max-bs could match "
         "--cuda-graph-max-bs-decode, --cuda-graph-max-bs-prefill", "bad_argument"),
        ("sglang serve: error: argument --kv-cache-dtype: invalid choice: 'fp9' (choose from 'auto')",
         "bad_argument"),
        ("Killed", "killed"),
        ("bash: line 1: 4242 Killed                  python3 -m sglang.launch_server", "killed"),
        ("sglang-1 exited with code 137", "killed"),
    ],
)  # fmt: skip
def test_deaths_outside_the_logger(line: str, kind: str) -> None:
    fatal = read_text(line + "\n").fatal
    assert fatal is not None
    assert fatal.kind == kind


@pytest.mark.parametrize(
    ("phase_line", "phase", "word"),
    [
        ("Load weight begin. avail mem=23.00 GB", "load_weights", "does not help"),
        ("Memory pool end. avail mem=0.49 GB", "kv_pool", "lower --mem-fraction-static"),
        ("Capture target decode CUDA graph begin. avail mem=0.1 GB", "graph_capture",
         "lower --mem-fraction-static"),
        ("The server is fired up and ready to roll!", "serving", "lower --mem-fraction-static"),
    ],
)  # fmt: skip
def test_out_of_memory_has_two_directions(phase_line: str, phase: str, word: str) -> None:
    text = (
        at(ARGS.format(asked=4))
        + at(phase_line, 5)
        + at("Scheduler hit an exception: Traceback (most recent call last):", 6)
        + "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total "
        "capacity of 23.56 GiB of which 512.00 MiB is free.\n"
    )
    report = read_text(text)
    assert report.fatal is not None
    assert report.fatal.kind == "cuda_oom"
    assert word in str(report.fatal.remedy)
    assert report.facts["phase_at_failure"] == phase
    assert report.facts["oom_wanted_mib"] == 2048.0
    assert report.facts["oom_free_mib"] == 512.0


def test_capture_failure_keeps_its_root() -> None:
    text = (
        at("Capture cuda graph begin. This can take up to several minutes. avail mem=1.00 GB")
        + at("Scheduler hit an exception: Traceback (most recent call last):", 1)
        + '  File "x.py", line 1, in capture\n'
        + "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 384.00 MiB. x\n\n"
        + "During handling of the above exception, another exception occurred:\n\n"
        + "Traceback (most recent call last):\n"
        + '  File "x.py", line 2, in run\n'
        + "Exception: Capture cuda graph failed: CUDA out of memory. Tried to allocate 384.00 MiB.\n"
        + at("Received sigquit from a child process. It usually means the child failed.", 2)
    )
    report = read_text(text)
    assert report.fatal is not None
    assert (report.fatal.kind, report.fatal.evidence[0].line) == ("cuda_oom", 4)


def test_exception_without_a_class_of_its_own() -> None:
    text = (
        at(ARGS.format(asked=4))
        + at("Scheduler hit an exception: Traceback (most recent call last):", 1)
        + '  File "x.py", line 1, in f\nZeroDivisionError: division by zero\n'
        + at("Received sigquit from a child process. It usually means the child failed.", 2)
    )
    fatal = read_text(text).fatal
    assert fatal is not None
    assert fatal.kind == "scheduler_crash"
    assert "ZeroDivisionError" in fatal.evidence[0].text


def test_caught_exceptions_are_no_death() -> None:
    text = (
        at(ARGS.format(asked=4))
        + "Traceback (most recent call last):\n"
        + '  File "x.py", line 1, in f\n'
        + "ModuleNotFoundError: No module named 'torchcodec'\n"
        + "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.00 GiB. x\n"
        + at(SUMMARY.format(running=4), 5)
        + READY
    )
    report = read_text(text)
    assert (report.ready, report.fatal) == (True, None)


def test_service_that_began_before_the_log() -> None:
    served = '[2026-11-29 14:00:00] INFO:     10.0.0.1:9 - "POST /generate HTTP/1.1" 200 OK\n'
    assert not read_text(served).ready  # one answer may be the warm-up
    report = read_text(served * 2)
    assert (report.ready, report.phase, report.engine) == (True, "serving", "sglang")


def test_server_up_is_not_ready() -> None:
    text = at(SUMMARY.format(running=4)) + at("INFO:     Application startup complete.", 1)
    text += at("INFO:     Uvicorn running on http://0.0.0.0:30000 (Press CTRL+C to quit)", 1)
    text += at('INFO:     127.0.0.1:34224 - "GET /model_info HTTP/1.1" 200 OK', 2)
    text += at("Prefill batch, #new-seq: 1, #new-token: 16, #cached-token: 0, token usage: 0.00, "
               "#running-req: 0, #queue-req: 0, ", 3)  # fmt: skip
    report = read_text(text)
    assert (report.ready, report.phase) == (False, "warmup")


def test_pinned_accept_length_is_said() -> None:
    decode = ("Decode batch, #running-req: 1, #full token: 960, full token usage: 0.00, mamba num: "
              "3, mamba usage: 0.38, accept len: {n}, accept rate: 0.00, cuda graph: True, gen "
              "throughput (token/s): 43.5, #queue-req: 0")  # fmt: skip
    pinned = read_text("".join(at(decode.format(n="1.00"), i) for i in range(6)))
    assert [f.rule for f in pinned.findings] == ["log.accept_pinned"]
    moving = read_text("".join(at(decode.format(n=f"1.0{i % 2}"), i) for i in range(6)))
    assert moving.findings == ()
    few = read_text("".join(at(decode.format(n="1.00"), i) for i in range(4)))
    assert few.findings == ()


def test_old_runtime_lines() -> None:
    text = at("Decode batch. #running-req: 1, #token: 2102, token usage: 0.51, cuda graph: True, gen "
              "throughput (token/s): 93.51, #queue-req: 0", rank=" TP0")  # fmt: skip
    text += at("Decode batch, #running-req: 1, #token: 2142, token usage: 0.52, accept len: 2.40, "
               "accept rate: 0.50, cuda graph: True, gen throughput (token/s): 94.50, #queue-req: "
               "3, ", 1, rank=" TP0")  # fmt: skip
    facts = read_text(text).facts
    assert facts["gen_tps_last"] == 94.5
    assert facts["kv_usage_last"] == 0.52
    assert facts["waiting_last"] == 3
    assert facts["accept_len_last"] == 2.4


def test_output_of_a_benchmark_client_says_so() -> None:
    text = (
        "Namespace(backend='sglang', host='127.0.0.1')\n"
        "Starting initial single prompt test run...\n"
        "============ Serving Benchmark Result ============\n"
        "Output token throughput (tok/s):         142.20\n"
        "Mean TTFT (ms):                          431.10\n"
    )
    report = read_text(text)
    assert (report.engine, report.subject, report.ready) == (None, "client", False)
    assert report.coverage is None
