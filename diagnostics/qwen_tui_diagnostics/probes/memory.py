"""Host memory, its limits, swap, shared memory, and the limits of this process."""

from __future__ import annotations

import os
import resource
from typing import TYPE_CHECKING

from qwen_tui_diagnostics.probes.files import read_text, try_text
from qwen_tui_diagnostics.probes.meminfo import read_meminfo
from qwen_tui_diagnostics.result import SkipReason
from qwen_tui_profiles.text import t

if TYPE_CHECKING:
    from pathlib import Path

    from qwen_tui_diagnostics.context import Context
    from qwen_tui_diagnostics.facts import Gathered

__all__ = ["collect"]

_UNLIMITED_BYTES = 1 << 60
"""Control groups of version 1 write a huge number for "no limit"."""

_FIELDS = {
    "MemTotal": "total_bytes",
    "MemAvailable": "available_bytes",
    "MemFree": "free_bytes",
    "SwapTotal": "swap_total_bytes",
    "SwapFree": "swap_free_bytes",
}


def collect(context: Context, found: Gathered) -> None:
    """Gather ``memory.*``."""
    info = read_meminfo(context.path("proc"))
    for field, name in _FIELDS.items():
        found.put_or(f"memory.{name}", info.get(field), detail=f"no {field} in /proc/meminfo")
    _control_group(context, found)
    with found.attempt("memory.swappiness"):
        found.put("memory.swappiness", int(read_text(context.path("proc/sys/vm/swappiness"))))
    swaps = try_text(context.path("proc/swaps"))
    if swaps is not None:
        found.put("memory.zram", "/zram" in swaps)
    with found.attempt("memory.shm_total_bytes", "memory.shm_free_bytes"):
        shm = os.statvfs(context.path("dev/shm"))
        found.put("memory.shm_total_bytes", shm.f_blocks * shm.f_frsize)
        found.put("memory.shm_free_bytes", shm.f_bavail * shm.f_frsize)
    for name, kind in (("memlock", resource.RLIMIT_MEMLOCK), ("nofile", resource.RLIMIT_NOFILE)):
        soft, hard = resource.getrlimit(kind)
        # -1: unlimited, as the kernel has it.
        found.put(f"memory.{name}_soft", soft)
        found.put(f"memory.{name}_hard", hard)


def _control_group(context: Context, found: Gathered) -> None:
    """Find the lowest limit on the way up; a machine without any has ``limited: false``."""
    text = try_text(context.path("proc/self/cgroup"))
    if text is None:
        found.lack("memory.limited", SkipReason.NOT_PERMITTED, t("/proc/self/cgroup unreadable"))
        return
    limits: list[tuple[int, int | None]] = []
    for line in text.splitlines():
        _, controllers, path = [*line.split(":", 2), "", "", ""][:3]
        if not controllers:
            base, limit_name, used_name = "sys/fs/cgroup", "memory.max", "memory.current"
        elif "memory" in controllers.split(","):
            base = "sys/fs/cgroup/memory"
            limit_name, used_name = "memory.limit_in_bytes", "memory.usage_in_bytes"
        else:
            continue
        root = context.path(base)
        folder = context.path(base, path)
        # Inside a namespace the path may point outside of what is mounted: the root then counts.
        while folder != root and root in folder.parents:
            _limit_of(folder, limit_name, used_name, limits)
            folder = folder.parent
        _limit_of(root, limit_name, used_name, limits)
    found.put("memory.limited", bool(limits))
    if limits:
        limit, used = min(limits, key=lambda pair: pair[0])
        found.put("memory.limit_bytes", limit)
        found.put("memory.limit_used_bytes", used)


def _limit_of(
    folder: Path, limit_name: str, used_name: str, limits: list[tuple[int, int | None]]
) -> None:
    limit = (try_text(folder / limit_name) or "").strip()
    if limit.isdecimal() and int(limit) < _UNLIMITED_BYTES:
        used = (try_text(folder / used_name) or "").strip()
        limits.append((int(limit), int(used) if used.isdecimal() else None))
