"""Looks at the newest run: record, process, log and (when asked) the address; makes snapshots.

Anyone may look; looking changes nothing but one thing: whoever first sees that a run has ended
writes the ending into its record, with the cause that the log gives.
"""

from __future__ import annotations

import asyncio
import os
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from qwen_tui.services.bootlog import BootLog, open_reader
from qwen_tui.services.judge import Observed, Verdict, judge
from qwen_tui.services.logtail import last_lines
from qwen_tui.services.process import ProcessId, boot_id, identify, wait_gone
from qwen_tui.services.snapshots import ServerSnapshot
from qwen_tui.services.state import ALIVE, ENDED, ServerState
from qwen_tui_profiles.text import t

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from qwen_tui.services.bootlog import Reader
    from qwen_tui.services.history import Durations, History
    from qwen_tui.services.intent import SwapIntents
    from qwen_tui.services.kinds import Kinds
    from qwen_tui.services.readiness import Http
    from qwen_tui.services.runs import RunRecord, RunStore
    from qwen_tui.services.spawner import Child
    from qwen_tui_diagnostics.enginelog.report import Fatal
    from qwen_tui_profiles.text import Text

__all__ = ["RunObserver"]

_LAST_WORDS_S = 3.0
"""After the main process is gone its children may still write why; at most so long is waited."""
_ANSWER_S = 2.0
_SLICE_BYTES = 1 << 20
_REBUILT = t(
    "Its records were deleted or damaged: this is read from the process itself. "
    "It goes on, and qwen-tui down stops it; the next launch is recorded again."
)
_MISSES = 2
"""Unanswered questions in a row before a server counts as unreachable."""


class RunObserver:
    """Keeps what is known of the newest run between two looks."""

    def __init__(
        self,
        store: RunStore,
        http: Http,
        kinds: Kinds,
        history: History,
        intents: SwapIntents,
        *,
        clock: Callable[[], float] = time.time,
        make_reader: Callable[[Sequence[str]], Reader] = open_reader,
    ) -> None:
        self._store = store
        self._http = http
        self._kinds = kinds
        self._history = history
        self._intents = intents
        self._clock = clock
        self._make_reader = make_reader
        self._children: dict[str, Child] = {}
        self._record: RunRecord | None = None
        self._token: tuple[int, int] | None = None
        self._log: BootLog | None = None
        self._misses = 0
        self._answered: bool | None = None
        self._usual: dict[str, Durations | None] = {}
        self._boot = boot_id()

    @property
    def record(self) -> RunRecord | None:
        """The newest run, as of the last look."""
        return self._record

    @property
    def missed(self) -> bool:
        """Whether the last question was not answered, and it counts as reachable all the same."""
        return 0 < self._misses < _MISSES and self._answered is not False

    @property
    def log(self) -> BootLog | None:
        """The log of that run."""
        return self._log

    def adopt(self, record: RunRecord, child: Child) -> None:
        """Remember that we are the parent of a run, and so learn its exit code."""
        self._children[record.id] = child

    def exit_code(self, run: str) -> int | None:
        """Return the exit code of a run that we are the parent of, once it has ended."""
        child = self._children.get(run)
        return None if child is None else child.poll()

    def refresh(self) -> RunRecord | None:
        """Read the newest record again if it changed."""
        ids = self._store.ids()
        if not ids:
            self._record = self._log = None
            return None
        newest = ids[-1]
        token = self._store.modified(newest)
        if self._record is None or self._record.id != newest or token != self._token:
            previous = None if self._record is None else self._record.id
            self._record = self._store.latest()
            self._token = token
            if self._record is not None and self._record.id != previous:
                self._misses = 0
                self._answered = None
                self._log = None
                if self._record.log_path is not None:
                    path = Path(self._record.log_path)
                    self._log = BootLog(
                        path,
                        self._record.asked,
                        self._make_reader,
                        archived_lines=self._record.archived_lines,
                    )
        elif self._record.open and self._record.main is None:
            self._record = self._store.load(self._record.id)
        return self._record

    async def last_words(self) -> Fatal | None:
        """Read the log of a run that is gone to its end; returns the cause of death it gives."""
        if self._log is None:
            return None
        await self._read_on()
        self._log.finish()
        return None if self._log.report is None else self._log.report.fatal

    async def look(self, *, ask: bool = False) -> ServerSnapshot:
        """Return what is known now.

        Args:
            ask: Also ask the address whether it answers (a request that generates nothing).

        Raises:
            ConfigError: the state folder cannot be read.
        """
        record = self.refresh()
        if record is None:
            return ServerSnapshot(state=ServerState.STOPPED)
        if record.open:
            verdict = await self._judge(record, ask=ask)
            record = self._record or record
        else:
            if self._log is not None:
                await self._read_on()
                self._log.finish()
            verdict = judge(record, Observed(at=self._clock(), alive=False))
        if verdict.state in ENDED:
            verdict = self._broken_off(verdict)
        return self._snapshot(record, verdict)

    def _broken_off(self, verdict: Verdict) -> Verdict:
        """Say when nothing serves because the process that swapped was killed."""
        intent = self._intents.read()
        if intent is None or intent.active:
            return verdict
        text = t(
            "The swap from {before} to {target} was broken off; nothing serves. "
            "Go on with: qwen-tui up {name}",
            before=intent.before or "—",
            target=intent.target,
            name=intent.before or intent.target,
        )
        if verdict.message is not None:
            text = t("{first} {second}", first=verdict.message, second=text)
        return replace(verdict, message=text)

    async def _read_on(self) -> None:
        """Read what the log has more, a slice a turn of the event loop."""
        while self._log is not None and self._log.advance(_SLICE_BYTES):  # noqa: ASYNC110
            await asyncio.sleep(0)

    async def _judge(self, record: RunRecord, *, ask: bool) -> Verdict:
        same_boot = record.boot is None or self._boot is None or record.boot == self._boot
        running = same_boot and self._kinds.of(record).alive(record)
        exit_code = self.exit_code(record.id)
        last_line = None
        room = None
        if record.main is not None and not running:
            if record.stop_asked is not None and self._store.busy():
                # Its stop is under way: whoever asked for it says how it ended.
                return Verdict(ServerState.STOPPING)
            if same_boot:
                await wait_gone(record.relatives, _LAST_WORDS_S)
            exit_code = self.exit_code(record.id)
            if self._log is not None:
                await self._read_on()
                self._log.finish()
                last_line = _last_line(self._log.path)
                room = _room_bytes(self._log.path)
        else:
            await self._read_on()
        if ask:
            await self._ask(record)
        seen = Observed(
            at=self._clock(),
            alive=running,
            same_boot=same_boot,
            launching=_launching(record),
            exit_code=exit_code,
            report=None if self._log is None else self._log.report,
            last_line=last_line,
            log_disk_free_bytes=room,
            answers=self._answered,
        )
        verdict = judge(record, seen)
        if verdict.ending is not None:
            ending = verdict.ending
            self._record = self._store.update(
                record,
                lambda r: r.step(verdict.state, ending=ending) if r.open else r,
            )
            self._history.note_boot(self._record, seen.report)
        return verdict

    def _eta_s(self, record: RunRecord) -> float | None:
        """Return the seconds to the first token that earlier boots of this profile suggest."""
        if record.id not in self._usual:
            self._usual = {record.id: self._history.ready_seconds(record.profile)}
        usual = self._usual[record.id]
        spent = self._clock() - record.created
        return None if usual is None else max(usual.median_s - spent, 0.0)

    async def _ask(self, record: RunRecord) -> None:
        """Ask whether it answers; what was heard stays true until it is asked again."""
        if record.kind != "attach" and record.ready_at is None:
            return
        if await self._http.answers(record.url, timeout_s=_ANSWER_S):
            self._misses = 0
            self._answered = True
            return
        self._misses += 1
        # Attached servers have nothing else that tells; a process of ours gets a second chance.
        if record.kind == "attach" or self._misses >= _MISSES:
            self._answered = False

    def _snapshot(self, record: RunRecord, verdict: Verdict) -> ServerSnapshot:
        report = None if self._log is None else self._log.report
        state = verdict.state
        message = verdict.message
        if message is None and record.kind == "process" and not record.profile:
            message = _REBUILT
        version = record.engine_version
        if report is not None and report.engine_version is not None:
            version = report.engine_version
        return ServerSnapshot(
            state=state,
            phase=report.phase if report is not None and state in ALIVE else None,
            eta_s=self._eta_s(record) if state is ServerState.STARTING else None,
            ready=record.ready_at is not None and state is ServerState.RUNNING,
            profile=record.profile or None,
            engine=record.engine or None,
            engine_version=version,
            simulated=record.simulated,
            attached=record.kind == "attach",
            pid=record.pid if state in ALIVE else None,
            started=record.created,
            url=record.url,
            log_path=None if record.log_path is None else Path(record.log_path),
            report=report,
            message=message,
            acknowledged=record.acknowledged,
            remedy=_remedy(record),
        )


def _remedy(record: RunRecord) -> Text | None:
    return None if record.ending is None else record.ending.advice


def _room_bytes(path: Path) -> int | None:
    try:
        found = os.statvfs(path.parent)
    except OSError:
        return None
    return found.f_bavail * found.f_frsize


def _last_line(path: Path) -> str | None:
    try:
        lines = [line.strip() for line in last_lines(path, 20)]
    except OSError:
        return None
    return next((line[:300] for line in reversed(lines) if line), None)


def _launching(record: RunRecord) -> bool:
    return record.launcher is not None and identify(record.launcher[0]) == ProcessId(
        *record.launcher
    )
