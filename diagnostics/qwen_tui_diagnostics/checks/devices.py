"""Which GPUs the launch will see, as CUDA decides it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from qwen_tui_diagnostics.checks.variables import variable
from qwen_tui_diagnostics.facts import Absence, MissingFact
from qwen_tui_diagnostics.result import SkipReason
from qwen_tui_profiles.text import t

if TYPE_CHECKING:
    from qwen_tui_diagnostics.context import Target
    from qwen_tui_diagnostics.facts import Facts

__all__ = ["Selection", "name_of", "select", "selected"]


@dataclass(frozen=True, slots=True)
class Selection:
    """The outcome of ``CUDA_VISIBLE_DEVICES``."""

    visible: tuple[Facts, ...]
    mask: str | None
    """The variable's value; ``None`` = not set, all are visible."""
    cut_at: str | None = None
    """First token that names no device: it and everything behind it are ignored."""
    order_matters: bool = False
    """Indices are used, the cards differ, and CUDA's order is not the bus order."""


def select(facts: Facts) -> Selection:
    """Resolve the mask over the devices that NVML lists."""
    devices = facts.rows("gpu.devices")
    mask = variable(facts, "CUDA_VISIBLE_DEVICES")
    ordered = variable(facts, "CUDA_DEVICE_ORDER") == "PCI_BUS_ID"
    unlike = len({d.text("name") for d in devices if d.has("name")}) > 1
    if mask is None:
        return Selection(devices, None, order_matters=unlike and not ordered)
    chosen: list[Facts] = []
    by_index = False
    for raw in mask.split(","):
        token = raw.strip()
        device = _named(token, devices)
        if device is None or device in chosen:
            return Selection(tuple(chosen), mask, token, by_index and unlike and not ordered)
        by_index = by_index or token.isdecimal()
        chosen.append(device)
    return Selection(tuple(chosen), mask, None, by_index and unlike and not ordered)


def selected(facts: Facts, target: Target) -> tuple[Facts, ...]:
    """Return the devices that the launch will use.

    Raises:
        MissingFact: none is visible (``gpu.selected`` says why).
    """
    visible = tuple(map(_as_cuda_sees, select(facts).visible[: target.gpus]))
    if not visible:
        raise MissingFact(
            "gpu.devices", Absence(SkipReason.UNSUPPORTED, t("no GPU is visible to the launch"))
        )
    return visible


def name_of(device: Facts) -> str:
    """Return ``GPU 0 NVIDIA GeForce RTX 5090``."""
    name = device.text("name") if device.has("name") else ""
    return f"GPU {device.integer('index')} {name}".strip()


def _named(token: str, devices: tuple[Facts, ...]) -> Facts | None:
    if token.isdecimal():
        index = int(token)
        return devices[index] if index < len(devices) else None
    if token.startswith("GPU-") and len(token) > len("GPU-"):
        matches = [
            device
            for device in devices
            if device.has("uuid")
            and (device.text("uuid").startswith(token) or token.startswith(device.text("uuid")))
        ]
        return matches[0] if len(matches) == 1 else None
    if token.startswith("MIG-") and len(token) > len("MIG-"):
        return _slice(token, devices)
    return None


def _as_cuda_sees(device: Facts) -> Facts:
    """Return a partitioned card that is named as a whole: CUDA takes its first slice."""
    if not device.has("slices") or device.has("slice"):
        return device
    parts = device.rows("slices")
    return device.overlaid(_memory(parts[0] if parts else None))


def _memory(part: Facts | None) -> dict[str, int | None]:
    """Return the memory of a slice; what is not known of it is not known of the card either."""
    names = ("memory_total_bytes", "memory_free_bytes")
    return {n: part.integer(n) if part is not None and part.has(n) else None for n in names}


def _slice(token: str, devices: tuple[Facts, ...]) -> Facts | None:
    """Return the card of a slice, with the slice's memory in the place of its own."""
    for device in devices:
        for part in device.rows("slices") if device.has("slices") else ():
            if not part.has("uuid"):
                continue
            shown = part.text("uuid")  # shortened for privacy
            if shown.startswith(token) or token.startswith(shown):
                return device.overlaid({**_memory(part), "slice": shown})
    # Where slices cannot be listed (in a container) the only card is the one that is meant.
    alone = len(devices) == 1 and not devices[0].has("slices")
    return devices[0] if alone else None
