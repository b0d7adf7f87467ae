"""Causes of death, as data: the text that proves each, its class, and the remedy in the right direction."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from qwen_tui_profiles.text import t

if TYPE_CHECKING:
    from collections.abc import Mapping

    from qwen_tui_profiles.text import Text

__all__ = ["CAUSES", "ECHOES", "Cause", "Echo"]


@dataclass(frozen=True, slots=True)
class Cause:
    """A text that names why an engine died."""

    kind: str
    """A class of design §4."""
    needle: str
    pattern: re.Pattern[str]
    """Searched in the message; named groups fill the templates and ``facts``."""
    summary: Text
    remedy: Text | None
    firm: bool = True
    """Whether the text alone proves a death (else a death mark must stand near it)."""
    phase: str | None = None
    """Where an engine is when it says this, if the text tells."""
    facts: Mapping[str, str] = field(default_factory=dict)
    """Group → fact that the text states."""
    engine: str | None = None


@dataclass(frozen=True, slots=True)
class Echo:
    """A text that says *that* something died, never why."""

    name: str
    needle: str
    pattern: re.Pattern[str]
    engine: str
    death: bool = True
    """Whether it proves a death by itself."""


def _cause(
    kind: str,
    needle: str,
    pattern: str,
    summary: Text,
    remedy: Text | None,
    *,
    firm: bool = True,
    phase: str | None = None,
    facts: Mapping[str, str] | None = None,
    engine: str | None = None,
) -> Cause:
    return Cause(
        kind, needle, re.compile(pattern), summary, remedy, firm, phase, dict(facts or {}), engine
    )


_EXC = r"^(?:[\w.]+\.)?"  # an exception's own line starts with its type
_OOM_FACTS = {"wanted": "oom_wanted_mib", "free": "oom_free_mib"}

_NO_POOL_UP = t(
    "Give the static share more room: raise --mem-fraction-static; if it is near 1 already, the "
    "model is too big for this GPU beside a pool: use a smaller quantisation or drop the draft."
)
_SLOTS = t(
    "Give the state cache more slots: raise --max-mamba-cache-size or --mamba-full-memory-ratio, "
    "or lower --max-running-requests (keep slots ≥ slots per request × requests + 1)."
)
_KERNEL = t(
    "No memory setting helps: choose another backend or data type for this GPU "
    "(--attention-backend, --kv-cache-dtype, --fp4-gemm-backend), or a build made for it."
)
_WEIGHTS = t(
    "The files are incomplete or not what they say: verify the checkpoint and download what is "
    "missing again."
)
_QUANT = t(
    "Use a checkpoint in a format that this GPU and engine version support, or a newer engine."
)
_ARGUMENT = t("Correct the command line; `qwen-tui lint` checks it against this version's flags.")
_VLLM_CONTEXT = t(
    "Lower --max-model-len to what fits, or raise --gpu-memory-utilization if memory is left over."
)

CAUSES: tuple[Cause, ...] = (
    # --- no room for the pool: the share goes up -------------------------------------------------
    _cause(
        "kv_pool_no_memory",
        "leave no GPU memory for the KV cache",
        r"Loaded weights leave no GPU memory for the KV cache under --mem-fraction-static="
        r"(?P<share>[\d.]*\d)(?:\. Raise --mem-fraction-static above (?P<minimum>[\d.]*\d))?",
        t("The weights leave no memory for the KV cache inside the static share."),
        t(
            "Raise --mem-fraction-static above the minimum that the engine names, or load less: a "
            "smaller quantisation, no draft."
        ),
        phase="kv_pool",
        facts={"share": "mem_fraction_static", "minimum": "mem_fraction_static_minimum"},
    ),
    _cause(
        "kv_pool_no_memory",
        "Not enough memory. Please try",
        r"Not enough memory\. Please try to increase --mem-fraction-static\.?"
        r"(?: Current value: (?:self\.server_args\.)?mem_fraction_static=(?P<share>[\d.]*\d))?",
        t("The weights leave no memory for the KV cache inside the static share."),
        _NO_POOL_UP,
        phase="kv_pool",
        facts={"share": "mem_fraction_static"},
    ),
    _cause(
        "kv_pool_no_memory",
        "Memory pool size is too small",
        r"Memory pool size is too small",
        t("The memory left for the KV pool is too small to use."),
        _NO_POOL_UP,
        phase="kv_pool",
    ),
    _cause(
        "kv_pool_no_memory",
        "No available memory for the cache blocks",
        r"No available memory for the cache blocks",
        t("Weights and activations use the whole memory share; nothing is left for the KV cache."),
        t(
            "Raise --gpu-memory-utilization if memory is free beside it; else use a smaller "
            "quantisation, or lower --max-num-batched-tokens and --max-num-seqs."
        ),
        phase="kv_pool",
        engine="vllm",
    ),
    _cause(
        "kv_pool_no_memory",
        "Cannot auto-fit max_model_len",
        r"Cannot auto-fit max_model_len",
        t("Not even one token fits into the memory left for the KV cache."),
        t("Raise --gpu-memory-utilization if memory is free beside it; else load less."),
        phase="kv_pool",
        engine="vllm",
    ),
    _cause(
        "kv_pool_no_memory",
        "on startup is less than desired",
        r"Free memory on device.*?\((?P<free>[\d.]+)/(?P<total>[\d.]+) GiB\) on startup is less than"
        r" desired GPU memory utilization \((?P<share>[\d.]*\d)",
        t("Less memory is free than the share that was asked for."),
        t("Lower --gpu-memory-utilization, or free the GPU: another process holds memory."),
        phase="distributed",
        engine="vllm",
        facts={"free": "free_at_start_gib", "total": "total_gib"},
    ),
    _cause(
        "kv_pool_no_memory",
        "Error in memory profiling",
        r"Error in memory profiling\. Initial free memory",
        t("Memory was freed by another process while vLLM measured it."),
        t("Start again when no other process starts or stops on this GPU."),
        phase="kv_pool",
        engine="vllm",
    ),
    # --- context ---------------------------------------------------------------------------------
    _cause(
        "context_exceeds_kv",
        "To serve at least one request",
        r"To serve at least one request with the models?'s max seq len \((?P<context>\d+)\), \(?"
        r"(?P<needed>[\d.]+) GiB KV cache is needed, which is larger than the available KV cache "
        r"memory \((?P<available>[\d.]+) GiB\)"
        r"(?:\. Based on the available memory, the estimated maximum model length is (?P<fits>\d+))?",
        t("One request of the declared context does not fit into the KV cache."),
        _VLLM_CONTEXT,
        phase="kv_pool",
        engine="vllm",
        facts={
            "context": "context_len",
            "needed": "kv_needed_gib",
            "available": "available_kv_gib",
            "fits": "context_that_fits",
        },
    ),
    _cause(
        "context_exceeds_kv",
        "tokens that can be stored in KV cache",
        r"The model's max seq len \((?P<context>\d+)\) is larger than the maximum number of tokens "
        r"that can be stored in KV cache \((?P<fits>\d+)\)",
        t("One request of the declared context does not fit into the KV cache."),
        _VLLM_CONTEXT,
        phase="kv_pool",
        engine="vllm",
        facts={"context": "context_len", "fits": "context_that_fits"},
    ),
    _cause(
        "context_too_long",
        "User-specified context_length",
        r"User-specified context_length \((?P<asked>\d+)\) is greater than the derived "
        r"context_length \((?P<derived>\d+)\)",
        t("The context that was asked for is longer than the model's own."),
        t(
            "Lower --context-length to the model's own; only if the checkpoint was made for more, set "
            "SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN=1."
        ),
        firm=False,
        phase="args",
        engine="sglang",
        facts={"asked": "context_len_requested", "derived": "context_len_derived"},
    ),
    _cause(
        "context_too_long",
        "User-specified max_model_len",
        r"User-specified max_model_len \((?P<asked>\d+)\) is greater than the derived "
        r"max_model_len \((?:\w+=)?(?P<derived>\d+)",
        t("The context that was asked for is longer than the model's own."),
        t(
            "Lower --max-model-len to the model's own; only if the checkpoint was made for more, set "
            "VLLM_ALLOW_LONG_MAX_MODEL_LEN=1."
        ),
        firm=False,
        phase="args",
        engine="vllm",
        facts={"asked": "context_len_requested", "derived": "context_len_derived"},
    ),
    # --- recurrent state -------------------------------------------------------------------------
    _cause(
        "mamba_pool_too_small",
        "Not enough GPU memory for hybrid",
        r"Not enough GPU memory for hybrid \(mamba/linear-attention\) state cache\."
        r"(?: Computed max_mamba_cache_size=(?P<slots>-?\d+))?",
        t("The memory left after the weights cannot hold the recurrent state of one request."),
        t(
            "Raise --mem-fraction-static if memory is free beside it; else lower "
            "--max-running-requests or --speculative-num-draft-tokens, or halve the state with "
            "--mamba-ssm-dtype bfloat16."
        ),
        phase="state_pool",
        engine="sglang",
        facts={"slots": "mamba_slots_computed"},
    ),
    _cause(
        "mamba_pool_too_small",
        "state cache is too small to serve",
        r"state cache is too small to serve any requests\. max_mamba_cache_size=(?P<slots>-?\d+), "
        r"mamba_ratio=(?P<per>\d+)",
        t("The state cache has fewer slots than one request needs."),
        _SLOTS,
        phase="state_pool",
        engine="sglang",
        facts={"slots": "mamba_slots", "per": "mamba_slots_per_request"},
    ),
    _cause(
        "mamba_pool_too_small",
        "exceeds available Mamba cache blocks",
        r"max_num_seqs \((?P<asked>\d+)\) exceeds available Mamba cache blocks \((?P<blocks>\d+)\)",
        t("More sequences are allowed than there are state blocks; each needs one."),
        t(
            "Lower --max-num-seqs to the number of blocks that the engine names; a larger "
            "--gpu-memory-utilization gives more blocks only while memory is left."
        ),
        phase="kv_pool",
        engine="vllm",
        facts={"asked": "max_running_requests_asked", "blocks": "mamba_slots"},
    ),
    _cause(
        "mamba_slots_exhausted",
        "an not alloc mamba cache",
        r"Can not alloc mamba cache",
        t("A request needed a recurrent-state slot and none was free."),
        _SLOTS,
        engine="sglang",
    ),
    _cause(
        "mamba_slots_exhausted",
        "Not enough space for mamba ping pong",
        r"Not enough space for mamba ping pong idx",
        t("A request needed a recurrent-state slot and none was free."),
        _SLOTS,
        engine="sglang",
    ),
    _cause(
        "mamba_slots_exhausted",
        "Cannot alloc mamba for load_back",
        r"Cannot alloc mamba for load_back",
        t("A cached prefix was to come back from host memory and no state slot was free."),
        _SLOTS,
        engine="sglang",
    ),
    # --- kernels (before memory: "out of resource" is no memory setting) ---------------------------
    _cause(
        "kernel_unsupported",
        "out of resource: shared memory",
        r"out of resource: shared memory, Required: (?P<required>\d+), Hardware limit: (?P<limit>\d+)",
        t("A Triton kernel needs more shared memory than this GPU has."),
        _KERNEL,
        facts={"required": "smem_required", "limit": "smem_limit"},
    ),
    _cause(
        "kernel_unsupported",
        "no kernel image is available",
        r"no kernel image is available for execution",
        t("The build has no kernel for this GPU."),
        _KERNEL,
    ),
    _cause(
        "kernel_unsupported",
        "not supported in this architecture",
        r"type \w+ not supported in this architecture",
        t("A kernel uses a data type that this GPU does not have."),
        _KERNEL,
    ),
    _cause(
        "kernel_unsupported",
        "Unsupported architecture",
        r"(?:Error|Exception)\b.*Unsupported architecture",
        t("A kernel was not made for this GPU."),
        _KERNEL,
    ),
    _cause(
        "kernel_unsupported",
        "ptxas",
        r"ptxas\b.*(?:is not (?:supported|defined)|fatal)",
        t("The compiler does not know this GPU."),
        _KERNEL,
    ),
    _cause(
        "kernel_unsupported",
        "requires SM",
        r"(?:Error|Exception): .*requires? SM ?\d+",
        t("A kernel needs another GPU generation."),
        _KERNEL,
    ),
    _cause(
        "kernel_unsupported",
        "No valid attention backend found",
        r"No valid attention backend found for",
        t("No attention backend fits this model and GPU."),
        _KERNEL,
        engine="vllm",
    ),
    _cause(
        "kernel_unsupported",
        "backends are supported on Blackwell",
        r"Only .* backends are supported on Blackwell GPUs",
        t("The attention backend does not run on this GPU."),
        _KERNEL,
        engine="sglang",
    ),
    # --- GPU memory ------------------------------------------------------------------------------
    _cause(
        "cuda_oom",
        "CUDA out of memory",
        r"(?:OutOfMemoryError|RuntimeError|Exception|Error|failed): .*?CUDA out of memory"
        r"(?:(?:\.| occurred).*?Tried to allocate (?P<wanted>[\d.]+ [KMG]iB))?"
        r"(?:.*?of which (?P<free>[\d.]+ (?:bytes|[KMG]iB)) (?:is )?free)?",
        t("The GPU ran out of memory."),
        None,
        facts=_OOM_FACTS,
    ),
    _cause(
        "cuda_oom",
        "out of memory",
        r"(?:Triton Error \[CUDA\]|CUDA (?:driver )?error|CUDA_ERROR_OUT_OF_MEMORY"
        r"|cudaErrorMemoryAllocation)[:,]? .*out of memory",
        t("The GPU ran out of memory."),
        None,
    ),
    _cause(
        "cuda_oom",
        "allocat",
        r"RuntimeError: (?:Failed to allocate memory for|Buffer overflow when allocating memory for)",
        t("A kernel's workspace did not fit."),
        None,
    ),
    # --- quantisation ----------------------------------------------------------------------------
    _cause(
        "quantization_unsupported",
        "uantization",
        _EXC
        + r"\w+(?:Error|Exception): .*(?:Unknown quantization method|Invalid quantization method"
        r"|Quantization method specified in the model config"
        r"|quantization method \S+ is not supported"
        r"|Quantization scheme is not supported)",
        t("The engine or this GPU does not support the checkpoint's quantisation."),
        _QUANT,
    ),
    _cause(
        "quantization_unsupported",
        "NVFP4 native dense GEMM backends require",
        r"NVFP4 native dense GEMM backends require",
        t("NVFP4 weights have no native kernel on this GPU."),
        t("Pass --fp4-gemm-backend marlin (weights stay 4-bit, arithmetic runs in 16-bit)."),
        engine="sglang",
    ),
)
