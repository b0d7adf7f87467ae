"""What the places of the console ask for, grouped by subject; see :mod:`qwen_tui.services.console`.

Each desk is a protocol, so that tests can give the console scripted ones. Nothing blocks; errors
are :class:`~qwen_tui_profiles.errors.QwenTuiError`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from qwen_tui.services.doctor_fixes import Repaired
    from qwen_tui.services.history import BootRow, Durations, SwapRow
    from qwen_tui.services.live.fleet import FleetItem
    from qwen_tui.services.probe.compare import Comparison as GatewayComparison
    from qwen_tui.services.snapshots import ProbeResult
    from qwen_tui_diagnostics.fixes import Fixes
    from qwen_tui_profiles.compare import Comparison
    from qwen_tui_profiles.findings import Finding
    from qwen_tui_profiles.plan.result import Plan
    from qwen_tui_profiles.profile import EngineProfile
    from qwen_tui_profiles.text import Text

__all__ = [
    "FleetDesk",
    "HistoryDesk",
    "Past",
    "PlanDesk",
    "PlanQuestion",
    "ProbeDesk",
    "ProbeKind",
    "ProbeMenu",
    "ProbeReport",
    "ProfileDesk",
    "ProfileSheet",
    "RepairDesk",
]


@dataclass(frozen=True, slots=True, eq=False)
class Past:
    """What history has."""

    boots: tuple[BootRow, ...] = ()
    """Newest first."""
    swaps: tuple[SwapRow, ...] = ()
    problem: Text | None = None
    """Why it is not all there."""


class HistoryDesk(Protocol):
    """Boots and swaps of the past."""

    async def past(self, limit: int = 100) -> Past:
        """Return the newest boots and swaps."""
        ...

    async def down(self, target: str) -> Durations | None:
        """Return how long nothing served in earlier swaps to ``target``."""
        ...

    async def phases(self, profile: str) -> Mapping[str, Durations]:
        """Return how long each phase of a profile's boots took; empty when there were none."""
        ...


@dataclass(frozen=True, slots=True)
class PlanQuestion:
    """What a plan is asked for."""

    profile: EngineProfile
    args: tuple[str, ...] = ()
    """Engine arguments after those of the profile: a later flag wins."""
    model: str | None = None
    """Checkpoint folder instead of the profile's; its ``config.json`` is enough."""
    total_gib: float | None = None
    """Assume a card of this size instead of the one that is here."""


class PlanDesk(Protocol):
    """Predictions."""

    async def plan(self, question: PlanQuestion) -> Plan:
        """Return the prediction."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class ProfileSheet:
    """One profile with what is known about it."""

    profile: EngineProfile
    command: str
    """The command that would be launched, secrets taken out, quoted for a shell."""
    env: Mapping[str, str]
    """Variables that the launch adds, secrets taken out."""
    findings: tuple[Finding, ...]
    """What the rules say."""
    problem: Text | None
    """Why the command is not complete (no engine found, …)."""


class ProfileDesk(Protocol):
    """Profiles, their files and their rules."""

    async def sheet(self, profile: EngineProfile) -> ProfileSheet:
        """Return what would be launched and what the rules say."""
        ...

    async def compare(self, before: EngineProfile, after: EngineProfile) -> Comparison:
        """Return what differs and what follows."""
        ...

    async def change(self, name: str, changes: Mapping[str, str | None]) -> None:
        """Change keys of a profile; for a shipped one, in a file of the user that overrides it."""
        ...

    async def new(self, name: str, base: str) -> None:
        """Make a profile of the user's own that extends another."""
        ...


@dataclass(frozen=True, slots=True)
class ProbeKind:
    """One kind of work that can be asked for."""

    name: str
    title: Text
    note: Text


@dataclass(frozen=True, slots=True)
class ProbeMenu:
    """What can be asked of one server."""

    kinds: tuple[ProbeKind, ...]
    """Without ``image`` where the server says that it takes no pictures."""
    usable_context: int | None = None
    """The longest request that it says it takes, in tokens; ``boundary`` tries it."""
    gateway: str | None = None
    """Address that every kind but ``boundary`` is sent through as well."""


@dataclass(frozen=True, slots=True)
class ProbeReport:
    """What came of one probe."""

    url: str
    result: ProbeResult
    gateway: str | None = None
    comparison: GatewayComparison | None = None
    """Both ways, where a gateway is configured."""


class ProbeDesk(Protocol):
    """Requests of our own, timed."""

    def kinds(self) -> tuple[ProbeKind, ...]:
        """Return every kind of probe; nobody is asked."""
        ...

    async def menu(self, url: str) -> ProbeMenu:
        """Ask the server what can be asked of it; what it does not tell is left open."""
        ...

    async def send(self, url: str, kind: str) -> ProbeReport:
        """Send one request, and with a gateway configured one more pair to compare.

        Raises:
            UsageError: an address or the kind is not usable.
            ConfigError: the gateway's key is not where the settings say.
        """
        ...

    async def curl(self, url: str, kind: str) -> str:
        """Return the request as a shell command; the key stays in its variable.

        Raises:
            FetchError: the server does not answer.
            UsageError: ``kind`` is not one request.
        """
        ...


class RepairDesk(Protocol):
    """What the doctor found and can repair itself, and what is for the user to run."""

    def fixes(self) -> Fixes | None:
        """Return what the last whole run of the checks leads to; ``None`` before the first."""
        ...

    async def repair(self, fixes: Fixes) -> Repaired:
        """Create folders and write the copy of the profile."""
        ...

    async def delete(self, cache: str) -> Repaired:
        """Delete one kernel cache of ``fixes``."""
        ...


class FleetDesk(Protocol):
    """Servers that are watched side by side."""

    async def urls(self) -> tuple[str, ...]:
        """Return the addresses that the settings name."""
        ...

    async def add(self, url: str) -> str:
        """Keep another address; returns it as it is kept.

        Raises:
            UsageError: it is none.
            ConfigError: the settings cannot be written.
        """
        ...

    async def remove(self, url: str) -> None:
        """Forget an address."""
        ...

    def watch(self, urls: tuple[str, ...], interval_s: float) -> AsyncIterator[FleetItem]:
        """Yield what each of them says, as it comes; one that hangs delays no other."""
        ...
