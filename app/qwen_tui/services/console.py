"""What the console may ask of the world: one object, so that tests can give it another world.

The interface is :class:`ConsoleServices`; the real one is in :mod:`qwen_tui.services.console_real`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from qwen_tui.services.desks import (
        FleetDesk,
        HistoryDesk,
        PlanDesk,
        ProbeDesk,
        ProfileDesk,
        RepairDesk,
    )
    from qwen_tui.services.model_desk import ModelDesk
    from qwen_tui.services.settings import Settings
    from qwen_tui.services.snapshots import GpuSnapshot, LiveSnapshot, ServerSnapshot
    from qwen_tui_diagnostics.result import CheckResult
    from qwen_tui_profiles.errors import ProfileError
    from qwen_tui_profiles.findings import Finding
    from qwen_tui_profiles.profile import EngineProfile
    from qwen_tui_profiles.text import Text

__all__ = [
    "ConsoleServices",
    "GpuView",
    "LogChunk",
    "ProfileList",
    "Progress",
]


@dataclass(frozen=True, slots=True, eq=False)
class GpuView:
    """What NVML says now."""

    gpus: tuple[GpuSnapshot, ...] = ()
    problem: Text | None = None
    """Why there is nothing to show; ``None`` while there is."""
    remedy: Text | None = None
    known: bool = True
    """False until the first answer."""


@dataclass(frozen=True, slots=True, eq=False)
class ProfileList:
    """The profiles that can be launched, and the files that could not be read."""

    profiles: tuple[EngineProfile, ...]
    problems: tuple[ProfileError, ...] = ()

    def find(self, name: str | None) -> EngineProfile | None:
        """Return the profile of this name, if there is one."""
        return next((p for p in self.profiles if p.name == name), None)

    def partner(self, profile: EngineProfile | None) -> EngineProfile | None:
        """Return the other side of the profile's speed ↔ context pair."""
        return None if profile is None else self.find(profile.pair)


@dataclass(frozen=True, slots=True)
class LogChunk:
    """Lines of the engine's log, cleaned and redacted."""

    lines: tuple[str, ...]
    dropped: int = 0
    """Lines left out before these because they came faster than they can be read."""
    restart: bool = False
    """The file began again (another run, rotation)."""


@dataclass(frozen=True, slots=True)
class Progress:
    """One step of something long (a swap, a stop)."""

    text: Text
    failed: bool = False
    done: bool = False


class ConsoleServices(Protocol):
    """The world as the console sees it. Every method returns at once or awaits; none blocks.

    All of them raise only :class:`~qwen_tui_profiles.errors.QwenTuiError`.
    """

    async def profiles(self) -> ProfileList:
        """Read the presets and the user's profiles."""
        ...

    history: HistoryDesk
    plans: PlanDesk
    files: ProfileDesk
    models: ModelDesk
    probes: ProbeDesk
    repairs: RepairDesk
    fleet: FleetDesk
    fleet_probes: ProbeDesk
    """Probes of the fleet's servers: each with its own key, none through the gateway."""

    async def settings(self) -> Settings:
        """Read the user's settings."""
        ...

    async def remember(self, **changes: str | None) -> None:
        """Change fields of the settings and write them."""
        ...

    def control(self) -> AsyncIterator[tuple[bool, int | None]]:
        """Yield whether this console may act and, if not, the pid of the one that may."""
        ...

    async def acknowledged(self) -> frozenset[str]:
        """Return the keys of the clamps that the user has seen."""
        ...

    async def acknowledge(self, keys: frozenset[str]) -> None:
        """Remember that the user has seen these clamps."""
        ...

    def servers(self) -> AsyncIterator[ServerSnapshot]:
        """Watch the server: yields its state at once, then whenever it changes."""
        ...

    async def preflight(self, profile: EngineProfile) -> tuple[Finding, ...]:
        """Return what would make a launch fail, as far as it can be known before."""
        ...

    async def start(self, profile: EngineProfile, force: str | None = None) -> None:
        """Launch the profile; returns once it runs, and :meth:`servers` follows its boot.

        Args:
            profile: What to launch.
            force: Why to launch although :meth:`preflight` found an error; kept with the run.

        Raises:
            LaunchError: refused.
        """
        ...

    def stop(self) -> AsyncIterator[Progress]:
        """Stop the server; the last step says how it ended."""
        ...

    def swap(self, target: EngineProfile, drain_s: float = 0.0) -> AsyncIterator[Progress]:
        """Stop the running profile and start the other; the last step says how it ended.

        Args:
            target: The other profile.
            drain_s: How long to wait for running requests first, in seconds.
        """
        ...

    def cancel_swap(self) -> bool:
        """Ask the swap that runs to go back; False when it cannot (during the stop)."""
        ...

    def predicted_kv(self) -> int | None:
        """Return the KV tokens that the plan foresaw for the newest run; ``None`` = no plan."""
        ...

    def live(self, url: str, interval_s: float) -> AsyncIterator[LiveSnapshot]:
        """Poll the serving engine, every ``interval_s`` seconds while it works, else less."""
        ...

    def log(self, path: Path) -> AsyncIterator[LogChunk]:
        """Follow the engine's log; the end of what is there first. At most ten chunks a second."""
        ...

    def gpus(self) -> AsyncIterator[GpuView]:
        """Read the GPUs about once a second; once and no more when there is none."""
        ...

    def checks(
        self, profile: EngineProfile | None, only: tuple[str, ...] = ()
    ) -> AsyncIterator[CheckResult]:
        """Run the doctor's checks (or some, by id) for a profile, results as they come."""
        ...

    async def doctor_report(self) -> str:
        """Return the doctor's last whole run as redacted markdown; empty before the first."""
        ...

    async def close(self) -> None:
        """Let go of everything; the server goes on."""
        ...
