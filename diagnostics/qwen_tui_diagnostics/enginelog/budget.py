"""Where the memory went: the waterfall of rank 0, from the figures that the engine printed."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from qwen_tui_diagnostics.enginelog.report import BudgetPart
from qwen_tui_profiles.text import t

if TYPE_CHECKING:
    from qwen_tui_diagnostics.enginelog.boot import Boot
    from qwen_tui_diagnostics.enginelog.lines import LogLine

__all__ = ["budget_of", "late_freed"]

_VISIBLE_GIB = 0.2
"""Growth of free memory below this is noise (workspaces, allocator)."""


def budget_of(boot: Boot) -> tuple[BudgetPart, ...]:
    """Return the steps in the order in which the memory goes; empty when too little is printed."""
    return _vllm(boot) if boot.printed_by == "vllm" else _sglang(boot)


def late_freed(boot: Boot) -> tuple[float, LogLine, LogLine] | None:
    """Return memory that came back between the last pool and the first graph capture.

    SGLang's draft builds an embedding and a head of its own and drops them only after the pool was
    sized (0.5.14 to 0.5.23).
    """
    pool: tuple[float, LogLine] | None = None
    for where, gib, line in boot.avail:
        if where == "pools allocated":
            pool = (gib, line)
        elif where.startswith("graph capture") and pool is not None:
            grown = round(gib - pool[0], 2)
            return (grown, pool[1], line) if grown >= _VISIBLE_GIB else None
    return None


def _sglang(boot: Boot) -> tuple[BudgetPart, ...]:
    parts: list[BudgetPart] = []

    def add(part: str, *names: str) -> None:
        known = [boot.facts[n] for n in names if n in boot.facts]
        values = [f.value for f in known if isinstance(f.value, int | float)]
        if values and any(values):
            parts.append(
                BudgetPart(
                    part, round(sum(values), 3), t("line {number}", number=known[0].line.number)
                )
            )

    add("free_before_load", "free_before_load_gib")
    add("weights", "mem_usage_gb")
    add("draft", "draft_mem_usage_gb")
    add("state_pool", "mamba_conv_gb", "mamba_ssm_gb")
    add("state_intermediate", "mamba_intermediate_ssm_gb", "mamba_intermediate_conv_gb")
    add("kv_pool", "kv_gb")
    add("draft_kv", "draft_kv_gb")
    if boot.graphs_gib is not None and boot.graph_line is not None:
        parts.append(
            BudgetPart("graphs", boot.graphs_gib, t("line {number}", number=boot.graph_line.number))
        )
    late = late_freed(boot)
    if late is not None:
        gib, before, after = late
        parts.append(
            BudgetPart(
                "late_freed",
                gib,
                t("lines {first}, {last}", first=before.number, last=after.number),
            )
        )
    free = _free(boot)
    if free is None:
        return tuple(parts) if len(parts) > 1 else ()
    gib, line = free
    if parts and parts[0].part == "free_before_load":
        taken = sum(p.gib for p in parts[1:] if p.part != "late_freed")
        back = late[0] if late is not None else 0.0
        other = round(parts[0].gib - taken + back - gib, 2)
        if abs(other) >= 0.01:
            parts.append(BudgetPart("other", other, t("what the printed figures leave open")))
    parts.append(BudgetPart("free", gib, t("line {number}", number=line.number)))
    return tuple(parts) if len(parts) > 1 else ()


def _free(boot: Boot) -> tuple[float, LogLine] | None:
    """Return the last word on free memory: the summary's, else the last one on the way."""
    fact = boot.facts.get("available_gpu_mem_gb") or boot.facts.get("available_cpu_mem_gb")
    if fact is not None and isinstance(fact.value, int | float):
        return float(fact.value), fact.line
    if not boot.avail:
        return None
    _, gib, line = boot.avail[-1]
    pools = (boot.facts.get(name) for name in ("kv_gb", "draft_kv_gb", "mamba_ssm_gb"))
    if any(pool is not None and pool.line.number > line.number for pool in pools):
        return None  # a pool came after it
    return gib, line


_SUMMARY = (
    ("share", r"Desired GPU memory utilization is \([\d.]+, ([\d.]+) GiB\)"),
    ("weights", r"([\d.]+) GiB for (?:weight|consumed memory)"),
    ("activation", r"(-?[\d.]+) GiB for peak activation"),
    ("non_torch", r"(-?[\d.]+) GiB for non-torch memory"),
    ("graphs", r"(-?[\d.]+) GiB for CUDAGraph memory"),
    ("kv_pool", r"Current kv cache memory in use is ([\d.]+) GiB"),
)


def _vllm(boot: Boot) -> tuple[BudgetPart, ...]:
    line = boot.memory_line
    if line is None:
        parts = [
            BudgetPart(part, float(fact.value), t("line {number}", number=fact.line.number))
            for part, name in (
                ("weights", "mem_usage_gb"),
                ("kv_pool", "available_kv_gib"),
                ("graphs", "graph_gib"),
            )
            if (fact := boot.facts.get(name)) is not None and isinstance(fact.value, int | float)
        ]
        return tuple(parts) if len(parts) > 1 else ()
    basis = t("line {number}", number=line.number)
    out: list[BudgetPart] = []
    total = boot.facts.get("total_gib")
    if total is not None and isinstance(total.value, int | float):
        out.append(BudgetPart("total", float(total.value), basis))
    for part, pattern in _SUMMARY:
        match = re.search(pattern, line.message)
        if match is not None:
            out.append(BudgetPart(part, float(match[1]), basis))
    return tuple(out)
