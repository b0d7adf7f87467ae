"""Odd ones out and orphans: what loads, but betrays an export that went wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qwen_tui_diagnostics.checkpoint.storage import COMPANIONS, MAIN_SUFFIXES
from qwen_tui_profiles.text import t

if TYPE_CHECKING:
    from qwen_tui_diagnostics.checkpoint.bundle import Bundles
    from qwen_tui_diagnostics.checkpoint.quant_context import QuantContext

__all__ = ["check_odd"]

_SCALES = ("weight_scale", "weight_scale_inv", "scales")


def check_odd(c: QuantContext, bundles: Bundles) -> None:
    """Look at scales alone: orphans, and one layer whose scales have another dtype."""
    if c.whole:
        _check_orphans(c, bundles)
    for suffix in _SCALES:
        groups: dict[tuple[str, str], dict[str, list[str]]] = {}
        for name, parts in c.stock.modules.items():
            scale = parts.get(suffix)
            main = parts.get("weight") or parts.get("weight_packed") or parts.get("qweight")
            if scale is None or main is None or not name.startswith("layers."):
                continue
            # Block or group scales of one storage form only; formats are mixed on purpose.
            kind = (main.entry.dtype, str(len(scale.entry.shape)))
            groups.setdefault(kind, {}).setdefault(scale.entry.dtype, []).append(name)
        for dtypes in groups.values():
            _say_odd(c, suffix, dtypes, bundles)


def _say_odd(c: QuantContext, suffix: str, dtypes: dict[str, list[str]], bundles: Bundles) -> None:
    if len(dtypes) != 2:
        return
    few, many = sorted(dtypes.items(), key=lambda item: len(item[1]))
    layers = {name.split(".")[1] for name in few[1]}
    # Two halves are two recipes; one layer among many is an accident.
    if len(layers) != 1 or len(many[1]) <= len(few[1]):
        return
    # A dtype that cannot be right at all was reported as such.
    if bundles.modules_of("Q08") & set(few[1]):
        return
    stored = [c.stock.modules[name][suffix] for name in few[1]]
    bundles.add(
        "Q21", ("dtype", suffix), modules=few[1], keys=[s.key for s in stored],
        files=[s.file for s in stored],
        why=t("{suffix} is {odd}, everywhere else {usual}", suffix=suffix, odd=few[0],
              usual=many[0]),
    )  # fmt: skip


def _check_orphans(c: QuantContext, bundles: Bundles) -> None:
    for name, parts in c.stock.modules.items():
        if "weight" in parts or not COMPANIONS & parts.keys() or "ngram_embedding" in name:
            # The n-gram table's scale stands beside its shards.
            continue
        if name in c.stock.claimed:
            continue
        if any(main in parts for main in MAIN_SUFFIXES) or name in c.model.linear:
            # A needed matrix without its weight is missing, and reported so.
            continue
        first = next(parts[suffix] for suffix in parts if suffix in COMPANIONS)
        bundles.add(
            "Q07", "orphan", modules=[name], keys=[first.key], files=[first.file],
            why=t("no weight belongs to it"),
        )  # fmt: skip
