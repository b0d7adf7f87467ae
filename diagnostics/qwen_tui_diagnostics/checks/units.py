"""How the report writes quantities and lists."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qwen_tui_profiles.text import Text, listing, t

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["GIB", "MIB", "dotted", "gb", "gib", "listed", "version_tuple"]

GIB = 1024**3
MIB = 1024**2


def gib(size_bytes: float) -> str:
    """Return ``30.6 GiB``; below 1 GiB ``612 MiB``, below 1 MiB ``64 KiB``."""
    if size_bytes >= GIB:
        return f"{size_bytes / GIB:,.1f} GiB"
    if size_bytes >= MIB:
        return f"{size_bytes / MIB:.0f} MiB"
    return f"{size_bytes / 1024:.0f} KiB"


def gb(size_bytes: float) -> str:
    """Return ``18.6 GB`` (10^9): what disks and downloads are sold in."""
    return f"{size_bytes / 1e9:,.1f} GB"


def dotted(version: Iterable[int]) -> str:
    """Return ``13.0``."""
    return ".".join(map(str, version))


def listed(items: Sequence[Text | str], shown: int = 3) -> Text:
    """Return ``a, b, c and 2 more``."""
    text = listing(items[:shown])
    more = len(items) - shown
    return t("{items} and {count} more", items=text, count=more) if more > 0 else text


def version_tuple(text: str) -> tuple[int, ...]:
    """Return the leading numbers of a version: ``580.159.04`` → (580, 159, 4)."""
    numbers: list[int] = []
    for part in text.strip().split("."):
        digits = part[: len(part) - len(part.lstrip("0123456789"))]
        if not digits:
            break
        numbers.append(int(digits))
        if digits != part:
            break
    return tuple(numbers)
