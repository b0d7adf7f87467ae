"""Processes by identity: pid *and* create time, never by name.

A pid alone may belong to a stranger by the time we use it (reboot, wrap-around), so every signal
goes through a pidfd that was opened before the identity was compared: the process which was
checked is the process which is signalled.

Reads ``/proc`` itself. psutil reports create times on the wall clock, and those of one and the
same process differ between two of our runs when the clock was set in between (WSL2 after a sleep).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

__all__ = [
    "RUN_VARIABLE",
    "ExitWatch",
    "Killer",
    "ProcessId",
    "SystemKiller",
    "alive",
    "boot_id",
    "family_of",
    "find_run",
    "identify",
    "seconds_since_boot",
    "session_members",
    "wait_gone",
    "working_in",
]

RUN_VARIABLE = "QWEN_TUI_RUN"
"""Environment variable of every engine that we start; its value is the id of the run."""

_PROC = Path("/proc")
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True, order=True)
class ProcessId:
    """A process that cannot be mistaken for another one with the same pid in this boot."""

    pid: int
    create_time: float
    """Seconds since the machine booted, in the kernel's ticks: setting the clock changes nothing.
    Across a reboot it means nothing: compare :func:`boot_id` first."""


@dataclass(frozen=True, slots=True)
class _Entry:
    """One line of ``/proc/PID/stat``."""

    identity: ProcessId
    state: str
    parent: int
    group: int
    session: int

    @property
    def runs(self) -> bool:
        return self.state not in "ZXx"


def identify(pid: int, *, even_dead: bool = False) -> ProcessId | None:
    """Return the identity of a running process, or ``None`` when there is none.

    Args:
        pid: Its process id.
        even_dead: Take a process that has ended and was not reaped yet (our own child).
    """
    entry = _read(pid)
    return entry.identity if entry is not None and (entry.runs or even_dead) else None


def alive(process: ProcessId) -> bool:
    """Tell whether exactly this process still runs. A zombie does not."""
    return identify(process.pid) == process


def family_of(process: ProcessId) -> frozenset[ProcessId]:
    """Return the process and all of its descendants that run now; empty when it is gone."""
    children: dict[int, list[_Entry]] = {}
    head: _Entry | None = None
    for entry in _entries():
        children.setdefault(entry.parent, []).append(entry)
        if entry.identity == process and entry.runs:
            head = entry
    members: set[ProcessId] = set()
    queue = [head] if head is not None else []
    while queue:
        entry = queue.pop()
        if entry.identity not in members:
            members.add(entry.identity)
            queue.extend(c for c in children.get(entry.identity.pid, ()) if c.runs)
    return frozenset(members)


def session_members(session: int, since_s: float) -> frozenset[ProcessId]:
    """Return the running members of a session that are not older than ``since_s``.

    Only meaningful while a member is known to be ours: a session number is reused like a pid.
    """
    return frozenset(
        e.identity
        for e in _entries()
        if e.session == session and e.runs and e.identity.create_time >= since_s - _SLACK_S
    )


def find_run(run: str, since_s: float) -> tuple[ProcessId, ...]:
    """Return the processes that carry ``QWEN_TUI_RUN=run`` in their environment, oldest first.

    Args:
        run: Id of the run.
        since_s: Seconds since boot before which none of them can have been created.
    """
    wanted = f"{RUN_VARIABLE}={run}".encode()
    found = []
    for entry in _entries():
        if not entry.runs or entry.identity.create_time < since_s - _SLACK_S:
            continue
        with contextlib.suppress(OSError):
            environment = (_PROC / str(entry.identity.pid) / "environ").read_bytes()
            if wanted in environment.split(b"\0"):
                found.append(entry.identity)
    return tuple(sorted(found, key=lambda p: (p.create_time, p.pid)))


def working_in(folder: Path) -> frozenset[str]:
    """Return the names of the folders in ``folder`` that leaders of sessions work in.

    A folder that was deleted under its process counts: the kernel keeps its path.
    """
    parent = os.path.realpath(folder) + os.sep
    found = set()
    for entry in _entries():
        if entry.session != entry.identity.pid or not entry.runs:
            continue
        with contextlib.suppress(OSError):
            works_in = os.readlink(_PROC / str(entry.identity.pid) / "cwd")  # noqa: PTH115
            name = works_in.removeprefix(parent).removesuffix(" (deleted)")
            if works_in.startswith(parent) and os.sep not in name:
                found.add(name)
    return frozenset(found)


_SLACK_S = 0.05
"""The kernel counts create times in ticks of 10 ms and rounds them down."""


def boot_id() -> str | None:
    """Return the kernel's id of this boot of the machine, or ``None`` where it has none."""
    try:
        return (_PROC / "sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return None


def seconds_since_boot() -> float:
    """Return the clock that create times are counted on."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Killer(Protocol):
    """Sends signals; a seam for tests."""

    def signal(self, process: ProcessId, number: signal.Signals) -> bool:
        """Signal exactly this process; False when it is gone."""
        ...

    def kill_group(self, group: int, members: Iterable[ProcessId]) -> bool:
        """KILL a process group, if one of ``members`` proves that it is still the same group."""
        ...


class SystemKiller:
    """The real one."""

    def signal(self, process: ProcessId, number: signal.Signals) -> bool:
        """Signal exactly this process; False when it is gone.

        Raises:
            PermissionError: it belongs to another user.
        """
        with _pidfd(process.pid) as handle:
            if not alive(process):
                return False
            try:
                if handle is None:
                    os.kill(process.pid, number)
                else:
                    signal.pidfd_send_signal(handle, number)
            except ProcessLookupError:
                return False
        return True

    def kill_group(self, group: int, members: Iterable[ProcessId]) -> bool:
        """KILL a process group, if one of ``members`` proves that it is still the same group.

        While a known process lives in the group, its number cannot be given to strangers.
        """
        for member in members:
            entry = _read(member.pid)
            if (
                entry is not None
                and entry.identity == member
                and entry.group == group
                and group != os.getpgrp()
            ):
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(group, signal.SIGKILL)
                    return True
        return False


class ExitWatch:
    """Sets an event when a process ends: by pidfd within milliseconds, else by polling.

    A pidfd does not need the process to be our child. Use inside an event loop::

        with ExitWatch(process) as watch:
            gone = await watch.wait(5.0)
    """

    def __init__(self, process: ProcessId, *, poll_s: float = 0.25) -> None:
        self._process = process
        self._poll_s = poll_s
        self._handle: int | None = None
        self._task: asyncio.Task[None] | None = None
        self._ended = asyncio.Event()

    def __enter__(self) -> ExitWatch:
        """Begin to watch."""
        loop = asyncio.get_running_loop()
        with contextlib.suppress(OSError, AttributeError):
            self._handle = os.pidfd_open(self._process.pid)
        if not alive(self._process):
            self._ended.set()
        elif self._handle is not None:
            loop.add_reader(self._handle, self._seen)
        else:
            self._task = loop.create_task(self._poll())
        return self

    def __exit__(self, *_: object) -> None:
        """Stop watching."""
        if self._task is not None:
            self._task.cancel()
        if self._handle is not None:
            asyncio.get_running_loop().remove_reader(self._handle)
            os.close(self._handle)
            self._handle = None

    async def wait(self, timeout_s: float) -> bool:
        """Wait at most ``timeout_s`` seconds; True when the process has ended."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(timeout_s, 0.0)):
                await self._ended.wait()
        return self._ended.is_set()

    async def pause(self, seconds: float) -> None:
        """Wait for the end, but never come back at once: for loops that look again anyway.

        A container may live on when its client, which is what is watched, was killed.
        """
        if self._ended.is_set():
            await asyncio.sleep(seconds)
        else:
            await self.wait(seconds)

    def _seen(self) -> None:
        if self._handle is not None:
            asyncio.get_running_loop().remove_reader(self._handle)
        self._ended.set()

    async def _poll(self) -> None:
        while alive(self._process):  # noqa: ASYNC110 - nothing here could notify us
            await asyncio.sleep(self._poll_s)
        self._ended.set()


async def wait_gone(
    processes: Iterable[ProcessId],
    timeout_s: float,
    *,
    monotonic: Callable[[], float] = time.monotonic,
) -> frozenset[ProcessId]:
    """Wait until none of the processes runs; return those that still do after the limit."""
    end = monotonic() + timeout_s
    left = frozenset(p for p in processes if alive(p))
    while left and monotonic() < end:
        await asyncio.sleep(0.02)
        left = frozenset(p for p in left if alive(p))
    return left


def _read(pid: int) -> _Entry | None:
    try:
        line = (_PROC / str(pid) / "stat").read_bytes()
    except OSError:
        return None
    # The name in parentheses may hold blanks and parentheses itself.
    rest = line[line.rindex(b")") + 2 :].split()
    return _Entry(
        ProcessId(pid, int(rest[19]) / _TICKS_PER_S),
        rest[0].decode("ascii"),
        int(rest[1]),
        int(rest[2]),
        int(rest[3]),
    )


def _entries() -> Iterator[_Entry]:
    for name in os.listdir(_PROC):  # noqa: PTH208 - ten times cheaper than building paths
        if name.isdigit():
            entry = _read(int(name))
            if entry is not None:
                yield entry


@contextlib.contextmanager
def _pidfd(pid: int) -> Iterator[int | None]:
    try:
        handle: int | None = os.pidfd_open(pid)
    except (OSError, AttributeError):
        handle = None
    try:
        yield handle
    finally:
        if handle is not None:
            os.close(handle)
