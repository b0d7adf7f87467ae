"""How much memory is free when the engine starts to load: given, measured live, or assumed."""

from __future__ import annotations

import math
from dataclasses import dataclass

from qwen_tui_profiles.errors import InputError
from qwen_tui_profiles.text import Text, t

__all__ = ["FreeMemory", "check_gib", "free_memory"]

_LARGEST_GIB = 4096.0

_GAIN = (0.05, 0.10, 0.12)
"""GiB that are free at the end of the distributed init and gone at ``Load weight begin``: eleven of
the twelve recorded boots of 0.5.17 imply 0.10, one 0.06."""

_CONTEXT = (0.55, 0.71, 0.85)
"""GiB that the scheduler's CUDA context and NCCL take before the load (H200: 0.71; once 0.67)."""

_FRONT_CONTEXT = (0.40, 0.51, 0.65)
"""GiB of a second CUDA context, in the process that fills the pool of image features (H200: 137.58
GiB are free with it, 139.09 without, and the pool itself is 1 GiB)."""

_FEATURE_POOL_GIB = 1.0

_DRIVER_SHARE = 0.0043
"""Share of the total that an idle card does not offer: H200 0.60 of 140.4 GiB, and what seed 000's
RTX 5090 had free leaves 0.14 of 31.8."""

_DRIVER_DOUBT = (0.05, 0.45)
"""GiB by which that may be less, or more: a desktop lives on the card, too."""

_ROUNDING = 0.005
"""The engine prints two decimals."""


@dataclass(frozen=True, slots=True)
class FreeMemory:
    """Free memory in GiB at ``Load weight begin``, and what the fraction refers to."""

    low: float
    value: float
    high: float
    gain_low: float
    gain: float
    gain_high: float
    basis: Text
    total_gib: float | None
    """Total memory of the card, for the automatic defaults; None = unknown."""

    @property
    def assumed(self) -> bool:
        """Whether the interval is wider than the rounding of a printed number."""
        return self.high - self.low > 4 * _ROUNDING


def free_memory(
    *,
    printed_gib: float | None,
    live_gib: float | None,
    total_gib: float | None,
    device_transport: bool,
    transport_before_load: bool,
    gain_gib: float | None = None,
    overhead_gib: float | None = None,
) -> FreeMemory | None:
    """Resolve the free memory from the best of the inputs.

    Args:
        printed_gib: As the engine prints it at ``Load weight begin. avail mem``.
        live_gib: Free memory of the card now, before the engine is started.
        total_gib: Total memory of the card.
        device_transport: Image features travel through a pool on the card.
        transport_before_load: That pool is there before the weights (0.5.17).
        gain_gib: Calibrated difference between the two points of measurement.
        overhead_gib: Calibrated difference between ``live_gib`` and ``printed_gib``.

    Returns:
        None when no input is given.

    Raises:
        InputError: A number is negative, not finite, or larger than any card.
    """
    for name, number in (
        ("--free-gib", printed_gib),
        ("--total-gib", total_gib),
        ("free GPU memory", live_gib),
    ):
        check_gib(name, number)
    gain = _GAIN if gain_gib is None else (gain_gib, gain_gib, gain_gib)
    if printed_gib is not None:
        return FreeMemory(
            printed_gib - _ROUNDING,
            printed_gib,
            printed_gib + _ROUNDING,
            *gain,
            t("as printed at Load weight begin"),
            total_gib,
        )
    less = list(_CONTEXT) if overhead_gib is None else [overhead_gib] * 3
    if overhead_gib is None and device_transport and transport_before_load:
        less = [a + b + _FEATURE_POOL_GIB for a, b in zip(less, _FRONT_CONTEXT, strict=True)]
    if live_gib is not None:
        return FreeMemory(
            live_gib - less[2],
            live_gib - less[1],
            live_gib - less[0],
            *gain,
            t("free now, less {context} GiB for CUDA contexts", context=f"{less[1]:.2f}"),
            total_gib,
        )
    if total_gib is None:
        return None
    driver = total_gib * _DRIVER_SHARE
    shares = (max(0.0, driver - _DRIVER_DOUBT[0]), driver, driver + _DRIVER_DOUBT[1])
    less = [a + b for a, b in zip(less, shares, strict=True)]
    return FreeMemory(
        total_gib - less[2],
        total_gib - less[1],
        total_gib - less[0],
        *gain,
        t("the card's total, less {less} GiB for driver and contexts", less=f"{less[1]:.2f}"),
        total_gib,
    )


def check_gib(name: str, number: float | None) -> None:
    """Refuse a size that no card has.

    Raises:
        InputError: The number is negative, zero, not finite, or larger than any card.
    """
    if number is None:
        return
    if not math.isfinite(number) or not 0 < number <= _LARGEST_GIB:
        raise InputError(
            t(
                "{name} is {number}; a size in GiB between 0 and {largest} is expected.",
                name=name,
                number=f"{number:g}",
                largest=f"{_LARGEST_GIB:g}",
            ),
            t("Sizes are in GiB, as the engine prints them (for example 29.9)."),
        )
