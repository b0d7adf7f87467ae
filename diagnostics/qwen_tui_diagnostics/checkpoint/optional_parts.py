"""Output head, MTP head and vision tower: parts that may be absent for a reason."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qwen_tui_diagnostics.checkpoint.layout import Experts
from qwen_tui_diagnostics.checkpoint.presence import is_stored, missing_experts
from qwen_tui_profiles.findings import Severity
from qwen_tui_profiles.text import t

if TYPE_CHECKING:
    from qwen_tui_diagnostics.checkpoint.architecture import Dims
    from qwen_tui_diagnostics.checkpoint.collect import Findings
    from qwen_tui_diagnostics.checkpoint.model_pass import ModelPass
    from qwen_tui_diagnostics.checkpoint.report import Assumed
    from qwen_tui_diagnostics.checkpoint.stock import Stock

__all__ = ["check_head", "check_mtp", "check_vision"]


def check_head(stock: Stock, dims: Dims, found: Findings, *, whole: bool) -> None:
    """Compare the output head with ``tie_word_embeddings``."""
    head = stock.modules.get("lm_head")
    if head:
        key = next(iter(head.values())).key
        if dims.tied and whole and not {"embed_tokens"} & (stock.modules.keys() | stock.claimed):
            found.add(
                "M06", evidence=t("tie_word_embeddings true, {key} stored, no embedding", key=key)
            )
        elif dims.tied_surely:
            found.add(
                "M06",
                severity=Severity.WARN,
                evidence=t("tie_word_embeddings true, {key} stored", key=key),
                consequence=t("The stored head is ignored; the embedding serves as head."),
                tensors=[key],
            )
    elif not dims.tied and whole and "lm_head" not in stock.claimed:
        found.add("M06", evidence=t("tie_word_embeddings false, no lm_head stored"))


def check_mtp(
    stock: Stock, dims: Dims, result: ModelPass, found: Findings, assumed: Assumed, *, whole: bool
) -> None:
    """Compare the MTP head with ``mtp_num_hidden_layers``."""
    stored = [key for parts in (stock.modules, stock.experts) for key in parts
              if key.startswith("mtp.")]  # fmt: skip
    if not dims.mtp_layers:
        if stored:
            found.add("M10", evidence=stored[0], count=len(stored))
        return
    if not whole:
        return
    missing = [need for need in result.draft if not is_stored(stock, need)]
    drafts = [need for need in result.experts if need.module.startswith("mtp.")]
    missing += missing_experts(stock, drafts)
    if not missing:
        return
    names = [
        f"{need.module}.*" if isinstance(need, Experts) else f"{need.module}.{need.suffix}"
        for need in missing
    ]
    found.add(
        "M09",
        severity=Severity.ERROR if assumed.speculative else Severity.WARN,
        evidence=f"mtp_num_hidden_layers {dims.mtp_layers}, "
        + (f"missing {', '.join(names[:3])}" if stored else "no mtp.* tensors"),
        detail=t("{missing} tensors of the head are missing.", missing=len(names))
        if stored
        else t("No tensor of the head is stored: the quantizer lost it."),
        tensors=names,
        count=len(names),
    )


def check_vision(
    stock: Stock, dims: Dims, result: ModelPass, found: Findings, assumed: Assumed, *, whole: bool
) -> None:
    """Compare the vision tower with ``vision_config``."""
    if dims.vision is None or not whole:
        return
    needs = result.tower
    any_stored = any(m.startswith("visual.") for m in (*stock.modules, *stock.claimed))
    missing = [need for need in needs if not is_stored(stock, need)]
    if any_stored and not missing:
        return
    if not any_stored and not needs and stock.inventory.tensors_by_part.get("vision"):
        return
    names = [f"visual.{n.module.removeprefix('visual.')}.{n.suffix}" for n in missing]
    found.add(
        "M11",
        severity=Severity.WARN if assumed.language_only else Severity.ERROR,
        evidence=t("vision_config, no visual.* tensors")
        if not any_stored
        else ", ".join(names[:3]),
        tensors=names,
        count=len(names) or 1,
    )
