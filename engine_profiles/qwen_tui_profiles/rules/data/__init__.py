"""The rules, one record each, grouped by what they are about."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qwen_tui_profiles.rules.data import (
    exposure,
    ple,
    sglang_cache,
    sglang_kernels,
    sglang_memory,
    sglang_speculation,
    sglang_state,
    vllm,
    vllm_flash,
)

if TYPE_CHECKING:
    from qwen_tui_profiles.rules.rule import Rule

__all__ = ["RULES"]

RULES: tuple[Rule, ...] = (
    *sglang_memory.RULES,
    *sglang_state.RULES,
    *sglang_speculation.RULES,
    *sglang_cache.RULES,
    *sglang_kernels.RULES,
    *ple.RULES,
    *vllm.RULES,
    *vllm_flash.RULES,
    *exposure.RULES,
)
"""Every rule; findings come in this order within a severity."""
