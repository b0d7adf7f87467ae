"""What the weights take on the card: from stored tensors, or from the dimensions alone."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from qwen_tui_profiles.plan.schemes import DENSE_BYTES, read_quantization
from qwen_tui_profiles.plan.shapes import draft_matrices, target_matrices, vision_parameters
from qwen_tui_profiles.text import Text, t

if TYPE_CHECKING:
    from qwen_tui_profiles.plan.headers import StoredSizes
    from qwen_tui_profiles.plan.model import ModelFacts

__all__ = ["GIB", "Weights", "weights_from_dims", "weights_from_headers", "with_measured"]

GIB = float(1 << 30)

_PACKED_EXTRA_GIB = 0.29
"""Packed 4-bit matrices of the 27B take this much more on the card than in the file (seed 004:
17.67 GiB loaded, 17.38 GiB of tensors): kernels keep repacked copies and workspaces."""


@dataclass(frozen=True, slots=True)
class Weights:
    """Bytes on the card once loaded, with what is not known about them."""

    target: float
    """Target model: text, embedding, output head, vision tower, rotary cache."""
    draft: float
    """MTP head as loaded, with its own copies of embedding and output head."""
    draft_late: float
    """Part of ``draft`` that the engine frees only after the pools are sized."""
    vision: float
    head: float
    rotary: float
    target_low: float
    target_high: float
    basis: Text
    draft_basis: Text
    quantization: str = "none"
    scheme_known: bool = True


def weights_from_headers(facts: ModelFacts, stored: StoredSizes) -> Weights:
    """Size the weights from the headers of the files that the engine would load."""
    quantization = read_quantization(facts.quantization)
    packed = quantization.method != "none"
    tensors = stored.target_bytes + stored.vision_bytes + facts.rotary_bytes
    extra = _PACKED_EXTRA_GIB * GIB if packed else 0.0
    late = 0.0 if stored.draft_owns_embedding else _late_bytes(facts)
    return Weights(
        target=tensors + extra,
        draft=stored.draft_bytes + late,
        draft_late=late,
        vision=stored.vision_bytes,
        head=stored.head_bytes,
        rotary=facts.rotary_bytes,
        target_low=tensors,
        target_high=tensors + 2 * extra,
        basis=_basis(
            t("{tensors} tensors in {files} files", tensors=stored.tensors, files=stored.files),
            packed=packed,
        ),
        draft_basis=_draft_basis(late),
        quantization=quantization.method,
        scheme_known=quantization.known,
    )


def weights_from_dims(facts: ModelFacts) -> Weights | None:
    """Size the weights from ``config.json`` alone.

    Returns:
        None for a class whose tensors cannot be derived from the dimensions.
    """
    if facts.known is None or not facts.known.dims:
        return None
    quantization = read_quantization(facts.quantization)
    head = 0.0
    target = 0.0
    for matrix in target_matrices(facts):
        scheme = quantization.scheme_of(matrix.name) if matrix.linear else None
        if scheme is None:
            size = matrix.rows * matrix.columns * DENSE_BYTES
        else:
            size = scheme.bytes_of(matrix.rows, matrix.columns)
        target += size * matrix.copies
        if matrix.name == "lm_head":
            head = size
    vision = 0.0
    if facts.multimodal and facts.vision:
        vision = DENSE_BYTES * (vision_parameters(facts.vision) or 0)
    draft = 0.0
    for matrix in draft_matrices(facts):
        scheme = quantization.scheme_of(matrix.name) if matrix.linear else None
        size = (
            matrix.rows * matrix.columns * DENSE_BYTES
            if scheme is None
            else scheme.bytes_of(matrix.rows, matrix.columns)
        )
        draft += size * matrix.copies
    packed = quantization.method != "none"
    extra = _PACKED_EXTRA_GIB * GIB if packed else 0.0
    tensors = target + vision + facts.rotary_bytes
    late = _late_bytes(facts) if draft else 0.0
    return Weights(
        target=tensors + extra,
        draft=draft + late,
        draft_late=late,
        vision=vision,
        head=head,
        rotary=facts.rotary_bytes,
        target_low=tensors,
        target_high=tensors + 2 * extra,
        basis=_basis(t("the dimensions in config.json"), packed=packed),
        draft_basis=_draft_basis(late),
        quantization=quantization.method,
        scheme_known=quantization.known,
    )


def with_measured(
    weights: Weights, *, target_gib: float | None, draft_gib: float | None
) -> Weights:
    """Replace sizes by those that an earlier boot printed as ``mem usage``."""
    if target_gib is not None:
        size = target_gib * GIB
        weights = replace(
            weights,
            target=size,
            target_low=size,
            target_high=size,
            basis=t("mem usage of an earlier boot"),
        )
    if draft_gib is not None:
        size = draft_gib * GIB
        late = weights.draft_late if size > weights.draft_late else 0.0
        weights = replace(
            weights,
            draft=size,
            draft_late=late,
            draft_basis=t("mem usage of an earlier boot"),
        )
    return weights


def _late_bytes(facts: ModelFacts) -> float:
    """Embedding and output head that the draft builds for itself and later drops."""
    copies = 1 if facts.tied else 2
    return copies * facts.vocab * facts.hidden * DENSE_BYTES


def _basis(source: Text, *, packed: bool) -> Text:
    if packed:
        return t(
            "{source}, the rotary cache, and {extra} GiB of repacking seen once",
            source=source,
            extra=f"{_PACKED_EXTRA_GIB:.2f}",
        )
    return t("{source}, and the rotary cache", source=source)


def _draft_basis(late: float) -> Text:
    if not late:
        return t("the MTP head")
    return t(
        "the MTP head, and {late} GiB of its own embedding and output head",
        late=f"{late / GIB:.2f}",
    )
