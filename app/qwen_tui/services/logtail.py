"""Follows a log for people: cleaned, redacted lines in batches, never faster than can be read."""

from __future__ import annotations

import asyncio
import codecs
import os
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from qwen_tui_profiles.foreign import clean, redact

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable
    from pathlib import Path

__all__ = ["LogBatch", "LogTail", "last_lines"]

BACKLOG_BYTES = 256 * 1024
"""How much of an existing log is shown at first."""
_READ_BYTES = 64 * 1024
"""How much is read at once, so that the event loop breathes."""
_PER_SECOND = 10
_BATCH_LINES = 500
"""Lines of a batch; when more came in a tenth of a second the oldest are dropped and counted."""
_LINE_CHARACTERS = 4000
"""Longer lines are cut: the ``server_args=`` line of SGLang has 20,000 characters."""


@dataclass(frozen=True, slots=True, eq=False)
class LogBatch:
    """What was appended since the last batch."""

    lines: tuple[str, ...]
    """Cleaned and redacted."""
    dropped: int = 0
    """Lines left out before these."""
    restart: bool = False
    """The file was replaced or emptied: what was shown before is history."""


class LogTail:
    """Follows one file by name; it may appear later, be rotated or be emptied."""

    def __init__(
        self,
        path: Path,
        *,
        backlog_bytes: int = BACKLOG_BYTES,
        interval_s: float = 1 / _PER_SECOND,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._path = path
        self._interval_s = max(interval_s, 1 / _PER_SECOND)
        self._backlog_bytes = backlog_bytes
        self._monotonic = monotonic
        self._inode: int | None = None
        self._offset = 0
        self._lines = _Lines()

    async def batches(self) -> AsyncGenerator[LogBatch, None]:
        """Yield the end of what is there, then what is appended; ends only when cancelled."""
        while True:
            began = self._monotonic()
            batch = await self._next()
            if batch is not None:
                yield batch
            spent = self._monotonic() - began
            await asyncio.sleep(max(self._interval_s - spent, 0.0))

    async def _next(self) -> LogBatch | None:
        restart = False
        try:
            with self._path.open("rb") as file:
                found = os.fstat(file.fileno())
                if found.st_ino != self._inode or found.st_size < self._offset:
                    restart = self._inode is not None
                    self._begin(found.st_ino, 0 if restart else found.st_size)
                file.seek(self._offset)
                lines: list[str] = []
                dropped = 0
                while self._offset < found.st_size:
                    data = file.read(min(_READ_BYTES, found.st_size - self._offset))
                    if not data:
                        break
                    self._offset += len(data)
                    lines += self._lines.feed(data)
                    if len(lines) > _BATCH_LINES:
                        dropped += len(lines) - _BATCH_LINES
                        lines = lines[-_BATCH_LINES:]
                    await asyncio.sleep(0)
        except OSError:
            return None
        if not lines and not restart:
            return None
        return LogBatch(tuple(readable(line) for line in lines), dropped, restart)

    def _begin(self, inode: int, size: int) -> None:
        self._inode = inode
        self._offset = max(size - self._backlog_bytes, 0)
        self._lines = _Lines(partial_first=self._offset > 0)


class _Lines:
    """Splits bytes into lines. A bar that redraws itself with CR counts by its last state."""

    def __init__(self, *, partial_first: bool = False) -> None:
        self._decode = codecs.getincrementaldecoder("utf-8")(errors="replace").decode
        self._rest = ""
        self._skip = partial_first

    def feed(self, data: bytes) -> list[str]:
        """Return the lines that are complete now."""
        *lines, self._rest = (self._rest + self._decode(data)).split("\n")
        if len(self._rest) > 2 * _LINE_CHARACTERS and "\r" in self._rest:
            self._rest = self._rest[self._rest.rindex("\r") :]
        if lines and self._skip:
            self._skip = False
            del lines[0]
        return [line.rstrip("\r").rpartition("\r")[2] for line in lines]

    def end(self) -> list[str]:
        """Return the unfinished last line, if there is one."""
        rest, self._rest = self._rest.rstrip("\r").rpartition("\r")[2], ""
        return [rest] if rest and not self._skip else []


def readable(line: str) -> str:
    """Return a line of a log as it may be shown: no control codes, no secrets, not endless."""
    line = redact(clean(line))
    if len(line) > _LINE_CHARACTERS:
        return f"{line[:_LINE_CHARACTERS]} … (+{len(line) - _LINE_CHARACTERS:,} characters)"
    return line


def last_lines(path: Path, count: int) -> tuple[str, ...]:
    """Return the last ``count`` lines of a log, cleaned and redacted.

    Raises:
        OSError: it cannot be read.
    """
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        span = BACKLOG_BYTES
        while True:
            start = max(size - span, 0)
            file.seek(start)
            splitter = _Lines(partial_first=start > 0)
            lines = [*splitter.feed(file.read(size - start)), *splitter.end()]
            if len(lines) >= count or start == 0:
                return tuple(readable(line) for line in lines[-count:]) if count else ()
            span *= 4
