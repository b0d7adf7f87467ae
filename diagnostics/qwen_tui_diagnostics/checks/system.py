"""Checks of the host: kernel, Python, memory, limits, terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qwen_tui_diagnostics.check import Check, always, failed, fix, ok, warned
from qwen_tui_diagnostics.checks.units import GIB, dotted, gib
from qwen_tui_profiles.text import t

if TYPE_CHECKING:
    from qwen_tui_diagnostics.context import Target
    from qwen_tui_diagnostics.facts import Facts
    from qwen_tui_diagnostics.result import Verdict

__all__ = ["CHECKS"]

OWN_PYTHON = (3, 11)
RAM_27B_BYTES = 32 * GIB
RAM_DEMO_BYTES = GIB


def _platform(facts: Facts, target: Target) -> Verdict:
    name, machine = facts.text("system.kernel.name"), facts.text("system.kernel.machine")
    shown = t(
        "{name} {release} on {machine}",
        name=name,
        release=facts.text("system.kernel.release"),
        machine=machine,
    )
    if name != "Linux" or machine not in {"x86_64", "aarch64"}:
        return failed(
            shown,
            expected=t("Linux on x86_64 or aarch64"),
            consequence=t("SGLang and vLLM have no builds for this platform"),
            remedy=fix(t("run the engine on Linux (WSL2 works) and use `qwen-tui attach` here")),
        )
    return ok(shown)


def _own_python(facts: Facts, target: Target) -> Verdict:
    version = facts.integers("system.python")
    shown = t("Python {version} runs qwen-tui", version=dotted(version))
    if version < OWN_PYTHON:
        return failed(
            shown,
            expected=t("3.11 or newer"),
            consequence=t("qwen-tui does not run"),
            remedy=fix(t("install a newer Python")),
        )
    return ok(shown)


def _memory(facts: Facts, target: Target) -> Verdict:
    total = facts.integer("memory.total_bytes")
    available = facts.integer("memory.available_bytes")
    shown = t("{available} of {total} available", available=gib(available), total=gib(total))
    if facts.flag("memory.limited"):
        limit = facts.integer("memory.limit_bytes")
        if limit < total:
            shown = t(
                "this process is limited to {limit} of {total}", limit=gib(limit), total=gib(total)
            )
            available = min(available, limit)
    need = RAM_DEMO_BYTES if not target.needs_gpu else RAM_27B_BYTES
    if target.profile is None:
        return ok(shown)
    expected = t("{need} for this profile", need=gib(need))
    if available >= need:
        return ok(shown, expected=expected)
    consequence = t("loading the weights can end in an OOM kill (exit code 137)")
    remedy = fix(t("close other programs, raise the container's limit, or add memory or swap"))
    if available >= 0.85 * need or target.needs_gpu:
        return warned(shown, expected=expected, consequence=consequence, remedy=remedy)
    return failed(shown, expected=expected, consequence=consequence, remedy=remedy)


def _terminal(facts: Facts, target: Target) -> Verdict:
    terminal = facts.at("system.terminal")
    if not terminal.flag("stdout_tty"):
        return ok(t("standard output is not a terminal: the report works, the console does not"))
    name = terminal.text("term") if terminal.has("term") else ""
    columns, lines = terminal.integer("columns"), terminal.integer("lines")
    shown = t("{name}, {columns}x{lines}", name=name or "?", columns=columns, lines=lines)
    if name in {"", "dumb"}:
        return warned(
            shown,
            expected=t("a terminal that can move its cursor"),
            consequence=t("the console cannot be drawn; every command still works"),
            remedy=fix(t("set TERM to what the terminal is"), "export TERM=xterm-256color"),
        )
    if columns < 80 or lines < 24:
        return warned(
            shown,
            expected=t("80x24 or more"),
            consequence=t("the console cuts its panels"),
            remedy=fix(t("enlarge the window")),
        )
    return ok(shown)


CHECKS: tuple[Check, ...] = (
    Check(
        "sys.platform",
        t("platform"),
        _platform,
        ("system",),
        t("the engines exist for Linux on x86_64 and aarch64 only"),
        required=always,
    ),
    Check(
        "sys.own_python",
        t("Python of qwen-tui"),
        _own_python,
        ("system",),
        t("qwen-tui needs Python 3.11"),
        required=always,
    ),
    Check(
        "sys.ram",
        t("host memory"),
        _memory,
        ("memory",),
        t("weights pass through host memory; too little ends in an OOM kill while loading"),
        required=always,
    ),
    Check(
        "sys.terminal",
        t("terminal"),
        _terminal,
        ("system",),
        t("the console needs a terminal of 80x24 that can move its cursor"),
    ),
)
