"""One writer per target folder: a kernel lock, and a note of who holds it."""

from __future__ import annotations

import fcntl
import json
import os
import time
from typing import TYPE_CHECKING

from qwen_tui.services.download.problems import Problem

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

__all__ = ["FolderLock"]


class FolderLock:
    """Held while a worker writes below a folder; the kernel lets go of it when the process dies."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "lock"
        self._fd: int | None = None

    def __enter__(self) -> FolderLock:
        """Take the lock.

        Raises:
            Problem: Another process has it (``locked``).
            OSError: The folder cannot be written.
        """
        self._path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder = os.pread(descriptor, 4096, 0)
            os.close(descriptor)
            raise Problem("locked", folder=str(self._path.parent), **_read(holder)) from error
        os.ftruncate(descriptor, 0)
        note = {"pid": os.getpid(), "started": time.time()}
        os.pwrite(descriptor, json.dumps(note).encode(), 0)
        self._fd = descriptor
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Let go."""
        if self._fd is not None:
            os.ftruncate(self._fd, 0)
            os.close(self._fd)
            self._fd = None


def _read(note: bytes) -> dict[str, object]:
    try:
        values = json.loads(note)
        return {"pid": int(values["pid"]), "started": float(values["started"])}
    except (ValueError, KeyError, TypeError):
        return {"pid": None, "started": None}
