"""What the places of the console ask for, grouped by subject; see :mod:`qwen_tui.services.console`.

Each desk is a protocol, so that tests can give the console scripted ones. Nothing blocks; errors
are :class:`~qwen_tui_profiles.errors.QwenTuiError`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

    from qwen_tui.services.history import BootRow, Durations, SwapRow
    from qwen_tui_profiles.compare import Comparison
    from qwen_tui_profiles.findings import Finding
    from qwen_tui_profiles.plan.result import Plan
    from qwen_tui_profiles.profile import EngineProfile
    from qwen_tui_profiles.text import Text

__all__ = ["HistoryDesk", "Past", "PlanDesk", "PlanQuestion", "ProfileDesk", "ProfileSheet"]


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
