"""What the weights take on the card: from stored tensors, or from the dimensions alone."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from qwen_tui_profiles.plan.allocator import reserved_bytes
from qwen_tui_profiles.plan.fusing import fused_name
from qwen_tui_profiles.plan.schemes import DENSE_BYTES, read_quantization
from qwen_tui_profiles.plan.shapes import draft_matrices, target_matrices, vision_matrices
from qwen_tui_profiles.text import Text, t

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from qwen_tui_profiles.plan.headers import StoredSizes
    from qwen_tui_profiles.plan.model import ModelFacts
    from qwen_tui_profiles.plan.schemes import Quantization
    from qwen_tui_profiles.plan.shapes import Matrix

__all__ = [
    "GIB",
    "Weights",
    "weights_from_dims",
    "weights_from_headers",
    "weights_unknown",
    "with_measured",
    "with_published",
]

GIB = float(1 << 30)

_DOUBT_GIB = (0.01, 0.03)
_PACKED_DOUBT_GIB = (0.10, 0.20)
"""How much less and more than computed the card may hold. Packed matrices need workspaces and
repacked scales that depend on the kernel: the INT4 release of seed 004 printed 17.67 GiB where
17.62 are computed."""

_PUBLISHED_DOUBT_GIB = 0.05
"""How far the same release may differ on another box, by kernels and release of the engine."""


@dataclass(frozen=True, slots=True)
class Weights:
    """Bytes on the card once loaded, with what is not known about them."""

    target: float
    """Target model: text, embedding, output head, vision tower, rotary cache."""
    draft: float
    """MTP head as loaded, with its own copies of embedding and output head."""
    draft_late: float
    """Part of ``draft`` that the engine frees only after the pools are sized."""
    stored: float
    """Bytes of the target's tensors alone, without rotary cache and allocation segments."""
    vision: float
    head: float
    rotary: float
    target_low: float
    target_high: float
    basis: Text
    draft_basis: Text
    quantization: str = "none"
    scheme_known: bool = True
    published: bool = False
    """``target`` was printed elsewhere."""


def weights_from_headers(facts: ModelFacts, stored: StoredSizes) -> Weights:
    """Size the weights from the headers of the files that the engine would load."""
    target = list(stored.target_sizes) or [stored.target_bytes, stored.vision_bytes]
    drafts = list(stored.draft_sizes) or [stored.draft_bytes]
    if not stored.draft_bytes:
        drafts = []
    return _weights(
        facts,
        target,
        drafts,
        vision=stored.vision_bytes,
        head=stored.head_bytes,
        late_copies=not stored.draft_owns_embedding,
        source=t("{tensors} tensors in {files} files", tensors=stored.tensors, files=stored.files),
    )


def weights_from_dims(facts: ModelFacts) -> Weights | None:
    """Size the weights from ``config.json`` alone.

    Returns:
        None for a class whose tensors cannot be derived from the dimensions.
    """
    if facts.known is None or not facts.known.dims:
        return None
    quantization = read_quantization(facts.quantization)
    target = _stacked(target_matrices(facts), quantization)
    tower = vision_matrices(facts.vision) if facts.multimodal else None
    vision = _stacked(tower or (), quantization)
    return _weights(
        facts,
        [*target.values(), *vision.values()],
        list(_stacked(draft_matrices(facts), quantization).values()),
        vision=sum(vision.values()),
        head=sum(size for name, size in target.items() if name.startswith("lm_head")),
        late_copies=True,
        source=t("the dimensions in config.json"),
    )


def _weights(
    facts: ModelFacts,
    target: Sequence[float],
    drafts: Sequence[float],
    *,
    vision: float,
    head: float,
    late_copies: bool,
    source: Text,
) -> Weights:
    """Put the tensors on the card as the allocator does."""
    quantization = read_quantization(facts.quantization)
    late = _late_sizes(facts) if drafts and late_copies else []
    loaded = [*target, facts.rotary_bytes]
    on_card = reserved_bytes(loaded)
    with_draft = reserved_bytes([*loaded, *drafts, *late])
    doubt = _PACKED_DOUBT_GIB if quantization.method != "none" else _DOUBT_GIB
    return Weights(
        target=on_card,
        draft=with_draft - on_card if drafts else 0.0,
        draft_late=sum(late),
        stored=sum(target),
        vision=vision,
        head=head,
        rotary=facts.rotary_bytes,
        target_low=on_card - doubt[0] * GIB,
        target_high=on_card + doubt[1] * GIB,
        basis=t(
            "{source}, the rotary cache, {slack} GiB lost to allocation segments",
            source=source,
            slack=f"{(on_card - sum(loaded)) / GIB:.2f}",
        ),
        draft_basis=_draft_basis(sum(late)),
        quantization=quantization.method,
        scheme_known=quantization.known,
    )


def _stacked(matrices: Iterable[Matrix], quantization: Quantization) -> dict[str, float]:
    """Return the bytes of every tensor as the engine stacks them, weights and scales apart."""
    sizes: dict[str, float] = {}
    for matrix in matrices:
        scheme = quantization.scheme_of(matrix.name) if matrix.linear else None
        name = fused_name(matrix.name)
        if scheme is None:
            parts = {"": matrix.rows * matrix.columns * DENSE_BYTES}
        else:
            weight, scale = scheme.parts_of(matrix.rows, matrix.columns)
            parts = {"": weight, "_scale": scale}
        for suffix, size in parts.items():
            key = name + suffix
            sizes[key] = sizes.get(key, 0.0) + size * matrix.copies
    return sizes


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
            published=False,
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


def with_published(weights: Weights, size_gib: float, source: Text | str) -> Weights:
    """Replace the target's size by what somebody else's boot of the same release printed."""
    size = size_gib * GIB
    return replace(
        weights,
        target=size,
        target_low=size - _PUBLISHED_DOUBT_GIB * GIB,
        target_high=size + _PUBLISHED_DOUBT_GIB * GIB,
        # Which of its matrices are quantized is not known without the headers.
        head=0.0,
        scheme_known=True,
        published=True,
        basis=t("published, not read: {source}", source=source),
    )


def weights_unknown(facts: ModelFacts) -> Weights:
    """Return what is left to say where the dimensions do not give the tensors: no sizes."""
    return Weights(
        target=0.0,
        draft=0.0,
        draft_late=0.0,
        stored=0.0,
        vision=0.0,
        head=0.0,
        rotary=facts.rotary_bytes,
        target_low=0.0,
        target_high=0.0,
        basis=t("not known"),
        draft_basis=t("not known"),
    )


def _late_sizes(facts: ModelFacts) -> list[float]:
    """Embedding and output head that the draft builds for itself and later drops."""
    return [facts.vocab * facts.hidden * DENSE_BYTES] * (1 if facts.tied else 2)


def _draft_basis(late: float) -> Text:
    if not late:
        return t("the MTP head")
    return t(
        "the MTP head, and {late} GiB of its own embedding and output head",
        late=f"{late / GIB:.2f}",
    )
