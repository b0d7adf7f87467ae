"""Everything that can be known before a launch: rules, flags, plan, checkpoint, memory, neighbours.

Errors stop a launch; ``--force`` with a reason goes on, and the reason stays with the run. Warnings
are kept with the run. What cannot be evaluated is left out: it is not the launch's fault.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qwen_tui.services.prelaunch_checkpoint import checkpoint_findings
from qwen_tui.services.process import RUN_VARIABLE
from qwen_tui.services.vram import settled
from qwen_tui_profiles.errors import LaunchError, QwenTuiError
from qwen_tui_profiles.findings import Finding, Severity
from qwen_tui_profiles.text import t

if TYPE_CHECKING:
    from collections.abc import Mapping

    from qwen_tui.services.paths import Paths
    from qwen_tui.services.vram import GpuMemory, MemoryProbe
    from qwen_tui_profiles.profile import EngineProfile
    from qwen_tui_profiles.text import Text

__all__ = ["Preflight", "preflight", "require"]

_SETTLE_S = 10.0
_NEIGHBOUR_BYTES = 512 * 1024 * 1024
"""A desktop's compositor takes less than this."""
_GIB = float(1 << 30)


@dataclass(frozen=True, slots=True)
class Preflight:
    """What is known before a launch."""

    findings: tuple[Finding, ...] = ()
    prediction: Mapping[str, Any] = field(default_factory=dict)
    """Pools and limits as the plan predicts them; empty = it cannot."""

    @property
    def errors(self) -> tuple[Finding, ...]:
        """Findings that stop a launch."""
        return tuple(f for f in self.findings if f.severity is Severity.ERROR)

    @property
    def warnings(self) -> tuple[Finding, ...]:
        """Findings that are kept with the run."""
        return tuple(f for f in self.findings if f.severity is Severity.WARN)


async def preflight(
    profile: EngineProfile,
    paths: Paths,
    memory: MemoryProbe,
    *,
    engine_version: str | None = None,
    own_server_runs: bool = False,
) -> Preflight:
    """Look at everything that can be known before a launch.

    Args:
        profile: What is to be launched.
        paths: The state folder, settings and cache.
        memory: Asks the GPUs.
        engine_version: Version of the engine that would load it; ``None`` = the newest known.
        own_server_runs: A server of ours still holds the GPU and will be stopped first, so free
            memory says nothing yet.
    """
    gpus = None
    if profile.needs_gpu:
        gpus = await (memory.read() if own_server_runs else settled(memory, _SETTLE_S))
    found, prediction = await asyncio.to_thread(_judged, profile, paths, gpus, own_server_runs)
    found += await asyncio.to_thread(checkpoint_findings, profile, engine_version, paths)
    neighbours = () if own_server_runs or not gpus else tuple(_neighbours(gpus))
    findings = (*found, *neighbours)
    if profile.simulated:
        # Nothing real can break: the simulation shows what happens instead.
        findings = tuple(f for f in findings if f.severity is not Severity.ERROR)
    return Preflight(findings, prediction)


def require(profile: EngineProfile, flight: Preflight, force: str | None) -> tuple[Text, ...]:
    """Stop a launch that would fail, unless it is forced.

    Returns:
        The warnings (and forced errors) to keep with the run.

    Raises:
        LaunchError: names the first error; its remedy says how to go on.
    """
    if flight.errors and force is None:
        first = flight.errors[0]
        more = len(flight.errors) - 1
        message = t(
            "{profile} would not serve: {title} ({evidence})",
            profile=profile.name,
            title=first.title,
            evidence=first.evidence,
        )
        if more:
            message = t("{message} And {more} more: qwen-tui lint.", message=message, more=more)
        remedy = t("To launch all the same: --force REASON")
        if first.remedy is not None:
            remedy = t("{remedy} {force}", remedy=first.remedy, force=remedy)
        raise LaunchError(message, remedy)
    told = (*flight.errors, *flight.warnings)
    return tuple(t("{rule}: {title}", rule=f.rule, title=f.title) for f in told)


def _judged(
    profile: EngineProfile,
    paths: Paths,
    gpus: tuple[GpuMemory, ...] | None,
    own_server_runs: bool,
) -> tuple[tuple[Finding, ...], Mapping[str, Any]]:
    from qwen_tui.services.launch_gpu import card_used, first_visible, launch_environment
    from qwen_tui.services.linting import LintOptions, lint
    from qwen_tui.services.planning import PlanOptions, make_plan, prediction_of, refusal_of

    env = launch_environment(profile.env)
    index = first_visible(env)
    gpu = gpus[index] if gpus and index < len(gpus) else None
    card = card_used([gpu.compute_capability for gpu in gpus or ()], env)
    found: dict[str, Finding] = {}
    prediction: Mapping[str, Any] = {}
    try:
        for finding in lint(LintOptions(profile=profile, card_here=card), paths).findings:
            found.setdefault(finding.rule, finding)
    except QwenTuiError:
        pass  # a command line that our parser cannot read is for the engine to judge
    total = None if gpu is None else gpu.total_bytes
    options = PlanOptions()
    if own_server_runs and total is not None:
        options = PlanOptions(total_gib=total / _GIB, card=card)
    if gpus or profile.simulated:
        try:
            plan = make_plan(options, profile, paths)
        except QwenTuiError:
            pass  # without a checkpoint or a memory size there is no plan
        else:
            refusal = refusal_of(plan)
            for finding in plan.findings if refusal is None else (refusal, *plan.findings):
                found.setdefault(finding.rule, finding)
            prediction = prediction_of(plan)
    return tuple(found.values()), prediction


def _neighbours(gpus: tuple[GpuMemory, ...]) -> list[Finding]:
    """Return a finding for each process that already holds much of a GPU."""
    findings = []
    for gpu in gpus:
        for holder in gpu.holders or ():
            if holder.used_bytes is None or holder.used_bytes < _NEIGHBOUR_BYTES:
                continue
            ours = _is_of_qwen_tui(holder.pid)
            findings.append(
                Finding(
                    rule="gpu-neighbour",
                    severity=Severity.WARN,
                    title=t(
                        "Another server of qwen-tui (pid {pid}) holds {gib:.1f} GiB "
                        "of GPU {index}.",
                        pid=holder.pid,
                        gib=holder.used_bytes / _GIB,
                        index=gpu.index,
                    )
                    if ours
                    else t(
                        "{name} (pid {pid}) holds {gib:.1f} GiB of GPU {index}.",
                        name=holder.name or "?",
                        pid=holder.pid,
                        gib=holder.used_bytes / _GIB,
                        index=gpu.index,
                    ),
                    evidence=f"pid {holder.pid}",
                    source="NVML",
                    since=None,
                    until=None,
                    remedy=t("End it, or plan with less memory (lower --mem-fraction-static)."),
                )
            )
    return findings


def _is_of_qwen_tui(pid: int) -> bool:
    try:
        environment = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return False
    return any(e.startswith(f"{RUN_VARIABLE}=".encode()) for e in environment.split(b"\0"))
