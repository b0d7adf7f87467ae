"""Which model classes the planner can size, and by which rule.

A class that is not in the table gets no prediction: the planner says so instead of guessing from
names of fields that happen to match.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

__all__ = ["ARCHITECTURES", "Architecture", "Family", "find_architecture"]


class Family(StrEnum):
    """How a model keeps its context in memory."""

    HYBRID = "hybrid"
    """Gated delta-net layers with a state pool beside full-attention layers with a KV cache."""
    GQA = "gqa"
    """Every layer keeps keys and values of ``num_key_value_heads`` heads."""
    MLA = "mla"
    """Every layer keeps one compressed latent per token (DeepSeek V2/V3 style)."""
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Architecture:
    """One class that ``config.json`` may name in ``architectures``."""

    name: str
    family: Family
    wrapped: bool
    """Vision-wrapped: the text part is nested under ``text_config``."""
    sglang_since: str | None
    """First SGLang release with the class; None = older than every release looked at."""
    dims: bool = True
    """Whether the weights can be computed from the dimensions alone."""


_H, _G, _M = Family.HYBRID, Family.GQA, Family.MLA

ARCHITECTURES: tuple[Architecture, ...] = (
    Architecture("Qwen3_5ForConditionalGeneration", _H, True, "0.5.9"),
    Architecture("Qwen3_5MoeForConditionalGeneration", _H, True, "0.5.9"),
    Architecture("Qwen3_5ForCausalLM", _H, False, "0.5.17"),
    Architecture("Qwen3_5MoeForCausalLM", _H, False, "0.5.17"),
    Architecture("Qwen3NextForCausalLM", _H, False, "0.5.2"),
    # Hyper-connections, a sparse-attention indexer and an n-gram table: not from dimensions.
    Architecture("Qwen4ExpForConditionalGeneration", _H, True, "0.5.20", dims=False),
    Architecture("LlamaForCausalLM", _G, False, None),
    Architecture("MistralForCausalLM", _G, False, None),
    Architecture("MixtralForCausalLM", _G, False, None),
    Architecture("Qwen2ForCausalLM", _G, False, None),
    Architecture("Qwen2MoeForCausalLM", _G, False, None),
    Architecture("Qwen3ForCausalLM", _G, False, None),
    Architecture("Qwen3MoeForCausalLM", _G, False, None),
    Architecture("Qwen2_5_VLForConditionalGeneration", _G, True, None, dims=False),
    Architecture("Qwen3VLForConditionalGeneration", _G, True, None, dims=False),
    Architecture("Qwen3VLMoeForConditionalGeneration", _G, True, None, dims=False),
    Architecture("Glm4MoeForCausalLM", _G, False, None, dims=False),
    Architecture("DeepseekV2ForCausalLM", _M, False, None),
    Architecture("DeepseekV3ForCausalLM", _M, False, None),
)

_BY_NAME = {row.name: row for row in ARCHITECTURES}


def find_architecture(name: str | None) -> Architecture | None:
    """Return the row of a class, or None for one that the planner does not know."""
    return None if name is None else _BY_NAME.get(name)
