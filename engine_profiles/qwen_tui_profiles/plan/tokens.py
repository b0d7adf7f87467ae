"""Bytes that one token of the pool is charged with, and what is allocated beside it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from qwen_tui_profiles.plan.architectures import Family
from qwen_tui_profiles.plan.fields import optional_whole
from qwen_tui_profiles.versions import in_range

if TYPE_CHECKING:
    from qwen_tui_profiles.plan.model import ModelFacts

__all__ = ["RESERVED_TOKENS", "Cell", "token_cell", "usable_context"]

RESERVED_TOKENS = 6
"""``max_req_input_len = min(context, pool) − 6`` in every release looked at."""

_INDEX_KEY_BYTES = 2


@dataclass(frozen=True, slots=True)
class Cell:
    """Bytes of one token on one GPU."""

    charged: int
    """What the solver divides the pool by."""
    target: int
    """What the target's layers really keep."""
    draft: int
    """What the draft's layers keep, allocated for as many tokens."""
    draft_layers_charged: int
    """Draft layers that the solver counts: 0 = none, 64 = the defect of 0.5.14–0.5.17."""

    @property
    def overcharged(self) -> bool:
        """Whether the solver charges far more than is ever allocated."""
        return self.charged > 1.5 * (self.target + self.draft)


@dataclass(frozen=True, slots=True)
class _DraftRow:
    """How many draft layers a range of releases charges."""

    since: str | None
    until: str | None
    wrapped: bool | None
    path: bool | None
    family: Family | None
    layers: int | None
    """None = every layer of the target."""
    evidence: str


# First match holds. ``num_nextn_predict_layers`` is set on the outer config of a vision-wrapped
# class but read from its text config, so that the layer count falls back to the target's.
_DRAFT: tuple[_DraftRow, ...] = (
    _DraftRow(None, "0.5.13", None, None, None, 0, "draft pool comes out of the slack"),
    _DraftRow("0.5.14", None, None, None, Family.MLA, 1, "the engine sets the draft path itself"),
    _DraftRow(None, None, None, False, None, 0, "no draft path, no layer counted"),
    _DraftRow(
        "0.5.14", "0.5.17", True, True, None, None, "recorded boot: a fifth of the pool, 0.5.17"
    ),
    _DraftRow("0.5.14", None, None, True, None, 1, "one draft layer counted"),
)


def usable_context(context: int, tokens: int) -> int:
    """Return the longest input that one request may really have."""
    return max(0, min(context, tokens) - RESERVED_TOKENS)


def token_cell(
    facts: ModelFacts,
    *,
    engine_version: str,
    kv_bytes: int,
    speculative: bool,
    draft_path: bool,
    tp: int = 1,
) -> Cell:
    """Return the bytes per token that a release charges and allocates.

    Args:
        facts: The checkpoint.
        engine_version: SGLang release.
        kv_bytes: Bytes of one element of the KV cache.
        speculative: The checkpoint's MTP head drafts.
        draft_path: ``--speculative-draft-model-path`` is given.
        tp: Tensor-parallel size.
    """
    layer = facts.kv_bytes_per_layer(kv_bytes, tp)
    target = layer * facts.kv_layers + _index_bytes(facts)
    if not speculative:
        return Cell(target, target, 0, 0)
    wrapped = facts.known is not None and facts.known.wrapped
    counted = 0
    for row in _DRAFT:
        if (
            in_range(engine_version, row.since, row.until)
            and row.wrapped in {None, wrapped}
            and row.path in {None, draft_path}
            and row.family in {None, facts.family}
        ):
            counted = facts.layers if row.layers is None else row.layers
            break
    charged = int(target * (1 + counted / facts.kv_layers)) if counted else target
    return Cell(charged, target, layer * max(1, facts.draft_layers), counted)


def _index_bytes(facts: ModelFacts) -> int:
    """Compressed index keys of the sparse-attention layers (Flash-Next)."""
    width = optional_whole(facts.text, "indexer_head_dim")
    ratio = optional_whole(facts.text, "indexer_compress_ratio")
    if width is None or ratio is None:
        return 0
    heads = optional_whole(facts.text, "indexer_kv_heads") or 1
    return heads * width * _INDEX_KEY_BYTES // ratio * facts.kv_layers
