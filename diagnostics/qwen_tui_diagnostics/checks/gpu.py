"""Checks of the GPUs that the launch will use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qwen_tui_diagnostics.check import Check, failed, fix, ok, required_with_gpu, warned, with_gpu
from qwen_tui_diagnostics.checks.units import gib
from qwen_tui_profiles.text import t

if TYPE_CHECKING:
    from qwen_tui_diagnostics.context import Target
    from qwen_tui_diagnostics.facts import Facts
    from qwen_tui_diagnostics.result import Verdict

__all__ = ["CHECKS"]


def _memory_free(facts: Facts, target: Target) -> Verdict:
    fraction = target.memory_fraction or 0.9
    lines = []
    worst = None
    for device in facts.rows("gpu.devices"):
        total = device.integer("memory_total_bytes")
        free = device.integer("memory_free_bytes")
        line = t(
            "GPU {index}: {free} of {total} free",
            index=device.integer("index"),
            free=gib(free),
            total=gib(total),
        )
        lines.append(line)
        if free < fraction * total:
            worst = worst or line
    if not lines:
        return failed(
            t("no GPU"),
            expected=t("a GPU with free memory"),
            consequence=t("an engine that needs a GPU cannot start"),
            remedy=fix(t("see driver.nvml")),
        )
    if worst is not None:
        return warned(
            worst,
            expected=t("free ≥ {percent} % of the card", percent=round(fraction * 100)),
            consequence=t("the engine gets a smaller pool than planned, or stops while loading"),
            remedy=fix(t("stop what holds the memory, or lower the fraction"), "nvidia-smi"),
        )
    return ok(lines[0], *lines[1:])


CHECKS: tuple[Check, ...] = (
    Check(
        "gpu.vram_free",
        t("GPU memory is free"),
        _memory_free,
        ("gpu",),
        t("an engine takes its share of what is free at start; less means a smaller pool or OOM"),
        required=required_with_gpu,
        wanted=with_gpu,
        explained_by=("driver.nvml",),
    ),
)
