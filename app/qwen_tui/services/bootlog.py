"""Follows one engine log file: bytes into the log reader, as they come, never all at once."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, BinaryIO, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from qwen_tui_diagnostics.enginelog import LogReport

__all__ = ["BootLog", "Reader"]

CHUNK_BYTES = 1 << 20


class Reader(Protocol):
    """The part of :class:`qwen_tui_diagnostics.enginelog.LogReader` that is used here."""

    def feed(self, data: bytes) -> None:
        """Take more of the log."""
        ...

    def finish(self) -> None:
        """Take the log as complete."""
        ...

    def report(self) -> LogReport:
        """Return what the log says so far."""
        ...


def open_reader(asked: Sequence[str]) -> Reader:
    """Make the real reader (imported on first use)."""
    from qwen_tui_diagnostics.enginelog import LogReader

    return LogReader(asked)


class BootLog:
    """The log of one run: :meth:`advance` reads what is new, :attr:`report` says what it means."""

    def __init__(
        self,
        path: Path,
        asked: Sequence[str],
        make_reader: Callable[[Sequence[str]], Reader] = open_reader,
        *,
        archived_lines: int = 0,
    ) -> None:
        self.path = path
        self.offset = 0
        """Bytes read so far."""
        self._asked = asked
        self._make_reader = make_reader
        self._archived_lines = archived_lines
        self._reader: Reader | None = None
        self._inode: int | None = None
        self._finished = False
        self._report: LogReport | None = None

    @property
    def report(self) -> LogReport | None:
        """What the log says so far; ``None`` while there is no log."""
        if self._report is None and self._reader is not None:
            self._report = self._reader.report()
        return self._report

    def advance(self, limit_bytes: int | None = None) -> bool:
        """Read what was appended; True when there was something.

        A file that became another one, or shorter, is read from its start.

        Args:
            limit_bytes: Read at most so much; ``None`` = to the end.
        """
        try:
            with self.path.open("rb") as file:
                return self._take(file, limit_bytes)
        except OSError:
            return False

    def finish(self) -> None:
        """The engine is gone: read the rest and let the reader conclude."""
        self.advance()
        if self._reader is not None and not self._finished:
            self._finished = True
            self._reader.finish()
            self._report = None

    def _next_extent(self, stream: BinaryIO) -> int:
        """Step over what rotation has archived; return where the data that follows ends."""
        handle = stream.fileno()
        try:
            data = os.lseek(handle, self.offset, os.SEEK_DATA)
            hole = os.lseek(handle, data, os.SEEK_HOLE)
        except OSError:  # a file system that knows no holes, or the end of the file
            data, hole = self.offset, self.offset + CHUNK_BYTES
        if data > self.offset and self._reader is not None:
            # The lines that are missing still count, so that line numbers stay right.
            self._reader.feed(b"\n" * max(self._archived_lines, 1))
            self.offset = data
        stream.seek(self.offset)
        return hole

    def _take(self, stream: BinaryIO, limit_bytes: int | None) -> bool:
        found = os.fstat(stream.fileno())
        if self._reader is None or found.st_ino != self._inode or found.st_size < self.offset:
            self._reader = self._make_reader(self._asked)
            self._inode = found.st_ino
            self.offset = 0
            self._report = None
            self._finished = False
        stream.seek(self.offset)
        end = (
            found.st_size if limit_bytes is None else min(found.st_size, self.offset + limit_bytes)
        )
        start = self.offset
        while self.offset < end:
            extent = min(self._next_extent(stream), end)
            data = stream.read(min(CHUNK_BYTES, extent - self.offset))
            if not data:
                break
            self._reader.feed(data)
            self.offset += len(data)
        if self.offset > start:
            self._report = None
        return self.offset > start
