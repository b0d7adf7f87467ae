"""Whether needed tensors are stored, in whatever form, and with the shapes of the config."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qwen_tui_diagnostics.checkpoint.layout import Experts, Need
from qwen_tui_diagnostics.checkpoint.storage import COMPANIONS, MAIN_SUFFIXES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from qwen_tui_diagnostics.checkpoint.stock import Stock

__all__ = ["is_stored", "missing_experts", "wrong_experts", "wrong_shapes"]

_FLOATS = frozenset({"BF16", "F16", "F32", "F64", "F8_E4M3", "F8_E5M2"})


def is_stored(stock: Stock, need: Need | Experts) -> bool:
    """Whether a needed tensor is there, in any storage form."""
    if need.module in stock.claimed:
        return True
    if isinstance(need, Experts):
        return need.module in stock.experts or any(
            suffix.startswith(("gate_up_proj", "down_proj"))
            for suffix in stock.modules.get(need.module, ())
        )
    parts = stock.modules.get(need.module)
    if need.loose:
        return f"{need.module}.{need.suffix}" in stock.modules or any(
            suffix.startswith(need.suffix) for suffix in parts or ()
        )
    if parts is None:
        return False
    if need.suffix in parts:
        return True
    if need.linear:
        # Any storage form counts, the unknown ones too; what lies beside weights does not.
        return any(suffix not in COMPANIONS and suffix != "bias" for suffix in parts)
    return need.suffix == "weight" and any(suffix in parts for suffix in MAIN_SUFFIXES)


def missing_experts(stock: Stock, needs: Iterable[Experts]) -> list[Need | Experts]:
    """Return experts of which a projection is not stored at all."""
    missing: list[Need | Experts] = []
    for need in needs:
        parts = stock.experts.get(need.module)
        if parts is None or need.module in stock.claimed:
            continue
        for projection in ("gate_proj", "up_proj", "down_proj"):
            suffixes = parts.get(projection, {})
            have: set[int] = set()
            for suffix in ("weight", *MAIN_SUFFIXES):
                for numbers in suffixes.get(suffix, {}).values():
                    have.update(numbers)
            if len(have) < need.number:
                missing += [
                    Need(f"{need.module}.{number}.{projection}", "weight", None)
                    for number in range(need.number)
                    if number not in have
                ]
    return missing


def wrong_experts(
    stock: Stock, needs: Iterable[Experts]
) -> list[tuple[str, Need, tuple[int, ...]]]:
    """Return unquantized experts with another shape than the config gives them."""
    wrong: list[tuple[str, Need, tuple[int, ...]]] = []
    for need in needs:
        if need.hidden is None or need.width is None:
            continue
        parts = stock.modules.get(need.module, {})
        for suffix, shape in (
            ("gate_up_proj", (need.number, 2 * need.width, need.hidden)),
            ("down_proj", (need.number, need.hidden, need.width)),
        ):
            stored = parts.get(suffix)
            if stored is not None and stored.entry.dtype in _FLOATS and stored.entry.shape != shape:
                wrong.append((stored.key, Need(need.module, suffix, shape), stored.entry.shape))
        for projection, suffixes in stock.experts.get(need.module, {}).items():
            down = projection == "down_proj"
            wanted = (need.hidden, need.width) if down else (need.width, need.hidden)
            for (dtype, shape_2), numbers in suffixes.get("weight", {}).items():
                if dtype in _FLOATS and shape_2 != wanted:
                    key = stock.expert_key(need.module, numbers[0], projection, "weight")
                    name = f"{need.module}.*.{projection}"
                    wrong.append((key, Need(name, "weight", wanted), shape_2))
    return wrong


def wrong_shapes(
    stock: Stock, needs: Iterable[Need | Experts]
) -> list[tuple[str, Need, tuple[int, ...]]]:
    """Return plain tensors with another shape than the config gives them."""
    wrong = []
    for need in needs:
        if isinstance(need, Experts) or need.shape is None:
            continue
        stored = stock.tensor(need.module, need.suffix)
        if stored is None or stored.entry.shape == need.shape:
            continue
        shape = stored.entry.shape
        # Packed and foreign forms have shapes of their own, judged with their scheme.
        if stored.entry.dtype not in _FLOATS:
            continue
        fits = len(shape) == len(need.shape) and all(
            want is None or want == have for want, have in zip(need.shape, shape, strict=True)
        )
        if not fits:
            wrong.append((stored.key, need, shape))
    return wrong
