"""Matrices and vectors of a checkpoint, derived from the dimensions in ``config.json``.

The shapes add up to the published total of the 27B (55,562,872,800 bytes in BF16). Names are those
that quantization configs use, without the ``model.`` or ``model.language_model.`` prefix.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from qwen_tui_profiles.plan.architectures import Family
from qwen_tui_profiles.plan.fields import optional_whole, whole, words

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from qwen_tui_profiles.plan.model import ModelFacts

__all__ = ["Matrix", "draft_matrices", "target_matrices", "vision_matrices"]


@dataclass(frozen=True, slots=True)
class Matrix:
    """One linear module, or a vector that is never quantized."""

    name: str
    rows: int
    columns: int
    copies: int = 1
    """Experts share one entry: the name is the first one's."""
    linear: bool = True
    """False for norms, convolutions, routers and embeddings, which stay as they are."""


def target_matrices(facts: ModelFacts) -> Iterator[Matrix]:
    """Yield what the target model keeps on the card, without vision tower and draft head."""
    text = facts.text
    yield Matrix("embed_tokens", facts.vocab, facts.hidden, linear=False)
    if not facts.tied:
        yield Matrix("lm_head", facts.vocab, facts.hidden)
    yield Matrix("norm", facts.hidden, 1, linear=False)
    kinds = words(text, "layer_types")
    interval = optional_whole(text, "full_attention_interval") or 4
    for index in range(facts.layers):
        kind = kinds[index] if index < len(kinds) else None
        hybrid = facts.family is Family.HYBRID
        full = kind == "full_attention" if kind else (index + 1) % interval == 0
        name = f"layers.{index}"
        if hybrid and not full:
            yield from _delta_net(facts, name)
        elif facts.family is Family.MLA:
            yield from _latent_attention(facts, name)
        else:
            yield from _attention(facts, name)
        yield from _feed_forward(facts, name, index)
        yield Matrix(f"{name}.input_layernorm", 2 * facts.hidden, 1, linear=False)


def draft_matrices(facts: ModelFacts) -> Iterator[Matrix]:
    """Yield the MTP head as it is stored (embedding and output head are the target's)."""
    for index in range(facts.draft_layers):
        name = f"mtp.layers.{index}"
        if facts.family is Family.MLA:
            yield from _latent_attention(facts, name)
        else:
            yield from _attention(facts, name)
        yield from _feed_forward(facts, name, facts.layers)
        yield Matrix(f"{name}.input_layernorm", 2 * facts.hidden, 1, linear=False)
    if facts.draft_layers:
        yield Matrix("mtp.fc", facts.hidden, 2 * facts.hidden, linear=False)
        yield Matrix("mtp.norm", 3 * facts.hidden, 1, linear=False)


def vision_matrices(vision: Mapping[str, object]) -> tuple[Matrix, ...] | None:
    """Return the tensors of a Qwen3-style vision tower (460,730,096 parameters for the 27B).

    None when the section has other fields than this family's.
    """
    needed = ("depth", "hidden_size", "intermediate_size", "patch_size", "out_hidden_size")
    if any(name not in vision for name in needed):
        return None
    width = whole(vision, "hidden_size")
    inner = whole(vision, "intermediate_size")
    patch = whole(vision, "patch_size")
    channels = optional_whole(vision, "in_channels", "in_chans") or 3
    frames = optional_whole(vision, "temporal_patch_size") or 2
    positions = optional_whole(vision, "num_position_embeddings") or 2304
    merged = width * (optional_whole(vision, "spatial_merge_size") or 2) ** 2
    out = whole(vision, "out_hidden_size")
    shapes = [
        ("patch_embed", width, channels * frames * patch * patch),
        ("patch_embed.bias", width, 1),
        ("pos_embed", positions, width),
    ]
    for index in range(whole(vision, "depth")):
        shapes += [
            (f"blocks.{index}.norms", 4 * width, 1),
            (f"blocks.{index}.qkv", 3 * width, width),
            (f"blocks.{index}.proj", width, width),
            (f"blocks.{index}.fc1", inner, width),
            (f"blocks.{index}.fc2", width, inner),
            (f"blocks.{index}.biases", 5 * width + inner, 1),
        ]
    shapes += [
        ("merger.norm", 2 * width, 1),
        ("merger.fc1", merged, merged),
        ("merger.fc2", out, merged),
        ("merger.biases", merged + out, 1),
    ]
    return tuple(Matrix(f"visual.{n}", rows, columns, linear=False) for n, rows, columns in shapes)


def _delta_net(facts: ModelFacts, name: str) -> Iterator[Matrix]:
    state = facts.state
    if state is None:
        return
    prefix = f"{name}.linear_attn"
    values = state.value_heads * state.value_dim
    channels = state.conv_channels
    yield Matrix(f"{prefix}.in_proj_qkv", channels, facts.hidden)
    yield Matrix(f"{prefix}.in_proj_z", values, facts.hidden)
    yield Matrix(f"{prefix}.out_proj", facts.hidden, values)
    yield Matrix(f"{prefix}.in_proj_b", state.value_heads, facts.hidden)
    yield Matrix(f"{prefix}.in_proj_a", state.value_heads, facts.hidden)
    yield Matrix(f"{prefix}.conv1d", channels, state.conv_kernel, linear=False)
    yield Matrix(f"{prefix}.norm", 2 * state.value_heads + state.value_dim, 1, linear=False)


def _attention(facts: ModelFacts, name: str) -> Iterator[Matrix]:
    prefix = f"{name}.self_attn"
    heads = whole(facts.text, "num_attention_heads")
    query = heads * facts.head_dim
    # The Qwen3-Next line keeps a gate of the query's size in q_proj unless told otherwise.
    gated = facts.family is Family.HYBRID and facts.text.get("attn_output_gate", True) is not False
    yield Matrix(f"{prefix}.q_proj", query * (2 if gated else 1), facts.hidden)
    yield Matrix(f"{prefix}.k_proj", facts.kv_heads * facts.head_dim, facts.hidden)
    yield Matrix(f"{prefix}.v_proj", facts.kv_heads * facts.v_head_dim, facts.hidden)
    yield Matrix(f"{prefix}.o_proj", facts.hidden, heads * facts.v_head_dim)
    yield Matrix(f"{prefix}.q_norm", 2 * facts.head_dim, 1, linear=False)


def _latent_attention(facts: ModelFacts, name: str) -> Iterator[Matrix]:
    prefix = f"{name}.self_attn"
    text = facts.text
    heads = whole(text, "num_attention_heads")
    rope, nope = whole(text, "qk_rope_head_dim"), whole(text, "qk_nope_head_dim")
    latent, value = whole(text, "kv_lora_rank"), whole(text, "v_head_dim")
    query_rank = optional_whole(text, "q_lora_rank")
    if query_rank is None:
        yield Matrix(f"{prefix}.q_proj", heads * (nope + rope), facts.hidden)
    else:
        yield Matrix(f"{prefix}.q_a_proj", query_rank, facts.hidden)
        yield Matrix(f"{prefix}.q_b_proj", heads * (nope + rope), query_rank)
    yield Matrix(f"{prefix}.kv_a_proj_with_mqa", latent + rope, facts.hidden)
    yield Matrix(f"{prefix}.kv_b_proj", heads * (nope + value), latent)
    yield Matrix(f"{prefix}.o_proj", facts.hidden, heads * value)


def _feed_forward(facts: ModelFacts, name: str, index: int) -> Iterator[Matrix]:
    text = facts.text
    experts = optional_whole(text, "num_experts", "n_routed_experts", "num_local_experts")
    dense_first = optional_whole(text, "first_k_dense_replace") or 0
    step = optional_whole(text, "decoder_sparse_step") or 1
    listed = text.get("mlp_only_layers")
    dense = (
        experts is None
        or index < dense_first
        or (index + 1) % step != 0
        or (isinstance(listed, list) and index in listed)
    )
    if dense or experts is None:
        yield from _gated(f"{name}.mlp", whole(text, "intermediate_size"), facts.hidden, 1)
        return
    prefix = f"{name}.mlp"
    inner = optional_whole(text, "moe_intermediate_size") or whole(text, "intermediate_size")
    yield from _gated(f"{prefix}.experts.0", inner, facts.hidden, experts)
    yield Matrix(f"{prefix}.gate", experts, facts.hidden, linear=False)
    shared = optional_whole(text, "shared_expert_intermediate_size")
    count = optional_whole(text, "n_shared_experts")
    if shared is None and count is not None:
        shared = inner * count
    if shared is not None:
        yield from _gated(f"{prefix}.shared_expert", shared, facts.hidden, 1)
        yield Matrix(f"{prefix}.shared_expert_gate", 1, facts.hidden, linear=False)


def _gated(name: str, inner: int, hidden: int, copies: int) -> Iterator[Matrix]:
    yield Matrix(f"{name}.gate_proj", inner, hidden, copies)
    yield Matrix(f"{name}.up_proj", inner, hidden, copies)
    yield Matrix(f"{name}.down_proj", hidden, inner, copies)
