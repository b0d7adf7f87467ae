"""Facts from the services, as messages. Each may replace an older one that still waits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from textual.message import Message

if TYPE_CHECKING:
    from qwen_tui.services.console import GpuView, LogChunk, ProfileList, Progress
    from qwen_tui.services.desks import ProbeReport
    from qwen_tui.services.settings import Settings
    from qwen_tui.services.snapshots import LiveSnapshot, ServerSnapshot
    from qwen_tui_profiles.errors import QwenTuiError

__all__ = [
    "Acknowledged",
    "ControlChanged",
    "Failed",
    "Finished",
    "GpuRead",
    "LiveSampled",
    "LogGrew",
    "Probed",
    "ProfilesRead",
    "Progressed",
    "ServerChanged",
    "StepDone",
]


@dataclass
class ServerChanged(Message):
    """The server's state, phase or report is another one."""

    server: ServerSnapshot

    def can_replace(self, message: Message) -> bool:
        """Only the newest state matters."""
        return isinstance(message, ServerChanged)


@dataclass
class LiveSampled(Message):
    """The engine was polled."""

    live: LiveSnapshot


@dataclass
class GpuRead(Message):
    """The GPUs were read."""

    gpu: GpuView

    def can_replace(self, message: Message) -> bool:
        """Only the newest reading matters."""
        return isinstance(message, GpuRead)


@dataclass
class LogGrew(Message):
    """The engine wrote to its log."""

    chunk: LogChunk


@dataclass
class ProfilesRead(Message):
    """The profile folders were read, with what was selected and seen before."""

    profiles: ProfileList
    settings: Settings
    acknowledged: frozenset[str]


@dataclass
class ControlChanged(Message):
    """This console may act now, or may not any more."""

    controls: bool
    holder: int | None
    """Pid of the console that may, where it is not this one."""


@dataclass
class Probed(Message):
    """A probe came back."""

    report: ProbeReport


@dataclass
class Progressed(Message):
    """A stop or swap went one step further."""

    progress: Progress


@dataclass
class Failed(Message):
    """Something that was asked for did not work."""

    error: QwenTuiError


@dataclass
class Acknowledged(Message):
    """The user has seen these clamps."""

    keys: frozenset[str]


@dataclass
class Finished(Message):
    """Something long that the user asked for is over, well or not."""

    then_exit: bool = False


@dataclass
class StepDone(Message):
    """One of the first steps was done."""

    step: str
