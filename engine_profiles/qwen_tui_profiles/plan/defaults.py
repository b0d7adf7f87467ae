"""Values that SGLang chooses where the user set none, by release and GPU memory.

Source: ``_handle_gpu_memory_settings`` (0.5.9–0.5.18) and ``handle_gpu_memory_settings``
(0.5.19–0.5.23) of the released wheels, ``adjust_mem_fraction_for_vlm`` beside them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from qwen_tui_profiles.plan.gdn import NEWEST_CHECKED
from qwen_tui_profiles.versions import in_range

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "SPECULATIVE_REQUESTS",
    "Automatic",
    "automatic_fraction",
    "automatic_sizes",
    "prefill_graph_sizes",
    "vision_factor",
]

SPECULATIVE_REQUESTS = 48
"""``--max-running-requests`` where speculative decoding is on and none was asked."""

_FLOOR_MIB = 10 * 1024
"""Cards above 60 GiB keep at least this much back."""


@dataclass(frozen=True, slots=True)
class _SizeRow:
    since: str | None
    until: str | None
    below_mib: int | None
    chunk: int
    graph: int
    graph_tp4: int


# First row that matches the release and the card's memory.
_SIZES: tuple[_SizeRow, ...] = (
    _SizeRow(None, None, 20 * 1024, 2048, 8, 8),
    _SizeRow(None, "0.5.19", 35 * 1024, 2048, 24, 80),
    _SizeRow("0.5.20", None, 35 * 1024, 4096, 48, 160),
    _SizeRow(None, None, 60 * 1024, 4096, 32, 160),
    _SizeRow(None, None, 160 * 1024, 8192, 256, 512),
    _SizeRow(None, None, None, 16384, 512, 512),
)

# Kept back for a draft model while the fraction was computed before the draft was counted, in MiB.
_DRAFT_RESERVE: tuple[tuple[str | None, str | None, int], ...] = (
    (None, "0.5.9", 2 * 1024),
    ("0.5.10", "0.5.13", 4 * 1024),
)


@dataclass(frozen=True, slots=True)
class Automatic:
    """Chunk and graph sizes for a card."""

    chunked_prefill_size: int
    decode_graph_max_bs: int


def automatic_sizes(engine_version: str | None, gpu_mib: float, tp: int = 1) -> Automatic:
    """Return the sizes that the engine picks for a card of ``gpu_mib`` MiB (nvidia-smi's total)."""
    version = engine_version or NEWEST_CHECKED
    for row in _SIZES:
        if in_range(version, row.since, row.until) and (
            row.below_mib is None or gpu_mib < row.below_mib
        ):
            return Automatic(row.chunk, row.graph if tp < 4 else row.graph_tp4)
    last = _SIZES[-1]
    return Automatic(last.chunk, last.graph)


def automatic_fraction(
    engine_version: str | None,
    gpu_mib: float,
    *,
    chunk: int,
    max_prefill_tokens: int = 16384,
    decode_graph_max_bs: int,
    prefill_graphs: int,
    tp: int = 1,
    pp: int = 1,
    speculative: bool = False,
    vision: Mapping[str, object] | None = None,
) -> float:
    """Return the ``--mem-fraction-static`` that the engine computes where none is set.

    Args:
        engine_version: SGLang release; None = the newest known.
        gpu_mib: Total memory as nvidia-smi prints it, in MiB.
        chunk: ``--chunked-prefill-size`` in force; −1 = off.
        max_prefill_tokens: Used for activations where chunking is off.
        decode_graph_max_bs: Largest captured decode batch; 0 = no decode graphs.
        prefill_graphs: Number of captured prefill sizes; 0 = no prefill graphs.
        tp: Tensor-parallel size.
        pp: Pipeline-parallel size.
        speculative: Whether a draft model is used (counts up to 0.5.13).
        vision: ``vision_config`` of a multimodal class served with images; else None.
    """
    version = engine_version or NEWEST_CHECKED
    activations = max(chunk if chunk > 0 else max_prefill_tokens, 2048)
    reserved = 512 + 1.5 * activations + tp * pp / 8 * 1024
    reserved += 2 * decode_graph_max_bs + 8 * prefill_graphs
    if gpu_mib > 60 * 1024:
        reserved = max(reserved, _FLOOR_MIB)
    if speculative:
        reserved += next(
            (mib for since, until, mib in _DRAFT_RESERVE if in_range(version, since, until)), 0
        )
    fraction = round((gpu_mib - reserved) / gpu_mib, 3)
    return fraction if vision is None else fraction * vision_factor(vision)


def vision_factor(vision: Mapping[str, object]) -> float:
    """Return what a multimodal class multiplies its automatic fraction with.

    The engine reads ``num_hidden_layers`` of the vision section and takes 24 where the section
    spells it ``depth``, as the Qwen3.5 line does.
    """
    if not vision:
        return 1.0
    layers = vision.get("num_hidden_layers", 24)
    width = vision.get("hidden_size", 1024)
    if not isinstance(layers, int) or not isinstance(width, int):
        return 0.95
    ratio = layers * width * width / (24 * 1024 * 1024)
    return 0.95 * max(0.8, min(1.05, 1.0 - 0.1 * (ratio - 1.0)))


def prefill_graph_sizes(largest: int) -> int:
    """Return how many prefill sizes up to ``largest`` tokens are captured."""
    sizes = [
        *range(4, 33, 4),
        *range(48, 257, 16),
        *range(288, 513, 32),
        *range(576, 1025, 64),
        *range(1280, 4097, 256),
        *range(4608, largest + 1, 512),
    ]
    return sum(1 for size in sizes if size <= largest)
