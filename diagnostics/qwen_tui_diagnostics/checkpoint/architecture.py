"""Architectures that the verifier knows, and the dimensions that ``config.json`` gives them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["ARCHITECTURES", "ArchitectureRow", "Dims", "read_dims", "section"]

_LARGEST_DIM = 1 << 32
_MOST_LAYERS = 2048
_MOST_EXPERTS = 1 << 16


@dataclass(frozen=True, slots=True)
class ArchitectureRow:
    """One class whose tensors are known by name and shape."""

    name: str
    wrapped: bool
    """Vision-wrapped: the text part stands under ``text_config``."""
    since: Mapping[str, str]
    """First release of each engine with the class."""
    flash: bool = False
    """Hyper-connections, a sparse-attention indexer and an n-gram table (Flash-Next)."""


_HYBRID = {"sglang": "0.5.9"}

ARCHITECTURES: Mapping[str, ArchitectureRow] = {
    row.name: row
    for row in (
        ArchitectureRow("Qwen3_5ForConditionalGeneration", True, _HYBRID),
        ArchitectureRow("Qwen3_5MoeForConditionalGeneration", True, _HYBRID),
        ArchitectureRow("Qwen3_5ForCausalLM", False, _HYBRID),
        ArchitectureRow("Qwen3_5MoeForCausalLM", False, _HYBRID),
        ArchitectureRow("Qwen4ExpForConditionalGeneration", True, {"sglang": "0.5.20"}, flash=True),
    )
}


@dataclass(frozen=True, slots=True)
class Dims:
    """Dimensions; None where the config does not tell (nothing is then compared)."""

    layers: int | None
    kinds: tuple[str, ...]
    """``linear_attention`` or ``full_attention`` per layer; empty when not known."""
    hidden: int | None
    intermediate: int | None
    vocab: int | None
    heads: int | None
    kv_heads: int | None
    head_dim: int | None
    gated: bool
    """Attention with an output gate: ``q_proj`` holds query and gate."""
    bias: bool
    key_heads: int | None
    value_heads: int | None
    key_dim: int | None
    value_dim: int | None
    kernel: int | None
    experts: int
    """Routed experts per layer; 0 = a dense model."""
    expert_width: int | None
    shared_width: int | None
    dense_layers: frozenset[int]
    """Layers of an MoE model with an ordinary MLP."""
    tied: bool
    """The output head is the embedding; where two places disagree, they say so together."""
    tied_surely: bool
    """No place says otherwise."""
    mtp_layers: int
    mtp_owns_embedding: bool
    text: Mapping[str, Any]
    vision: Mapping[str, Any] | None


def section(document: Mapping[str, Any], name: str) -> Mapping[str, Any] | None:
    """Return a nested object, None where it is absent or something else."""
    value = document.get(name)
    return value if isinstance(value, Mapping) else None


def read_dims(config: Mapping[str, Any]) -> Dims:
    """Read the dimensions of a config; absurd values count as not told."""
    text = section(config, "text_config") or config
    layers = _whole(text, "num_hidden_layers", most=_MOST_LAYERS)
    heads = _whole(text, "num_attention_heads")
    hidden = _whole(text, "hidden_size")
    head_dim = _whole(text, "head_dim")
    if head_dim is None and hidden and heads:
        head_dim = hidden // heads
    kv_heads = _whole(text, "num_key_value_heads")
    ties = [d.get("tie_word_embeddings") for d in (config, text)]
    tied = [tie for tie in ties if isinstance(tie, bool)]
    only = text.get("mlp_only_layers")
    vision = section(config, "vision_config")
    return Dims(
        layers=layers,
        kinds=_kinds(text, layers),
        hidden=hidden,
        intermediate=_whole(text, "intermediate_size"),
        vocab=_whole(text, "vocab_size"),
        heads=heads,
        kv_heads=heads if kv_heads is None else kv_heads,
        head_dim=head_dim,
        gated=text.get("attn_output_gate", True) is not False,
        bias=text.get("attention_bias") is True,
        key_heads=_whole(text, "linear_num_key_heads"),
        value_heads=_whole(text, "linear_num_value_heads"),
        key_dim=_whole(text, "linear_key_head_dim"),
        value_dim=_whole(text, "linear_value_head_dim"),
        kernel=_whole(text, "linear_conv_kernel_dim"),
        experts=_whole(text, "num_experts", most=_MOST_EXPERTS) or 0,
        expert_width=_whole(text, "moe_intermediate_size"),
        shared_width=_whole(text, "shared_expert_intermediate_size"),
        dense_layers=frozenset(
            i for i in (only if isinstance(only, list) else ()) if isinstance(i, int)
        ),
        tied=any(tied),
        tied_surely=bool(tied) and all(tied),
        mtp_layers=_whole(text, "mtp_num_hidden_layers", most=64) or 0,
        mtp_owns_embedding=text.get("mtp_use_dedicated_embeddings") is True,
        text=text,
        vision=vision,
    )


def _whole(document: Mapping[str, Any], name: str, *, most: int = _LARGEST_DIM) -> int | None:
    value = document.get(name)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value <= most:
        return None
    return value


def _kinds(text: Mapping[str, Any], layers: int | None) -> tuple[str, ...]:
    declared = text.get("layer_types")
    if isinstance(declared, list):
        return tuple(str(kind) for kind in declared[: _MOST_LAYERS + 1])
    if layers is None:
        return ()
    interval = _whole(text, "full_attention_interval") or 4
    return tuple(
        "full_attention" if (i + 1) % interval == 0 else "linear_attention" for i in range(layers)
    )
