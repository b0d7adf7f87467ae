"""The record of one run: what was launched, as which process, and how it went."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from qwen_tui.services.process import ProcessId
from qwen_tui.services.state import ENDED, ServerState, check_step
from qwen_tui_profiles.text import as_record, from_record

if TYPE_CHECKING:
    from collections.abc import Mapping

    from qwen_tui_profiles.text import Text

__all__ = ["Ending", "RunRecord"]


@dataclass(frozen=True, slots=True)
class Ending:
    """How a run ended. Written once."""

    at: float
    """Unix time at which the end was noticed."""
    exit_code: int | None
    """As ``Popen.returncode`` has it; ``None`` when another process than ours was the parent."""
    how: str
    """``drained``, ``ended``, ``killed``, ``gone``, ``died``, ``exited``, ``rebooted``."""
    message: str
    """One English sentence."""
    remedy: str | None = None
    cause: Mapping[str, Any] | None = None
    """The log reader's ``fatal`` object, when the log names a cause."""
    message_parts: Mapping[str, Any] | None = None
    """Template and fields of ``message``, for readers of another language."""
    remedy_parts: Mapping[str, Any] | None = None

    @classmethod
    def of(
        cls,
        at: float,
        exit_code: int | None,
        how: str,
        message: Text,
        remedy: Text | None = None,
        cause: Mapping[str, Any] | None = None,
    ) -> Ending:
        """Return an ending that can be told in every language."""
        return cls(
            at=at,
            exit_code=exit_code,
            how=how,
            message=str(message),
            remedy=None if remedy is None else str(remedy),
            cause=cause,
            message_parts=as_record(message),
            remedy_parts=None if remedy is None else as_record(remedy),
        )

    @property
    def told(self) -> Text:
        """The message, to be shown with ``tr``."""
        return from_record(self.message_parts, self.message)

    @property
    def advice(self) -> Text | None:
        """The remedy, to be shown with ``tr``."""
        return None if self.remedy is None else from_record(self.remedy_parts, self.remedy)


@dataclass(frozen=True, slots=True)
class RunRecord:
    """One launch. Frozen: every change makes a new record, which is then saved."""

    id: str
    kind: str
    """``process``, ``container`` or ``attach``."""
    profile: str
    engine: str
    url: str
    host: str
    port: int
    created: float
    """Unix time of the intent, before the spawn."""
    created_boot_s: float
    """The same moment in seconds since boot, the clock of create times."""
    boot: str | None
    """Kernel's id of the boot of the machine."""
    launcher: tuple[int, float] | None
    """Process that launches, as (pid, create time)."""
    argv: tuple[str, ...] = ()
    """The whole command line, secrets redacted."""
    asked: tuple[str, ...] = ()
    """The engine flags that the profile asks for, secrets redacted."""
    env: Mapping[str, str] = field(default_factory=dict)
    """Additions to the environment, secrets redacted."""
    snapshot: Mapping[str, Any] = field(default_factory=dict)
    """The profile as it was launched, secrets redacted."""
    interpreter: str | None = None
    engine_version: str | None = None
    simulated: bool = False
    forced: str | None = None
    """Reason given with ``--force``."""
    warnings: tuple[str, ...] = ()
    warning_parts: tuple[Mapping[str, Any], ...] = ()
    """Template and fields of each of ``warnings``, for readers of another language."""
    state: ServerState = ServerState.STARTING
    pid: int | None = None
    create_time: float | None = None
    """Seconds since boot; with ``pid`` the identity of the main process."""
    session: int | None = None
    """Session and process group that were made for it; equals ``pid``."""
    family: tuple[tuple[int, float], ...] = ()
    """Every descendant that was ever seen, as (pid, create time)."""
    container: str | None = None
    log_path: str | None = None
    archived_lines: int = 0
    """Lines that rotation took out of the middle of the log."""
    ready_at: float | None = None
    """Unix time at which a token had been generated."""
    ready_log_bytes: int | None = None
    """Size of the log at that moment: the boot is what stands before it."""
    first_token_s: float | None = None
    """Duration of the smoke request."""
    phases: tuple[Mapping[str, Any], ...] = ()
    """Boot timeline (phase, started, seconds) as the log gave it when it was ready."""
    limits: Mapping[str, Any] = field(default_factory=dict)
    """``context_usable`` and ``max_running_requests`` as the boot log gave them."""
    prediction: Mapping[str, Any] = field(default_factory=dict)
    stop_asked: float | None = None
    ending: Ending | None = None
    acknowledged: bool = False
    """Whether the user has seen the cause of death."""

    @property
    def warned(self) -> tuple[Text, ...]:
        """The warnings, to be shown with ``tr``."""
        parts = (*self.warning_parts, *(None for _ in self.warnings))
        return tuple(from_record(p, w) for p, w in zip(parts, self.warnings, strict=False))

    @property
    def main(self) -> ProcessId | None:
        """Identity of the main process; ``None`` before the spawn is recorded."""
        if self.pid is None or self.create_time is None:
            return None
        return ProcessId(self.pid, self.create_time)

    @property
    def relatives(self) -> frozenset[ProcessId]:
        """Every process of the run that was ever seen."""
        known = {ProcessId(pid, created) for pid, created in self.family}
        return frozenset(known | {self.main} if self.main is not None else known)

    @property
    def open(self) -> bool:
        """Whether the end of this run has not been recorded yet."""
        return self.state not in ENDED

    def step(self, state: ServerState, **changes: Any) -> RunRecord:
        """Return the record in a new state; the table of legal steps is enforced."""
        return replace(self, state=check_step(self.state, state), **changes)

    def with_family(self, seen: frozenset[ProcessId]) -> RunRecord:
        """Return the record with newly seen relatives added (self when there are none)."""
        new = seen - self.relatives
        if not new:
            return self
        return replace(self, family=(*self.family, *((p.pid, p.create_time) for p in sorted(new))))
