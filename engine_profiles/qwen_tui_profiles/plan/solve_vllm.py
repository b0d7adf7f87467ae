"""vLLM's block layout for hybrid and plain models: from bytes to blocks, concurrency and tokens.

Exact once the bytes for the KV cache are known; those come from a profiling run and cannot be
predicted to the byte. Checked against the figures that real boots printed (27B, 35B-A3B,
Flash-Next).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from qwen_tui_profiles.plan.architectures import Family
from qwen_tui_profiles.versions import in_range

if TYPE_CHECKING:
    from qwen_tui_profiles.plan.model import ModelFacts

__all__ = ["NEWEST_VLLM", "BlockLayout", "BlockPool", "block_layout", "block_pool", "fixed_blocks"]

NEWEST_VLLM = "0.33.0"
"""Newest release that the rules were read from."""

_ALIGNMENT = 16
_CONV_BYTES = 2
_INDEX_RATIO = 4
_INDEX_BYTES = 256


@dataclass(frozen=True, slots=True)
class BlockLayout:
    """How one release cuts the KV cache of one model."""

    block_tokens: int
    block_bytes: int
    """Bytes of one block over all layers of a group; what the memory is divided by."""
    groups: int
    """Groups of layers that hold blocks of their own (attention and state)."""
    state_groups: int
    rings: int
    state_steps: int
    """State blocks a request holds per group: 1 + drafts, one more in ``align`` mode."""
    prefix_caching: bool

    @property
    def fixed_blocks(self) -> int:
        """Blocks that a request pins whatever its length."""
        return self.state_groups * self.state_steps + self.rings

    def blocks_for(self, tokens: int) -> int:
        """Blocks that a request of ``tokens`` tokens is planned with."""
        return math.ceil(tokens / self.block_tokens) + self.fixed_blocks


@dataclass(frozen=True, slots=True)
class BlockPool:
    """What a number of bytes comes to."""

    blocks: int
    printed_tokens: int
    """The figure of ``GPU KV cache size``, in the meaning of that release."""
    concurrency: float
    """Requests of the full context that fit at once."""
    full_request: int
    """Blocks of one request of the full context."""
    largest_context: int
    """Longest context that one request can have."""
    at_once: int
    """Requests of up to one block that run at once."""


def block_layout(
    facts: ModelFacts,
    *,
    engine_version: str,
    kv_bytes: int,
    state_dtype: str | None,
    drafts: int,
    prefix_caching: bool,
    replay: bool = False,
    asked_block: int | None = None,
    tp: int = 1,
) -> BlockLayout:
    """Return the layout.

    Args:
        facts: The checkpoint.
        engine_version: vLLM release.
        kv_bytes: Bytes of one element of the KV cache.
        state_dtype: Dtype of the recurrent state; None = as the checkpoint declares.
        drafts: Draft tokens per step (``num_speculative_tokens``); 0 = none.
        prefix_caching: Whether prefix caching is in force; state blocks are then kept in ``align``
            mode, one more per group.
        replay: ReplaySSM keeps no state block per draft.
        asked_block: ``--block-size``; it is raised where a state page does not fit.
        tp: Tensor-parallel size.
    """
    token = facts.kv_bytes_per_layer(kv_bytes, tp)
    draft_layers = max(1, facts.draft_layers) if drafts else 0
    attention = facts.kv_layers + draft_layers
    state = facts.state
    if state is None:
        block = asked_block or _ALIGNMENT
        layers = facts.layers + draft_layers
        return BlockLayout(block, layers * block * token, 1, 0, 0, 0, prefix_caching)
    state_drafts = 0 if replay else drafts
    page = (
        state.conv_channels // tp * (state.conv_kernel - 1 + state_drafts) * _CONV_BYTES
        + state.ssm_bytes(state_dtype) // tp
    )
    block = _ALIGNMENT * math.ceil(page / (_ALIGNMENT * token))
    if asked_block is not None:
        block = max(block, asked_block)
    size, state_groups = _groups(attention, state.layers)
    block_bytes = size * block * token
    rings = 0
    if facts.sparse_indexer and in_range(engine_version, "0.29.0", None):
        # Attention and index share a block; the PLE convolution is one more state group.
        block_bytes = size * (block * token + block // _INDEX_RATIO * _INDEX_BYTES)
        state_groups += 1
        rings = 1
    steps = (2 if prefix_caching else 1) + state_drafts
    attention_groups = math.ceil(attention / size)
    return BlockLayout(
        block,
        block_bytes,
        attention_groups + state_groups,
        state_groups,
        rings,
        steps,
        prefix_caching,
    )


def block_pool(
    layout: BlockLayout, available_bytes: float, *, context: int, engine_version: str
) -> BlockPool:
    """Return blocks, concurrency and the printed token count of a pool."""
    blocks = max(0, int(available_bytes // layout.block_bytes))
    # One block is a permanent null block; older releases do not subtract it when they check.
    usable = blocks - 1
    full = layout.blocks_for(context)
    if in_range(engine_version, "0.20.1", None):
        printed = int(blocks / full * context)
    else:
        printed = blocks // layout.groups * layout.block_tokens
    checked = usable if in_range(engine_version, "0.29.0", None) else blocks
    return BlockPool(
        blocks=blocks,
        printed_tokens=printed,
        concurrency=blocks / full,
        full_request=full,
        largest_context=max(0, (checked - layout.fixed_blocks) * layout.block_tokens),
        at_once=max(0, usable // layout.blocks_for(1)),
    )


def fixed_blocks(facts: ModelFacts, layout: BlockLayout) -> int:
    """Return the blocks that a request pins whatever its length; 0 for a plain model."""
    return 0 if facts.family is not Family.HYBRID else layout.fixed_blocks


def _groups(attention: int, state: int) -> tuple[int, int]:
    """Return layers per group and the number of state groups."""
    smaller, larger = min(attention, state), max(attention, state)
    size = larger if larger < 1.5 * smaller else smaller
    return size, math.ceil(state / size)
