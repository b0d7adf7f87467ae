"""The ways in which a server can run, behind one protocol: process, container, attached.

A kind knows how to tell whether a run lives, how to end it, and how to clear what it leaves. All
else (records, log, readiness, swap) is the same for every kind.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from qwen_tui.services.kinds.attached import AttachedRun
from qwen_tui.services.kinds.container import ContainerRun
from qwen_tui.services.kinds.process import ProcessRun

if TYPE_CHECKING:
    from collections.abc import Callable

    from qwen_tui.services.kinds.container import CallRuntime
    from qwen_tui.services.process import Killer, ProcessId
    from qwen_tui.services.runs import RunRecord
    from qwen_tui.services.stopping import Ended, StopProgress

__all__ = ["Kinds", "RunKind"]


class RunKind(Protocol):
    """One way in which a server runs."""

    def alive(self, record: RunRecord) -> bool:
        """Tell whether the server's main process (or address) exists."""
        ...

    async def end(
        self,
        record: RunRecord,
        *,
        timeout_s: float,
        on_progress: Callable[[StopProgress], None],
        on_family: Callable[[frozenset[ProcessId]], None],
    ) -> Ended:
        """End it and wait until nothing of it is left.

        Args:
            record: The run.
            timeout_s: Seconds that it may take by itself before it is killed.
            on_progress: Called at each step and twice a second while it drains.
            on_family: Called with processes seen, so that they are recorded before they are lost.

        Raises:
            StopError: it may not be ended by us, or something of it survives.
        """
        ...

    async def sweep(self, record: RunRecord) -> tuple[int, ...]:
        """Kill what is left of a run whose main process is gone; return the pids.

        Raises:
            StopError: something survives.
        """
        ...


class Kinds:
    """The kinds by the name that a record has."""

    def __init__(self, killer: Killer, call: CallRuntime | None = None) -> None:
        process = ProcessRun(killer)
        self._table: dict[str, RunKind] = {
            "process": process,
            "container": ContainerRun(process, call),
            "attach": AttachedRun(),
        }

    def of(self, record: RunRecord) -> RunKind:
        """Return the kind of a run."""
        return self._table[record.kind]
