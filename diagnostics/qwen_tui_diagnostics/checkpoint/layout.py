"""Tensors that an architecture needs, by name and shape, derived from the config alone.

Names are canonical: without ``model.`` or ``model.language_model.``. The shapes of the 27B add up
to the published 55,562,872,800 bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    from qwen_tui_diagnostics.checkpoint.architecture import ArchitectureRow, Dims

__all__ = ["FUSED", "Experts", "Need", "mtp_needs", "text_needs", "vision_needs"]

FUSED = {
    "q_proj": ("qkv_proj", ("q_proj", "k_proj", "v_proj")),
    "k_proj": ("qkv_proj", ("q_proj", "k_proj", "v_proj")),
    "v_proj": ("qkv_proj", ("q_proj", "k_proj", "v_proj")),
    "gate_proj": ("gate_up_proj", ("gate_proj", "up_proj")),
    "up_proj": ("gate_up_proj", ("gate_proj", "up_proj")),
    "in_proj_qkv": ("in_proj_qkvz", ("in_proj_qkv", "in_proj_z")),
    "in_proj_z": ("in_proj_qkvz", ("in_proj_qkv", "in_proj_z")),
    "in_proj_b": ("in_proj_ba", ("in_proj_b", "in_proj_a")),
    "in_proj_a": ("in_proj_ba", ("in_proj_b", "in_proj_a")),
}
"""Shard → the engine's fused matrix and all its shards (SGLang, packed_modules_mapping)."""

Shape = tuple[int | None, ...] | None


class Need(NamedTuple):
    """A tensor that must be there."""

    module: str
    suffix: str
    shape: Shape
    """None, or None in a place: not told by the config."""
    linear: bool = False
    """A matrix that may be stored quantized."""
    loose: bool = False
    """The name is known only up to its end (``hc_norm`` or ``hc_norm.weight``)."""


class Experts(NamedTuple):
    """The routed experts of one layer, stored fused or one by one."""

    module: str
    number: int
    hidden: int | None
    width: int | None


def text_needs(row: ArchitectureRow, dims: Dims, layer: int) -> Iterator[Need | Experts]:
    """Yield what one layer of the target needs."""
    kind = dims.kinds[layer] if layer < len(dims.kinds) else None
    name = f"layers.{layer}"
    if kind == "linear_attention":
        yield from _delta_net(dims, f"{name}.linear_attn")
    elif kind == "full_attention":
        yield from _attention(row, dims, f"{name}.self_attn")
    yield from _around(row, dims, name)
    yield from _feed_forward(dims, name, moe=layer not in dims.dense_layers)
    ids = dims.text.get("ple_layer_ids")
    # The ids count from one.
    if row.flash and isinstance(ids, list) and layer + 1 in ids:
        for part in ("key_proj", "value_proj", "norm_key", "norm_query", "norm_conv", "conv1d"):
            yield Need(f"{name}.ple.{part}", "weight", None)


def mtp_needs(row: ArchitectureRow, dims: Dims) -> Iterator[Need | Experts]:
    """Yield what the MTP head needs."""
    hidden = dims.hidden
    if row.flash:
        for name in ("fc_embedding", "fc_hidden"):
            yield Need(f"mtp.{name}", "weight", None)
        for name in ("hc_norm", "input_mix_weight_down", "input_mix_weight_up"):
            yield Need("mtp.hyper_connection_mixer", name, None, loose=True)
    else:
        yield Need("mtp.fc", "weight", (hidden, None if hidden is None else 2 * hidden))
        yield Need("mtp.norm", "weight", (hidden,))
    for name in ("pre_fc_norm_embedding", "pre_fc_norm_hidden"):
        yield Need(f"mtp.{name}", "weight", None if row.flash else (hidden,))
    if dims.mtp_owns_embedding:
        yield Need("mtp.embed_tokens", "weight", (dims.vocab, hidden))
    for index in range(dims.mtp_layers):
        name = f"mtp.layers.{index}"
        yield from _attention(row, dims, f"{name}.self_attn")
        yield from _around(row, dims, name)
        yield from _feed_forward(dims, name, moe=True)


def vision_needs(dims: Dims) -> Iterator[Need]:
    """Yield what a Qwen3-style vision tower needs; nothing where its section is not known."""
    vision = dims.vision
    if vision is None:
        return

    def read(*names: str, default: int | None = None) -> int | None:
        for name in names:
            value = vision.get(name)
            if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 1 << 24:
                return value
        return default

    depth, width = read("depth"), read("hidden_size")
    if depth is None or depth > 512 or width is None:
        return
    inner, patch = read("intermediate_size"), read("patch_size")
    merge = read("spatial_merge_size", default=2) or 2
    merged = width * merge * merge
    channels = read("in_channels", "in_chans", default=3)
    frames = read("temporal_patch_size", default=2)
    yield Need("visual.patch_embed.proj", "weight", (width, channels, frames, patch, patch))
    yield Need("visual.patch_embed.proj", "bias", (width,))
    yield Need("visual.pos_embed", "weight", (read("num_position_embeddings"), width))
    for index in range(depth):
        block = f"visual.blocks.{index}"
        for name, rows, columns in (
            ("attn.qkv", 3 * width, width),
            ("attn.proj", width, width),
            ("mlp.linear_fc1", inner, width),
            ("mlp.linear_fc2", width, inner),
        ):
            yield Need(f"{block}.{name}", "weight", (rows, columns))
            yield Need(f"{block}.{name}", "bias", (rows,))
        for name in ("norm1", "norm2"):
            yield Need(f"{block}.{name}", "weight", (width,))
            yield Need(f"{block}.{name}", "bias", (width,))
    for suffix in ("weight", "bias"):
        yield Need("visual.merger.norm", suffix, None)
    out = read("out_hidden_size")
    yield Need("visual.merger.linear_fc1", "weight", (merged, merged))
    yield Need("visual.merger.linear_fc1", "bias", (merged,))
    yield Need("visual.merger.linear_fc2", "weight", (out, merged))
    yield Need("visual.merger.linear_fc2", "bias", (out,))


def _times(*factors: int | None) -> int | None:
    product = 1
    for factor in factors:
        if factor is None:
            return None
        product *= factor
    return product


def _delta_net(dims: Dims, name: str) -> Iterator[Need]:
    keys = _times(dims.key_heads, dims.key_dim)
    values = _times(dims.value_heads, dims.value_dim)
    channels = None if keys is None or values is None else 2 * keys + values
    yield Need(f"{name}.in_proj_qkv", "weight", (channels, dims.hidden), linear=True)
    yield Need(f"{name}.in_proj_z", "weight", (values, dims.hidden), linear=True)
    yield Need(f"{name}.in_proj_b", "weight", (dims.value_heads, dims.hidden), linear=True)
    yield Need(f"{name}.in_proj_a", "weight", (dims.value_heads, dims.hidden), linear=True)
    yield Need(f"{name}.out_proj", "weight", (dims.hidden, values), linear=True)
    yield Need(f"{name}.conv1d", "weight", (channels, 1, dims.kernel))
    yield Need(name, "A_log", (dims.value_heads,))
    yield Need(name, "dt_bias", (dims.value_heads,))
    yield Need(f"{name}.norm", "weight", (dims.value_dim,))


def _attention(row: ArchitectureRow, dims: Dims, name: str) -> Iterator[Need]:
    queries = _times(dims.heads, dims.head_dim)
    rows = _times(queries, 2 if dims.gated else 1)
    keys = _times(dims.kv_heads, dims.head_dim)
    for part, count in (("q_proj", rows), ("k_proj", keys), ("v_proj", keys)):
        yield Need(f"{name}.{part}", "weight", (count, dims.hidden), linear=True)
        if dims.bias:
            yield Need(f"{name}.{part}", "bias", (count,))
    yield Need(f"{name}.o_proj", "weight", (dims.hidden, queries), linear=True)
    yield Need(f"{name}.q_norm", "weight", (dims.head_dim,))
    yield Need(f"{name}.k_norm", "weight", (dims.head_dim,))
    if row.flash:
        for part in ("index_qk_proj", "q_layernorm", "k_layernorm"):
            yield Need(f"{name}.indexer.{part}", "weight", None)


def _around(row: ArchitectureRow, dims: Dims, name: str) -> Iterator[Need]:
    if not row.flash:
        yield Need(f"{name}.input_layernorm", "weight", (dims.hidden,))
        yield Need(f"{name}.post_attention_layernorm", "weight", (dims.hidden,))
        return
    for place in ("attn_hyper_connection", "mlp_hyper_connection"):
        for part in (
            "hc_norm",
            "input_mix_weight_down",
            "input_mix_weight_up",
            "block_inject_weight",
        ):
            yield Need(f"{name}.{place}", part, None, loose=True)


def _feed_forward(dims: Dims, layer: str, *, moe: bool) -> Iterator[Need | Experts]:
    name = f"{layer}.mlp"
    if not (dims.experts and moe):
        yield from _mlp(name, dims.hidden, dims.intermediate)
        return
    yield Need(f"{name}.gate", "weight", (dims.experts, dims.hidden))
    yield Need(f"{name}.shared_expert_gate", "weight", (1, dims.hidden))
    yield from _mlp(f"{name}.shared_expert", dims.hidden, dims.shared_width)
    yield Experts(f"{name}.experts", dims.experts, dims.hidden, dims.expert_width)


def _mlp(name: str, hidden: int | None, width: int | None) -> Iterator[Need]:
    yield Need(f"{name}.gate_proj", "weight", (width, hidden), linear=True)
    yield Need(f"{name}.up_proj", "weight", (width, hidden), linear=True)
    yield Need(f"{name}.down_proj", "weight", (hidden, width), linear=True)
