"""Runs whose folder was deleted while their server goes on: it still works there."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from qwen_tui.services.process import working_in

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["LostRuns"]

_EVERY_S = 5.0
"""How often it is looked for them at most: that reads all of /proc, 20 µs a process."""
_TICK_NS = 1_000_000_000
"""Two changes of a folder within one tick of its file system's clock leave the same time."""


class LostRuns:
    """Finds them, and looks again only when one may have come or gone."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._found: frozenset[str] = frozenset()
        self._looked_at: float | None = None
        self._token: tuple[int, int] | None = None

    def beside(self, names: set[str]) -> set[str]:
        """Return the names of all runs: those that the folder has, and the lost ones."""
        if self._may_lack(names):
            self._found = working_in(self._folder)
        return names | self._found

    def _may_lack(self, names: set[str]) -> bool:
        """Tell whether to look again.

        No run's folder can go without changing the one that it is in; what is gone may end.
        """
        now, token = time.monotonic(), self._settled()
        if self._looked_at is not None:
            unchanged = token is not None and token == self._token
            if now - self._looked_at <= _EVERY_S or (unchanged and self._found <= names):
                return False
        self._looked_at, self._token = now, token
        return True

    def _settled(self) -> tuple[int, int] | None:
        """Return a token of what is in the folder; ``None`` while it may still mean two things."""
        try:
            found = self._folder.stat()
        except OSError:
            return None
        old = time.time_ns() - found.st_mtime_ns > _TICK_NS
        return (found.st_mtime_ns, found.st_ino) if old else None
