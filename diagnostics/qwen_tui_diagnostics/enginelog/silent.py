"""Silent changes: what was asked against what later lines show, where the engine says nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qwen_tui_profiles.text import t

if TYPE_CHECKING:
    from collections.abc import Mapping

    from qwen_tui_diagnostics.enginelog.boot import Boot
    from qwen_tui_diagnostics.enginelog.clamps import Changes
    from qwen_tui_profiles.findings import Value

__all__ = ["silent_sglang", "silent_vllm"]

_SILENT = t("The engine changed it without a word; the line shows what it uses.")

# --kv-cache-dtype → data type of the pool's line.
_KV_TYPES: Mapping[str, str] = {
    "fp8_e4m3": "torch.float8_e4m3fn",
    "fp8_e5m2": "torch.float8_e5m2",
    "bf16": "torch.bfloat16",
    "bfloat16": "torch.bfloat16",
}

# Field that is asked for → fact of a later line.
_SGLANG_FACTS: Mapping[str, str] = {
    "chunked_prefill_size": "chunked_prefill_size",
    "max_mamba_cache_size": "mamba_slots",
    "context_length": "context_len",
}


def silent_sglang(boot: Boot, out: Changes, requested: Mapping[str, Value] | None) -> None:
    """Compare argv (else the printed arguments) with the pools, the summary and the cache."""
    asked = requested if requested is not None else boot.args
    for name, fact_name in _SGLANG_FACTS.items():
        want, fact = asked.get(name), boot.facts.get(fact_name)
        if name == "max_mamba_cache_size" and boot.attention_replicas > 1:
            continue  # shared out among the replicas of the attention
        flag = "--" + name.replace("_", "-")
        if out.announced(flag):
            continue
        if isinstance(want, int) and want > 0 and fact is not None and fact.value != want:
            out.add(
                flag, want, fact.value, t("engine"), _SILENT, None,
                fact.line, clamp=True,
            )  # fmt: skip
    dtype, fact = asked.get("kv_cache_dtype"), boot.facts.get("kv_dtype")
    expected = _KV_TYPES.get(dtype) if isinstance(dtype, str) else None
    if fact is not None and expected is not None and fact.value != expected:
        out.add(
            "--kv-cache-dtype", dtype, fact.value, t("engine"), _SILENT, None, fact.line, clamp=True
        )
    elif dtype == "auto" and fact is not None and str(fact.value).startswith("torch.float8"):
        out.add(
            "--kv-cache-dtype", dtype, fact.value, t("checkpoint"),
            t("The checkpoint declares an 8-bit KV cache."), None, fact.line, clamp=False,
        )  # fmt: skip
    _tree_cache(boot, out, asked)


def _tree_cache(boot: Boot, out: Changes, asked: Mapping[str, Value]) -> None:
    line = boot.tree_line
    if line is None:
        return
    if asked.get("enable_hierarchical_cache") is True and (
        "hierarchical=False" in line.message or "hicache_attached=False" in line.message
    ):
        out.add(
            "--enable-hierarchical-cache", True, False, t("prefix cache"), _SILENT, None, line,
            clamp=True,
        )  # fmt: skip
    if "impl=Chunk" in line.message and boot.args.get("disable_radix_cache") is False:
        out.add(
            "--disable-radix-cache",
            False,
            True,
            t("prefix cache"),
            _SILENT,
            None,
            line,
            clamp=False,
        )


_VLLM_FIELDS: Mapping[str, str] = {
    "max_model_len": "max_seq_len",
    "enable_prefix_caching": "enable_prefix_caching",
    "enable_chunked_prefill": "enable_chunked_prefill",
    "enforce_eager": "enforce_eager",
    "tensor_parallel_size": "tensor_parallel_size",
    "pipeline_parallel_size": "pipeline_parallel_size",
}


def silent_vllm(boot: Boot, out: Changes, requested: Mapping[str, Value] | None) -> None:
    """Compare what was asked with the engine's configuration line."""
    line = boot.config_line
    if requested is None or line is None:
        return
    for name, field in _VLLM_FIELDS.items():
        want, got = requested.get(name), boot.args.get(field)
        if want is None or got is None or type(want) is not type(got) or want == got:
            continue
        if isinstance(want, int) and want <= 0:
            continue  # -1 asks for what fits
        out.add(
            "--" + name.replace("_", "-"), want, got, t("engine configuration"), _SILENT, None,
            line, clamp=True,
        )  # fmt: skip
    if (
        requested.get("speculative_config") is not None
        and boot.args.get("speculative_config", "cut") is None
    ):
        out.add(
            "--speculative-config", "set", None, t("engine configuration"), _SILENT, None, line,
            clamp=True,
        )  # fmt: skip
