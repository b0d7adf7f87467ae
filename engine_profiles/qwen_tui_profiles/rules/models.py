"""Which model a launch is about: from ``config.json`` where it is known, else from the name."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from qwen_tui_profiles.rules.expression import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["MODEL_KINDS", "ModelFacts", "describe_model", "model_facts"]

MODEL_KINDS = ("qwen3_5", "qwen3_5_moe", "qwen3_next", "flash_next", "other")
"""``qwen3_5``: the dense Qwen3.5/3.6/3.8 (27B); ``flash_next``: Qwen3.8-Flash-Next (Qwen4Exp)."""

HYBRID_KINDS = frozenset({"qwen3_5", "qwen3_5_moe", "qwen3_next", "flash_next"})

_ARCHITECTURES = {
    "Qwen3_5ForConditionalGeneration": ("qwen3_5", True),
    "Qwen3_5ForCausalLM": ("qwen3_5", False),
    "Qwen3_5MoeForConditionalGeneration": ("qwen3_5_moe", True),
    "Qwen3_5MoeForCausalLM": ("qwen3_5_moe", False),
    "Qwen3NextForCausalLM": ("qwen3_next", False),
    "Qwen4ExpForConditionalGeneration": ("flash_next", True),
    "Qwen4ExpForCausalLM": ("flash_next", False),
}
_NAMES = (
    (re.compile(r"qwen3?[._-]?(?:3[._-]?)?8[._-]?flash|flash[._-]?next|qwen4", re.I), "flash_next"),
    (re.compile(r"qwen[-_]?3[-_.]?next", re.I), "qwen3_next"),
    (re.compile(r"qwen[-_]?3[-_.]?[568][^/]*a\d+b", re.I), "qwen3_5_moe"),
    (re.compile(r"qwen[-_]?3[-_.]?[568](?![0-9]*b)|qwen[-_]?27b", re.I), "qwen3_5"),
    (
        re.compile(
            r"llama|mistral|mixtral|gemma|deepseek|glm|phi|gpt|kimi|minimax|nemotron|granite|falcon"
            r"|qwen[-_]?(?:1|2)|qwen[-_]?3(?:-vl|-coder|-omni|-embedding|-[0-9.]+b)|qwq|opt-",
            re.I,
        ),
        "other",
    ),
    # Named by the family alone; what this product is for is the likeliest.
    (re.compile(r"(?:^|/)(?=[^/ ]*qwen)(?![^/ ]*\d\s*b\b)[^/ ]*(?: |$)", re.I), "qwen3_5"),
)
_QUANTS = (
    (re.compile(r"nvfp4|modelopt_fp4|\bfp4\b", re.I), "nvfp4"),
    (re.compile(r"int4|w4a16|awq|gptq|autoround", re.I), "int4"),
    (re.compile(r"fp8", re.I), "fp8"),
    (re.compile(r"gguf|q[3-8]_k|q[48]_0", re.I), "gguf"),
    (re.compile(r"bf16", re.I), "bf16"),
)
_SIZE = re.compile(r"(?<![a-z0-9.])(\d+(?:\.\d+)?)b(?![a-z0-9])", re.I)
_NATIVE_CONTEXT = 262_144
"""``max_position_embeddings`` of every released model of the hybrid families."""
_LARGE_HIDDEN = 5_120
"""Hidden size of the 27B."""


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """What is known about the checkpoint; ``None`` = not known."""

    kind: str | None = None
    wrapped: bool | None = None
    """Vision-wrapped class (``…ForConditionalGeneration``)."""
    quant: str | None = None
    declared_context: int | None = None
    """``max_position_embeddings``."""
    architecture: str | None = None
    billions: float | None = None
    """Parameters in thousands of millions, roughly."""


def model_facts(config: Mapping[str, object]) -> ModelFacts:
    """Read the facts from a checkpoint's ``config.json``."""
    architectures = config.get("architectures")
    name = architectures[0] if isinstance(architectures, list) and architectures else None
    kind, wrapped = _ARCHITECTURES.get(str(name), ("other", None))
    nested = config.get("text_config")
    text = nested if isinstance(nested, dict) else config
    limit = text.get("max_position_embeddings")
    hidden = text.get("hidden_size")
    large = kind == "qwen3_5" and isinstance(hidden, int) and hidden >= _LARGE_HIDDEN
    quantization = config.get("quantization_config")
    method = quantization.get("quant_method") if isinstance(quantization, dict) else None
    quant = json.dumps(quantization) if method else "bf16"
    return ModelFacts(
        kind,
        wrapped,
        next((label for pattern, label in _QUANTS if pattern.search(quant)), None),
        limit if isinstance(limit, int) else None,
        str(name) if name else None,
        27.0 if large else None,
    )


def describe_model(
    known: ModelFacts, written: str, method: str, *, forked: bool, has_state: bool
) -> dict[str, object]:
    """Return the facts about the model, :data:`UNKNOWN` where the name does not tell.

    Args:
        known: What the caller knows.
        written: Path or repository, and served name, as the launch gives them.
        method: ``--quantization``, or nothing.
        forked: The launch sets variables that only a Flash-Next fork reads.
        has_state: The launch sizes a state pool, which only hybrid models have; of those the
            dense Qwen3.8 is assumed when the name says nothing.
    """
    kind: object = known.kind
    if kind is None:
        kind = next((label for pattern, label in _NAMES if pattern.search(written)), UNKNOWN)
    if kind is UNKNOWN and forked:
        kind = "flash_next"
    if kind is UNKNOWN and has_state:
        kind = "qwen3_5"
    hybrid: object = UNKNOWN if kind is UNKNOWN else kind in HYBRID_KINDS
    wrapped: object = known.wrapped
    if wrapped is None:
        # The released checkpoints of these families are the vision-wrapped classes.
        wrapped = True if kind in {"qwen3_5", "qwen3_5_moe", "flash_next"} else UNKNOWN
        wrapped = False if kind in {"qwen3_next", "other"} else wrapped
    marks = f"{written} {method}"
    limit: object = known.declared_context
    if limit is None:
        limit = _NATIVE_CONTEXT if kind in HYBRID_KINDS else UNKNOWN
    return {
        "kind": kind,
        "foreign_model": kind == "other",
        "hybrid": hybrid,
        "wrapped": wrapped,
        "quant": known.quant
        or next((label for pattern, label in _QUANTS if pattern.search(marks)), UNKNOWN),
        "declared_context": limit,
        "architecture": known.architecture,
        "billions": known.billions or _billions(written, kind),
    }


def _billions(written: str, kind: object) -> object:
    match = _SIZE.search(written)
    if match is not None:
        return float(match[1])
    # Of the dense Qwen3.8 there is one size.
    if kind == "qwen3_5" and re.search(r"qwen[-_]?3[-_.]?8", written, re.I):
        return 27.0
    return UNKNOWN
