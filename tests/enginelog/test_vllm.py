"""vLLM 0.6 to 0.33: the wordings of its releases (format strings of the released source)."""

from __future__ import annotations

import pytest

from enginelog.reading import adjusted, clamps, read_text

ARGS = (
    "{'model_tag': '/models/q', 'model': '/models/q', 'max_model_len': 262144, "
    "'served_model_name': ['q'], 'gpu_memory_utilization': 0.85, 'kv_cache_dtype': 'fp8', "
    "'enable_prefix_caching': True, 'max_num_seqs': 64, 'tensor_parallel_size': 2, "
    "'speculative_config': {'method': 'mtp', 'num_speculative_tokens': 3}, "
    "'compilation_config': {'level': None, 'mode': 3}}"
)
CONFIG = (
    "model='/models/q', speculative_config=SpeculativeConfig(method='mtp', model='/models/q', "
    "num_spec_tokens=3), tokenizer='/models/q', skip_tokenizer_init=False, revision=None, "
    "dtype=torch.bfloat16, max_seq_len=262144, download_dir=None, load_format=auto, "
    "tensor_parallel_size=2, pipeline_parallel_size=1, quantization=modelopt, "
    "enforce_eager=False, kv_cache_dtype=fp8, device_config=cuda, enable_prefix_caching=True, "
    "compilation_config={'level': 3, 'custom_ops': []}"
)


def api(text: str) -> str:
    return f"(APIServer pid=1) INFO 09-01 10:00:00 [x.py:10] {text}\n"


def core(text: str, level: str = "INFO") -> str:
    return f"(EngineCore pid=9) {level} 09-01 10:01:00 [y.py:20] {text}\n"


def worker(text: str, rank: int = 0) -> str:
    return f"(Worker_TP{rank} pid={20 + rank}) INFO 09-01 10:02:00 [z.py:30] {text}\n"


def boot(version: str = "0.28.0") -> str:
    return (
        api("       █     █     █▄   ▄█")
        + api(f" ▄▄ ▄█ █     █     █ ▀▄▀ █  version {version}")
        + api("  █▄█▀ █     █     █     █  model   /models/q")
        + api(f"non-default args: {ARGS}")
        + api("Resolved architecture: Qwen3_5ForConditionalGeneration")
        + api("Using max model len 262144")
        + api("Resolved architecture: Qwen3_5MTP")
        + api("Using max model len 131072")
        + api("Chunked prefill is enabled with max_num_batched_tokens=8192.")
        + core(f"Initializing a V1 LLM engine (v{version}) with config: {CONFIG}")
        + worker("Starting to load model /models/q...", 1)
        + worker("Starting to load model /models/q...")
        + worker("Loading weights took 12.50 seconds")
        + worker("Model loading took 14.2 GiB memory and 13.100000 seconds", 1)
        + worker("Model loading took 14.1 GiB memory and 13.000000 seconds")
        + worker(
            "Setting attention block size to 1600 tokens to ensure that attention page size is "
            ">= mamba page size."
        )
        + worker("Available KV cache memory: 48.7 GiB", 1)
        + worker("Available KV cache memory: 48.6 GiB")
        + core(
            "GPU KV cache size: 1,394,129 tokens, Maximum concurrency for 262,144 tokens per "
            "request: 5.32x"
        )
        + worker("Graph capturing finished in 9 secs, took 1.25 GiB")
        + core("init engine (profile, create kv cache, warmup model) took 186.20 s")
        + api("Starting vLLM server on http://0.0.0.0:8000")
        + "(APIServer pid=1) INFO:     Started server process [1]\n"
        + "(APIServer pid=1) INFO:     Waiting for application startup.\n"
        + "(APIServer pid=1) INFO:     Application startup complete.\n"
    )


def test_a_whole_boot() -> None:
    report = read_text(boot())
    assert (report.engine, report.engine_version) == ("vllm", "0.28.0")
    assert report.ready
    assert report.phase == "ready"
    expected = {
        "model": "/models/q", "context_len": 262144, "context_len_requested": 262144,
        "kv_tokens": 1394129, "max_concurrency": 5.32, "available_kv_gib": 48.6,
        "max_running_requests_asked": 64, "max_running_requests_effective": 64,
        "chunked_prefill_size": 8192, "mem_usage_gb": 14.1, "attention_block_size": 1600,
        "num_speculative_tokens": 3, "tp_size": 2, "kv_dtype": "fp8", "draft_mem_usage_gb": None,
        "mem_fraction_static": None, "gpu_memory_utilization": 0.85, "context_usable": 262144,
    }  # fmt: skip
    assert {k: report.facts[k] for k in expected} == expected
    assert clamps(report) == []
    assert adjusted(report)["attention_block_size"] == (None, 1600)
    assert report.coverage == 1.0


def test_timeline_without_a_year_has_durations_and_no_dates() -> None:
    spans = {s.phase: s for s in read_text(boot()).timeline}
    assert spans["args"].seconds == 120.0  # 10:00 to the first worker line at 10:02
    assert spans["load_weights"].seconds == 13.0
    assert spans["graph_capture"].seconds == 9.0
    assert all(s.started is None for s in spans.values())


def test_a_container_clock_lends_its_year() -> None:
    text = "".join(f"2026-09-01 12:00:00.1 | {line}\n" for line in boot().splitlines())
    spans = {s.phase: s for s in read_text(text).timeline}
    assert spans["args"].started is not None
    assert read_text(text).facts["kv_tokens"] == 1394129


def test_the_engine_line_alone_says_what_is_effective() -> None:
    report = read_text(core(f"Initializing a V1 LLM engine (v0.24.0) with config: {CONFIG}"))
    facts = report.facts
    assert (facts["model"], facts["context_len"], facts["tp_size"]) == ("/models/q", 262144, 2)
    assert (facts["kv_dtype"], facts["num_speculative_tokens"]) == ("fp8", 3)
    assert facts["context_len_requested"] is None  # it may be the model's own
    assert facts["max_running_requests_asked"] is None


def test_readiness_is_not_the_open_port() -> None:
    text = boot().replace("Application startup complete", "Something else")
    report = read_text(text)
    assert not report.ready
    assert report.phase == "warmup"


@pytest.mark.parametrize(
    ("line", "version"),
    [
        ("INFO 01-02 10:00:00 api_server.py:712] vLLM API server version 0.6.6.post1\n",
         "0.6.6.post1"),
        ("INFO 05-02 10:00:00 [api_server.py:1043] vLLM API server version 0.8.5\n", "0.8.5"),
        ("(APIServer pid=7) INFO 10-03 20:29:58 [api_server.py:1839] vLLM API server version "
         "0.11.0rc2.dev98+g96ebcaa3a\n", "0.11.0rc2.dev98+g96ebcaa3a"),
        ("(EngineCore pid=7) INFO 05-10 10:00:00 [core.py:112] Initializing a V1 LLM engine "
         "(v0.20.2) with config: model='/m', max_seq_len=8192\n", "0.20.2"),
        ("(APIServer pid=7) INFO 07-02 10:00:00 [startup.py:2] vLLM server version 0.24.0, "
         "serving model /models/q\n", "0.24.0"),
        ("2026-04-19 12:18:36.353 | (APIServer pid=1) INFO 04-19 10:18:36 [utils.py:299]  ▄▄ ▄█ █ "
         "    █     █ ▀▄▀ █  version 0.19.2rc1.dev8+g4b7f5ea1a\n", "0.19.2rc1.dev8+g4b7f5ea1a"),
    ],
)  # fmt: skip
def test_version(line: str, version: str) -> None:
    report = read_text(line)
    assert (report.engine, report.engine_version) == ("vllm", version)


@pytest.mark.parametrize(
    ("text", "facts"),
    [
        ("# GPU blocks: 1234, # CPU blocks: 512", {"num_gpu_blocks": 1234, "kv_tokens": None}),
        ("# cuda blocks: 1234, # CPU blocks: 512", {"num_gpu_blocks": 1234}),
        ("GPU KV cache size: 75,456 tokens", {"kv_tokens": 75456}),
        ("Maximum concurrency for 65,536 tokens per request: 3.87x",
         {"max_concurrency": 3.87, "context_len": 65536}),
        ("CPU KV cache size: 75,456 tokens, Maximum concurrency for 65,536 tokens per request: "
         "3.87x", {"kv_tokens": 75456, "max_concurrency": 3.87}),
        ("GPU + host KV cache size: 75,456 tokens, Maximum concurrency for 65,536 tokens per "
         "request: 3.87x", {"kv_tokens": 75456}),
        ("Available KV cache memory: 2.95 GiB", {"available_kv_gib": 2.95}),
        ("Available KV cache memory: 71 GiB", {"available_kv_gib": 71}),
        ("Memory profiling results: duration=4.1 seconds, total_gpu_memory=23.64GiB, "
         "kv_cache_size=5.95GiB, gpu_memory_utilization=0.90.", {"available_kv_gib": 5.95}),
        ("Model loading took 14.7708 GiB and 24.325636 seconds", {"mem_usage_gb": 14.7708}),
        ("Model loading took 28.3 GiB memory and 24.325636 seconds", {"mem_usage_gb": 28.3}),
        ("Loading model weights took 14.2487 GB", {"mem_usage_gb": 14.2487}),
    ],
)  # fmt: skip
def test_wordings(text: str, facts: dict[str, object]) -> None:
    report = read_text(core(text))
    assert {k: report.facts.get(k) for k in facts} == facts


@pytest.mark.parametrize(
    ("level", "text", "kind", "arg", "asked", "got"),
    [
        ("INFO", "Auto-fit max_model_len: reduced from 262144 to 131072 to fit in available GPU "
         "memory (4.10 GiB available for KV cache)", "clamp", "--max-model-len", 262144, 131072),
        ("WARNING", "The draft model's max_model_len (4096) is smaller than the target model's "
         "(32768), so it cannot follow; reducing max_model_len to 4096.", "clamp",
         "--max-model-len", 32768, 4096),
        ("INFO", "Overriding draft model max model len from 262144 to 32768", "adjust",
         "draft_max_model_len", 262144, 32768),
        ("WARNING", "CUDAGraphMode.FULL_AND_PIECEWISE is not supported with FlashInferBackend "
         "backend (support: AttentionCGSupport.UNIFORM_BATCH); setting "
         "cudagraph_mode=FULL_DECODE_ONLY", "adjust", "cudagraph_mode", "FULL_AND_PIECEWISE",
         "FULL_DECODE_ONLY"),
        ("WARNING", "Capping cudagraph capture sizes from max 512 to 256 to fit Mamba cache blocks "
         "(256 blocks available). x", "adjust", "--max-cudagraph-capture-size", 512, 256),
        ("INFO", "CUDA graph memory profiling is enabled (default since v0.21.0). The current "
         "--gpu-memory-utilization=0.9000 is equivalent to --gpu-memory-utilization=0.8771 without "
         "CUDA graph memory profiling. x", "adjust", "--gpu-memory-utilization", 0.9, 0.8771),
        ("INFO", "Overriding num_gpu_blocks=700 with num_gpu_blocks_override=512", "adjust",
         "num_gpu_blocks", 700, 512),
        ("WARNING", "Unknown vLLM environment variable detected: VLLM_PLE_MMAP", "clamp",
         "environment variable", "VLLM_PLE_MMAP", "ignored"),
        ("WARNING", "Mamba cache mode is set to 'align' for Qwen3_5ForConditionalGeneration by "
         "default when prefix caching is enabled", "adjust", "--mamba-cache-mode", None, "align"),
    ],
)  # fmt: skip
def test_changes(level: str, text: str, kind: str, arg: str, asked: object, got: object) -> None:
    report = read_text(core(text, level))
    entries = report.clamps if kind == "clamp" else report.adjustments
    assert [(c.arg, c.asked, c.got) for c in entries] == [(arg, asked, got)]
    other = report.adjustments if kind == "clamp" else report.clamps
    assert other == ()


def test_what_was_asked_makes_a_clamp() -> None:
    asked = ARGS.replace("'mode': 3", "'cudagraph_mode': 'FULL_AND_PIECEWISE'")
    lost = core(
        "CUDAGraphMode.FULL_AND_PIECEWISE is not supported with spec-decode for attention backend "
        "FlashInferBackend (support: x); setting cudagraph_mode=PIECEWISE",
        "WARNING",
    )
    report = read_text(api(f"non-default args: {asked}") + lost)
    assert clamps(report) == [("cudagraph_mode", "FULL_AND_PIECEWISE", "PIECEWISE")]
    off = core("Hybrid or mamba-based model detected: disabling prefix caching since it is not "
               "yet supported.")  # fmt: skip
    report = read_text(api(f"non-default args: {ARGS}") + off)
    assert clamps(report) == [("--enable-prefix-caching", True, False)]
    report = read_text(api("non-default args: {'model': '/m'}") + off)
    assert clamps(report) == []
    assert adjusted(report) == {"--enable-prefix-caching": (None, False)}


def test_silent_changes_show_in_the_configuration_line() -> None:
    config = CONFIG.replace("enable_prefix_caching=True", "enable_prefix_caching=False")
    config = config.replace("max_seq_len=262144", "max_seq_len=131072")
    text = api(f"non-default args: {ARGS}") + core(
        f"Initializing a V1 LLM engine (v0.24.0) with config: {config}"
    )
    assert sorted(clamps(read_text(text))) == [
        ("--enable-prefix-caching", True, False),
        ("--max-model-len", 262144, 131072),
    ]
    same = api(f"non-default args: {ARGS}") + core(
        f"Initializing a V1 LLM engine (v0.24.0) with config: {CONFIG}"
    )
    assert clamps(read_text(same)) == []
    text = same.replace("speculative_config=SpeculativeConfig(method='mtp', model='/models/q', "
                        "num_spec_tokens=3)", "speculative_config=None")  # fmt: skip
    assert clamps(read_text(text)) == [("--speculative-config", "set", None)]


def test_profiling_blocks_are_no_override() -> None:
    text = core("Overriding num_gpu_blocks=0 with num_gpu_blocks_override=512")
    assert read_text(text).adjustments == ()


FATALS: tuple[tuple[str, str, dict[str, object], str], ...] = (
    ("context_exceeds_kv", "ValueError: The model's max seq len (8192) is larger than the maximum "
     "number of tokens that can be stored in KV cache (2400). Try increasing "
     "`gpu_memory_utilization` or decreasing `max_model_len` when initializing the engine.",
     {"context_that_fits": 2400, "context_len": 8192}, "Lower --max-model-len"),
    ("context_exceeds_kv", "ValueError: To serve at least one request with the models's max seq "
     "len (262144), (36.0 GiB KV cache is needed, which is larger than the available KV cache "
     "memory (6.94 GiB). Based on the available memory, the estimated maximum model length is "
     "50512. Try increasing", {"context_that_fits": 50512, "available_kv_gib": 6.94},
     "Lower --max-model-len"),
    ("kv_pool_no_memory", "ValueError: No available memory for the cache blocks. Try increasing "
     "`gpu_memory_utilization` when initializing the engine.", {}, "Raise"),
    ("kv_pool_no_memory", "ValueError: Free memory on device cuda:0 (20.1/23.56 GiB) on startup is "
     "less than desired GPU memory utilization (0.92, 21.68 GiB). Decrease GPU memory "
     "utilization or reduce GPU memory used by other processes.",
     {"free_at_start_gib": 20.1, "total_gib": 23.56}, "Lower --gpu-memory-utilization"),
    ("mamba_pool_too_small", "ValueError: max_num_seqs (256) exceeds available Mamba cache blocks "
     "(184). Each decode sequence requires one Mamba cache block, so CUDA graph capture cannot "
     "proceed. Please lower max_num_seqs to at most 184 or increase gpu_memory_utilization.",
     {"max_num_seqs": 256, "mamba_slots": 184}, "Lower --max-num-seqs"),
    ("kernel_unsupported", "triton.runtime.errors.OutOfResources: out of resource: shared memory, "
     "Required: 147456, Hardware limit: 101376. Reducing block sizes or `num_stages` may help.",
     {"smem_required": 147456, "smem_limit": 101376}, "No memory setting helps"),
    ("cuda_oom", "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.50 GiB. GPU 0 "
     "has a total capacity of 23.56 GiB of which 384.50 MiB is free. Including",
     {"oom_wanted_mib": 1536.0, "oom_free_mib": 384.5}, "--gpu-memory-utilization"),
    ("cuda_oom", "RuntimeError: CUDA out of memory occurred when warming up sampler with 256 dummy "
     "requests. Please try lowering `max_num_seqs` or `gpu_memory_utilization`", {}, "lower"),
    ("quantization_unsupported", "ValueError: The quantization method modelopt is not supported "
     "for the current GPU. Minimum capability: 89. Current capability: 86.", {}, "checkpoint"),
    ("missing_weights", "ValueError: Following weights were not initialized from checkpoint: "
     "{'mtp.fc.weight'}", {}, "verify"),
    ("engine_start_failed", "RuntimeError: Failed to infer device type, please set the environment",
     {}, "doctor"),
    ("bad_argument", "pydantic_core._pydantic_core.ValidationError: 1 validation error for "
     "ModelConfig", {}, "lint"),
    ("context_too_long", "ValueError: User-specified max_model_len (400000) is greater than the "
     "derived max_model_len (max_position_embeddings=262144 or model_max_length=None in model's "
     "config.json).", {"context_len_requested": 400000, "context_len_derived": 262144},
     "Lower --max-model-len"),
)  # fmt: skip


@pytest.mark.parametrize("case", FATALS, ids=lambda c: c[0])
def test_fatal_once_however_often_it_is_printed(
    case: tuple[str, str, dict[str, object], str],
) -> None:
    kind, message, facts, remedy = case
    head = "(EngineCore pid=9) ERROR 09-01 10:01:00 [core.py:700] "
    trace = (
        "EngineCore failed to start.",
        "Traceback (most recent call last):",
        '  File "/opt/venv/lib/python3.12/site-packages/vllm/v1/engine/core.py", line 691, in run',
        "    engine_core = EngineCoreProc(*args, **kwargs)",
        "                  ^^^^^^^^^^^^^^^",
        message,
    )
    text = "".join(head + line + "\n" for line in trace)
    text += "(EngineCore pid=9) Process EngineCore:\n"
    text += "".join(f"(EngineCore pid=9) {line}\n" for line in trace[1:])
    text += "(APIServer pid=1) Traceback (most recent call last):\n"
    text += '(APIServer pid=1)   File "/opt/venv/bin/vllm", line 7, in <module>\n'
    text += "(APIServer pid=1) RuntimeError: Engine core initialization failed. See root cause "
    text += "above. Failed core proc(s): {'EngineCore': 1}\n"
    report = read_text(text)
    assert report.fatal is not None
    assert report.fatal.kind == kind
    assert report.fatal.evidence[0].line == 6
    assert {k: report.facts.get(k) for k in facts} == facts
    assert remedy in str(report.fatal.remedy)
    assert not report.ready


def test_echo_alone_is_a_failed_start() -> None:
    text = core("EngineCore failed to start.", "ERROR") + (
        "(APIServer pid=1) RuntimeError: Engine core initialization failed. See root cause above. "
        "Failed core proc(s): {}\n"
    )
    report = read_text(boot().partition("(Worker_TP0")[0] + text)
    assert report.fatal is not None
    assert report.fatal.kind == "engine_start_failed"


def test_killed_by_the_host() -> None:
    text = (
        boot()
        + core("x", "INFO")
        + (
            "(APIServer pid=1) ERROR 09-01 11:00:00 [core_client.py:600] Engine core proc "
            "EngineCore "
            "died unexpectedly (exit code: -9), shutting down client.\n"
        )
    )
    report = read_text(text)
    assert report.ready
    assert report.fatal is not None
    assert report.fatal.kind == "killed"
    assert report.facts["phase_at_failure"] == "serving"


def test_bad_request_is_no_death() -> None:
    text = boot() + (
        "(APIServer pid=1) ERROR 09-01 11:00:00 [serving_chat.py:257] Error in preprocessing\n"
        "(APIServer pid=1) ERROR 09-01 11:00:00 [serving_chat.py:257] Traceback (most recent call "
        "last):\n"
        '(APIServer pid=1) ERROR 09-01 11:00:00 [serving_chat.py:257]   File "x.py", line 1, in f\n'
        "(APIServer pid=1) ERROR 09-01 11:00:00 [serving_chat.py:257] ValueError: This model's "
        "maximum context length is 262144 tokens. However, you requested more.\n"
        '(APIServer pid=1) INFO:     10.0.0.1:1 - "POST /v1/chat/completions HTTP/1.1" 400 Bad\n'
    )
    report = read_text(text)
    assert report.fatal is None
    assert report.ready


def test_ctrl_c_is_no_death() -> None:
    text = boot() + (
        "(APIServer pid=1) INFO 09-01 11:00:00 [launcher.py:110] Shutting down FastAPI HTTP "
        "server.\n"
        "[rank0]:[W901 19:53:46.84 ProcessGroupNCCL.cpp:1624] Warning: WARNING: "
        "destroy_process_group() was not called before program exit\n"
        "(APIServer pid=1) INFO:     Shutting down\n"
        "(EngineCore pid=9) ERROR 09-01 11:00:01 [core.py:700] EngineCore encountered a fatal "
        "error.\n"
    )
    report = read_text(text)
    assert (report.ready, report.phase, report.fatal) == (True, "stopping", None)


def test_waiting_for_memory_of_the_graphs_is_slow_not_dead() -> None:
    text = core("No available shared memory broadcast block found in 60 seconds. This typically "
                "happens when some processes are hanging or doing some time-consuming "
                "work.")  # fmt: skip
    report = read_text(text)
    assert report.fatal is None
    assert report.coverage == 1.0


def test_replicas_share_the_request_limit_that_is_said_once() -> None:
    """Each data-parallel engine core has a scheduler of its own, with all of --max-num-seqs."""
    head = "INFO 11-29 22:13:33 [kv_cache_utils.py:1229] GPU KV cache size: "
    text = (
        "(APIServer pid=1) INFO 11-29 22:13:32 [utils.py:233] non-default args: {'model': 'm', "
        "'max_num_seqs': 4, 'data_parallel_size': 2}\n"
        f"(EngineCore_DP0 pid=2) {head}100,000 tokens\n"
        f"(EngineCore_DP1 pid=3) {head}90,000 tokens\n"
    )
    facts = read_text(text).facts
    assert (facts["kv_tokens"], facts["kv_tokens_all"], facts["dp_replicas"]) == (
        90_000,
        190_000,
        2,
    )
    assert (facts["max_running_requests_effective"], facts["max_running_requests_all"]) == (4, 8)
