"""SGLang 0.4.6 to 0.5.23: wordings of its releases, and clamps."""

from __future__ import annotations

import pytest

from enginelog.reading import adjusted, clamps, read_text
from enginelog.sglang_lines import ARGS, SUMMARY, at


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
    ("begin", "end"),
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


# --- running requests: announced in each release, and silent --------------------------------


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
    assert str(report.clamps[0].by) == by
    assert report.facts["max_running_requests_asked"] == 4


def test_silent_cap_of_the_state_cache_names_it() -> None:
    text = (
        at(ARGS.format(asked=8))
        + at("Mamba Cache is allocated. max_mamba_cache_size: 16, conv_state size: 0.13GB, "
             "ssm_state size: 7.29GB ")
        + at(SUMMARY.format(running=3))
    )  # fmt: skip
    clamp = read_text(text).clamps[0]
    assert (clamp.asked, clamp.got, str(clamp.by)) == (8, 3, "mamba state cache")
    assert clamp.evidence is not None
    assert clamp.evidence.line == 3


def test_only_data_parallel_attention_shares_the_requests_out() -> None:
    """``requested_per_worker = max_num_reqs // attn_dp_size``; plain replicas get them all."""
    args = "server_args=ServerArgs(model_path='/m', max_running_requests=8, dp_size=2{more})"
    attention = at(args.format(more=", enable_dp_attention=True"))
    assert read_text(attention + at(SUMMARY.format(running=4))).clamps == ()
    plain = at(args.format(more=", enable_dp_attention=False"))
    assert clamps(read_text(plain + at(SUMMARY.format(running=4)))) == [
        ("--max-running-requests", 8, 4)
    ]


def test_the_smallest_replica_says_how_long_a_request_may_be() -> None:
    """Its pool refuses what another would take; who is asked is not the client's choice."""
    text = at("server_args=ServerArgs(model_path='/m', context_length=9000, dp_size=3)")
    for replica, tokens in ((1, 9000), (0, 8000), (2, 7000)):
        text += (
            f"[2026-08-01 10:00:09 DP{replica} TP0] max_total_num_tokens={tokens}, "
            "chunked_prefill_size=2048, max_prefill_tokens=16384, "
            f"max_running_requests={4 + replica}, context_len=9000, available_gpu_mem=1.00 GB\n"
        )
    facts = read_text(text).facts
    assert facts["kv_tokens"] == 7000
    assert facts["kv_tokens_all"] == 24_000
    assert facts["context_usable"] == 6994
    assert (facts["max_running_requests_effective"], facts["max_running_requests_all"]) == (4, 15)
    assert facts["dp_replicas"] == 3


@pytest.mark.parametrize(
    ("got", "said"), [((2, 3), "in each of 2 replicas"), ((2, 4), "in 1 of 2 replicas")]
)
def test_a_clamp_says_in_how_many_replicas_it_is(got: tuple[int, int], said: str) -> None:
    text = at("server_args=ServerArgs(model_path='/m', max_running_requests=4, dp_size=2)")
    for replica, running in enumerate(got):
        text += at(SUMMARY.format(running=running)).replace("] ", f" DP{replica} TP0] ", 1)
    (clamp,) = read_text(text).clamps
    assert (clamp.asked, clamp.got) == (4, 2)
    assert said in str(clamp.why)


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


def test_silent_changes_show_in_later_lines() -> None:
    text = (
        at("server_args={'chunked_prefill_size': 8192, 'max_mamba_cache_size': 16, "
           "'kv_cache_dtype': 'fp8_e4m3', 'context_length': 65536, "
           "'enable_hierarchical_cache': True, 'disable_radix_cache': False}")
        + at("Mamba Cache is allocated. max_mamba_cache_size: 12, conv_state size: 0.13GB, "
             "ssm_state size: 7.29GB ")
        + at("KV Cache is allocated. dtype: torch.bfloat16, #tokens: 840736, K size: 4.15 GB, V "
             "size: 4.15 GB")
        + at(SUMMARY.format(running=2))
        + at("Tree cache initialized: source=default impl=ChunkCache hybrid_swa=False "
             "hybrid_ssm=True hicache_attached=False")
    )  # fmt: skip
    report = read_text(text)
    assert sorted(clamps(report)) == [
        ("--chunked-prefill-size", 8192, 2048),
        ("--context-length", 65536, 32768),
        ("--enable-hierarchical-cache", True, False),
        ("--kv-cache-dtype", "fp8_e4m3", "torch.bfloat16"),
        ("--max-mamba-cache-size", 16, 12),
    ]
    assert adjusted(report)["--disable-radix-cache"] == (False, True)


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
