"""vLLM's announcements of changed arguments (released source of 0.6.6 to 0.33.0, printed logs)."""

from __future__ import annotations

from qwen_tui_diagnostics.enginelog.changes import Change, ChangeKind, change
from qwen_tui_profiles.text import t

__all__ = ["VLLM_CHANGES"]

E = "vllm"
_DEFAULT, _CHOSEN = ChangeKind.DEFAULT, ChangeKind.CHOSEN
_HYBRID = t("A block must be as large as one recurrent-state page, so prompts shorter than one "
            "block never hit the prefix cache.")  # fmt: skip
_GRAPHS = t("The attention backend cannot capture that kind of graph in this configuration.")
_MODE = (
    r"CUDAGraphMode\.(?P<asked>\w+) is not supported.*"
    r"setting cudagraph_mode=(?:CUDAGraphMode\.)?(?P<got>\w+)"
)

VLLM_CHANGES: tuple[Change, ...] = (
    # --- context ------------------------------------------------------------------------------
    change("auto_fit", E, "Auto-fit max_model_len: reduced from ",
           r"Auto-fit max_model_len: reduced from (?P<asked>\d+) to (?P<got>\d+)",
           "--max-model-len", t("KV pool"),
           t("With --max-model-len auto the context shrinks to what one request can use."),
           remedy=t("Give the pool more memory (--gpu-memory-utilization, an 8-bit KV cache), or "
                    "set the context that you need and see what is missing."),
           since="0.14.1"),
    change("draft_reduces", E, "reducing max_model_len to ",
           r"The draft model's max_model_len \((?P<draft>\d+)\) is smaller than the target model's "
           r"\((?P<asked>\d+)\).*reducing max_model_len to (?P<got>\d+)",
           "--max-model-len", t("draft model"),
           t("The draft takes shorter contexts than the model."),
           remedy=t("Use a draft made for the full context, or none."), since="0.21.0"),
    change("draft_context", E, "Overriding draft model max model len from ",
           r"Overriding draft model max model len from (?P<asked>\d+) to (?P<got>\d+)",
           "draft_max_model_len", t("speculative decoding"),
           t("The draft's context follows the model's."), kind=_CHOSEN, since="0.8.5"),
    change("context_over", E, "User-specified max_model_len (",
           r"User-specified max_model_len \((?P<asked>\d+)\) is greater than the derived "
           r"max_model_len \(.*?=(?P<derived>\d+).*?\)",
           "context_len_derived", t("VLLM_ALLOW_LONG_MAX_MODEL_LEN"),
           t("The declared context is longer than the model's own; answers may be wrong there."),
           kind=_CHOSEN),
    # --- blocks, cache ------------------------------------------------------------------------
    change("block_size", E, "Setting attention block size to ",
           r"Setting attention block size to (?P<got>\d+) tokens",
           "attention_block_size", t("hybrid model"), _HYBRID, kind=_CHOSEN, since="0.10.2"),
    change("num_blocks", E, "Overriding num_gpu_blocks=",
           r"Overriding num_gpu_blocks=(?P<asked>\d+) with num_gpu_blocks_override=(?P<got>\d+)",
           "num_gpu_blocks", t("--num-gpu-blocks-override"),
           t("The block count is set by hand and not checked against the memory."), kind=_CHOSEN),
    change("prefix_off", E, "disabling prefix caching since it is not yet supported",
           r"Hybrid or mamba-based model detected: disabling prefix caching",
           "--enable-prefix-caching", t("hybrid model"),
           t("This version has no prefix cache for hybrid models."), got=False, kind=_DEFAULT,
           remedy=t("Use 0.11.2 or later with --enable-prefix-caching."), since="0.10.2",
           until="0.10.2"),
    change("prefix_off", E, "without support for prefix caching: disabling",
           r"Hybrid or mamba-based model detected without support for prefix caching: disabling",
           "--enable-prefix-caching", t("hybrid model"),
           t("This model class has no prefix cache in this version."), got=False, kind=_DEFAULT,
           remedy=t("Use a newer release."), since="0.11.2", until="0.14.1"),
    change("mamba_all", E, "falling back to 'align' mode",
           r".*without support for prefix caching with Mamba cache 'all' mode: falling back",
           "--mamba-cache-mode", t("hybrid model"),
           t("This model class caches prefixes only in 'align' mode."), asked="all", got="align",
           since="0.16.0", until="0.31.0"),
    change("mamba_mode", E, "Mamba cache mode is set to '",
           r"Mamba cache mode is set to '(?P<got>\w+)'", "--mamba-cache-mode", t("prefix caching"),
           t("It follows the prefix cache."), kind=_DEFAULT, since="0.16.0"),
    change("fine_hits", E, "Disabling fine-grained prefix-cache hits", None,
           "fine_grained_prefix_hits", t("KV cache managers"),
           t("Prefix hits come only in whole blocks."), asked=True, got=False, kind=_DEFAULT,
           since="0.32.0"),
    change("kv_scales", E, "Disabling calculate_kv_scales for hybrid model", None,
           "--calculate-kv-scales", t("hybrid model"),
           t("Scales cannot be calculated for hybrid models."), asked=True, got=False,
           since="0.19.1", until="0.27.1"),
    # --- memory -------------------------------------------------------------------------------
    change("graph_share", E, "is equivalent to --gpu-memory-utilization=",
           r".*current --gpu-memory-utilization=(?P<asked>[\d.]+) is equivalent to "
           r"--gpu-memory-utilization=(?P<got>[\d.]*\d)",
           "--gpu-memory-utilization", t("CUDA graph memory estimate"),
           t("The memory that graphs will need is taken out of the share before the pool is "
           "sized."),
           kind=ChangeKind.KEPT,
           remedy=t("Raise --gpu-memory-utilization by the difference to get the pool of older "
                    "versions."), since="0.20.0"),
    change("kv_bytes", E, "This does not respect the gpu_memory_utilization config",
           r"Initial free memory (?P<free>[\d.]+) GiB,? reserved (?P<kv>[\d.]+) GiB memory for KV",
           "--gpu-memory-utilization", t("--kv-cache-memory-bytes"),
           t("The pool has the size that was set; --gpu-memory-utilization does not count."),
           got="ignored", kind=_DEFAULT, since="0.10.2"),
    # --- graphs, scheduling -------------------------------------------------------------------
    change("graph_mode", E, "setting cudagraph_mode=", _MODE, "cudagraph_mode",
           t("attention backend"), _GRAPHS, kind=_DEFAULT),
    change("graph_mode", E, "Overriding cudagraph_mode from ",
           r".*Overriding cudagraph_mode from (?:CUDAGraphMode\.)?(?P<asked>\w+) to (?P<got>\w+)",
           "cudagraph_mode", t("dynamic speculation"),
           t("Dynamic speculation works reliably only with piecewise graphs."), kind=_DEFAULT,
           since="0.24.0"),
    change("graph_size", E, "Truncating max_cudagraph_capture_size to ",
           r"Truncating max_cudagraph_capture_size to (?P<got>\d+)",
           "--max-cudagraph-capture-size", t("engine"),
           t("No larger size than the largest of the list is captured."), kind=_DEFAULT),
    change("graph_size", E, "Capping cudagraph capture sizes from max ",
           r"Capping cudagraph capture sizes from max (?P<asked>\d+) to (?P<got>\d+)",
           "--max-cudagraph-capture-size", t("mamba cache blocks"),
           t("Each sequence of a graph needs a state block."), kind=_DEFAULT, since="0.18.1",
           until="0.19.1"),
    change("async", E, "sync scheduling not supported with ",
           r"Async scheduling not supported with", "--async-scheduling", t("speculative decoding"),
           t("The two do not work together in this version."), asked=True, got=False,
           kind=_DEFAULT),
    change("scheduled_tokens", E, "max_num_scheduled_tokens is set to ",
           r"max_num_scheduled_tokens is set to (?P<got>\d+) based on the speculative",
           "max_num_scheduled_tokens", t("speculative decoding"),
           t("Drafted tokens need room in each step."), kind=_CHOSEN, since="0.20.0"),
    change("runner", E, "does not yet support",
           r"Model Runner V2 does not yet support (?P<what>.*?);",
           "VLLM_USE_V2_MODEL_RUNNER", t("model runner"),
           t("This configuration runs on the older model runner."), got="V1", kind=_CHOSEN),
    change("runner", E, "Model Runner V2 requires ",
           r"Model Runner V2 requires (?P<what>.*?);",
           "VLLM_USE_V2_MODEL_RUNNER", t("model runner"),
           t("This configuration runs on the older model runner."), got="V1", kind=_CHOSEN),
    change("block_backend", E, " precluded higher-priority backend",
           r".*--block-size (?P<block>\d+) precluded higher-priority backend.*Using (?P<got>\w+)",
           "--attention-backend", t("--block-size"),
           t("The block size that was asked for rules faster backends out."), kind=_DEFAULT,
           since="0.18.1"),
    change("attention", E, " attention backend out of potential backends",
           r"Using (?:AttentionBackendEnum\.)?(?P<got>\w+) attention backend out of",
           "--attention-backend", t("engine default"), t("None was given; the first that fits."),
           kind=_CHOSEN, since="0.12.0"),
    change("spec_method", E, "is deprecated and replaced with mtp",
           r"method `(?P<asked>\w+)` is deprecated and replaced with (?P<got>\w+)",
           "speculative_config.method", t("engine"), t("A new name for the same method."),
           kind=_CHOSEN, since="0.11.2"),
    change("env", E, "Unknown vLLM environment variable detected",
           r"Unknown vLLM environment variable detected: (?P<asked>\w+)",
           "environment variable", t("engine"),
           t("This version does not know the variable: it does nothing."), got="ignored",
           kind=ChangeKind.ASKED, since="0.17.1"),
)  # fmt: skip
