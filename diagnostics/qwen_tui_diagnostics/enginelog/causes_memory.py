"""Causes of death: no room for the pool, the context or the recurrent state."""

from __future__ import annotations

from qwen_tui_diagnostics.enginelog.causes import Cause, cause
from qwen_tui_profiles.text import t

__all__ = ["MEMORY_CAUSES"]

_NO_POOL_UP = t(
    "Give the static share more room: raise --mem-fraction-static; if it is near 1 already, the "
    "model is too big for this GPU beside a pool: use a smaller quantisation or drop the draft."
)
_SLOTS = t(
    "Give the state cache more slots: raise --max-mamba-cache-size or --mamba-full-memory-ratio, "
    "or lower --max-running-requests (keep slots ≥ slots per request × requests + 1)."
)
_VLLM_CONTEXT = t(
    "Lower --max-model-len to what fits, or raise --gpu-memory-utilization if memory is left over."
)

MEMORY_CAUSES: tuple[Cause, ...] = (
    cause(
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
    cause(
        "kv_pool_no_memory",
        "Not enough memory. Please try",
        r"Not enough memory\. Please try to increase --mem-fraction-static\.?"
        r"(?: Current value: (?:self\.server_args\.)?mem_fraction_static=(?P<share>[\d.]*\d))?",
        t("The weights leave no memory for the KV cache inside the static share."),
        _NO_POOL_UP,
        phase="kv_pool",
        facts={"share": "mem_fraction_static"},
    ),
    cause(
        "kv_pool_no_memory",
        "Memory pool size is too small",
        r"Memory pool size is too small",
        t("The memory left for the KV pool is too small to use."),
        _NO_POOL_UP,
        phase="kv_pool",
    ),
    cause(
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
    cause(
        "kv_pool_no_memory",
        "Cannot auto-fit max_model_len",
        r"Cannot auto-fit max_model_len",
        t("Not even one token fits into the memory left for the KV cache."),
        t("Raise --gpu-memory-utilization if memory is free beside it; else load less."),
        phase="kv_pool",
        engine="vllm",
    ),
    cause(
        "kv_pool_no_memory",
        "on startup is less than desired",
        r"Free memory on device.*?\((?P<free>[\d.]+)/(?P<total>[\d.]+) GiB\) on startup is less "
        r"than"
        r" desired GPU memory utilization \((?P<share>[\d.]*\d)",
        t("Less memory is free than the share that was asked for."),
        t("Lower --gpu-memory-utilization, or free the GPU: another process holds memory."),
        phase="distributed",
        engine="vllm",
        facts={"free": "free_at_start_gib", "total": "total_gib"},
    ),
    cause(
        "kv_pool_no_memory",
        "Error in memory profiling",
        r"Error in memory profiling\. Initial free memory",
        t("Memory was freed by another process while vLLM measured it."),
        t("Start again when no other process starts or stops on this GPU."),
        phase="kv_pool",
        engine="vllm",
    ),
    cause(
        "context_exceeds_kv",
        "To serve at least one request",
        r"To serve at least one request with the models?'s max seq len \((?P<context>\d+)\), \(?"
        r"(?P<needed>[\d.]+) GiB KV cache is needed, which is larger than the available KV cache "
        r"memory \((?P<available>[\d.]+) GiB\)"
        r"(?:\. Based on the available memory, the estimated maximum model length is "
        r"(?P<fits>\d+))?",
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
    cause(
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
    cause(
        "context_too_long",
        "User-specified context_length",
        r"User-specified context_length \((?P<asked>\d+)\) is greater than the derived "
        r"context_length \((?P<derived>\d+)\)",
        t("The context that was asked for is longer than the model's own."),
        t(
            "Lower --context-length to the model's own; only if the checkpoint was made for "
            "more, set "
            "SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN=1."
        ),
        firm=False,
        phase="args",
        engine="sglang",
        facts={"asked": "context_len_requested", "derived": "context_len_derived"},
    ),
    cause(
        "context_too_long",
        "User-specified max_model_len",
        r"User-specified max_model_len \((?P<asked>\d+)\) is greater than the derived "
        r"max_model_len \((?:\w+=)?(?P<derived>\d+)",
        t("The context that was asked for is longer than the model's own."),
        t(
            "Lower --max-model-len to the model's own; only if the checkpoint was made for more, "
            "set "
            "VLLM_ALLOW_LONG_MAX_MODEL_LEN=1."
        ),
        firm=False,
        phase="args",
        engine="vllm",
        facts={"asked": "context_len_requested", "derived": "context_len_derived"},
    ),
    cause(
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
    cause(
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
    cause(
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
        facts={"asked": "max_num_seqs", "blocks": "mamba_slots"},
    ),
    cause(
        "mamba_slots_exhausted",
        "an not alloc mamba cache",
        r"Can not alloc mamba cache",
        t("A request needed a recurrent-state slot and none was free."),
        _SLOTS,
        engine="sglang",
    ),
    cause(
        "mamba_slots_exhausted",
        "Not enough space for mamba ping pong",
        r"Not enough space for mamba ping pong idx",
        t("A request needed a recurrent-state slot and none was free."),
        _SLOTS,
        engine="sglang",
    ),
    cause(
        "mamba_slots_exhausted",
        "Cannot alloc mamba for load_back",
        r"Cannot alloc mamba for load_back",
        t("A cached prefix was to come back from host memory and no state slot was free."),
        _SLOTS,
        engine="sglang",
    ),
)
