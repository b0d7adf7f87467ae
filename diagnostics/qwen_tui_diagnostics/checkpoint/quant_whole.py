"""The checkpoint as a whole: does its config belong to these files at all (rule Q20)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qwen_tui_diagnostics.checkpoint.storage import Form
from qwen_tui_profiles.text import t

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qwen_tui_diagnostics.checkpoint.declared.base import Method
    from qwen_tui_diagnostics.checkpoint.quant_context import QuantContext, Seen

__all__ = ["FP8_STORES", "check_other_method", "check_undeclared", "same_store"]

FP8_STORES = frozenset({Form.FP8, Form.FP8_BLOCK, Form.MXFP8})
"""Forms with the same weights, told apart by their scales."""


def check_undeclared(c: QuantContext, seen: Sequence[Seen]) -> bool:
    """No quantization is declared: True when something is stored quantized all the same."""
    odd = [item for item in seen if item.quantized]
    experts = [name for name in c.stock.experts if _experts_quantized(c, name)]
    if not odd and not experts:
        return False
    names = sorted({form.value for item in odd for form in item.quantized})
    count = sum(len(item.quantized) for item in odd) + len(experts)
    c.found.add(
        "Q20",
        evidence=t(
            "no quantization declared, stored: {names}", names=", ".join(names) or "experts"
        ),
        detail=t(
            "config.json declares no quantization, but {count} matrices are stored quantized.",
            count=count,
        ),
        tensors=[key for item in odd for key in item.keys] or experts,
        count=count,
        files=dict.fromkeys(f for item in odd for f in item.files),
    )
    return True


def check_other_method(c: QuantContext, seen: Sequence[Seen], method: Method) -> bool:
    """Whether not one matrix is stored as the config declares it: a config of another release."""
    target = [item for item in seen if not item.module.mtp and item.present]
    wanted = [i for i in target if i.declared.scheme is not None and not i.declared.scheme.dense]
    pairs = [
        (item.declared.scheme.form, form)
        for item in wanted
        if item.declared.scheme is not None
        for form in item.present
    ]
    stored = {form for item in target for form in item.quantized}
    experts = any(_experts_quantized(c, name) for name in c.stock.experts)
    nothing = not stored and not experts
    foreign = any(have is not Form.DENSE for _, have in pairs) and not any(
        same_store(want, have) for want, have in pairs
    )
    # One matrix alone says nothing about the whole.
    if len(pairs) < 2 or not (nothing or foreign):
        return False
    have = ", ".join(sorted(form.value for form in stored)) or "bf16"
    c.found.add(
        "Q20",
        evidence=t("declared {words}, stored {have}", words=method.words, have=have),
        detail=t(
            "config.json declares {declared}; every matrix is stored as {stored}.",
            declared=method.words,
            stored=have,
        ),
        tensors=[key for item in wanted for key in item.keys],
        count=len(pairs),
        files=dict.fromkeys(f for item in wanted for f in item.files),
    )
    return True


def _experts_quantized(c: QuantContext, container: str) -> bool:
    return any(
        suffix in {"weight_packed", "qweight", "weight_scale", "weight_scale_inv", "weight_scale_2"}
        for suffixes in c.stock.experts[container].values()
        for suffix in suffixes
    )


def same_store(declared: Form, stored: Form) -> bool:
    """Whether a declared form has the same main tensor as the stored one."""
    if declared is stored:
        return True
    if declared in FP8_STORES and stored in FP8_STORES:
        return True
    return {declared, stored} <= {Form.CT_NVFP4, Form.CT_MXFP4}
