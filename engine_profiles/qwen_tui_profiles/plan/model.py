"""What the planner needs to know about a checkpoint, read from its ``config.json``."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from qwen_tui_profiles.errors import InputError
from qwen_tui_profiles.foreign import clean
from qwen_tui_profiles.plan.architectures import Architecture, Family, find_architecture
from qwen_tui_profiles.plan.fields import number, optional_whole, section, whole, words
from qwen_tui_profiles.plan.gdn import StateDims
from qwen_tui_profiles.text import t

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

__all__ = ["ModelFacts", "read_config", "read_model"]

_LARGEST_CONFIG_BYTES = 16 << 20
_ROTARY_ENTRY_BYTES = 4
"""The rotary cache holds float32 cosines and sines whatever the model's dtype is."""

_DTYPE_BYTES = {"bfloat16": 2, "float16": 2, "half": 2, "float32": 4, "float": 4}


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """Dimensions that decide how much memory weights, state and KV cache take."""

    architecture: str | None
    known: Architecture | None
    family: Family
    multimodal: bool
    layers: int
    kv_layers: int
    """Layers that keep a KV cache (16 of the 64 of the 27B)."""
    kv_heads: int
    head_dim: int
    v_head_dim: int
    latent_dim: int
    """MLA: ``kv_lora_rank + qk_rope_head_dim``; 0 for the other families."""
    hidden: int
    vocab: int
    tied: bool
    draft_layers: int
    """Layers of the MTP head that the checkpoint declares."""
    context: int
    """What the engine derives as the longest context (declared positions × rope scaling)."""
    rotary_bytes: int
    state: StateDims | None
    dtype_bytes: int
    kv_declared_fp8: bool
    """The checkpoint declares an FP8 KV cache, which ``--kv-cache-dtype auto`` then takes."""
    text: Mapping[str, object]
    vision: Mapping[str, object]
    quantization: Mapping[str, object]
    """``quantization_config`` as the engine finds it; empty for an unquantized checkpoint."""
    rotary_row_bytes: int = 0
    """Bytes that the rotary cache keeps for one position."""
    vision_rotary_row_bytes: int = 0
    """The same of the vision tower's cache; 0 without a tower of the known shape."""

    @property
    def sparse_indexer(self) -> bool:
        """Whether full-attention layers keep an index beside the KV cache (Flash-Next)."""
        return self.architecture == "Qwen4ExpForConditionalGeneration"

    def kv_bytes_per_layer(self, element_bytes: int, tp: int = 1) -> int:
        """Bytes that one layer keeps for one token on one GPU."""
        if self.family is Family.MLA:
            return self.latent_dim * element_bytes
        heads = max(1, self.kv_heads // tp)
        return heads * (self.head_dim + self.v_head_dim) * element_bytes


def read_config(folder: Path) -> dict[str, object]:
    """Read ``config.json`` of a checkpoint folder (or the file itself).

    Raises:
        InputError: The file is missing, unreadable, too large, or not a JSON object.
    """
    path = folder / "config.json" if folder.is_dir() else folder
    name = clean(str(path))
    try:
        if path.stat().st_size > _LARGEST_CONFIG_BYTES:
            raise InputError(
                t("{path} is larger than 16 MiB; a config.json is a few kilobytes.", path=name),
                t("Name the checkpoint folder or its config.json."),
            )
        document = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(
            t("{path} cannot be read: {cause}.", path=name, cause=error.strerror or "I/O error"),
            t("Name a checkpoint folder that holds config.json with --model."),
        ) from error
    except (UnicodeDecodeError, ValueError, RecursionError) as error:
        raise InputError(
            t("{path} is not valid JSON: {cause}.", path=name, cause=clean(str(error))[:120]),
            t("Download config.json again."),
        ) from error
    if not isinstance(document, dict):
        raise InputError(
            t("{path} does not hold a JSON object.", path=name),
            t("Download config.json again."),
        )
    return document


def read_model(config: Mapping[str, object]) -> ModelFacts:
    """Read the facts out of a parsed ``config.json``.

    Raises:
        InputError: A field that the class needs is missing or absurd. A class that the planner
            does not know raises nothing: its family is ``UNKNOWN`` and its sizes are 0.
    """
    names = words(config, "architectures")
    name = clean(names[0]) if names else None
    row = find_architecture(name)
    text = section(config, "text_config") or config
    quantization = section(config, "quantization_config") or section(text, "quantization_config")
    if row is None:
        return ModelFacts(
            name, None, Family.UNKNOWN, False, 0, 0, 0, 0, 0, 0, 0, 0, False, 0, 0, 0, None, 2,
            False, text, section(config, "vision_config"), quantization,
        )  # fmt: skip
    layers = whole(text, "num_hidden_layers")
    state = StateDims.from_config(config) if row.family is Family.HYBRID else None
    kv_layers = layers
    if row.family is Family.HYBRID:
        if state is None:
            raise InputError(
                t(
                    "config.json names {name} but has no linear_num_value_heads.",
                    name=name,
                ),
                t("Check that config.json is complete and belongs to this checkpoint."),
            )
        kv_layers = layers - state.layers
    heads = whole(text, "num_attention_heads")
    hidden = whole(text, "hidden_size")
    mla = row.family is Family.MLA
    rope_dim = whole(text, "qk_rope_head_dim") if mla else 0
    head_dim = optional_whole(text, "head_dim") or hidden // heads
    rotary_row = _rotary_dims(text, rope_dim or head_dim, mla=mla) * _ROTARY_ENTRY_BYTES
    vision = section(config, "vision_config")
    tied = config.get("tie_word_embeddings", text.get("tie_word_embeddings", False))
    return ModelFacts(
        architecture=name,
        known=row,
        family=row.family,
        multimodal=row.wrapped,
        layers=layers,
        kv_layers=kv_layers,
        kv_heads=optional_whole(text, "num_key_value_heads") or heads,
        head_dim=head_dim,
        v_head_dim=optional_whole(text, "v_head_dim") or head_dim,
        latent_dim=whole(text, "kv_lora_rank") + rope_dim if mla else 0,
        hidden=hidden,
        vocab=whole(text, "vocab_size"),
        tied=tied is True,
        draft_layers=_draft_layers(text),
        context=_derived_context(text),
        rotary_bytes=_rotary_positions(text) * rotary_row,
        state=state,
        dtype_bytes=_dtype_bytes(config, text),
        kv_declared_fp8=_declares_fp8_kv(quantization),
        text=text,
        vision=vision,
        quantization=quantization,
        rotary_row_bytes=rotary_row,
        vision_rotary_row_bytes=_vision_rotary_dims(vision) * _ROTARY_ENTRY_BYTES
        if row.wrapped
        else 0,
    )


def _draft_layers(text: Mapping[str, object]) -> int:
    for name in ("mtp_num_hidden_layers", "num_nextn_predict_layers"):
        value = text.get(name)
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= 64:
            return value
    return 0


def _rope(text: Mapping[str, object]) -> Mapping[str, object]:
    return section(text, "rope_parameters") or section(text, "rope_scaling")


def _derived_context(text: Mapping[str, object]) -> int:
    positions = whole(text, "max_position_embeddings", "max_sequence_length", "seq_length")
    rope = _rope(text)
    kind = rope.get("rope_type", rope.get("type", "default"))
    if kind in {"default", "llama3", "mrope"} or "original_max_position_embeddings" in rope:
        return positions
    return int(positions * number(rope, "factor", 1.0))


def _rotary_dims(text: Mapping[str, object], head_dim: int, *, mla: bool) -> int:
    part = number(_rope(text), "partial_rotary_factor", number(text, "partial_rotary_factor", 1.0))
    return head_dim if mla else int(head_dim * part)


def _rotary_positions(text: Mapping[str, object]) -> int:
    rope = _rope(text)
    positions = whole(text, "max_position_embeddings", "max_sequence_length", "seq_length")
    original = optional_whole(rope, "original_max_position_embeddings")
    if original is not None and rope.get("rope_type", rope.get("type")) == "yarn":
        positions = int(original * number(rope, "factor", 1.0))
    return positions


def _vision_rotary_dims(vision: Mapping[str, object]) -> int:
    heads = optional_whole(vision, "num_heads")
    width = optional_whole(vision, "hidden_size")
    if heads is None or width is None:
        return 0
    # Half of a head's dimensions are turned by the row, half by the column of a patch.
    return (optional_whole(vision, "head_dim") or width // heads) // 2


def _dtype_bytes(config: Mapping[str, object], text: Mapping[str, object]) -> int:
    for document in (text, config):
        for name in ("dtype", "torch_dtype"):
            value = document.get(name)
            if isinstance(value, str) and value in _DTYPE_BYTES:
                # The engine serves float32 checkpoints in a half type.
                return min(2, _DTYPE_BYTES[value])
    return 2


def _declares_fp8_kv(quantization: Mapping[str, object]) -> bool:
    # Only ModelOpt's declaration reaches SGLang's `auto`; compressed-tensors' scheme does not.
    if not str(quantization.get("quant_method", "modelopt")).startswith("modelopt"):
        return False
    scheme = section(quantization, "kv_cache_scheme")
    if scheme.get("type") == "float" and scheme.get("num_bits") == 8:
        return True
    nested = section(quantization, "quantization")
    declared = quantization.get("kv_cache_quant_algo") or nested.get("kv_cache_quant_algo")
    return isinstance(declared, str) and declared.upper() == "FP8"
