"""Keeps an engine log from filling the disk, without losing a line and without the engine's help.

The engine writes to an open file that nobody can exchange under it. So the middle of a large log
is copied into a compressed archive and its blocks are given back to the file system (a hole is
punched); offsets stay as they are, and the boot and the end stay readable in place.
"""

from __future__ import annotations

import ctypes
import gzip
import os
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["ARCHIVES", "LIMIT_BYTES", "Rotated", "rotate"]

LIMIT_BYTES = 64 << 20
"""Size on disk at which a log is rotated."""
TAIL_BYTES = 8 << 20
"""What stays readable in place at the end."""
ARCHIVES = 5
"""Archives kept of one log; the oldest go."""

_BLOCK = 4096
_KEEP_SIZE, _PUNCH_HOLE = 0x01, 0x02  # linux/falloc.h


class Rotated(NamedTuple):
    """What a rotation did."""

    archive: Path
    lines: int
    """Lines that are in the archive and no longer in the log."""


def rotate(
    log: Path, head_bytes: int, *, limit_bytes: int = LIMIT_BYTES, tail_bytes: int = TAIL_BYTES
) -> Rotated | None:
    """Archive the middle of a log that takes more than ``limit_bytes`` on disk.

    Args:
        log: The engine's log.
        head_bytes: What stays at the start: the boot, from which facts are read again.
        limit_bytes: Size on disk from which it is done.
        tail_bytes: What stays at the end.

    Returns:
        What was archived, or ``None`` when nothing was to be done or the file system cannot do it.

    Raises:
        OSError: the archive cannot be written; the log is then unchanged.
    """
    found = log.stat()
    if found.st_blocks * 512 <= limit_bytes:
        return None
    with log.open("r+b") as file:
        begin = _first_data(file, -(-head_bytes // _BLOCK) * _BLOCK)
        end = (found.st_size - tail_bytes) // _BLOCK * _BLOCK
        if end - begin < _BLOCK:
            return None
        archive = _next_archive(log)
        part = archive.with_suffix(".part")
        try:
            handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            with os.fdopen(handle, "wb") as raw, gzip.GzipFile(fileobj=raw, mode="wb") as out:
                file.seek(begin)
                lines = _copy(file, out, end - begin)
            # First the archive, then the hole: whoever is killed in between has the lines twice.
            part.replace(archive)
            if not _punch(file.fileno(), begin, end - begin):
                archive.unlink()
                return None
        except OSError:
            part.unlink(missing_ok=True)
            raise
    for old in sorted(log.parent.glob(f"{log.name}.*.gz"))[:-ARCHIVES]:
        old.unlink(missing_ok=True)
    return Rotated(archive, lines)


def _first_data(file: BinaryIO, at: int) -> int:
    """Return where data begins at or after ``at``: behind the hole of the last rotation."""
    try:
        found = os.lseek(file.fileno(), at, os.SEEK_DATA)
    except OSError:
        return at
    return max(at, found // _BLOCK * _BLOCK)


def _next_archive(log: Path) -> Path:
    numbers = [int(p.name.split(".")[-2]) for p in log.parent.glob(f"{log.name}.*.gz")]
    return log.with_name(f"{log.name}.{max(numbers, default=0) + 1:04d}.gz")


def _copy(source: BinaryIO, target: gzip.GzipFile, count: int) -> int:
    lines = 0
    while count > 0:
        data = source.read(min(count, 1 << 20))
        if not data:
            raise OSError("the log became shorter while it was archived")
        target.write(data)
        lines += data.count(b"\n")
        count -= len(data)
    return lines


def _punch(handle: int, offset: int, length: int) -> bool:
    """Give a range of a file back to the file system; False where that is not supported."""
    libc = ctypes.CDLL(None, use_errno=True)
    try:
        fallocate = libc.fallocate64
    except AttributeError:
        return False
    fallocate.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)
    result: int = fallocate(handle, _KEEP_SIZE | _PUNCH_HOLE, offset, length)
    return result == 0
