"""The stop: end the run, wait until its port is free, and record honestly how it ended."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from qwen_tui.services.ports import check_port
from qwen_tui.services.runs import Ending
from qwen_tui.services.state import ServerState
from qwen_tui.services.stopping import StopHow, StopProgress, StopResult
from qwen_tui.services.vram import wait_freed
from qwen_tui_profiles.text import t

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from qwen_tui.services.kinds import Kinds
    from qwen_tui.services.process import ProcessId
    from qwen_tui.services.runs import RunRecord, RunStore
    from qwen_tui.services.stopping import Ended
    from qwen_tui.services.vram import MemoryProbe
    from qwen_tui_diagnostics.enginelog.report import Fatal
    from qwen_tui_profiles.text import Text

__all__ = ["nothing_to_stop", "stop_run"]

_PORT_S = 10.0
_MEMORY_S = 30.0


def nothing_to_stop() -> StopResult:
    """Return the result of a stop when nothing was ever launched."""
    return StopResult(
        StopHow.ALREADY_GONE, 0.0, None, (), None, None, t("Nothing runs: no server was launched.")
    )


async def stop_run(
    record: RunRecord,
    store: RunStore,
    kinds: Kinds,
    *,
    clock: Callable[[], float],
    timeout_s: float,
    on_change: Callable[[StopProgress], None] | None,
    exit_code: Callable[[str], int | None],
    memory: MemoryProbe,
    last_words: Callable[[], Awaitable[Fatal | None]],
    announced: Fatal | None = None,
    failure: Text | None = None,
    fatal: Fatal | None = None,
) -> StopResult:
    """Stop a run, wait until nothing of it is left, and record how it ended.

    Args:
        record: The newest version of the run's record.
        store: Where it is kept. The caller holds the lease.
        kinds: How the kinds of runs are ended.
        clock: Unix time.
        timeout_s: Seconds from TERM to KILL.
        on_change: Called with each moment of the stop.
        memory: Asks the GPUs whether its memory is back.
        exit_code: Returns the exit code of a run that we are the parent of.
        last_words: Reads the log to its end and returns the cause of death that it gives.
        announced: The cause of death that the log gave before the stop began.
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

    ended = await kinds.of(record).end(
        record,
        timeout_s=timeout_s,
        on_progress=on_change or (lambda _: None),
        on_family=family_seen,
    )
    how, killed, left = ended.how, ended.killed, ended.requests_left
    if how is StopHow.ALREADY_GONE and not was_open:
        text = t("Nothing runs: the last server has ended already.")
        return StopResult(how, time.monotonic() - began, None, (), None, None, text)
    code = exit_code(record.id)
    if failure is None and was_open:
        ended, fatal = await _own_death(ended, announced, last_words)
        how = ended.how
    free = await port_comes_free(record.host, record.port)
    freed = await _memory_comes_back(record, memory, began, on_change)
    text = _words(ended, free, freed, record, fatal)
    ending = Ending.of(
        at=clock(),
        exit_code=code,
        how="died" if failure is not None else how.value,
        message=failure or text,
        remedy=None if fatal is None else fatal.remedy,
        cause=None if fatal is None else fatal.as_json(),
    )
    if was_open:
        state = ServerState.STOPPED if failure is None else ServerState.FATAL
        store.update(record, lambda r: replace(r.step(state), ending=ending))
    seconds = time.monotonic() - began
    return StopResult(how, seconds, code, killed, left, free, text, freed)


async def _own_death(
    ended: Ended, announced: Fatal | None, last_words: Callable[[], Awaitable[Fatal | None]]
) -> tuple[Ended, Fatal | None]:
    """Tell an end that was asked for from a death that only happened to come at the same time.

    A boot that is broken off dies noisily: what it says after the signal is no cause. Of a server
    that was ready, the log reader tells a good stop from a death.
    """
    if ended.how is StopHow.KILLED:
        return ended, None
    fatal = announced
    if fatal is None and ended.how is not StopHow.BOOT_BROKEN_OFF:
        fatal = await last_words()
    unfinished = ended.how is StopHow.DRAINED and bool(ended.requests_left)
    if fatal is None and not unfinished:
        return ended, None
    return replace(ended, how=StopHow.DIED), fatal


def _words(
    ended: Ended, free: bool, freed: bool | None, record: RunRecord, fatal: Fatal | None
) -> Text:
    how, killed, left = ended.how, ended.killed, ended.requests_left
    sentences = {
        StopHow.DRAINED: t("Stopped: it finished its requests and ended by itself."),
        StopHow.ABORTED: t("Stopped: it ended by itself; vLLM aborts running requests."),
        StopHow.BOOT_BROKEN_OFF: t("Stopped while it was still booting."),
        StopHow.ALREADY_GONE: t("It was gone already."),
        StopHow.DIED: t("It died before it could end; the end of its log: qwen-tui logs.")
        if fatal is None
        else t("It died before it could end: {cause}", cause=fatal.summary),
        StopHow.KILLED: t(
            "Killed: {count} of its processes did not end by themselves.", count=len(killed)
        ),
    }
    text = sentences[how]
    if how in {StopHow.KILLED, StopHow.DIED} and left:
        text = t("{text} {left} requests were lost.", text=text, left=left)
    if not free:
        text = t("{text} Port {port} is taken by another program now.", text=text, port=record.port)
    if freed is False:
        text = t("{text} Its GPU memory is still in use after {s:.0f} s.", text=text, s=_MEMORY_S)
    return text


async def _memory_comes_back(
    record: RunRecord,
    memory: MemoryProbe,
    began: float,
    on_change: Callable[[StopProgress], None] | None,
) -> bool | None:
    if record.snapshot.get("needs_gpu") is False:
        return None

    def waiting(_: float) -> None:
        if on_change is not None:
            seconds = time.monotonic() - began
            on_change(StopProgress("memory", seconds, None, t("Waiting for its GPU memory.")))

    return await wait_freed(memory, {p.pid for p in record.relatives}, _MEMORY_S, on_wait=waiting)


async def port_comes_free(host: str, port: int) -> bool:
    """Wait until the port can be bound again; False after ten seconds."""
    end = time.monotonic() + _PORT_S
    while not check_port(host, port).free:
        if time.monotonic() > end:
            return False
        await asyncio.sleep(0.05)
    return True
