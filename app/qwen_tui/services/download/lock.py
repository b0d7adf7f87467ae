"""One writer per target folder: a kernel lock, and a note of who holds it."""

from __future__ import annotations

import contextlib
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


_OPEN = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
"""A link in the lock's place would have its target emptied."""


class FolderLock:
    """Held while a worker writes below a folder; the kernel lets go of it when the process dies.

    Attributes:
        used: Set before anything else is written. A plan that nobody agrees to leaves no trace.
    """

    def __init__(self, folder: Path, *, of: Path | None = None) -> None:
        """Name the folder of the lock, and the one that it stands for in messages."""
        self._of = folder if of is None else of
        self._path = folder / "lock"
        self._fd: int | None = None
        self._made: list[Path] = []
        self.used = False

    def __enter__(self) -> FolderLock:
        """Take the lock.

        Raises:
            Problem: Another process has it (``locked``).
            OSError: The folder cannot be written.
        """
        self._made = _missing(self._path.parent)
        while True:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            try:
                descriptor = os.open(self._path, _OPEN, 0o644)
            except FileNotFoundError:
                # A plan that was dropped just took the folder along.
                continue
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                holder = os.pread(descriptor, 4096, 0)
                os.close(descriptor)
                raise Problem("locked", folder=str(self._of), **_read(holder)) from error
            if _is_file(descriptor, self._path):
                break
            # Its holder removed it between our two steps: that lock keeps nobody out.
            os.close(descriptor)
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
        """Let go; where nothing was written, nothing stays."""
        if self._fd is not None:
            if not self.used:
                self._remove()
            os.ftruncate(self._fd, 0)
            os.close(self._fd)
            self._fd = None

    def _remove(self) -> None:
        with contextlib.suppress(OSError):
            if self._made:
                self._path.unlink()
        for folder in self._made:
            with contextlib.suppress(OSError):
                folder.rmdir()


def _missing(folder: Path) -> list[Path]:
    """Return the folders that have to be made, the deepest first."""
    return [f for f in (folder, *folder.parents) if not f.exists()]


def _is_file(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.lstat())
    except FileNotFoundError:
        return False


def _read(note: bytes) -> dict[str, object]:
    try:
        values = json.loads(note)
        return {"pid": int(values["pid"]), "started": float(values["started"])}
    except (ValueError, KeyError, TypeError):
        return {"pid": None, "started": None}
