"""Corrections learned from earlier boots on one machine, engine and model."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Calibration"]


@dataclass(frozen=True, slots=True)
class Calibration:
    """What earlier boots showed; None = nothing learned about it."""

    boots: int
    gain_gib: float | None = None
    overhead_gib: float | None = None
    target_gib: float | None = None
    draft_gib: float | None = None
    unaccounted_gib: float = 0.0
    noise_gib: float = 0.02
    error_pct: float | None = None
