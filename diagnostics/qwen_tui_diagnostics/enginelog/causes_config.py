"""Causes of death: arguments and models that this version does not take."""

from __future__ import annotations

from qwen_tui_diagnostics.enginelog.causes import Cause, cause
from qwen_tui_profiles.text import t

__all__ = ["CONFIG_CAUSES"]

_ARGUMENT = t("Correct the command line; `qwen-tui lint` checks it against this version's flags.")

# What argparse says.
_USAGE = (
    r"(?:unrecognized arguments|ambiguous option|argument |the following arguments|invalid choice"
    r"|expected)"
)

CONFIG_CAUSES: tuple[Cause, ...] = (
    cause(
        "bad_argument",
        "does not recognize this architecture",
        r"does not recognize this architecture",
        t("The installed Transformers does not know this model."),
        t("Use an engine release that supports the model (Qwen3.5 and later need a recent one)."),
        firm=False,
        phase="args",
    ),
    cause(
        "bad_argument",
        "Model architectures",
        r"Model architectures .* are not supported for now",
        t("This engine version does not know the model's architecture."),
        t("Use an engine release that supports the model."),
        firm=False,
        phase="args",
    ),
    cause(
        "missing_weights",
        "Repo id must be ",
        r"HFValidationError: Repo id must .*'(?P<name>[~./][^']*)'",
        t("There is no model folder {name} on this machine.", name=""),
        t("Correct the path; inside a container, mount the folder."),
        firm=False,
        phase="args",
    ),
    cause(
        "missing_weights",
        "huggingface_hub.errors.",
        r"(?:LocalEntryNotFoundError|OfflineModeIsEnabled): ",
        t("The model is not in the local Hub cache, and it could not be asked for online."),
        t(
            "Download it first (`qwen-tui download`), or serve a local folder; HF_HUB_OFFLINE=1 "
            "forbids asking."
        ),
        firm=False,
        phase="args",
    ),
    cause(
        "bad_argument",
        "error: ",
        rf"^(?:sglang\b[\w. -]*|launch_server\.py): error: {_USAGE}",
        t("The command line has an argument that this version does not take."),
        _ARGUMENT,
        phase="args",
        engine="sglang",
    ),
    cause(
        "bad_argument",
        "error: ",
        rf"^(?:vllm\b[\w. -]*|api_server\.py): error: {_USAGE}",
        t("The command line has an argument that this version does not take."),
        _ARGUMENT,
        phase="args",
        engine="vllm",
    ),
    cause(
        "bad_argument",
        "error: ",
        rf"^[\w. -]*\w: error: {_USAGE}",
        t("The command line has an argument that this version does not take."),
        _ARGUMENT,
        phase="args",
    ),
    cause(
        "bad_argument",
        "is not compatible with radix cache when using",
        r"Speculative decoding for \S+ is not compatible with radix cache",
        t("Speculation with the prefix cache needs the extra-buffer state strategy."),
        t(
            "Pass --mamba-scheduler-strategy extra_buffer (from 0.5.14: "
            "--mamba-radix-cache-strategy), or turn the prefix cache off."
        ),
        phase="args",
        engine="sglang",
    ),
    cause(
        "bad_argument",
        "'HybridLinearKVPool' object has no attribute",
        r"AttributeError: 'HybridLinearKVPool' object has no attribute",
        t("The hierarchical cache of this version cannot hold a hybrid model's state."),
        t("Drop --enable-hierarchical-cache, or use a release that supports it for hybrid models."),
        phase="tree_cache",
        engine="sglang",
    ),
    cause(
        "bad_argument",
        "HiRadixCache only supports",
        r"HiRadixCache only supports",
        t("The hierarchical cache of this version cannot hold a hybrid model's state."),
        t("Drop --enable-hierarchical-cache, or use a release that supports it for hybrid models."),
        phase="tree_cache",
        engine="sglang",
    ),
    cause(
        "bad_argument",
        "Lazy extra buffer requires overlap schedule",
        r"Lazy extra buffer requires overlap schedule",
        t("The lazy state-cache strategy needs the overlap scheduler."),
        t("Drop --disable-overlap-schedule, or choose extra_buffer."),
        phase="args",
        engine="sglang",
    ),
    cause(
        "bad_argument",
        "extra_buffer",
        r"(?:Error|^)[: ]*.*(?:extra_buffer_lazy (?:is not yet supported|unsupported) with spec"
        r"|mamba extra_buffer is not compatible with|extra_buffer is not supported for)",
        t("The state-cache strategy does not go with the other arguments on this version."),
        t("Choose extra_buffer, drop the conflicting flag, or use a release that allows it."),
        phase="args",
        engine="sglang",
    ),
    cause(
        "bad_argument",
        "no_buffer ",
        r"AssertionError: no_buffer (?:only supports page_size=1|do not support overlap)",
        t("The no_buffer state strategy does not go with the other arguments."),
        t("Use page size 1 and --disable-overlap-schedule with it, or the extra_buffer strategy."),
        phase="args",
        engine="sglang",
    ),
    cause(
        "bad_argument",
        "chunked_prefill_size must be divisible",
        r"chunked_prefill_size must be divisible by page_size",
        t("The prefill chunk is no multiple of the page size."),
        t("Make --chunked-prefill-size a multiple of --page-size."),
        phase="args",
        engine="sglang",
    ),
    cause(
        "bad_argument",
        "mutually exclusive",
        r"(?:Error|^)[: ]*.*enable-hierarchical-cache and disable-radix-cache are mutually "
        r"exclusive",
        t("Two arguments exclude each other."),
        _ARGUMENT,
        phase="args",
        engine="sglang",
    ),
    cause(
        "bad_argument",
        "is not supported together with",
        r"^\w*(?:Error|Exception): .*is not supported together with",
        t("Two arguments exclude each other on this version."),
        _ARGUMENT,
        phase="args",
    ),
    cause(
        "bad_argument",
        "requires --mamba-ssm-dtype",
        r"requires --mamba-ssm-dtype bfloat16",
        t("The linear-attention backend needs a bfloat16 state on this GPU."),
        t("Pass --mamba-ssm-dtype bfloat16."),
        phase="args",
        engine="sglang",
    ),
    cause(
        "bad_argument",
        "max_num_batched_tokens (",
        r"max_num_batched_tokens \(\d+\) (?:must be greater than or equal to|is smaller than)",
        t("The prefill chunk is too small for the other limits."),
        t("Raise --max-num-batched-tokens, or lower --max-num-seqs or --max-model-len."),
        phase="args",
        engine="vllm",
    ),
    cause(
        "bad_argument",
        "validation error for",
        r"ValidationError: \d+ validation errors? for",
        t("vLLM refused a value of its configuration."),
        _ARGUMENT,
        firm=False,
        frame=True,
        phase="args",
        engine="vllm",
    ),
    cause(
        "bad_argument",
        "not valid for this configuration",
        r"Selected backend \S+ is not valid for this configuration",
        t("The attention backend that was asked for does not fit this model or GPU."),
        t("Drop --attention-backend, or name one that the message allows."),
        engine="vllm",
    ),
    cause(
        "bad_argument",
        "Invalid kv_cache_dtype",
        r"Invalid kv_cache_dtype",
        t("The KV data type is unknown to this version."),
        _ARGUMENT,
        phase="args",
        engine="vllm",
    ),
    cause(
        "bad_argument",
        "No valid cudagraph sizes after rounding",
        r"No valid cudagraph sizes after rounding",
        t("No graph size is a multiple of the drafted tokens plus one."),
        _ARGUMENT,
        engine="vllm",
    ),
    cause(
        "bad_argument",
        "currently not compatible with speculative decoding",
        r"Mamba cache mode 'align' is currently not compatible with speculative decoding",
        t("This version cannot speculate with the prefix cache on a hybrid model."),
        t("Turn the prefix cache off (--no-enable-prefix-caching), or use 0.17.1 or later."),
        phase="args",
        engine="vllm",
    ),
    cause(
        "bad_argument",
        "mamba-block-size can only be set",
        r"--mamba-block-size can only be set with --enable-prefix-caching",
        t("The state block size needs the prefix cache."),
        _ARGUMENT,
        phase="args",
        engine="vllm",
    ),
)
