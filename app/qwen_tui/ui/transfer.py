"""A download that goes on whatever screen is shown: the job, its newest moment, who listens."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from qwen_tui.services.download.job import DownloadJob, DownloadSnapshot

__all__ = ["Transfer"]


class Transfer:
    """One download and its newest snapshot.

    Attributes:
        job: What pauses, resumes and cancels it.
        now: The newest snapshot; ``None`` before the first.
        ended: Set when nothing more will come.
    """

    def __init__(self, job: DownloadJob) -> None:
        self.job = job
        self.now: DownloadSnapshot | None = None
        self.ended = asyncio.Event()
        self._listeners: list[Callable[[], None]] = []

    def follow(self, tell: Callable[[], None]) -> None:
        """Call ``tell`` after each change of :attr:`now`."""
        self._listeners.append(tell)

    def unfollow(self, tell: Callable[[], None]) -> None:
        """Call ``tell`` no more."""
        if tell in self._listeners:
            self._listeners.remove(tell)

    async def run(self) -> None:
        """Run the job to its end; cancelling this ends the worker and keeps what it received."""
        try:
            async for snapshot in self.job.snapshots():
                self.now = snapshot
                for tell in tuple(self._listeners):
                    tell()
        finally:
            self.ended.set()
