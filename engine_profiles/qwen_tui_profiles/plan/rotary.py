"""Rotary caches that grow behind the engine's back, between the load and the pools.

After the weights are loaded, ``reserve_rope_cache_for_long_sequences`` extends every rotary cache
of the model to the context in force and a margin. It also reaches the cache of the vision tower,
which starts with 8,192 rows and needs few: for the 27B at its full context that is 36 MiB which
``Load weight end`` does not print, and which the pools no longer get. Read in the wheels 0.5.9,
0.5.13, 0.5.14, 0.5.17, 0.5.18, 0.5.20 and 0.5.23; recorded boots of 0.5.17 show it as the step from
``Load weight end`` (87.40 GB) to the draft's ``Load weight begin`` (87.36 GB with a context of
262,144, 87.38 GB with 131,072, no step without a vision tower).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from qwen_tui_profiles.plan.allocator import reserved_bytes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from qwen_tui_profiles.plan.model import ModelFacts

__all__ = ["VISION_ROWS", "reserved_rows", "rotary_growth_bytes"]

VISION_ROWS = 8192
"""Rows that the vision tower's cache is built with."""

_EXPANSION = ("SGLANG_SPEC_EXPANSION_SAFETY_FACTOR", 2)
_MARGIN = ("SGLANG_ROPE_CACHE_SAFETY_MARGIN", 256)
_ALIGN = ("SGLANG_ROPE_CACHE_ALIGN", 128)
_LARGEST_SETTING = 1 << 30


def reserved_rows(context: int, steps: int, draft_tokens: int, env: Mapping[str, str]) -> int:
    """Return the rows (positions) that every rotary cache is extended to.

    Args:
        context: The context in force, ``--context-length`` or what the model declares.
        steps: ``--speculative-num-steps`` in force; 0 without speculative decoding.
        draft_tokens: ``--speculative-num-draft-tokens`` in force; 0 without.
        env: Environment of the launch; three ``SGLANG_*`` variables move the margin.
    """
    rows = context + steps * draft_tokens * _setting(env, _EXPANSION) + _setting(env, _MARGIN)
    align = max(1, _setting(env, _ALIGN))
    return -(-rows // align) * align


def rotary_growth_bytes(facts: ModelFacts, rows: int, *, vision: bool) -> int:
    """Return what the caches take on the card beyond what they took when the load ended.

    Args:
        facts: The checkpoint.
        rows: See :func:`reserved_rows`.
        vision: Whether the vision tower is loaded.
    """
    growth = 0
    if facts.rotary_row_bytes and rows > facts.rotary_bytes // facts.rotary_row_bytes:
        # The old cache has a segment of its own, which goes back to the card.
        growth += _segments(rows * facts.rotary_row_bytes) - _segments(facts.rotary_bytes)
    if vision and rows > VISION_ROWS:
        growth += _segments(rows * facts.vision_rotary_row_bytes)
    return growth


def _segments(size: int) -> int:
    return reserved_bytes([size]) if size else 0


def _setting(env: Mapping[str, str], row: tuple[str, int]) -> int:
    name, default = row
    value = env.get(name, "")
    if not value.isascii() or not value.isdigit() or len(value) > 10:
        return default
    return min(int(value), _LARGEST_SETTING)
