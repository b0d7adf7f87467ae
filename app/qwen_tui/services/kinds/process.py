"""A server that is a process of this machine: TERM, a limit, KILL, and nothing left behind.

A TERM that reaches SGLang's scheduler makes the engine report a crash of its own child, so only
the main process gets it. The group gets nothing but KILL, and only if a process that we know
proves that the group is ours.
"""

from __future__ import annotations

import signal
import time
from typing import TYPE_CHECKING

from qwen_tui.services.process import (
    ExitWatch,
    alive,
    family_of,
    find_run,
    session_members,
    wait_gone,
)
from qwen_tui.services.stopping import (
    Ended,
    StopHow,
    StopProgress,
    draining,
    log_size,
    requests_left,
)
from qwen_tui_profiles.errors import StopError
from qwen_tui_profiles.text import t

if TYPE_CHECKING:
    from collections.abc import Callable

    from qwen_tui.services.process import Killer, ProcessId
    from qwen_tui.services.runs import RunRecord
    from qwen_tui_profiles.text import Text

__all__ = ["ProcessRun", "leftovers_of"]

_KILL_S = 10.0
_CHILDREN_S = 5.0
"""Children die with the main process by PDEATHSIG; SGLang's own tree kill takes a moment longer."""
_TICK_S = 0.5


def leftovers_of(record: RunRecord) -> frozenset[ProcessId]:
    """Return what still runs of a run: recorded relatives, and whoever carries the run's id."""
    marked = find_run(record.id, record.created_boot_s)
    return frozenset(p for p in record.relatives if alive(p)) | frozenset(marked)


class ProcessRun:
    """A server that is a process of this machine."""

    def __init__(self, killer: Killer) -> None:
        self._killer = killer

    def alive(self, record: RunRecord) -> bool:
        """Tell whether exactly the recorded main process runs."""
        return record.main is not None and alive(record.main)

    async def end(
        self,
        record: RunRecord,
        *,
        timeout_s: float,
        on_progress: Callable[[StopProgress], None],
        on_family: Callable[[frozenset[ProcessId]], None],
    ) -> Ended:
        """End the main process and its family (see :class:`RunKind`)."""
        main = record.main
        if main is None or not alive(main):
            killed = await self.sweep(record)
            return Ended(StopHow.KILLED if killed else StopHow.ALREADY_GONE, killed)
        began = time.monotonic()
        offset = log_size(record.log_path)
        family = family_of(main) | session_members(main.pid, record.created_boot_s)
        on_family(family)
        forced: tuple[int, ...] = ()
        with ExitWatch(main) as watch:
            self._signal(main, signal.SIGTERM)
            gone = False
            while not gone and (spent := time.monotonic() - began) < timeout_s:
                on_progress(draining(spent, requests_left(record.log_path, offset), timeout_s))
                gone = await watch.wait(min(_TICK_S, timeout_s - spent))
                if not gone:
                    family |= family_of(main)
            on_family(family)
            if not gone:
                forced = await self._force(main, family, began, timeout_s, on_progress, watch)
        if await wait_gone(family - {main}, 0.0):
            on_progress(_step("children", began, t("Waiting for its child processes.")))
        await wait_gone(family, _CHILDREN_S)
        stragglers = await self.sweep(record.with_family(family))
        killed = tuple(sorted({*forced, *stragglers}))
        return Ended(_how(record, killed), killed, requests_left(record.log_path, offset))

    async def sweep(self, record: RunRecord) -> tuple[int, ...]:
        """Kill what is left of a run whose main process is gone (see :class:`RunKind`)."""
        left = leftovers_of(record)
        if not left:
            return ()
        if record.session is not None:
            self._killer.kill_group(record.session, left)
        for process in left:
            self._signal(process, signal.SIGKILL)
        survivors = await wait_gone(left, _KILL_S)
        if survivors:
            raise StopError(
                t(
                    "These processes of the server survive even SIGKILL: {pids}.",
                    pids=", ".join(str(p.pid) for p in sorted(survivors)),
                ),
                t("They hang in the kernel (`ps -o pid,wchan`); only a reboot frees them."),
            )
        return tuple(sorted(p.pid for p in left))

    async def _force(
        self,
        main: ProcessId,
        family: frozenset[ProcessId],
        began: float,
        timeout_s: float,
        on_progress: Callable[[StopProgress], None],
        watch: ExitWatch,
    ) -> tuple[int, ...]:
        """KILL the group, or the main process when the group cannot be proved to be ours."""
        text = t("Not gone after {seconds:.0f} s: killing its group.", seconds=timeout_s)
        on_progress(_step("killing", began, text))
        forced = tuple(sorted(p.pid for p in family if alive(p)))
        if not self._killer.kill_group(main.pid, family):
            self._signal(main, signal.SIGKILL)
        await watch.wait(_KILL_S)
        return forced

    def _signal(self, process: ProcessId, number: signal.Signals) -> None:
        try:
            self._killer.signal(process, number)
        except PermissionError as error:
            raise StopError(
                t("Process {pid} of this run belongs to another user.", pid=process.pid),
                t("End it as that user or as root: kill {pid}.", pid=process.pid),
            ) from error


def _step(step: str, began: float, text: Text) -> StopProgress:
    return StopProgress(step, time.monotonic() - began, None, text)


def _how(record: RunRecord, killed: tuple[int, ...]) -> StopHow:
    if killed:
        return StopHow.KILLED
    # A record that was rebuilt from its process has no profile and does not know of readiness.
    if record.ready_at is None and record.profile:
        return StopHow.BOOT_BROKEN_OFF
    # vLLM's --shutdown-timeout is 0 unless set: running requests are aborted at TERM.
    return StopHow.ABORTED if record.engine == "vllm" else StopHow.DRAINED
