"""Sockets, NUMA nodes and IOMMU: where the card, the drive and the processors sit."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from qwen_tui_diagnostics.probes.files import try_text
from qwen_tui_diagnostics.result import SkipReason
from qwen_tui_profiles.text import t

if TYPE_CHECKING:
    from qwen_tui_diagnostics.context import Context
    from qwen_tui_diagnostics.facts import Gathered

__all__ = ["collect", "parse_cpu_list"]


def collect(context: Context, found: Gathered) -> None:
    """Gather ``topology.*``."""
    base = context.path("sys/devices/system/node")
    usable = os.sched_getaffinity(0)
    nodes: list[int] = []
    mine: list[int] = []
    try:
        entries = sorted(base.iterdir())
    except OSError as error:
        found.lack("topology.nodes", SkipReason.UNSUPPORTED, error.strerror or t("unreadable"))
        entries = []
    for entry in entries:
        number = entry.name.removeprefix("node")
        text = try_text(entry / "cpulist")
        if not number.isdecimal() or text is None:
            continue
        nodes.append(int(number))
        if parse_cpu_list(text) & usable:
            mine.append(int(number))
    if nodes:
        found.put("topology.nodes", nodes)
        found.put("topology.own_nodes", mine)
    iommu = context.path("sys/class/iommu")
    if iommu.is_dir():
        found.put("topology.iommu", any(iommu.iterdir()))


def parse_cpu_list(text: str) -> set[int]:
    """Return the numbers of ``0-3,8,10-11``; parts that are not understood are left out."""
    numbers: set[int] = set()
    for part in text.strip().split(","):
        first, dash, last = part.partition("-")
        if first.isdecimal() and (last.isdecimal() if dash else True):
            numbers |= set(range(int(first), int(last if dash else first) + 1))
    return numbers
