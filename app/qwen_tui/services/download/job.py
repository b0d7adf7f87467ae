"""A download for the console: one object with commands, and frozen snapshots of how it goes."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qwen_tui.services.download.aftermath import judge
from qwen_tui.services.download.narration import event_lines, result_lines
from qwen_tui.services.download.prepare import remember_speed
from qwen_tui.services.download.session import DownloadSession
from qwen_tui_profiles.errors import DownloadError, QwenTuiError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from qwen_tui.services.download.request import DownloadRequest
    from qwen_tui.services.paths import Paths
    from qwen_tui_profiles.text import Text

__all__ = ["DownloadJob", "DownloadPhase", "DownloadSnapshot", "FileProgress"]

_KEPT_NOTES = 200


class DownloadPhase(StrEnum):
    """What a download is doing."""

    PLANNING = "planning"
    ASKING = "asking"
    """The plan is there; :meth:`DownloadJob.agree` begins."""
    RUNNING = "running"
    PAUSED = "paused"
    STOPPING = "stopping"
    JUDGING = "judging"
    """Everything is here; the checkpoint is verified."""
    COMPLETE = "complete"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def over(self) -> bool:
        """Whether nothing more will come."""
        return self in {DownloadPhase.COMPLETE, DownloadPhase.FAILED, DownloadPhase.CANCELLED}


@dataclass(frozen=True, slots=True)
class FileProgress:
    """One file that is being transferred."""

    path: str
    done_bytes: int
    size: int | None
    state: str
    """``connecting``, ``running``, ``stalled`` or ``hashing``."""


@dataclass(frozen=True, slots=True, eq=False)
class DownloadSnapshot:
    """One moment of a download. ``None`` means unknown."""

    phase: DownloadPhase
    plan: Mapping[str, Any] | None = None
    """The ``plan`` event: files, sizes, what is here, space, probes."""
    done_bytes: int | None = None
    total_bytes: int | None = None
    bytes_s: float | None = None
    """Speed over the last ten seconds."""
    eta_s: float | None = None
    files: tuple[FileProgress, ...] = ()
    notes: tuple[Text, ...] = ()
    """What happened, oldest first: plan, resumes, retries, proven files, the result."""
    result: Mapping[str, Any] | None = None
    """The ``result`` event, with the verdict of ``verify`` once it is known."""
    error: DownloadError | None = None


@dataclass(eq=False)
class DownloadJob:
    """One download, started by iterating over :meth:`snapshots`."""

    request: DownloadRequest
    paths: Paths
    environment: Mapping[str, str] | None = None
    _session: DownloadSession | None = field(default=None, init=False)
    _now: DownloadSnapshot = field(
        default_factory=lambda: DownloadSnapshot(DownloadPhase.PLANNING), init=False
    )

    async def snapshots(self) -> AsyncIterator[DownloadSnapshot]:
        """Run it to its end; the last snapshot's phase is over. Nothing is raised for a failure."""
        async with DownloadSession(self.request, environment=self.environment) as session:
            self._session = session
            yield self._now
            try:
                async for event in session.events():
                    self._take(event)
                    yield self._now
            except DownloadError as error:
                self._now = replace(self._now, phase=DownloadPhase.FAILED, error=error)
                yield self._now
        self._session = None
        if self._now.phase is DownloadPhase.JUDGING:
            await self._finish()
            yield self._now

    def agree(self) -> None:
        """Agree to the plan."""
        if self._session is not None and self._now.phase is DownloadPhase.ASKING:
            self._session.start()

    def pause(self) -> None:
        """Close the connections and wait."""
        if self._session is not None:
            self._session.pause()

    def resume(self) -> None:
        """Go on after a pause."""
        if self._session is not None:
            self._session.resume()

    def cancel(self) -> None:
        """Stop cleanly; what was received is kept for the next time."""
        if self._session is not None and not self._now.phase.over:
            self._now = replace(self._now, phase=DownloadPhase.STOPPING)
            self._session.cancel()

    def _take(self, event: dict[str, Any]) -> None:
        notes = (*self._now.notes, *event_lines(event))[-_KEPT_NOTES:]
        now = replace(self._now, notes=notes)
        match event["event"]:
            case "plan":
                now = replace(now, phase=DownloadPhase.ASKING, plan=event)
                if all(f["state"] == "here" for f in event["files"]) and self._session is not None:
                    self._session.start()
            case "progress":
                now = self._progress(now, event)
            case "result":
                now = self._result(now, event)
        self._now = now

    def _progress(self, now: DownloadSnapshot, event: dict[str, Any]) -> DownloadSnapshot:
        phase = DownloadPhase.PAUSED if event["paused"] else DownloadPhase.RUNNING
        return replace(
            now,
            phase=now.phase if now.phase is DownloadPhase.STOPPING else phase,
            done_bytes=event["done_bytes"],
            total_bytes=event["total_bytes"],
            bytes_s=event["bytes_s"],
            eta_s=event["eta_s"],
            files=tuple(
                FileProgress(f["path"], f["done_bytes"], f["size"], f["state"])
                for f in event["files"]
            ),
        )

    def _result(self, now: DownloadSnapshot, event: dict[str, Any]) -> DownloadSnapshot:
        phase = {
            "complete": DownloadPhase.JUDGING,
            "cancelled": DownloadPhase.CANCELLED,
        }.get(event["status"], DownloadPhase.FAILED)
        lines = () if phase is DownloadPhase.JUDGING else result_lines(event, dict(now.plan or {}))
        return replace(now, phase=phase, result=event, files=(), notes=(*now.notes, *lines))

    async def _finish(self) -> None:
        """Judge the checkpoint, and make its verdict part of the result."""
        result = dict(self._now.result or {})
        plan = dict(self._now.plan or {})
        remember_speed(self.paths, result, plan["endpoint"])
        try:
            result["verify"] = await asyncio.to_thread(
                judge, Path(result["folder"]), self.request, plan
            )
        except QwenTuiError as error:
            result["verify"] = {"verdict": "unknown", "problem": str(error.message)}
        notes = (*self._now.notes, *result_lines(result, plan))
        self._now = replace(self._now, phase=DownloadPhase.COMPLETE, result=result, notes=notes)
