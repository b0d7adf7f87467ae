"""The GPU facts: NVML, with ``nvidia-smi`` only where NVML cannot be asked at all."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from qwen_tui_diagnostics.probes import nvidia_smi
from qwen_tui_diagnostics.probes.files import try_text
from qwen_tui_diagnostics.probes.gpu_reading import process_json
from qwen_tui_diagnostics.probes.meminfo import read_meminfo
from qwen_tui_diagnostics.probes.nvml import Nvml, NvmlError
from qwen_tui_diagnostics.result import SkipReason
from qwen_tui_profiles.text import t

if TYPE_CHECKING:
    from qwen_tui_diagnostics.context import Context
    from qwen_tui_diagnostics.facts import Gathered

__all__ = ["CODE_NO_BINDING", "collect", "gather"]

_LIBRARY = re.compile(r"/libnvidia-ml\.so\.(\d{3}\.\d+(?:\.\d+)?)\b")
CODE_NO_BINDING = -1
"""Our own code: the Python binding is not installed."""


def collect(context: Context, found: Gathered) -> None:
    """Gather ``gpu.*``."""
    gather(context, found, Nvml(proc_root=context.path("proc")))


def gather(context: Context, found: Gathered, nvml: Nvml) -> None:
    """Gather ``gpu.*`` from an NVML that may be a fake one."""
    try:
        nvml.open()
        system = nvml.system()
        readings = nvml.devices()
    except NvmlError as error:
        code = CODE_NO_BINDING if error.code is None else error.code
        found.put("gpu.nvml_code", code)
        for name in ("devices", "driver_version", "cuda_version"):
            found.lack(f"gpu.{name}", SkipReason.NO_TOOL, t("NVML code {code}", code=code))
        nvml.close()
        nvidia_smi.gather(context, found)
        return
    found.put("gpu.nvml_code", 0)
    found.put("gpu.source", "nvml")
    found.put_or("gpu.driver_version", system.driver_version)
    found.put_or("gpu.library_version", loaded_library(context), detail=t("not in /proc/self/maps"))
    found.put_or("gpu.cuda_version", None if not system.cuda_version else list(system.cuda_version))
    if any(reading.unified for reading in readings):
        # Engines ask CUDA for free memory, and on unified memory that is what is not even cached.
        free = read_meminfo(context.path("proc")).get("MemFree")
        found.put_or("gpu.host_free_bytes", free, detail=t("no MemFree in /proc/meminfo"))
    devices: list[dict[str, Any]] = []
    for reading in readings:
        device = reading.as_json()
        if reading.compute_capability is not None:
            device["compute_capability"] = list(reading.compute_capability)
        if reading.mig_enabled:
            device["slices"] = list(nvml.slices(reading.index))
        holders = nvml.processes(reading.index)
        if holders is not None:
            device["processes"] = [process_json(holder) for holder in holders]
        for name, reason in reading.missing.items():
            found.lack(f"gpu.devices.{reading.index}.{name}", _reason(reason), reason)
        if holders is None:
            found.lack(
                f"gpu.devices.{reading.index}.processes",
                SkipReason.UNSUPPORTED,
                t("not told by NVML"),
            )
        devices.append(device)
    found.put("gpu.devices", devices)
    if len(readings) > 1:
        pairs = {
            (a.index, b.index): nvml.p2p_read(a.index, b.index)
            for a in readings
            for b in readings
            if a.index < b.index
        }
        if all(reads is not None for reads in pairs.values()):
            found.put("gpu.p2p_without", [list(pair) for pair, reads in pairs.items() if not reads])
        else:
            found.lack("gpu.p2p_without", SkipReason.UNSUPPORTED, t("NVML does not tell"))
    nvml.close()


def loaded_library(context: Context) -> str | None:
    """Return the version in the file name of the NVML library that this process has loaded."""
    match = _LIBRARY.search(try_text(context.path("proc/self/maps")) or "")
    return match[1] if match else None


def _reason(reason: str) -> SkipReason:
    return SkipReason.NOT_PERMITTED if reason == "not-permitted" else SkipReason.UNSUPPORTED
