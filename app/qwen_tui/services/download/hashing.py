"""Hashes of content: of a file on its way in, and of files that are already here."""

from __future__ import annotations

import errno
import hashlib
import os
import threading
from typing import TYPE_CHECKING, Protocol

from qwen_tui.services.download.problems import Cancelled

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from qwen_tui.services.download.partial import Partial

__all__ = ["Follower", "Hashes", "file_hashes"]

_BLOCK = 4 << 20


class _Digest(Protocol):
    def update(self, data: bytes, /) -> None: ...
    def hexdigest(self) -> str: ...


class Hashes:
    """SHA-256 of the content, and its git blob id while the size is known."""

    def __init__(self, size: int | None, *, git: bool) -> None:
        self._sha256: _Digest = hashlib.sha256()
        self._git: _Digest | None = None
        if git and size is not None:
            # The Hub names small files by this id; it is an identity here, not a protection.
            self._git = hashlib.sha1(b"blob %d\0" % size, usedforsecurity=False)

    def update(self, data: bytes) -> None:
        """Add content."""
        self._sha256.update(data)
        if self._git is not None:
            self._git.update(data)

    @property
    def sha256(self) -> str:
        """SHA-256 so far."""
        return self._sha256.hexdigest()

    @property
    def blob_id(self) -> str | None:
        """Git blob id, when it was asked for."""
        return None if self._git is None else self._git.hexdigest()


class Follower:
    """Hashes a partial file behind its writer, on a thread of its own.

    It reads what was written back from the page cache, so the writer never waits for it, and a
    resumed file's old part is hashed while new bytes arrive.
    """

    def __init__(self, partial: Partial, size: int | None, *, git: bool) -> None:
        self._partial = partial
        self._size = size
        self._git = git
        self._hashes = Hashes(size, git=git)
        self._position = 0
        self._generation = 0
        self._condition = threading.Condition()
        self._ended = False
        self._error: OSError | None = None
        self._thread = threading.Thread(target=self._run, name="hash", daemon=True)
        self._thread.start()

    @property
    def position(self) -> int:
        """Bytes hashed."""
        return self._position

    def grown(self) -> None:
        """Tell that bytes were appended."""
        with self._condition:
            self._condition.notify()

    def restart(self) -> None:
        """Tell that the file begins anew."""
        with self._condition:
            self._generation += 1
            self._position = 0
            self._hashes = Hashes(self._size, git=self._git)

    def result(self) -> Hashes:
        """Wait until everything is hashed and return it.

        Raises:
            OSError: The file could not be read back.
        """
        with self._condition:
            self._ended = True
            self._condition.notify()
        self._thread.join()
        if self._error is not None:
            raise self._error
        return self._hashes

    def stop(self) -> None:
        """Give up."""
        with self._condition:
            self._generation += 1
            self._ended = True
            self._position = self._partial.length
            self._condition.notify()
        self._thread.join()

    def _run(self) -> None:
        try:
            self._follow()
        except OSError as error:
            self._error = error

    def _follow(self) -> None:
        while True:
            with self._condition:
                while self._position >= self._partial.length:
                    if self._ended:
                        return
                    self._condition.wait(0.5)
                generation, position, hashes = self._generation, self._position, self._hashes
            data = self._partial.read(position, _BLOCK)
            if not data:
                if self._cut_short(generation, position):
                    raise OSError(errno.EIO, "cut short by another program")
                continue
            hashes.update(data)
            with self._condition:
                if generation == self._generation:
                    self._position = position + len(data)

    def _cut_short(self, generation: int, position: int) -> bool:
        """Whether bytes that were written are gone, without a restart of ours."""
        with self._condition:
            # A restart empties the file first and tells afterwards.
            return generation == self._generation and position < self._partial.length


def file_hashes(
    path: Path,
    *,
    git: bool,
    on_bytes: Callable[[int], None] | None = None,
    cancelled: threading.Event | None = None,
) -> Hashes:
    """Hash a file.

    Raises:
        OSError: It cannot be read.
        Cancelled: ``cancelled`` was set meanwhile.
    """
    with path.open("rb", buffering=0) as file:
        hashes = Hashes(os.fstat(file.fileno()).st_size, git=git)
        while data := file.read(_BLOCK):
            hashes.update(data)
            if on_bytes is not None:
                on_bytes(len(data))
            if cancelled is not None and cancelled.is_set():
                raise Cancelled
    return hashes
