"""The report as markdown, to paste into an issue tracker: findings first, then the machine."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from qwen_tui_diagnostics.checks.units import dotted, gib
from qwen_tui_diagnostics.facts import Facts
from qwen_tui_diagnostics.groups import GROUPS
from qwen_tui_diagnostics.privacy import private
from qwen_tui_diagnostics.report import STATUS_ORDER, own_server, summary
from qwen_tui_diagnostics.result import SkipReason, Status

if TYPE_CHECKING:
    from collections.abc import Iterator

    from qwen_tui_diagnostics.privacy import Identity
    from qwen_tui_diagnostics.result import CheckResult, Report

__all__ = ["markdown"]

_PACKAGES = (
    "sglang", "vllm", "torch", "transformers", "triton", "sglang-kernel", "sgl-kernel",
    "flashinfer-python", "flashinfer-cubin", "flashinfer-jit-cache", "xgrammar", "huggingface-hub",
)  # fmt: skip
"""What issue templates of the engines ask for."""


def markdown(report: Report, identity: Identity) -> str:
    """Return the report in English, redacted."""
    text = "\n".join(_lines(report)) + "\n"
    redacted: str = private(text, identity)
    return redacted


def _lines(report: Report) -> Iterator[str]:
    when = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(report.started))
    profile = report.target.get("profile") or "none (the machine alone)"
    yield "## qwen-tui doctor"
    yield ""
    yield f"`qwen-tui {report.version}`, {when}, profile `{profile}`"
    if report.simulated:
        yield ""
        yield "**Simulated engine: nothing here measures a GPU.**"
    own = own_server(report.target)
    if own is not None:
        yield ""
        yield str(own)
    yield ""
    yield f"**{summary(report)}**"
    yield ""
    troubled = [r for r in report.results if r.status in {Status.FAIL, Status.WARN} and r.counted]
    for result in sorted(troubled, key=lambda r: STATUS_ORDER.index(r.status)):
        yield from _finding(result)
    yield "### Machine"
    yield ""
    yield "| | |"
    yield "|---|---|"
    for name, value in _machine(Facts(report.facts)):
        yield f"| {name} | {_cell(value)} |"
    yield ""
    yield "<details><summary>All checks</summary>"
    yield ""
    yield "| check | status | observed |"
    yield "|---|---|---|"
    for result in report.results:
        if result.reason is SkipReason.NOT_APPLICABLE:
            continue
        note = f" (explained by {result.explained_by})" if result.explained_by else ""
        yield f"| `{result.id}` | {result.status.value} | {_cell(str(result.observed))}{note} |"
    left_out = sum(r.reason is SkipReason.NOT_APPLICABLE for r in report.results)
    yield ""
    yield f"{left_out} checks do not apply to this launch or machine."
    yield ""
    yield "</details>"


def _finding(result: CheckResult) -> Iterator[str]:
    title = str(GROUPS[result.group])
    yield f"- **{result.status.value}** {title}: {result.observed} (`{result.id}`)"
    if result.expected is not None:
        yield f"  - expected: {result.expected}"
    for line in result.detail:
        yield f"  - {line}"
    if result.consequence is not None:
        yield f"  - consequence: {result.consequence}"
    if result.remedy is not None:
        yield f"  - remedy: {result.remedy.text}"
        yield from (f"    - `{command}`" for command in result.remedy.commands)
        if result.remedy.docs is not None:
            yield f"    - {result.remedy.docs}"
    if result.explains:
        yield f"  - explains: {', '.join(f'`{name}`' for name in result.explains)}"
    yield ""


def _machine(facts: Facts) -> Iterator[tuple[str, str]]:
    """Give the lines that every bug report is asked for; what is not known is left out."""
    if facts.has("system.kernel"):
        kernel = facts.at("system.kernel")
        yield "kernel", f"{kernel.text('name')} {kernel.text('release')} {kernel.text('machine')}"
    for name, path in (("container", "system.container"), ("WSL", "system.wsl")):
        if facts.has(path):
            yield name, "yes" if facts.flag(path) else "no"
    if facts.has("system.cpus"):
        yield "processors", str(facts.integer("system.cpus"))
    if facts.has("memory.total_bytes") and facts.has("memory.available_bytes"):
        total, available = (
            facts.integer("memory.total_bytes"),
            facts.integer("memory.available_bytes"),
        )
        yield "memory", f"{gib(total)}, {gib(available)} available"
    if facts.has("gpu.driver_version"):
        yield "driver", facts.text("gpu.driver_version")
    if facts.has("gpu.cuda_version"):
        yield "CUDA of the driver", dotted(facts.integers("gpu.cuda_version"))
    if facts.has("gpu.devices"):
        for device in facts.rows("gpu.devices"):
            yield f"GPU {device.integer('index')}", _gpu(device)
    if facts.has("toolkit.nvcc_version"):
        yield "nvcc", dotted(facts.integers("toolkit.nvcc_version"))
    if facts.has("engine.installs.0"):
        install = facts.at("engine.installs.0")
        if install.has("python"):
            yield "engine Python", dotted(install.integers("python"))
        packages = install.at("packages")
        for name in _PACKAGES:
            if packages.has(name):
                yield name, packages.text(name)
        if install.has("torch.cuda"):
            yield "torch CUDA", dotted(install.integers("torch.cuda"))
    if facts.has("disk.paths"):
        for entry in facts.rows("disk.paths"):
            if entry.has("mount.filesystem"):
                yield f"disk ({', '.join(entry.texts('roles'))})", _disk(entry)


def _gpu(device: Facts) -> str:
    parts = [device.text("name") if device.has("name") else "unknown card"]
    if device.has("compute_capability"):
        parts.append(f"SM {dotted(device.integers('compute_capability'))}")
    if device.has("memory_total_bytes") and device.has("memory_free_bytes"):
        total, free = device.integer("memory_total_bytes"), device.integer("memory_free_bytes")
        parts.append(f"{gib(total)}, {gib(free)} free")
    if device.has("power_limit_w"):
        parts.append(f"{device.number('power_limit_w'):.0f} W limit")
    return ", ".join(parts)


def _disk(entry: Facts) -> str:
    parts = [entry.text("mount.filesystem")]
    if entry.has("device.bottom.kind"):
        parts.append(entry.text("device.bottom.kind"))
    if entry.has("space.available_bytes"):
        parts.append(f"{gib(entry.integer('space.available_bytes'))} available")
    return ", ".join(parts)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
