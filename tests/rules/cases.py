"""For every rule: launches on which it must fire and launches on which it must stay silent.

Commands come from the seeds' recipes, the recorded boots and the engines' sources; each silent one
is the fiery one with the single thing put right.
"""

# ruff: noqa: E501  (a launch is read more easily on one line)
from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

S = "python -m sglang.launch_server "
M27 = "--model-path /models/Qwen3.8-27B-NVFP4 "
S27 = S + M27
FLASH = S + "--model-path /models/Qwen3.8-Flash-Next-NVFP4 "
LLAMA = S + "--model-path meta-llama/Llama-3.1-8B-Instruct "
MTP = "--speculative-algorithm NEXTN "
V27 = "vllm serve Qwen/Qwen3.8-27B "
VFL = "vllm serve nvidia/Qwen3.8-Flash-Next-NVFP4 "
PLE = "SGLANG_QWEN4_PLE_NVME_"
FORK = f"{PLE}PATH=/m {PLE}BACKEND=io_uring "
SM120, SM121, SM90, SM100 = 120, 121, 90, 100


@dataclass(frozen=True)
class Launch:
    text: str
    known: dict[str, Any] = field(default_factory=dict)
    """What ``judge`` is told beside the command."""


def on(text: str, **known: Any) -> Launch:
    return Launch(text, known)


Cases = dict[str, tuple[list[Launch | str], list[Launch | str]]]

CASES: Cases = {
    # --- memory
    "draft-path-fivefold": (
        [
            S27 + MTP + "--speculative-draft-model-path /models/Qwen3.8-27B-NVFP4",
            S27 + "--speculative-algorithm EAGLE --speculative-draft-model-path=/other",
            S + "--model Qwen/Qwen3.5-35B-A3B " + MTP + "--speculative-draft-model-path /x",
        ],
        [
            S27 + MTP,
            S27 + "--speculative-algorithm NGRAM --speculative-draft-model-path /x",
            LLAMA + "--speculative-algorithm EAGLE --speculative-draft-model-path /x",
            S27 + "--speculative-draft-model-path /x",
        ],
    ),
    "no-mtp-no-workspace": (
        [S27 + "--mem-fraction-static 0.97", S27 + "--mem-fraction-static=0.95"],
        [
            S27 + "--mem-fraction-static 0.97 " + MTP,
            S27 + "--mem-fraction-static 0.90",
            LLAMA + "--mem-fraction-static 0.97",
            on(S27 + "--mem-fraction-static 0.97", card_gib=95.0),
            on(S27 + "--mem-fraction-static 0.97", card=SM90),
        ],
    ),
    "no-mtp-head-room": (
        [S27 + "--mem-fraction-static 0.92", S27 + "--mem-fraction-static .91"],
        [
            S27 + "--mem-fraction-static 0.90",
            S27 + "--mem-fraction-static 0.92 " + MTP,
            S27,
            on(S27 + "--mem-fraction-static 0.92", card_gib=139.0),
        ],
    ),
    "fraction-impossible": (
        [S27 + "--mem-fraction-static 92", S27 + "--mem-fraction-static 0"],
        [S27 + "--mem-fraction-static 0.92", S27, S27 + '--mem-fraction-static "$F"'],
    ),
    "count-impossible": (
        [
            S27 + "--max-running-requests -4",
            S27 + "--max-mamba-cache-size 0",
            S27 + "--page-size 0",
            S27 + "--context-length -1",
        ],
        [
            S27,
            S27 + "--max-running-requests 1 --max-mamba-cache-size 5 --page-size 1",
            # 0 is "not given" to the engine, and -1 switches chunking off.
            S27 + "--context-length 0 --chunked-prefill-size -1",
            S27 + '--max-running-requests "$N"',
        ],
    ),
    "tight-fraction": (
        [S27 + MTP + "--mem-fraction-static 0.97"],
        [S27 + MTP + "--mem-fraction-static 0.96", S27 + "--mem-fraction-static 0.97"],
    ),
    "outside-static-pool": (
        [S27 + "--mem-fraction-static 0.97 --tokenizer-worker-num 4"],
        [
            S27 + "--mem-fraction-static 0.93 --tokenizer-worker-num 4",
            S27 + "--mem-fraction-static 0.97 --tokenizer-worker-num 1",
        ],
    ),
    "tokenizer-workers": (
        [S27 + "--tokenizer-worker-num 4", S27 + "--tokenizer-worker-num 2"],
        [S27, S27 + "--tokenizer-worker-num 1", on(S27 + "--tokenizer-worker-num 4", card=SM90)],
    ),
    "draft-after-pools": (
        [S27 + MTP + "--mem-fraction-static 0.92"],
        [S27 + MTP + "--mem-fraction-static 0.75", S27 + "--mem-fraction-static 0.92"],
    ),
    "draft-freed-late": ([S27 + MTP], [S27, FLASH + MTP]),
    "context-above-model": (
        [S27 + "--context-length 1000000", FLASH + "--context-length 300000"],
        [
            S27 + "--context-length 262144",
            "SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN=1 " + S27 + "--context-length 1000000",
            S27 + "--context-length 500000 --json-model-override-args '{}'",
            S + "--model-path /models/unknown --context-length 1000000",
        ],
    ),
    "context-above-max-total": (
        [S27 + "--context-length 131072 --max-total-tokens 50000"],
        [S27 + "--context-length 50000 --max-total-tokens 50000", S27 + "--context-length 131072"],
    ),
    "context-above-pool": (
        [on(S27 + "--context-length 159776", kv_tokens=134_016)],
        [
            on(S27 + "--context-length 131072", kv_tokens=134_016),
            S27 + "--context-length 159776",
        ],
    ),
    "max-total-ignored": (
        [on(S27 + "--max-total-tokens 262144", kv_tokens=55_228)],
        [on(S27 + "--max-total-tokens 50000", kv_tokens=55_228), S27 + "--max-total-tokens 262144"],
    ),
    "requests-default-48": (
        [S27 + MTP],
        [S27 + MTP + "--max-running-requests 2", S27, LLAMA + MTP],
    ),
    "requests-default-48-charged": (
        [S27 + MTP],
        [S27 + MTP + "--max-running-requests 1", on(S27 + MTP, card=SM90)],
    ),
    "cuda-graph-off": ([S27 + "--disable-cuda-graph"], [S27, LLAMA + "--disable-cuda-graph"]),
    "kv-four-bit": (
        [S27 + "--kv-cache-dtype fp4_e2m1", on(S27 + "--kv-cache-dtype nvfp4", card=SM120)],
        [S27 + "--kv-cache-dtype fp8_e4m3", on(S27 + "--kv-cache-dtype nvfp4", card=SM100)],
    ),
    # --- state slots
    "slots-below-requests": (
        [
            S27 + MTP + "--mamba-scheduler-strategy extra_buffer --max-running-requests 4"
            " --max-mamba-cache-size 8",
            S27 + "--max-running-requests 9 --max-mamba-cache-size 10",
        ],
        [
            S27 + MTP + "--max-running-requests 1 --max-mamba-cache-size 8",
            S27 + "--max-mamba-cache-size 6",
            LLAMA + "--max-running-requests 4",
            S27 + "--max-running-requests 4 --max-mamba-cache-size 8 --disable-radix-cache",
        ],
    ),
    "slots-serve-none": (
        [S27 + MTP + "--max-running-requests 1 --max-mamba-cache-size 2"],
        [S27 + MTP + "--max-mamba-cache-size 8", S27 + MTP + "--max-mamba-cache-size 5"],
    ),
    "slots-no-margin": (
        [
            S27 + "--mamba-radix-cache-strategy extra_buffer --disable-overlap-schedule"
            " --speculative-algorithm EAGLE --max-running-requests 2 --max-mamba-cache-size 8"
        ],
        [
            S27 + "--mamba-radix-cache-strategy extra_buffer --disable-overlap-schedule"
            " --speculative-algorithm EAGLE --max-running-requests 2 --max-mamba-cache-size 11",
            S27 + MTP + "--max-running-requests 1 --max-mamba-cache-size 8",
        ],
    ),
    "slots-surplus": (
        [S27 + MTP + "--max-running-requests 1 --max-mamba-cache-size 32"],
        [
            S27 + MTP + "--max-running-requests 1 --max-mamba-cache-size 8",
            S27 + MTP + "--max-running-requests 4 --max-mamba-cache-size 32",
            on(S27 + MTP + "--max-running-requests 1 --max-mamba-cache-size 32", card=SM90),
        ],
    ),
    "ratio-high": (
        [S27 + MTP + "--mamba-full-memory-ratio 8.26", S27 + MTP + "--mamba-full-memory-ratio 3"],
        [
            S27 + MTP + "--mamba-full-memory-ratio 0.9",
            S27 + MTP + "--mamba-full-memory-ratio 8.26 --max-mamba-cache-size 8",
            S27 + "--mamba-full-memory-ratio 8.26",
        ],
    ),
    "ratio-inert": (
        [S27 + "--mamba-full-memory-ratio 0.9 --max-mamba-cache-size 8"],
        [S27 + "--mamba-full-memory-ratio 0.9", S27 + "--max-mamba-cache-size 8"],
    ),
    "lazy-with-drafts": (
        [S27 + MTP + "--mamba-radix-cache-strategy extra_buffer_lazy"],
        [
            S27 + MTP + "--mamba-radix-cache-strategy extra_buffer",
            S27 + "--mamba-radix-cache-strategy extra_buffer_lazy",
        ],
    ),
    "lazy-with-dflash": (
        [S27 + "--speculative-algorithm dflash --mamba-radix-cache-strategy extra_buffer_lazy"],
        [S27 + MTP + "--mamba-radix-cache-strategy extra_buffer_lazy"],
    ),
    "lazy-without-overlap": (
        [S27 + "--mamba-radix-cache-strategy extra_buffer_lazy --disable-overlap-schedule"],
        [
            S27 + "--mamba-radix-cache-strategy extra_buffer_lazy",
            S27 + "--mamba-radix-cache-strategy extra_buffer --disable-overlap-schedule",
        ],
    ),
    "no-buffer-with-drafts": (
        [S27 + MTP, S27 + MTP + "--mamba-scheduler-strategy no_buffer"],
        [
            S27 + MTP + "--mamba-scheduler-strategy extra_buffer",
            S27,
            S27 + MTP + "--disable-radix-cache",
        ],
    ),
    "no-buffer-drops-radix": (
        [S27 + MTP],
        [S27 + MTP + "--mamba-scheduler-strategy extra_buffer", S27],
    ),
    "no-buffer-overlap": (
        [S27 + "--mamba-radix-cache-strategy no_buffer"],
        [
            S27 + "--mamba-radix-cache-strategy no_buffer --disable-overlap-schedule",
            S27,
            S27 + "--mamba-radix-cache-strategy no_buffer --disable-radix-cache",
        ],
    ),
    "no-buffer-overlap-lost": (
        [S27 + "--mamba-scheduler-strategy no_buffer"],
        [S27, S27 + "--mamba-scheduler-strategy no_buffer --disable-overlap-schedule"],
    ),
    "no-buffer-page": (
        [S27 + "--mamba-radix-cache-strategy no_buffer --page-size 32"],
        [
            S27 + "--mamba-radix-cache-strategy no_buffer --page-size 1",
            S27 + "--mamba-radix-cache-strategy extra_buffer --page-size 32",
        ],
    ),
    "no-buffer-page-reset": (
        [S27 + "--page-size 32"],
        [S27 + "--page-size 1", S27 + "--page-size 32 --mamba-scheduler-strategy extra_buffer"],
    ),
    "no-buffer-trtllm": (
        [S27 + "--mamba-radix-cache-strategy no_buffer --attention-backend trtllm_mha"],
        [S27 + "--mamba-radix-cache-strategy no_buffer --attention-backend triton"],
    ),
    "auto-becomes-no-buffer": (
        [S27 + "--disable-overlap-schedule", S27 + "--linear-attn-backend flashinfer"],
        [
            S27,
            S27 + "--disable-overlap-schedule --page-size 32",
            S27 + "--linear-attn-backend triton",
        ],
    ),
    "extra-buffer-backend": (
        [S27 + "--mamba-radix-cache-strategy extra_buffer --linear-attn-backend flashinfer"],
        [
            S27 + "--mamba-radix-cache-strategy extra_buffer --linear-attn-backend triton",
            S27 + "--mamba-radix-cache-strategy extra_buffer",
        ],
    ),
    "extra-buffer-without-radix": (
        [S27 + "--mamba-scheduler-strategy extra_buffer --disable-radix-cache"],
        [
            S27 + "--mamba-scheduler-strategy extra_buffer",
            S27 + "--mamba-scheduler-strategy no_buffer --disable-radix-cache",
        ],
    ),
    "track-interval-drafts": (
        [
            S27 + MTP + "--mamba-scheduler-strategy extra_buffer --mamba-track-interval 2"
            " --speculative-num-steps 5 --speculative-eagle-topk 1"
        ],
        [
            S27 + MTP + "--mamba-scheduler-strategy extra_buffer --mamba-track-interval 64"
            " --speculative-num-steps 5 --speculative-eagle-topk 1",
            S27 + "--mamba-scheduler-strategy extra_buffer --mamba-track-interval 2",
        ],
    ),
    "track-interval-page": (
        [
            S27 + "--mamba-scheduler-strategy extra_buffer --page-size 64"
            " --mamba-track-interval 32"
        ],
        [
            S27 + "--mamba-scheduler-strategy extra_buffer --page-size 64"
            " --mamba-track-interval 128",
            S27 + "--mamba-scheduler-strategy extra_buffer --page-size 32",
        ],
    ),
    "page-no-divisor-of-track": (
        [S27 + "--mamba-scheduler-strategy extra_buffer --page-size 48"],
        [
            S27 + "--mamba-scheduler-strategy extra_buffer --page-size 32",
            S27 + "--mamba-scheduler-strategy extra_buffer --page-size 48"
            " --mamba-track-interval 96",
        ],
    ),
    "track-interval-64": (
        [S27 + "--mamba-track-interval 64"],
        [S27, S27 + "--mamba-track-interval 256", FLASH + "--mamba-track-interval 64"],
    ),
    "int8-state-checkpoint": (
        [S27 + "--enable-int8-mamba-checkpoint"],
        [S27, S27 + "--enable-int8-mamba-checkpoint --enable-hierarchical-cache"],
    ),
    "int8-state-with-hicache": (
        [S27 + "--enable-int8-mamba-checkpoint --enable-hierarchical-cache"],
        [S27 + "--enable-int8-mamba-checkpoint", S27 + "--enable-hierarchical-cache"],
    ),
    "chunk-below-checkpoint": (
        [S27 + "--chunked-prefill-size 32", S27 + "--chunked-prefill-size 64 --page-size 128"],
        [S27 + "--chunked-prefill-size 2048", S27 + "--chunked-prefill-size -1", S27],
    ),
    "flashinfer-decode-no-buffer": (
        [S27 + "--linear-attn-decode-backend flashinfer"],
        [
            S27 + "--linear-attn-decode-backend flashinfer --mamba-scheduler-strategy extra_buffer",
            S27 + "--linear-attn-decode-backend triton",
        ],
    ),
    "replayssm-dtype": (
        [S27 + MTP + "--enable-linear-replayssm-spec --mamba-ssm-dtype bfloat16"],
        [
            S27 + MTP + "--enable-linear-replayssm-spec",
            S27 + MTP + "--enable-linear-replayssm-spec --mamba-ssm-dtype float32",
        ],
    ),
    # --- speculation
    "mixed-chunk-ignored": (
        [S27 + MTP + "--enable-mixed-chunk"],
        [S27 + "--enable-mixed-chunk", S27 + MTP],
    ),
    "draft-tokens-forced": (
        [
            S27 + MTP + "--speculative-num-steps 3 --speculative-eagle-topk 1"
            " --speculative-num-draft-tokens 8"
        ],
        [
            S27 + MTP + "--speculative-num-steps 3 --speculative-eagle-topk 1"
            " --speculative-num-draft-tokens 4",
            S27 + MTP + "--speculative-num-steps 3 --speculative-eagle-topk 2"
            " --speculative-num-draft-tokens 8",
        ],
    ),
    "draft-parameters-partial": (
        [S27 + MTP + "--speculative-num-draft-tokens 4", S27 + MTP + "--speculative-eagle-topk 1"],
        [S27 + MTP, S27 + MTP + "--speculative-num-steps 3 --speculative-eagle-topk 1"],
    ),
    "deep-draft-chain": (
        [S27 + MTP + "--speculative-num-steps 7"],
        [S27 + MTP + "--speculative-num-steps 5", LLAMA + MTP + "--speculative-num-steps 7"],
    ),
    "adaptive-drafts": ([S27 + MTP + "--speculative-adaptive"], [S27 + MTP]),
    "spec-attention-decode": (
        [S27 + MTP + "--speculative-attention-mode decode"],
        [S27 + MTP + "--speculative-attention-mode prefill", S27 + MTP],
    ),
    "ngram-out-of-memory": (
        [S27 + "--speculative-algorithm NGRAM --mem-fraction-static 0.97"],
        [
            S27 + "--speculative-algorithm NGRAM --mem-fraction-static 0.85",
            on(S27 + "--speculative-algorithm NGRAM --mem-fraction-static 0.97", card_gib=95),
        ],
    ),
    "ngram-weak": (
        [S27 + "--speculative-algorithm NGRAM", S27 + "--speculative-algorithm ngram"],
        [S27 + MTP, S27 + "--speculative-algorithm NGRAM --mem-fraction-static 0.97"],
    ),
    "foreign-drafter": (
        [S27 + "--speculative-algorithm DFLASH --speculative-draft-model-path /d"],
        [S27 + MTP, LLAMA + "--speculative-algorithm EAGLE3"],
    ),
    "draft-quantization-inert": (
        [S27 + MTP + "--speculative-draft-model-quantization modelopt_fp4"],
        [
            S27 + MTP,
            S + "--model-path /m/Qwen3.8-27B-FP8 " + MTP
            + "--speculative-draft-model-quantization fp8",
        ],
    ),
    "draft-window-inert": (
        [S27 + MTP + "--speculative-draft-window-size 512"],
        [S27 + "--speculative-algorithm DFLASH --speculative-draft-window-size 512", S27 + MTP],
    ),
    "gguf-has-no-mtp": (
        [S + "--model-path /m/Qwen3.8-27B-GGUF/q6_k.gguf " + MTP],
        [S27 + MTP, S + "--model-path /m/Qwen3.8-27B-GGUF/q6_k.gguf"],
    ),
    "spec-v2-off": (
        [S27 + MTP],
        ["SGLANG_ENABLE_SPEC_V2=1 " + S27 + MTP, S27 + MTP + "--disable-overlap-schedule"],
    ),
    # --- caches and pages
    "hicache-no-hybrid": (
        [S27 + "--enable-hierarchical-cache"],
        [S27, LLAMA + "--enable-hierarchical-cache"],
    ),
    "hicache-hybrid": (
        [S27 + "--enable-hierarchical-cache --hicache-size 12"],
        [S27, LLAMA + "--enable-hierarchical-cache"],
    ),
    "hicache-without-radix": (
        [LLAMA + "--enable-hierarchical-cache --disable-radix-cache"],
        [LLAMA + "--enable-hierarchical-cache", LLAMA + "--disable-radix-cache"],
    ),
    "radix-off": ([S27 + "--disable-radix-cache"], [S27]),
    "hicache-backend-switched": (
        [S27 + "--enable-hierarchical-cache --hicache-io-backend kernel --hicache-mem-layout page_first_direct"],
        [S27 + "--enable-hierarchical-cache --hicache-io-backend kernel --hicache-mem-layout page_first"],
    ),
    "hicache-layout-switched": (
        [S27 + "--enable-hierarchical-cache --hicache-io-backend direct --hicache-mem-layout page_first"],
        [S27 + "--enable-hierarchical-cache --hicache-io-backend direct --hicache-mem-layout layer_first"],
    ),
    "page-qsa": (
        [FLASH + "--page-size 32"],
        [FLASH + "--page-size 64", FLASH, S27 + "--page-size 32"],
    ),
    "page-trtllm": (
        [S27 + "--attention-backend trtllm_mha --page-size 1"],
        [
            S27 + "--attention-backend trtllm_mha --page-size 64",
            S27 + "--attention-backend trtllm_mha",
            S27 + "--attention-backend flashinfer --page-size 1",
        ],
    ),
    "page-fa4": (
        [S27 + "--attention-backend fa4 --page-size 64"],
        [S27 + "--attention-backend fa4 --page-size 128", S27 + "--attention-backend fa4"],
    ),
    "chunk-page": (
        [S27 + "--chunked-prefill-size 1000 --page-size 64"],
        [
            S27 + "--chunked-prefill-size 2048 --page-size 32",
            S27 + "--chunked-prefill-size -1 --page-size 32",
            S27 + "--chunked-prefill-size 1000",
        ],
    ),
    "unified-memory-flash": (
        [FLASH + "--enable-unified-memory"],
        [FLASH, S27 + "--enable-unified-memory"],
    ),
    "config-with-equals": (
        [S27 + "--config=/etc/sglang.yaml"],
        [S27 + "--config /etc/sglang.yaml", S27],
    ),
    # --- kernels
    "fp4-cudnn": (
        [
            S27 + "--fp4-gemm-backend flashinfer_cudnn",
            on(S27 + "--fp4-gemm-backend flashinfer_cudnn", card=SM120),
        ],
        [
            S27 + "--fp4-gemm-backend auto",
            on(S27 + "--fp4-gemm-backend flashinfer_cudnn", card=SM100),
        ],
    ),
    "fp4-auto-is-cudnn": (
        [on(S27, card=SM120), "FLASHINFER_CUDA_ARCH_LIST=12.0f " + S27],
        [
            S27,
            on(S27 + "--fp4-gemm-backend flashinfer_cutlass", card=SM120),
            on(S + "--model-path /m/Qwen3.8-27B-INT4", card=SM120),
        ],
    ),
    "fp4-cutedsl": (
        [S27 + "--fp4-gemm-backend flashinfer_cutedsl"],
        [S27, on(S27 + "--fp4-gemm-backend flashinfer_cutedsl", card=SM100)],
    ),
    "fp4-before-blackwell": (
        [on(S27 + "--fp4-gemm-backend flashinfer_cutlass", card=SM90)],
        [
            on(S27 + "--fp4-gemm-backend marlin", card=SM90),
            on(S27, card=SM90),
            S27 + "--fp4-gemm-backend flashinfer_cutlass",
        ],
    ),
    "triton-attention": (
        [S27 + "--attention-backend triton", S27 + "--attention-backend triton --context-length 65536"],
        [
            S27 + "--attention-backend flashinfer",
            S27 + "--attention-backend triton --context-length 8192",
            on(S27 + "--attention-backend triton", card=SM90),
        ],
    ),
    "attention-blackwell": (
        [on(S27 + "--attention-backend fa3", card=SM120)],
        [
            on(S27 + "--attention-backend flashinfer", card=SM120),
            on(S27 + "--attention-backend fa3", card=SM90),
            S27 + "--attention-backend fa3",
        ],
    ),
    "attention-blackwell-fa4": (
        [on(S27 + "--attention-backend fa4", card=SM120)],
        [on(S27 + "--attention-backend fa4", card=SM100), S27 + "--attention-backend fa4"],
    ),
    "attention-blackwell-first": (
        [on(S27 + "--attention-backend flashinfer", card=SM120)],
        [on(S27 + "--attention-backend triton", card=SM120), on(S27, card=SM120)],
    ),
    "linear-flashinfer-state": (
        [on(S27 + "--linear-attn-decode-backend flashinfer", card=SM100)],
        [
            on(
                S27 + "--linear-attn-decode-backend flashinfer --mamba-ssm-dtype bfloat16",
                card=SM100,
            ),
            on(S27 + "--linear-attn-decode-backend flashinfer", card=SM120),
        ],
    ),
    "fused-qk-norm-rope": ([S27 + "--enable-fused-qk-norm-rope"], [S27]),
    "prefill-graph-eagle": (
        [FLASH + MTP + "--cuda-graph-backend-prefill tc_piecewise"],
        [
            FLASH + "--cuda-graph-backend-prefill tc_piecewise",
            FLASH + MTP + "--cuda-graph-backend-prefill breakable",
        ],
    ),
    "model-too-new-qwen35": ([S27], [LLAMA]),
    "model-too-new-flash": (
        [FLASH],
        [S27, FORK + FLASH, on(FLASH, fork=True)],
    ),
    # --- PLE
    "ple-row-cache-backend": (
        [f"{PLE}CACHE_MODE=row {PLE}BACKEND=mmap {PLE}CACHE_BYTES=1 " + FLASH,
         f"{PLE}CACHE_MODE=row {PLE}CACHE_BYTES=1 " + FLASH],
        [FORK + f"{PLE}CACHE_MODE=row {PLE}CACHE_BYTES=1 " + FLASH, FORK + FLASH],
    ),
    "ple-row-cache-bytes": (
        [FORK + f"{PLE}CACHE_MODE=row " + FLASH,
         FORK + f"{PLE}CACHE_MODE=row {PLE}CACHE_BYTES=-1 " + FLASH],
        [FORK + f"{PLE}CACHE_MODE=row {PLE}CACHE_BYTES=536870912 " + FLASH,
         FORK + f"{PLE}CACHE_MODE=row {PLE}CACHE_BYTES=0 " + FLASH,
         FORK + f"{PLE}CACHE_MODE=page " + FLASH],
    ),
    "ple-row-cache-pages": (
        [FORK + f"{PLE}CACHE_MODE=row {PLE}CACHE_BYTES=1 {PLE}CACHE_PAGES=5242880 " + FLASH],
        [FORK + f"{PLE}CACHE_MODE=row {PLE}CACHE_BYTES=1 {PLE}CACHE_PAGES=0 " + FLASH,
         FORK + f"{PLE}CACHE_PAGES=5242880 " + FLASH],
    ),
    "ple-cache-bytes-invalid": (
        [FORK + f"{PLE}CACHE_BYTES=512MiB " + FLASH],
        [FORK + f"{PLE}CACHE_BYTES=536870912 " + FLASH, FORK + FLASH],
    ),
    "ple-mmap-unbounded": (
        [f"{PLE}PATH=/m {PLE}BACKEND=mmap {PLE}CACHE_BYTES=536870912 " + FLASH,
         f"{PLE}PATH=/m {PLE}BACKEND=mmap {PLE}CACHE_PAGES=5242880 " + FLASH],
        [f"{PLE}PATH=/m {PLE}BACKEND=mmap " + FLASH, FORK + f"{PLE}CACHE_BYTES=1 " + FLASH],
    ),
    "ple-one-gpu": (
        [FORK + FLASH + "--tp-size 2", FORK + FLASH + "--tp 2"],
        [FORK + FLASH + "--tp-size 1", FORK + FLASH, FLASH + "--tp-size 2"],
    ),
    "ple-variables-upstream": ([FORK + FLASH], [FLASH, on(FORK + FLASH, fork=True)]),
    "ple-needs-the-fork": (
        [on(FORK + FLASH, version=None)],
        [on(FLASH, version=None), on(FORK + FLASH, version=None, fork=True), FORK + FLASH],
    ),
    "ple-fork-wheel-old": ([FORK + FLASH], [FLASH]),
    "ple-fork-card": (
        [on(FORK + FLASH, card=SM90)],
        [on(FORK + FLASH, card=SM120), FORK + FLASH],
    ),
    "ple-file-backend": (
        [FLASH + "--ple-offload-backend file"],
        [FLASH + "--ple-offload-backend pinned", on(FLASH + "--ple-offload-backend file", card=SM121)],
    ),
    "ple-file-discrete": (
        [on(FLASH + "--ple-offload-backend file", card=SM120)],
        [on(FLASH + "--ple-offload-backend file", card=SM121), FLASH + "--ple-offload-backend file"],
    ),
    "ple-file-without-offload": (
        [FLASH + "--ple-offload-backend file --no-ple-offload-embedding"],
        [FLASH + "--ple-offload-backend file --ple-offload-embedding",
         FLASH + "--ple-offload-backend file"],
    ),
    "ple-offload-twice": (
        [FLASH + "--ple-offload-embedding --cpu-offload-gb 8"],
        [FLASH + "--ple-offload-embedding", FLASH + "--cpu-offload-gb 8"],
    ),
    # --- vLLM
    "vllm-model-too-new-qwen35": ([V27], ["vllm serve meta-llama/Llama-3.1-8B"]),
    "vllm-model-too-new-flash": ([VFL], [V27, "VLLM_PLE_MMAP=1 " + VFL]),
    "vllm-context-above-model": (
        [V27 + "--max-model-len 500000", V27 + "--max-model-len 500k"],
        [V27 + "--max-model-len 262144", "VLLM_ALLOW_LONG_MAX_MODEL_LEN=1 " + V27 + "--max-model-len 500000",
         V27 + "--max-model-len 500000 --hf-overrides '{}'"],
    ),
    "vllm-context-decimal": (
        [V27 + "--max-model-len 200k"],
        [V27 + "--max-model-len 200K", V27 + "--max-model-len 200000"],
    ),
    "vllm-context-auto": ([V27 + "--max-model-len auto"], [V27 + "--max-model-len 32768", V27]),
    "vllm-batch-below-sequences": (
        [V27 + "--max-num-batched-tokens 128 --max-num-seqs 256"],
        [V27 + "--max-num-batched-tokens 8192 --max-num-seqs 256"],
    ),
    "vllm-batch-below-context": (
        [V27 + "--no-enable-chunked-prefill --max-num-batched-tokens 8192 --max-model-len 32768"],
        [V27 + "--max-num-batched-tokens 8192 --max-model-len 32768"],
    ),
    "vllm-prefix-cache-off": (
        [V27],
        [V27 + "--enable-prefix-caching", V27 + "--no-enable-prefix-caching"],
    ),
    "vllm-prefix-cache-refused": ([V27 + "--enable-prefix-caching"], [V27]),
    "vllm-align-with-drafts": (
        [V27 + "--enable-prefix-caching --speculative-config '{\"method\":\"mtp\"}'"],
        [V27 + "--enable-prefix-caching", V27 + "--speculative-config '{\"method\":\"mtp\"}'"],
    ),
    "vllm-mamba-mode-all": (
        [V27 + "--mamba-cache-mode all"],
        [V27 + "--mamba-cache-mode align", V27],
    ),
    "vllm-mamba-mode-dead": ([V27 + "--mamba-cache-mode align"], [V27]),
    "vllm-mamba-block-without-prefix": (
        [V27 + "--mamba-block-size 8192"],
        [V27 + "--mamba-block-size 8192 --enable-prefix-caching", V27],
    ),
    "vllm-mamba-block-no-prefix": (
        [V27 + "--mamba-block-size 8192 --no-enable-prefix-caching"],
        [V27 + "--mamba-block-size 8192", V27],
    ),
    "vllm-kv-scales": ([V27 + "--calculate-kv-scales"], [V27]),
    "vllm-method-renamed": (
        [V27 + "--speculative-config '{\"method\":\"qwen3_5_mtp\",\"num_speculative_tokens\":2}'",
         V27 + "--speculative-config.method qwen3_5_mtp"],
        [V27 + "--speculative-config '{\"method\":\"mtp\",\"num_speculative_tokens\":2}'", V27],
    ),
    "vllm-speculation-twice": (
        [V27 + "--speculative-config '{\"method\":\"mtp\"}' --spec-method mtp"],
        [V27 + "--spec-method mtp --spec-tokens 2"],
    ),
    "vllm-json-broken": (
        [V27 + "--speculative-config {method:mtp,num_speculative_tokens:2}",
         V27 + "--profiler-config {profiler:torch}"],
        [V27 + "--speculative-config '{\"method\":\"mtp\"}'", V27,
         V27 + '--speculative-config "$SPEC"'],
    ),
    "vllm-tools-without-parser": (
        [V27 + "--enable-auto-tool-choice"],
        [V27 + "--enable-auto-tool-choice --tool-call-parser qwen3_coder", V27],
    ),
    "vllm-parser-without-tools": (
        [V27 + "--tool-call-parser qwen3_coder"],
        [V27 + "--enable-auto-tool-choice --tool-call-parser qwen3_coder"],
    ),
    "vllm-profiler-variable": (
        ["VLLM_TORCH_PROFILER_DIR=/tmp/p " + V27],
        [V27 + "--profiler-config '{\"profiler\":\"torch\"}'"],
    ),
    "vllm-kv-bytes-win": (
        [V27 + "--kv-cache-memory-bytes 8G --gpu-memory-utilization 0.9"],
        [V27 + "--kv-cache-memory-bytes 8G", V27 + "--gpu-memory-utilization 0.9"],
    ),
    "vllm-block-size-raised": (
        [V27 + "--block-size 16"],
        [V27 + "--block-size 1600", "vllm serve meta-llama/Llama-3.1-8B --block-size 16"],
    ),
    "vllm-eager": ([V27 + "--enforce-eager"], [V27, V27 + "--no-enforce-eager"]),
    "vllm-stats-off": ([V27 + "--disable-log-stats"], [V27]),
    "vllm-utilization-impossible": (
        [V27 + "--gpu-memory-utilization 85"],
        [V27 + "--gpu-memory-utilization 0.85", V27 + "--gpu-memory-utilization 1"],
    ),
    "vllm-gguf-has-no-mtp": (
        ["vllm serve unsloth/Qwen3.8-27B-GGUF --speculative-config '{\"method\":\"mtp\"}'"],
        [V27 + "--speculative-config '{\"method\":\"mtp\"}'"],
    ),
    # --- Flash-Next on vLLM
    "vllm-ple-offload-hangs": (
        ["VLLM_PLE_MMAP=1 VLLM_PLE_CPU_OFFLOAD=1 " + VFL,
         "docker run -e VLLM_PLE_CPU_OFFLOAD=1 qwen38-flash-dgx:v0.31 /hf/Qwen3.8-Flash-Next --max-model-len 8192"],
        ["VLLM_PLE_MMAP=1 " + VFL, "VLLM_PLE_MMAP=1 VLLM_PLE_CPU_OFFLOAD=0 " + VFL],
    ),
    "vllm-ple-offload-unknown": (
        [on("VLLM_PLE_CPU_OFFLOAD=1 " + VFL, version="0.31.0")],
        [on("VLLM_PLE_CPU_OFFLOAD=1 " + VFL, version="0.30.0"), VFL],
    ),
    "vllm-ple-mmap-upstream": (
        ["VLLM_PLE_MMAP=1 " + VFL],
        [VFL, on("VLLM_PLE_MMAP=1 " + VFL, fork=True),
         "docker run -e VLLM_PLE_MMAP=1 qwen38-flash-dgx:v0.31 /hf/Qwen3.8-Flash-Next --max-model-len 8192"],
    ),
    "vllm-full-graphs": (
        ["VLLM_PLE_MMAP=1 " + VFL,
         "VLLM_PLE_MMAP=1 " + VFL + "--compilation-config '{\"cudagraph_mode\":\"FULL\"}'"],
        ["VLLM_PLE_MMAP=1 " + VFL + "-cc.cudagraph_mode=PIECEWISE",
         "VLLM_PLE_MMAP=1 " + VFL + "--enforce-eager", VFL],
    ),
    "vllm-prefix-cache-image": (
        ["VLLM_PLE_MMAP=1 " + VFL, "VLLM_PLE_MMAP=1 " + VFL + "--enable-prefix-caching"],
        ["VLLM_PLE_MMAP=1 " + VFL + "--no-enable-prefix-caching", VFL],
    ),
    "vllm-mtp-above-three": (
        [VFL + "--speculative-config '{\"method\":\"mtp\",\"num_speculative_tokens\":5}'",
         VFL + "--spec-method mtp --spec-tokens 4"],
        [VFL + "--speculative-config '{\"method\":\"mtp\",\"num_speculative_tokens\":3}'", VFL],
    ),
    "vllm-sequences-low": ([VFL + "--max-num-seqs 2"], [VFL + "--max-num-seqs 16", VFL]),
    "vllm-sequences-high": ([VFL + "--max-num-seqs 64"], [VFL + "--max-num-seqs 16", V27 + "--max-num-seqs 64"]),
    "vllm-flash-memory-low": (
        ["VLLM_PLE_MMAP=1 " + VFL + "--gpu-memory-utilization 0.78"],
        ["VLLM_PLE_MMAP=1 " + VFL + "--gpu-memory-utilization 0.85", VFL + "--gpu-memory-utilization 0.78"],
    ),
    "vllm-flash-memory-high": (
        ["VLLM_PLE_MMAP=1 " + VFL + "--gpu-memory-utilization 0.9"],
        ["VLLM_PLE_MMAP=1 " + VFL + "--gpu-memory-utilization 0.85", VFL + "--gpu-memory-utilization 0.9"],
    ),
    "vllm-flash-compile": (
        ["VLLM_PLE_MMAP=1 " + VFL + "-O3", on("VLLM_PLE_MMAP=1 " + VFL + "-O 3", card=SM121)],
        ["VLLM_PLE_MMAP=1 " + VFL, "VLLM_PLE_MMAP=1 " + VFL + "-O1",
         on("VLLM_PLE_MMAP=1 " + VFL + "-O3", card=SM120)],
    ),
    "vllm-flash-fp8-cache": (
        [VFL + "--kv-cache-dtype fp8"],
        [VFL + "--kv-cache-dtype auto", V27 + "--kv-cache-dtype fp8"],
    ),
    "vllm-flash-pipeline": (
        [VFL + "--pipeline-parallel-size 2"],
        [VFL + "--tensor-parallel-size 2", V27 + "--pipeline-parallel-size 2"],
    ),
    "vllm-flash-method": (
        [VFL + "--speculative-config '{\"method\":\"eagle3\",\"model\":\"x\"}'"],
        [VFL + "--speculative-config '{\"method\":\"mtp\"}'", VFL + "--spec-method ngram"],
    ),
    "vllm-flash-slow-start": (
        [VFL],
        ["VLLM_ENGINE_READY_TIMEOUT_S=1800 " + VFL, V27],
    ),
    "vllm-thinking-default": (
        [VFL],
        [VFL + "--default-chat-template-kwargs '{\"enable_thinking\":false}'", V27],
    ),
    # --- exposure
    "no-model": ([S + "--port 1"], [S27, "sglang serve Qwen/Qwen3.8-27B", S + "--config x.yaml", "--mem-fraction-static 0.9"]),
    "open-host-sglang": (
        [
            S27 + "--host 0.0.0.0",
            "docker run -p 30000:30000 lmsysorg/sglang:latest " + S27 + "--host 0.0.0.0",
            "docker run --network host lmsysorg/sglang:latest " + S27 + "--host 0.0.0.0",
        ],
        [
            S27,
            S27 + "--host 127.0.0.1",
            S27 + "--host 0.0.0.0 --api-key k",
            "docker run -p 127.0.0.1:30000:30000 lmsysorg/sglang:latest " + S27 + "--host 0.0.0.0",
            "docker run lmsysorg/sglang:latest " + S27 + "--host 0.0.0.0",
        ],
    ),
    "open-host-vllm": (
        [V27, V27 + "--host 0.0.0.0", "docker run -p 8000:8000 vllm/vllm-openai:latest --model Qwen/Qwen3.8-27B"],
        [V27 + "--host 127.0.0.1", "VLLM_API_KEY=x " + V27, V27 + "--api-key k",
         "docker run -p 127.0.0.1:8000:8000 vllm/vllm-openai:latest --model Qwen/Qwen3.8-27B"],
    ),
    "api-key-visible": (
        [S27 + "--api-key topsecret", S27 + "--admin-api-key=topsecret"],
        [S27, S27 + '--api-key "$KEY"'],
    ),
    "trust-remote-code": (
        [S27 + "--trust-remote-code", S + "--model-path /m/x --max-mamba-cache-size 8 --trust-remote-code"],
        [S27, LLAMA + "--trust-remote-code"],
    ),
    "metrics-off": ([S27], [S27 + "--enable-metrics", M27]),
    "idle-core": ([S27], [S27 + "--sleep-on-idle", M27]),
    "reasoning-in-answer": ([S27], [S27 + "--reasoning-parser qwen3", LLAMA, M27]),
    "sampling-params-inert": (
        [S27 + "--preferred-sampling-params '{\"temperature\":0.6}'"],
        [S27],
    ),
    "xet-ignores-mirror": (
        ["HF_ENDPOINT=https://hf-mirror.com " + S27],
        ["HF_ENDPOINT=https://hf-mirror.com HF_HUB_DISABLE_XET=1 " + S27, S27,
         "HF_ENDPOINT=https://huggingface.co " + S27],
    ),
    "gateway-debug": (
        ["litellm --config c.yaml --detailed_debug &\n" + S27],
        ["litellm --config c.yaml &\n" + S27, S27],
    ),
}  # fmt: skip
