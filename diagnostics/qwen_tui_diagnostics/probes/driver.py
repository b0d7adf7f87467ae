"""The kernel side of the driver: module, libraries, PCI devices, device nodes, kernel messages."""

from __future__ import annotations

import os
import re
import subprocess
from typing import TYPE_CHECKING, Any

from qwen_tui_diagnostics.probes.files import try_text
from qwen_tui_diagnostics.result import SkipReason
from qwen_tui_profiles.foreign import clean
from qwen_tui_profiles.text import t

if TYPE_CHECKING:
    from pathlib import Path

    from qwen_tui_diagnostics.context import Context
    from qwen_tui_diagnostics.facts import Gathered

__all__ = ["collect", "parse_xids"]

NVIDIA_VENDOR = "0x10de"
_DISPLAY_CLASSES = ("0x0300", "0x0302")
_VERSION = re.compile(r"\b(\d{3}\.\d{2,3}(?:\.\d{2})?)\b")
_LIBRARY_FOLDERS = (
    "usr/lib/x86_64-linux-gnu",
    "usr/lib/aarch64-linux-gnu",
    "usr/lib64",
    "usr/lib",
    "usr/local/nvidia/lib64",
    "run/opengl-driver/lib",
)
_SECURE_BOOT = "SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
_XID = re.compile(r"NVRM: Xid \((?:PCI:)?([0-9a-fA-F:.]+)\): (\d+)")
_LOST = re.compile(r"GPU (?:has fallen off the bus|is lost)")
_INIT_FAILED = re.compile(r"NVRM: .*(RmInitAdapter failed[^\n]*)")
_STAMP = re.compile(r"^\[\s*(\d+\.\d+)\]", re.MULTILINE)
KERNEL_LOG_LIMIT_S = 4.0


def collect(context: Context, found: Gathered) -> None:
    """Gather ``driver.*``."""
    _module(context, found)
    _library(context, found)
    _pci(context, found)
    _nodes(context, found)
    _secure_boot(context, found)
    _kernel_log(context, found)


def _module(context: Context, found: Gathered) -> None:
    modules = context.path("sys/module")
    if not modules.is_dir():
        found.lack(
            "driver.module_loaded", SkipReason.NOT_PERMITTED, t("/sys/module is not visible")
        )
        found.lack("driver.nouveau", SkipReason.NOT_PERMITTED, t("/sys/module is not visible"))
    else:
        found.put("driver.module_loaded", (modules / "nvidia").is_dir())
        found.put(
            "driver.nouveau", (modules / "nouveau").is_dir() or (modules / "nova_core").is_dir()
        )
        parameter = try_text(modules / "nvidia_uvm/parameters/uvm_disable_hmm")
        if parameter is not None:
            found.put("driver.hmm_disabled", parameter.strip() in {"Y", "1"})
    text = try_text(context.path("proc/driver/nvidia/version"))
    if text is not None:
        found.raw["proc/driver/nvidia/version"] = text
        found.put("driver.open_module", "Open Kernel Module" in text)
    else:
        found.lack(
            "driver.open_module", SkipReason.UNSUPPORTED, t("no /proc/driver/nvidia/version")
        )
    version = (try_text(modules / "nvidia/version") or "").strip()
    if not version and text is not None:
        match = _VERSION.search(text)
        version = match[1] if match else ""
    found.put_or("driver.module_version", clean(version) or None, detail=t("no loaded module"))


def _library(context: Context, found: Gathered) -> None:
    folders = [context.path(folder) for folder in _LIBRARY_FOLDERS]
    for name in ("libnvidia-ml.so.1", "libcuda.so.1"):
        for folder in folders:
            link = folder / name
            if not link.exists():
                continue
            version = link.resolve().name.partition(".so.")[2]
            if _VERSION.fullmatch(version):
                found.put(f"driver.library.{name.partition('.')[0]}", version)
                break
    if "library" not in found.values.get("driver", {}):
        found.lack("driver.library", SkipReason.UNSUPPORTED, t("not in the usual library folders"))


def _pci(context: Context, found: Gathered) -> None:
    base = context.path("sys/bus/pci/devices")
    devices: list[dict[str, Any]] = []
    try:
        entries = sorted(base.iterdir())
    except OSError as error:
        found.lack("driver.pci", SkipReason.UNSUPPORTED, error.strerror or t("unreadable"))
        return
    for entry in entries:
        if (try_text(entry / "vendor") or "").strip() != NVIDIA_VENDOR:
            continue
        if not (try_text(entry / "class") or "").startswith(_DISPLAY_CLASSES):
            continue
        devices.append(_pci_device(entry))
    found.put("driver.pci", devices)


def _pci_device(entry: Path) -> dict[str, Any]:
    device: dict[str, Any] = {
        "bus_id": entry.name,
        "device": (try_text(entry / "device") or "").strip(),
    }
    link = entry / "driver"
    device["driver"] = os.path.basename(os.path.realpath(link)) if link.exists() else ""  # noqa: PTH119
    node = (try_text(entry / "numa_node") or "").strip()
    if node.lstrip("-").isdecimal():
        device["numa_node"] = int(node)
    return device


def _nodes(context: Context, found: Gathered) -> None:
    dev = context.path("dev")
    names = ["nvidiactl", "nvidia-uvm", "dxg"]
    try:
        names += sorted(n for n in os.listdir(dev) if re.fullmatch(r"nvidia\d+", n))  # noqa: PTH208
    except OSError as error:
        found.lack("driver.nodes", SkipReason.NOT_PERMITTED, error.strerror or "")
        return
    nodes = []
    for name in names:
        path = dev / name
        if path.exists():
            nodes.append({"name": name, "openable": os.access(path, os.R_OK | os.W_OK)})
    found.put("driver.nodes", nodes)


def _secure_boot(context: Context, found: Gathered) -> None:
    efi = context.path("sys/firmware/efi")
    if not efi.is_dir():
        found.lack("driver.secure_boot", SkipReason.NOT_APPLICABLE, t("not started through EFI"))
        return
    with found.attempt("driver.secure_boot"):
        data = (efi / "efivars" / _SECURE_BOOT).read_bytes()
        found.put("driver.secure_boot", data[4] == 1)


def parse_xids(text: str) -> dict[str, Any]:
    """Count NVIDIA's reports in kernel messages: ``{count, codes, last, lost, init_failed}``."""
    matches = list(_XID.finditer(text))
    failed = _INIT_FAILED.search(text)
    summary: dict[str, Any] = {
        "count": len(matches),
        "codes": sorted({int(match[2]) for match in matches}),
        "lost": bool(_LOST.search(text)),
    }
    if matches:
        line_start = text.rfind("\n", 0, matches[-1].start()) + 1
        line_end = text.find("\n", matches[-1].end())
        summary["last"] = clean(text[line_start : line_end if line_end > 0 else None])[:200]
        summary["last_code"] = int(matches[-1][2])
    if failed:
        summary["init_failed"] = clean(failed[1])[:200]
    return summary


def _kernel_log(context: Context, found: Gathered) -> None:
    """Read the kernel's messages since boot, where this user may."""
    if not (
        context.path("sys/module/nvidia").exists() or found.values.get("driver", {}).get("pci")
    ):
        found.lack("driver.xid", SkipReason.NOT_APPLICABLE, t("no NVIDIA device or module"))
        return
    try:
        done = subprocess.run(
            ["dmesg", "--kernel", "--nopager"],
            capture_output=True,
            timeout=KERNEL_LOG_LIMIT_S,
            check=False,
        )
    except FileNotFoundError:
        found.lack("driver.xid", SkipReason.NO_TOOL, t("dmesg is not installed"))
        return
    except (OSError, subprocess.TimeoutExpired) as error:
        found.lack("driver.xid", SkipReason.TIMEOUT, type(error).__name__)
        return
    if done.returncode != 0:
        found.lack("driver.xid", SkipReason.NOT_PERMITTED, t("the kernel log needs root here"))
        return
    text = done.stdout.decode("utf-8", "replace")
    stamps = _STAMP.findall(text)
    if not stamps:
        found.lack("driver.xid", SkipReason.UNSUPPORTED, t("the kernel log has no dated line"))
        return
    relevant = "\n".join(line for line in text.splitlines() if "NVRM" in line or "nvidia" in line)
    found.raw["dmesg-nvidia.txt"] = relevant
    found.put("driver.xid", parse_xids(relevant + "\n"))
    # The log is a ring: what is older than its first line is gone.
    found.put("driver.xid.from_s", float(stamps[0]))
