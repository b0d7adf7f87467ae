"""The engine's modules of a checkpoint: fused, with the engine's own names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qwen_tui_diagnostics.checkpoint.declared.base import Kind, Module
from qwen_tui_diagnostics.checkpoint.layout import FUSED

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from qwen_tui_diagnostics.checkpoint.architecture import ArchitectureRow

__all__ = ["engine_modules", "engine_prefix", "expert_module"]

_CLASSES = {
    "qkv_proj": "QKVParallelLinear",
    "gate_up_proj": "MergedColumnParallelLinear",
    "in_proj_qkvz": "MergedColumnParallelLinear",
    "in_proj_ba": "MergedColumnParallelLinear",
    "lm_head": "ParallelLMHead",
}


def engine_prefix(row: ArchitectureRow, engine: str) -> str:
    """Return what the engine writes before ``layers.N``: it depends on the class alone."""
    if not row.wrapped:
        return "model."
    return "language_model.model." if engine == "vllm" else "model.language_model."


def engine_modules(linear: Iterable[str], row: ArchitectureRow, engine: str) -> Iterator[Module]:
    """Yield the matrices that may be quantized, shards of one matrix together."""
    prefix = engine_prefix(row, engine)
    done: set[str] = set()
    for name in linear:
        parent, _, last = name.rpartition(".")
        fused, parts = FUSED.get(last, (last, (last,)))
        whole = f"{parent}.{fused}" if parent else fused
        if whole in done:
            continue
        done.add(whole)
        draft = name.startswith("mtp.")
        if whole == "lm_head":
            kind = Kind.HEAD
            head = "language_model." if row.wrapped and engine == "vllm" else ""
        else:
            kind = Kind.MTP if draft else Kind.LINEAR
            head = "" if draft else prefix
        shards = tuple(f"{parent}.{part}" if parent else part for part in parts)
        yield Module(
            engine=head + whole,
            kind=kind,
            shards=tuple(head + shard for shard in shards),
            stored=shards,
            class_name=_CLASSES.get(fused, "RowParallelLinear"),
            mtp=draft,
        )


def expert_module(container: str, row: ArchitectureRow, engine: str) -> Module:
    """Return the module of a layer's routed experts; lists may name it or one expert's parts."""
    draft = container.startswith("mtp.")
    head = "" if draft else engine_prefix(row, engine)
    shards = tuple(f"{head}{container}.0.{part}" for part in ("gate_proj", "up_proj", "down_proj"))
    return Module(
        engine=head + container,
        kind=Kind.EXPERTS,
        shards=shards,
        stored=(container,),
        class_name="FusedMoE",
        mtp=draft,
    )
