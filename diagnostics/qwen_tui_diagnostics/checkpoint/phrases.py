"""Small pieces of text: spans of layers, lists that end in time."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["group_names", "layer_spans"]


def layer_spans(numbers: Iterable[int]) -> str:
    """Return ``0–2,4 (4)`` for 0, 1, 2, 4; the count only where several."""
    ordered = sorted(set(numbers))
    return _spans(ordered) + (f" ({len(ordered)})" if len(ordered) > 1 else "")


def _spans(numbers: Iterable[int]) -> str:
    ordered = sorted(set(numbers))
    spans: list[list[int]] = []
    for number in ordered:
        if spans and number == spans[-1][1] + 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    text = ",".join(str(a) if a == b else f"{a}–{b}" for a, b in spans[:8])
    if len(spans) > 8:
        text += ",…"
    return text


def group_names(names: Iterable[str]) -> list[str]:
    """Merge names that differ in the layer number only: ``layers.0–47.mlp.up_proj (48)``."""
    groups: dict[str, list[int]] = {}
    for name in names:
        head, _, rest = name.partition("layers.")
        number, dot, tail = rest.partition(".")
        if dot and number.isdigit() and not head.startswith("mtp"):
            groups.setdefault(tail, []).append(int(number))
        else:
            groups.setdefault(name, [])
    return [
        f"layers.{_spans(numbers)}.{tail}" + (f" ({len(numbers)})" if len(numbers) > 1 else "")
        if numbers
        else tail
        for tail, numbers in groups.items()
    ]
