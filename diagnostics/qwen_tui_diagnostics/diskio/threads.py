"""The last resort, and the plain way for sequential reads: threads with ``preadv``."""

from __future__ import annotations

import errno
import mmap
import os
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["read_with_threads"]

MOST_THREADS = 128
"""More threads than this only add switching: depth 512 is then a lower bound."""


def read_with_threads(
    descriptor: int,
    block_bytes: int,
    sources: Sequence[Callable[[], int]],
    keep_going: Callable[[], bool],
) -> int:
    """Read with one thread a source; ``preadv`` releases the interpreter while it waits.

    Args:
        descriptor: File to read.
        block_bytes: Size of a read.
        sources: One source of offsets for each thread.
        keep_going: Asked before every read.

    Returns:
        The number of completed reads.

    Raises:
        OSError: a read failed or came up short (``EIO``).
    """
    if len(sources) == 1:
        return _read(descriptor, block_bytes, sources[0], keep_going)
    counts: list[int] = []
    errors: list[OSError] = []

    def work(next_offset: Callable[[], int]) -> None:
        try:
            counts.append(_read(descriptor, block_bytes, next_offset, keep_going))
        except OSError as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(source,)) for source in sources]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return sum(counts)


def _read(
    descriptor: int,
    block_bytes: int,
    next_offset: Callable[[], int],
    keep_going: Callable[[], bool],
) -> int:
    done = 0
    with mmap.mmap(-1, block_bytes) as buffer:
        buffers, preadv = [buffer], os.preadv
        while keep_going():
            if preadv(descriptor, buffers, next_offset()) != block_bytes:
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            done += 1
    return done
