"""The engine arguments that decide memory, read from a command line.

Only these flags are read; whether the others exist, and whether a version accepts a value, is the
business of the rules. Unambiguous prefixes count, as argparse counts them.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING

from qwen_tui_profiles.errors import UsageError
from qwen_tui_profiles.foreign import clean
from qwen_tui_profiles.text import t

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qwen_tui_profiles.text import Text

__all__ = ["SglangArguments", "VllmArguments", "read_sglang", "read_vllm", "split_pairs"]

_LARGEST = 1 << 40


@dataclass(frozen=True, slots=True)
class SglangArguments:
    """SGLang's memory arguments as asked; None = not given."""

    model_path: str | None = None
    mem_fraction_static: float | None = None
    max_running_requests: int | None = None
    max_total_tokens: int | None = None
    context_length: int | None = None
    page_size: int | None = None
    kv_cache_dtype: str | None = None
    chunked_prefill_size: int | None = None
    max_prefill_tokens: int | None = None
    cuda_graph_max_bs: int | None = None
    cuda_graph_backend_prefill: str | None = None
    cuda_graph_backend_decode: str | None = None
    max_mamba_cache_size: int | None = None
    mamba_full_memory_ratio: float | None = None
    mamba_ssm_dtype: str | None = None
    mamba_strategy: str | None = None
    linear_attn_backend: str | None = None
    attention_backend: str | None = None
    speculative_algorithm: str | None = None
    speculative_num_steps: int | None = None
    speculative_eagle_topk: int | None = None
    speculative_num_draft_tokens: int | None = None
    speculative_draft_model_path: str | None = None
    mm_feature_transport: str | None = None
    hicache_size_gb: float | None = None
    hicache_ratio: float | None = None
    tp_size: int | None = None
    pp_size: int | None = None
    dp_size: int | None = None
    ple_offload_backend: str | None = None
    ple_offload_dir: str | None = None
    disable_radix_cache: bool = False
    disable_overlap_schedule: bool = False
    disable_cuda_graph: bool = False
    disable_prefill_graph: bool = False
    enable_hierarchical_cache: bool = False
    enable_mixed_chunk: bool = False
    enable_dp_attention: bool = False
    enable_replayssm_spec: bool = False
    replayssm_cache_len: int | None = None
    language_only: bool = False
    language_model_only: bool = False
    ple_offload_embedding: bool = False
    spelt: dict[str, str] = field(default_factory=dict)
    """Field → the flag as it was typed."""


@dataclass(frozen=True, slots=True)
class VllmArguments:
    """vLLM's memory arguments as asked; None = not given."""

    model: str | None = None
    gpu_memory_utilization: float | None = None
    kv_cache_memory_bytes: int | None = None
    max_num_seqs: int | None = None
    max_num_batched_tokens: int | None = None
    max_model_len: str | None = None
    block_size: int | None = None
    kv_cache_dtype: str | None = None
    mamba_ssm_cache_dtype: str | None = None
    tensor_parallel_size: int | None = None
    speculative_config: str | None = None
    spec_method: str | None = None
    spec_tokens: int | None = None
    num_gpu_blocks_override: int | None = None
    enable_prefix_caching: bool = False
    no_enable_prefix_caching: bool = False
    enforce_eager: bool = False
    use_replayssm: bool = False
    spelt: dict[str, str] = field(default_factory=dict)
    """Field → the flag as it was typed."""


_SGLANG: dict[str, str] = {
    "--model-path": "model_path",
    "--model": "model_path",
    "--mem-fraction-static": "mem_fraction_static",
    "--max-running-requests": "max_running_requests",
    "--max-total-tokens": "max_total_tokens",
    "--context-length": "context_length",
    "--page-size": "page_size",
    "--kv-cache-dtype": "kv_cache_dtype",
    "--chunked-prefill-size": "chunked_prefill_size",
    "--max-prefill-tokens": "max_prefill_tokens",
    "--cuda-graph-max-bs": "cuda_graph_max_bs",
    "--cuda-graph-max-bs-decode": "cuda_graph_max_bs",
    "--cuda-graph-backend-prefill": "cuda_graph_backend_prefill",
    "--cuda-graph-backend-decode": "cuda_graph_backend_decode",
    "--max-mamba-cache-size": "max_mamba_cache_size",
    "--mamba-full-memory-ratio": "mamba_full_memory_ratio",
    "--mamba-ssm-dtype": "mamba_ssm_dtype",
    "--mamba-scheduler-strategy": "mamba_strategy",
    "--mamba-radix-cache-strategy": "mamba_strategy",
    "--linear-attn-backend": "linear_attn_backend",
    "--attention-backend": "attention_backend",
    "--speculative-algorithm": "speculative_algorithm",
    "--speculative-num-steps": "speculative_num_steps",
    "--speculative-eagle-topk": "speculative_eagle_topk",
    "--speculative-num-draft-tokens": "speculative_num_draft_tokens",
    "--speculative-draft-model-path": "speculative_draft_model_path",
    "--speculative-draft-model": "speculative_draft_model_path",
    "--mm-feature-transport": "mm_feature_transport",
    "--hicache-size": "hicache_size_gb",
    "--hicache-ratio": "hicache_ratio",
    "--tensor-parallel-size": "tp_size",
    "--tp-size": "tp_size",
    "--tp": "tp_size",
    "--pipeline-parallel-size": "pp_size",
    "--pp-size": "pp_size",
    "--data-parallel-size": "dp_size",
    "--dp-size": "dp_size",
    "--dp": "dp_size",
    "--ple-offload-backend": "ple_offload_backend",
    "--ple-offload-dir": "ple_offload_dir",
    "--disable-radix-cache": "disable_radix_cache",
    "--disable-overlap-schedule": "disable_overlap_schedule",
    "--disable-cuda-graph": "disable_cuda_graph",
    "--disable-piecewise-cuda-graph": "disable_prefill_graph",
    "--disable-prefill-cuda-graph": "disable_prefill_graph",
    "--enable-hierarchical-cache": "enable_hierarchical_cache",
    "--enable-mixed-chunk": "enable_mixed_chunk",
    "--enable-dp-attention": "enable_dp_attention",
    "--enable-linear-replayssm-spec": "enable_replayssm_spec",
    "--enable-gdn-replayssm-spec": "enable_replayssm_spec",
    "--linear-replayssm-cache-len": "replayssm_cache_len",
    "--language-only": "language_only",
    "--language-model-only": "language_model_only",
    "--ple-offload-embedding": "ple_offload_embedding",
}

_VLLM: dict[str, str] = {
    "--model": "model",
    "--gpu-memory-utilization": "gpu_memory_utilization",
    "--kv-cache-memory-bytes": "kv_cache_memory_bytes",
    "--kv-cache-memory": "kv_cache_memory_bytes",
    "--max-num-seqs": "max_num_seqs",
    "--max-num-batched-tokens": "max_num_batched_tokens",
    "--max-model-len": "max_model_len",
    "--block-size": "block_size",
    "--kv-cache-dtype": "kv_cache_dtype",
    "--mamba-ssm-cache-dtype": "mamba_ssm_cache_dtype",
    "--tensor-parallel-size": "tensor_parallel_size",
    "-tp": "tensor_parallel_size",
    "--speculative-config": "speculative_config",
    "--spec-method": "spec_method",
    "--spec-tokens": "spec_tokens",
    "--num-gpu-blocks-override": "num_gpu_blocks_override",
    "--enable-prefix-caching": "enable_prefix_caching",
    "--no-enable-prefix-caching": "no_enable_prefix_caching",
    "--enforce-eager": "enforce_eager",
    "--use-replayssm": "use_replayssm",
}

_SIGNED = frozenset({"chunked_prefill_size"})


def read_sglang(args: Sequence[str]) -> SglangArguments:
    """Read SGLang's memory arguments; unknown flags pass.

    Raises:
        UsageError: A value is missing, not a number where one is needed, or out of any range.
    """
    values = _read(args, _SGLANG, {f.name: str(f.type) for f in fields(SglangArguments)})
    return SglangArguments(**values)  # type: ignore[arg-type]


def read_vllm(args: Sequence[str]) -> VllmArguments:
    """Read vLLM's memory arguments; unknown flags pass, underscores equal dashes.

    Raises:
        UsageError: A value is missing, not a number where one is needed, or out of any range.
    """
    spelt = [
        item.replace("_", "-") if item.startswith("--") and "=" not in item else item
        for item in args
    ]
    values = _read(spelt, _VLLM, {f.name: str(f.type) for f in fields(VllmArguments)})
    return VllmArguments(**values)  # type: ignore[arg-type]


def split_pairs(args: Sequence[str]) -> list[tuple[str, str | None, int]]:
    """Split an argument list into (flag, value or None, position); positionals are dropped."""
    pairs: list[tuple[str, str | None, int]] = []
    index = 0
    while index < len(args):
        item = args[index]
        position = index
        index += 1
        if not _is_flag(item):
            continue
        name, equals, value = item.partition("=")
        if equals:
            pairs.append((name, value, position))
        elif index < len(args) and not _is_flag(args[index]):
            pairs.append((name, args[index], position))
        else:
            pairs.append((name, None, position))
    return pairs


def _read(args: Sequence[str], table: dict[str, str], kinds: dict[str, str]) -> dict[str, object]:
    values: dict[str, object] = {}
    spelt: dict[str, str] = {}
    for name, raw, _ in split_pairs(args):
        field_name = _resolve(name, table)
        if field_name is None:
            continue
        kind = kinds[field_name]
        spelt[field_name] = clean(name)
        if kind == "bool":
            values[field_name] = True
            continue
        if raw is None:
            raise UsageError(
                t("{flag} has no value.", flag=clean(name)),
                t("Write the value behind the flag, or take the flag away."),
            )
        values[field_name] = _value(field_name, name, raw, kind)
    values["spelt"] = spelt
    return values


def _resolve(name: str, table: dict[str, str]) -> str | None:
    if name in table:
        return table[name]
    if not name.startswith("--") or len(name) < 6:
        return None
    # argparse accepts a prefix that fits one flag only; ours are a part of the engine's flags, so
    # a prefix is taken only when it is long enough to be meant.
    hits = {table[flag] for flag in table if flag.startswith(name)}
    return hits.pop() if len(hits) == 1 and len(name) >= 10 else None


def _value(field_name: str, flag: str, raw: str, kind: str) -> object:
    if kind.startswith("str"):
        return clean(raw)
    whole = kind.startswith("int")
    try:
        value: int | float = int(raw) if whole else float(raw)
    except ValueError:
        raise UsageError(_wrong(flag, raw, whole=whole), _remedy(flag)) from None
    smallest = -1 if field_name in _SIGNED else 0
    if not smallest <= value <= _LARGEST or (value == 0 and field_name in _NEVER_ZERO):
        raise UsageError(_wrong(flag, raw, whole=whole), _remedy(flag))
    if field_name in _FRACTIONS and not 0 < value <= 1:
        raise UsageError(
            t(
                "{flag} is {value}; a fraction between 0 and 1 is expected.",
                flag=clean(flag),
                value=clean(raw)[:40],
            ),
            t("Write a share of the GPU's memory, such as 0.92."),
        )
    return value


_NEVER_ZERO = frozenset(
    {
        "max_running_requests",
        "max_total_tokens",
        "context_length",
        "page_size",
        "max_mamba_cache_size",
        "mamba_full_memory_ratio",
        "max_num_seqs",
        "max_num_batched_tokens",
        "tp_size",
        "tensor_parallel_size",
    }
)
_FRACTIONS = frozenset({"mem_fraction_static", "gpu_memory_utilization"})


def _is_flag(item: str) -> bool:
    # A negative number is a value: --chunked-prefill-size -1.
    return item.startswith("-") and not item.lstrip("-")[:1].isdigit() and item not in {"-", "--"}


def _wrong(flag: str, raw: str, *, whole: bool) -> Text:
    if whole:
        return t(
            "{flag} is {value}; a whole number in a sane range is expected.",
            flag=clean(flag),
            value=clean(raw)[:40],
        )
    return t(
        "{flag} is {value}; a number in a sane range is expected.",
        flag=clean(flag),
        value=clean(raw)[:40],
    )


def _remedy(flag: str) -> Text:
    return t("Correct the value of {flag}.", flag=clean(flag))
