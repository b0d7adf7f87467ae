"""Does O_DIRECT really bypass the page cache here? Proved on a scratch file of our own.

That ``open(O_DIRECT)`` succeeds proves nothing: tmpfs, compressed btrfs, ext4 with ``data=journal``
and FUSE accept the flag and read through the cache. So: write random data, flush it, drop it from
the cache, read spaced pages directly, and count how many became resident.
"""

from __future__ import annotations

import errno
import mmap
import os
import random
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from qwen_tui_diagnostics.probes.libc import alignment_of, resident_pages

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["SCRATCH_BYTES", "prove", "try_open"]

PAGE_BYTES = 4096
READS = 256
UNDROPPED_SHARE = 0.05
"""A few pages may still be under writeback; more means that the cache is the storage."""
SCRATCH_BYTES = 2 * 1024 * 1024
"""Every second page is read; read-ahead through the cache would fill the gaps and show."""


def try_open(path: Path) -> tuple[int, dict[str, Any] | None]:
    """Open a file read-only with O_DIRECT; return the ``errno`` (0 = fine) and its alignment."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECT | os.O_CLOEXEC)
    except OSError as error:
        return error.errno or errno.EINVAL, None
    try:
        return 0, _alignment(descriptor)
    finally:
        os.close(descriptor)


def prove(folder: Path, *, overlay: bool) -> dict[str, Any]:
    """Measure on a scratch file in ``folder``.

    Returns:
        ``{open_errno, …}``; after a successful open also ``{reads, resident, counted_by,
        pass_us: [first, second], alignment}``. ``read_errno`` when a read failed.

    Raises:
        OSError: the scratch file cannot be made (read-only, full, no permission).
    """
    outcome: dict[str, Any] = {}
    writer, name = _scratch(folder)
    try:
        _fill(writer)
        os.fsync(writer)
        # Through the same file that was written: a dirty page is not dropped.
        os.posix_fadvise(writer, 0, 0, os.POSIX_FADV_DONTNEED)
        before = resident_pages(writer, trust_cachestat=not overlay)
        try:
            reader = os.open(f"/proc/self/fd/{writer}", os.O_RDONLY | os.O_DIRECT | os.O_CLOEXEC)
        except OSError as error:
            return {"open_errno": error.errno or errno.EINVAL}
        try:
            outcome["open_errno"] = 0
            outcome["alignment"] = _alignment(reader)
            outcome.update(_read_twice(reader))
        finally:
            os.close(reader)
        after = resident_pages(writer, trust_cachestat=not overlay)
        if before is not None and after is not None:
            # What could not be dropped before the reads was memory all along (tmpfs).
            kept = before[0] > UNDROPPED_SHARE * SCRATCH_BYTES / PAGE_BYTES
            outcome["resident"] = after[0] if kept else max(0, after[0] - before[0])
            outcome["counted_by"] = after[1]
    finally:
        os.close(writer)
        if name is not None:
            with suppress(OSError):
                name.unlink()
    return outcome


def _scratch(folder: Path) -> tuple[int, Path | None]:
    """Make the scratch file: nameless where that works, so that a crash leaves nothing behind."""
    flags = os.O_RDWR | os.O_CLOEXEC
    try:
        return os.open(folder, flags | os.O_TMPFILE, 0o600), None
    except OSError as error:
        if error.errno not in {errno.EOPNOTSUPP, errno.EISDIR, errno.ENOENT, errno.EINVAL}:
            raise
    path = folder / f".qwen-tui-scratch-{os.getpid()}-{random.getrandbits(32):08x}"
    return os.open(path, flags | os.O_CREAT | os.O_EXCL, 0o600), path


def _fill(descriptor: int) -> None:
    block = 1024 * 1024
    for _ in range(SCRATCH_BYTES // block):
        # Random: weights do not compress either, and a compressing file system must not cheat.
        view = memoryview(os.urandom(block))
        while view:
            view = view[os.write(descriptor, view) :]


def _offsets() -> Iterator[int]:
    """Give spaced pages in random order."""
    step = SCRATCH_BYTES // READS
    order = list(range(READS))
    random.shuffle(order)
    for index in order:
        yield index * step


def _read_twice(descriptor: int) -> dict[str, Any]:
    buffer = mmap.mmap(-1, PAGE_BYTES)  # aligned to a page
    times: list[float] = []
    try:
        for _ in range(2):
            offsets = list(_offsets())
            began = time.perf_counter()
            for offset in offsets:
                if os.preadv(descriptor, [buffer], offset) != PAGE_BYTES:
                    return {"read_errno": errno.EIO}
            times.append((time.perf_counter() - began) * 1e6 / READS)
    except OSError as error:
        return {"read_errno": error.errno or errno.EIO}
    finally:
        buffer.close()
    return {"reads": READS, "read_errno": 0, "pass_us": [round(value, 2) for value in times]}


def _alignment(descriptor: int) -> dict[str, Any]:
    found = alignment_of(descriptor)
    if found is None or not found.known:
        return {"known": False}
    alignment: dict[str, Any] = {
        "known": True,
        "memory_bytes": found.memory_bytes,
        "offset_bytes": found.offset_bytes,
    }
    if found.read_offset_bytes is not None:
        alignment["read_offset_bytes"] = found.read_offset_bytes
    return alignment
