"""Which file is read in a measurement: a real shard where there is one, else a scratch file."""

from __future__ import annotations

import errno
import os
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["Source", "first_hole", "open_source", "pick_shard"]

MINIMUM_BYTES = 64 * 1024 * 1024
"""Smaller files sit in the drive's own memory."""
_BLOCK_BYTES = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Source:
    """An open file to read from."""

    descriptor: int
    """Opened read-only with O_DIRECT."""
    size_bytes: int
    kind: str
    """``shard`` or ``scratch``."""


def first_hole(descriptor: int) -> int:
    """Return the offset of the first hole; the file's size when every block was written.

    Blocks that were reserved and never written (``fallocate``) count as holes: reading either is
    done without the disk and gives a fantasy figure.

    Raises:
        OSError: the file system does not tell.
    """
    size = os.fstat(descriptor).st_size
    if size == 0:
        return 0
    hole = os.lseek(descriptor, 0, os.SEEK_HOLE)
    if hole >= size and os.fstat(descriptor).st_blocks * 512 < size * 0.99:
        return 0  # a file system without hole support says "none"; its block count says otherwise
    return min(hole, size)


def pick_shard(folder: Path) -> tuple[Path | None, str]:
    """Return the largest shard that can be measured, and why the others cannot."""
    shards = sorted(folder.glob("*.safetensors"), key=lambda p: -p.stat().st_size)
    why = "no shards" if not shards else ""
    for shard in shards:
        if shard.stat().st_size < MINIMUM_BYTES:
            why = why or "the shards are smaller than 64 MiB"
            break
        descriptor = os.open(shard, os.O_RDONLY | os.O_CLOEXEC)
        try:
            if first_hole(descriptor) == os.fstat(descriptor).st_size:
                return shard, ""
            why = "the shards have holes (sparse or only reserved): reading them measures nothing"
        except OSError as error:
            why = f"holes cannot be ruled out: {error.strerror}"
        finally:
            os.close(descriptor)
    return None, why


@contextmanager
def open_source(folder: Path, scratch_bytes: int) -> Iterator[Source]:
    """Open a shard of the folder; without one, write a scratch file that vanishes with its name.

    Raises:
        OSError: neither can be had (no permission, full disk, O_DIRECT refused).
    """
    shard, _ = pick_shard(folder)
    if shard is not None:
        descriptor = os.open(shard, os.O_RDONLY | os.O_DIRECT | os.O_CLOEXEC)
        try:
            yield Source(descriptor, os.fstat(descriptor).st_size, "shard")
        finally:
            os.close(descriptor)
        return
    with _scratch(folder, scratch_bytes) as descriptor:
        yield Source(descriptor, scratch_bytes, "scratch")


@contextmanager
def _scratch(folder: Path, size_bytes: int) -> Iterator[int]:
    free = os.statvfs(folder)
    if free.f_bavail * free.f_frsize < 4 * size_bytes:
        raise OSError(errno.ENOSPC, "too little space for a scratch file")
    path = folder / f".qwen-tui-bench-{os.getpid()}"
    writer = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    reader = -1
    try:
        reader = os.open(path, os.O_RDONLY | os.O_DIRECT | os.O_CLOEXEC)
        path.unlink()
        block = os.urandom(_BLOCK_BYTES)
        for _ in range(size_bytes // _BLOCK_BYTES):
            view = memoryview(block)
            while view:
                view = view[os.write(writer, view) :]
        os.fsync(writer)
        os.posix_fadvise(writer, 0, 0, os.POSIX_FADV_DONTNEED)
        yield reader
    finally:
        if reader >= 0:
            os.close(reader)
        os.close(writer)
        path.unlink(missing_ok=True)
