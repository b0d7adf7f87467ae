"""Total memory of the cards that people run these models on, as nvidia-smi prints it."""

from __future__ import annotations

__all__ = ["CARDS_MIB", "assumed_total_gib"]

CARDS_MIB: tuple[tuple[int, str], ...] = (
    (16376, "16 GB"),
    (24564, "RTX 4090"),
    (32607, "RTX 5090"),
    (46068, "L40S"),
    (49140, "RTX 6000 Ada"),
    (81559, "H100"),
    (97887, "RTX PRO 6000 Blackwell"),
    (143771, "H200"),
    (183359, "B200"),
)

_TAKEN_GIB = 0.75
"""A started engine sees at least this much less than the total (RTX 5090 0.83, H200 1.27)."""


def assumed_total_gib(free_gib: float) -> float:
    """Return the total of the smallest known card that can have this much memory free."""
    for mib, _ in CARDS_MIB:
        if free_gib + _TAKEN_GIB <= mib / 1024:
            return mib / 1024
    return free_gib + 2 * _TAKEN_GIB
