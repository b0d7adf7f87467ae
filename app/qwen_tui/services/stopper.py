"""The stop: TERM to the main process only, a limit, KILL to the group, and nothing left behind.

A TERM that reaches SGLang's scheduler makes the engine report a crash of its own child, so the
group gets nothing but KILL, and only if a process that we know proves that the group is ours.
"""

from __future__ import annotations

import asyncio
import re
import signal
import time
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from qwen_tui.services.ports import check_port
from qwen_tui.services.process import (
    ExitWatch,
    alive,
    family_of,
    find_run,
    session_members,
    wait_gone,
)
from qwen_tui.services.runs import Ending
from qwen_tui.services.state import ServerState
from qwen_tui_profiles.errors import StopError
from qwen_tui_profiles.text import t

if TYPE_CHECKING:
    from collections.abc import Callable

    from qwen_tui.services.process import Killer, ProcessId
    from qwen_tui.services.runs import RunRecord, RunStore
    from qwen_tui_diagnostics.enginelog.report import Fatal
    from qwen_tui_profiles.text import Text

__all__ = [
    "DEFAULT_STOP_S",
    "StopHow",
    "StopProgress",
    "StopResult",
    "end_process",
    "leftovers_of",
    "nothing_to_stop",
    "stop_run",
    "sweep",
]

DEFAULT_STOP_S = 60.0
"""Limit before KILL. SGLang polls its drain every 5 s and gives its schedulers 15 s to go."""

_KILL_S = 10.0
_CHILDREN_S = 5.0
"""Children die with the main process by PDEATHSIG; SGLang's own tree kill takes a moment longer."""
_PORT_S = 10.0
_REMAINING = re.compile(rb"Remaining number of requests[: ]+(\d+)")


class StopHow(StrEnum):
    """How a stop ended, honestly."""

    DRAINED = "drained"
    """It ended by itself after TERM, requests finished."""
    ABORTED = "aborted"
    """It ended by itself after TERM; this engine does not wait for its requests."""
    BOOT_BROKEN_OFF = "boot broken off"
    """It was still booting."""
    KILLED = "killed"
    """The limit passed, or leftovers had to be killed."""
    ALREADY_GONE = "already gone"
    """Nothing ran when the stop began."""


@dataclass(frozen=True, slots=True)
class StopProgress:
    """One moment of a stop."""

    step: str
    """``draining``, ``killing``, ``children``, ``memory``, ``port``."""
    seconds: float
    requests_left: int | None
    """As the engine's log says; ``None`` while it has not said."""
    text: Text


@dataclass(frozen=True, slots=True)
class StopResult:
    """How the stop ended."""

    how: StopHow
    seconds: float
    exit_code: int | None
    killed: tuple[int, ...]
    """Pids that had to be killed."""
    requests_left: int | None
    port_free: bool | None
    """``None`` when nothing was to be freed."""
    text: Text

    def as_json(self) -> dict[str, object]:
        """Return the result with plain values, in English."""
        return {
            "how": self.how.value,
            "seconds": round(self.seconds, 2),
            "exit_code": self.exit_code,
            "killed": list(self.killed),
            "requests_left": self.requests_left,
            "port_free": self.port_free,
            "message": str(self.text),
        }


def nothing_to_stop() -> StopResult:
    """Return the result of a stop when nothing was ever launched."""
    return StopResult(
        StopHow.ALREADY_GONE, 0.0, None, (), None, None, t("Nothing runs: no server was launched.")
    )


async def stop_run(
    record: RunRecord,
    store: RunStore,
    killer: Killer,
    *,
    clock: Callable[[], float],
    timeout_s: float,
    on_change: Callable[[StopProgress], None] | None,
    exit_code: Callable[[str], int | None],
    failure: Text | None = None,
    fatal: Fatal | None = None,
) -> StopResult:
    """Stop a run, wait until nothing of it is left, and record how it ended.

    Args:
        record: The newest version of the run's record.
        store: Where it is kept. The caller holds the lease.
        killer: Sends the signals.
        clock: Unix time.
        timeout_s: Seconds from TERM to KILL.
        on_change: Called with each moment of the stop.
        exit_code: Returns the exit code of a run that we are the parent of.
        failure: Why it is stopped when it is the end of a failed boot; it then ends ``FATAL``.
        fatal: The cause that the log gives for that.

    Raises:
        StopError: something of it survives.
    """
    began = time.monotonic()
    was_open = record.open
    if was_open and failure is None:
        record = store.update(
            record, lambda r: replace(r.step(ServerState.STOPPING), stop_asked=clock())
        )

    def family_seen(seen: frozenset[ProcessId]) -> None:
        nonlocal record
        record = store.update(record, lambda r: r.with_family(seen))

    how, killed, left = await end_process(
        record,
        killer,
        timeout_s=timeout_s,
        on_progress=on_change or (lambda _: None),
        on_family=family_seen,
    )
    if how is StopHow.ALREADY_GONE and not was_open:
        text = t("Nothing runs: the last server has ended already.")
        return StopResult(how, time.monotonic() - began, None, (), None, None, text)
    code = exit_code(record.id)
    free = await port_comes_free(record.host, record.port)
    text = _words(how, killed, left, free, record)
    ending = Ending(
        at=clock(),
        exit_code=code,
        how="died" if failure is not None else how.value,
        message=str(failure or text),
        remedy=None if fatal is None or fatal.remedy is None else str(fatal.remedy),
        cause=None if fatal is None else fatal.as_json(),
    )
    if was_open:
        state = ServerState.STOPPED if failure is None else ServerState.FATAL
        store.update(record, lambda r: replace(r.step(state), ending=ending))
    return StopResult(how, time.monotonic() - began, code, killed, left, free, text)


def _words(
    how: StopHow, killed: tuple[int, ...], left: int | None, free: bool, record: RunRecord
) -> Text:
    sentences = {
        StopHow.DRAINED: t("Stopped: it finished its requests and ended by itself."),
        StopHow.ABORTED: t("Stopped: it ended by itself; vLLM aborts running requests."),
        StopHow.BOOT_BROKEN_OFF: t("Stopped while it was still booting."),
        StopHow.ALREADY_GONE: t("It was gone already."),
        StopHow.KILLED: t(
            "Killed: {count} of its processes did not end by themselves.", count=len(killed)
        ),
    }
    text = sentences[how]
    if how is StopHow.KILLED and left:
        text = t("{text} {left} requests were lost.", text=text, left=left)
    if not free:
        text = t("{text} Port {port} is taken by another program now.", text=text, port=record.port)
    return text


def leftovers_of(record: RunRecord) -> frozenset[ProcessId]:
    """Return what still runs of a run: recorded relatives, and whoever carries the run's id."""
    marked = find_run(record.id, record.created_boot_s)
    return frozenset(p for p in record.relatives if alive(p)) | frozenset(marked)


async def end_process(
    record: RunRecord,
    killer: Killer,
    *,
    timeout_s: float,
    on_progress: Callable[[StopProgress], None],
    on_family: Callable[[frozenset[ProcessId]], None],
) -> tuple[StopHow, tuple[int, ...], int | None]:
    """End the main process and its family.

    Args:
        record: The run, with its main process known.
        killer: Sends the signals.
        timeout_s: Seconds from TERM to KILL.
        on_progress: Called at each step and twice a second while draining.
        on_family: Called with the relatives seen, so that they are recorded before they are lost.

    Returns:
        How it ended, the pids that were killed, and the requests left at the end.

    Raises:
        StopError: processes survive even KILL (a driver that hangs, another user's).
    """
    main = record.main
    if main is None or not alive(main):
        killed = await sweep(record, killer)
        return (StopHow.KILLED if killed else StopHow.ALREADY_GONE), killed, None
    family = family_of(main) | session_members(main.pid, record.created_boot_s)
    on_family(family)
    began = time.monotonic()
    forced: tuple[int, ...] = ()
    left: int | None = None
    offset = _size(record.log_path)
    with ExitWatch(main) as watch:
        killer.signal(main, signal.SIGTERM)
        gone = False
        while not gone and time.monotonic() - began < timeout_s:
            left = _requests_left(record.log_path, offset)
            on_progress(_draining(time.monotonic() - began, left, timeout_s))
            gone = await watch.wait(min(0.5, max(timeout_s - (time.monotonic() - began), 0.0)))
            if not gone:
                family |= family_of(main)
        on_family(family)
        if not gone:
            on_progress(
                StopProgress(
                    "killing",
                    time.monotonic() - began,
                    left,
                    t("Not gone after {seconds:.0f} s: killing its group.", seconds=timeout_s),
                )
            )
            forced = tuple(sorted(p.pid for p in family if alive(p)))
            if not killer.kill_group(main.pid, family):
                killer.signal(main, signal.SIGKILL)
            await watch.wait(_KILL_S)
    if await wait_gone(family - {main}, 0.0):
        on_progress(
            StopProgress(
                "children",
                time.monotonic() - began,
                left,
                t("Waiting for its child processes."),
            )
        )
    await wait_gone(family, _CHILDREN_S)
    stragglers = await sweep(record.with_family(family), killer)
    killed = tuple(sorted({*forced, *stragglers}))
    left = _requests_left(record.log_path, offset)
    if killed:
        return StopHow.KILLED, killed, left
    if record.ready_at is None:
        return StopHow.BOOT_BROKEN_OFF, (), left
    if record.engine == "vllm":
        return StopHow.ABORTED, (), left
    return StopHow.DRAINED, (), left


async def sweep(record: RunRecord, killer: Killer) -> tuple[int, ...]:
    """KILL what is left of a run whose main process is gone; return the pids.

    Raises:
        StopError: some survive, or belong to another user.
    """
    left = leftovers_of(record)
    if not left:
        return ()
    killed = tuple(sorted(p.pid for p in left))
    if record.session is not None:
        killer.kill_group(record.session, left)
    for process in left:
        try:
            killer.signal(process, signal.SIGKILL)
        except PermissionError as error:
            raise StopError(
                t("Process {pid} of this run belongs to another user.", pid=process.pid),
                t("End it as that user or as root: kill {pid}.", pid=process.pid),
            ) from error
    survivors = await wait_gone(left, _KILL_S)
    if survivors:
        raise StopError(
            t(
                "These processes of the server survive even SIGKILL: {pids}.",
                pids=", ".join(str(p.pid) for p in sorted(survivors)),
            ),
            t("They hang in the kernel (`ps -o pid,wchan`); only a reboot frees them."),
        )
    return killed


async def port_comes_free(host: str, port: int) -> bool:
    """Wait until the port can be bound again; False after ten seconds."""
    end = time.monotonic() + _PORT_S
    while not check_port(host, port).free:
        if time.monotonic() > end:
            return False
        await asyncio.sleep(0.05)
    return True


def _draining(seconds: float, left: int | None, limit_s: float) -> StopProgress:
    if left is None:
        text = t(
            "Stopping: {seconds:.0f} s of at most {limit:.0f} s.", seconds=seconds, limit=limit_s
        )
    else:
        text = t(
            "Draining: {left} requests left, {seconds:.0f} s of at most {limit:.0f} s.",
            left=left,
            seconds=seconds,
            limit=limit_s,
        )
    return StopProgress("draining", seconds, left, text)


def _size(path: str | None) -> int:
    try:
        return Path(path).stat().st_size if path is not None else 0
    except OSError:
        return 0


def _requests_left(path: str | None, offset: int) -> int | None:
    """Return the last count of remaining requests that the log has after ``offset``."""
    if path is None:
        return None
    try:
        with Path(path).open("rb") as file:
            file.seek(max(offset, file.seek(0, 2) - 65536))
            found = _REMAINING.findall(file.read())
    except OSError:
        return None
    return int(found[-1]) if found else None
