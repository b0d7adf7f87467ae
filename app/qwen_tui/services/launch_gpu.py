"""Which of this machine's GPUs a launch would use, what it is and what is free on it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

import psutil

from qwen_tui_profiles.errors import ProbeError, UsageError
from qwen_tui_profiles.text import t

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["LiveGpu", "card_used", "first_visible", "launch_environment", "live_gpu"]

_GIB = float(1 << 30)


@dataclass(frozen=True, slots=True)
class LiveGpu:
    """A GPU of this machine now; None = there is none, or it does not say."""

    free_gib: float | None = None
    total_gib: float | None = None
    card: int | None = None


def live_gpu(index: int | None, env: Mapping[str, str]) -> LiveGpu:
    """Read the GPU that a launch would use.

    Raises:
        UsageError: The user named a GPU that does not exist.
    """
    from qwen_tui_diagnostics.probes.nvml import Nvml

    try:
        with Nvml() as nvml:
            devices = nvml.devices()
    except ProbeError:
        devices = ()
    chosen = first_visible(env) if index is None else index
    if index is not None and devices and not 0 <= index < len(devices):
        raise UsageError(
            t("There is no GPU {index} here.", index=index),
            t("Name one of 0 to {last}.", last=len(devices) - 1),
        )
    if not 0 <= chosen < len(devices):
        return LiveGpu()
    free, total = devices[chosen].memory_free_bytes, devices[chosen].memory_total_bytes
    if total is None:
        # A GPU without memory of its own (GB10) has the host's; SGLang asks for it the same way.
        host = psutil.virtual_memory()
        free, total = host.available, host.total
    meant = devices if index is None else devices[index : index + 1]
    return LiveGpu(
        None if free is None else free / _GIB,
        None if total is None else total / _GIB,
        card_used([device.compute_capability for device in meant], env),
    )


def launch_environment(env: Mapping[str, str]) -> Mapping[str, str]:
    """Return the variables that a launch would have: ours, and what it adds to them."""
    return {**os.environ, **env}


def card_used(capabilities: Sequence[tuple[int, int] | None], env: Mapping[str, str]) -> int | None:
    """Return the card that a launch would use, as the rules know it: (12, 0) is 120.

    Args:
        capabilities: Compute capability of each card, in the order of the bus.
        env: The launch's environment.

    Returns:
        ``None`` where it is uncertain. Among unlike cards a number names one only in the order of
        the bus: without ``CUDA_DEVICE_ORDER=PCI_BUS_ID`` CUDA puts the fastest first.
    """
    if len(set(capabilities)) > 1:
        number = _number(env)
        if number is None or env.get("CUDA_DEVICE_ORDER") != "PCI_BUS_ID":
            return None
        capabilities = capabilities[number : number + 1]
    if not capabilities or capabilities[0] is None:
        return None
    major, minor = capabilities[0]
    return 10 * major + minor


def first_visible(env: Mapping[str, str]) -> int:
    """Return the GPU that the launch's environment picks; 0 where it names none by number."""
    return _number(env) or 0


def _number(env: Mapping[str, str]) -> int | None:
    first = env.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0].strip()
    return int(first) if first.isascii() and first.isdigit() and len(first) < 4 else None
