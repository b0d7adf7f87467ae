"""Checks of the GPUs that the launch will use: which, what they are, how much memory is free."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qwen_tui_diagnostics.check import Check, failed, fix, ok, required_with_gpu, warned, with_gpu
from qwen_tui_diagnostics.checks.devices import name_of, select, selected
from qwen_tui_diagnostics.checks.gpu_memory import judge_free, judge_holders, judge_total
from qwen_tui_diagnostics.checks.gpu_state import STATE_CHECKS
from qwen_tui_diagnostics.checks.tables import (
    FP4_CAPABILITY,
    OLDEST_CAPABILITY,
    capability_row,
)
from qwen_tui_diagnostics.checks.units import dotted, listed
from qwen_tui_profiles.text import t

if TYPE_CHECKING:
    from qwen_tui_diagnostics.context import Target
    from qwen_tui_diagnostics.facts import Facts
    from qwen_tui_diagnostics.result import Verdict

__all__ = ["CHECKS"]


def _selected(facts: Facts, target: Target) -> Verdict:
    selection = select(facts)
    wanted = target.gpus
    chosen = selection.visible[:wanted]
    names = [
        f"{name_of(d)} ({d.text('bus_id')})" if d.has("bus_id") else name_of(d) for d in chosen
    ]
    if len(chosen) < wanted:
        cut = (
            (t("CUDA_VISIBLE_DEVICES is cut at {token}: it names no device",
               token=repr(selection.cut_at)),)
            if selection.cut_at is not None
            else ()
        )  # fmt: skip
        return failed(
            t("{count} of {wanted} GPUs are visible to the launch", count=len(chosen),
              wanted=wanted),
            *cut,
            expected=t("{wanted} visible", wanted=wanted),
            consequence=t("the engine stops at start: no such device"),
            remedy=fix(
                t("correct CUDA_VISIBLE_DEVICES, or the number of GPUs in the profile"),
                "unset CUDA_VISIBLE_DEVICES",
            ),
        )  # fmt: skip
    if selection.order_matters:
        return warned(
            t("the cards differ, and CUDA counts them fastest first"),
            *(t("by bus: {name}", name=name) for name in names),
            expected=t("CUDA_DEVICE_ORDER=PCI_BUS_ID, or a selection by UUID"),
            consequence=t("index 0 may be another card than nvidia-smi's GPU 0"),
            remedy=fix(
                t("count them by bus"),
                "export CUDA_DEVICE_ORDER=PCI_BUS_ID",
                env={"CUDA_DEVICE_ORDER": "PCI_BUS_ID"},
            ),
        )
    return ok(t("{names}", names=listed(names, 4)))


def _capability(facts: Facts, target: Target) -> Verdict:
    lines = []
    for device in selected(facts, target):
        capability = device.integers("compute_capability")
        row = capability_row(capability)
        shown = t("{name}: compute capability {version}", name=name_of(device),
                  version=dotted(capability))  # fmt: skip
        if capability < OLDEST_CAPABILITY or row is None:
            if capability > OLDEST_CAPABILITY:
                return warned(
                    shown,
                    expected=t("a capability that these engines were tried on"),
                    consequence=t("newer than this version of qwen-tui knows: untested"),
                )
            return failed(
                shown,
                expected=t("8.0 or newer"),
                consequence=t("SGLang and vLLM have no kernels for this card and these models"),
                remedy=fix(t("use a card of the Ampere generation or newer")),
            )
        if capability != row.capability:
            return warned(
                shown,
                expected=t("a capability that these engines were tried on"),
                consequence=t("same family as {known}; untested", known=dotted(row.capability)),
            )
        lines.append(shown)
        if _wants_fp4(target) and capability < FP4_CAPABILITY:
            return warned(
                shown,
                expected=t("10.0 or newer for NVFP4 weights"),
                consequence=t("no FP4 units: NVFP4 weights are unpacked, or the engine refuses"),
                remedy=fix(t("use an INT4 or FP8 checkpoint on this card")),
            )
    return ok(lines[0], *lines[1:])


def _wants_fp4(target: Target) -> bool:
    text = " ".join((target.repo or "", target.model_path or "", *target.argv)).lower()
    return "nvfp4" in text or "modelopt_fp4" in text


_EXPLAINED = ("driver.nvml", "gpu.selected")

CHECKS: tuple[Check, ...] = (
    Check(
        "gpu.selected",
        t("the right GPUs are visible"),
        _selected,
        ("gpu", "env"),
        t("one wrong character in CUDA_VISIBLE_DEVICES hides every card behind it"),
        required=required_with_gpu,
        wanted=with_gpu,
        explained_by=("driver.nvml",),
    ),
    Check(
        "gpu.capability",
        t("generation of the card"),
        _capability,
        ("gpu", "env"),
        t("kernels are built for capabilities; 'no kernel image' comes at the first request"),
        required=required_with_gpu,
        wanted=with_gpu,
        explained_by=_EXPLAINED,
        evidence=("https://github.com/sgl-project/sglang/issues/7249",),
    ),
    Check(
        "gpu.vram_total",
        t("memory of the card"),
        judge_total,
        ("gpu", "env", "model"),
        t("weights, draft, states and cache have to fit at all"),
        required=required_with_gpu,
        wanted=with_gpu,
        explained_by=_EXPLAINED,
    ),
    Check(
        "gpu.vram_free",
        t("free memory of the card"),
        judge_free,
        ("gpu", "env", "model", "engine"),
        t("an engine takes its share of what is free at start; less means a smaller pool or OOM"),
        required=required_with_gpu,
        wanted=with_gpu,
        explained_by=(*_EXPLAINED, "gpu.vram_total"),
        evidence=("https://github.com/noonghunna/club-3090/issues/535",),
    ),
    Check(
        "gpu.holders",
        t("nobody else holds the card"),
        judge_holders,
        ("gpu", "env"),
        t("another compute process takes memory and time while the server runs"),
        wanted=with_gpu,
        explained_by=_EXPLAINED,
    ),
    *STATE_CHECKS,
)
