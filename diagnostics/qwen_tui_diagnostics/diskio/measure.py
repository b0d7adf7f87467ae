"""Timed reads of one file: what the disk gives at a depth, and what that costs the processor."""

from __future__ import annotations

import errno
import itertools
import os
import random
import time
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from qwen_tui_diagnostics.diskio.aio import ClassicAio
from qwen_tui_diagnostics.diskio.threads import MOST_THREADS, read_with_threads
from qwen_tui_diagnostics.diskio.uring import Uring

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    OffsetMaker = Callable[[int], Callable[[], int]]

__all__ = [
    "METHODS",
    "RANDOM_BYTES",
    "SEQUENTIAL_BYTES",
    "Sample",
    "random_reads",
    "sequential_reads",
]

METHODS = ("io_uring", "libaio", "threads")
RANDOM_BYTES = 4096
SEQUENTIAL_BYTES = 1024 * 1024
SEQUENTIAL_DEPTH = 4
_OFFSETS_AT_ONCE = 65536
_BUSY = 0.9
"""Share of one core from which the probe itself is taken for the limit."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One measurement."""

    method: str
    depth: int
    block_bytes: int
    reads: int
    seconds: float
    cpu_us_per_read: float
    probe_bound: bool
    """The interpreter was busy all the time: the disk may do more."""
    lower_bound: bool
    """The method cannot keep this depth full: the disk does at least this."""

    @property
    def reads_per_s(self) -> float:
        """Completed reads a second."""
        return self.reads / self.seconds

    @property
    def bytes_per_s(self) -> float:
        """Bytes a second."""
        return self.reads_per_s * self.block_bytes

    def as_json(self) -> dict[str, Any]:
        """Return the fields and the two rates."""
        return asdict(self) | {
            "seconds": round(self.seconds, 3),
            "cpu_us_per_read": round(self.cpu_us_per_read, 2),
            "reads_per_s": round(self.reads_per_s, 1),
            "bytes_per_s": round(self.bytes_per_s),
        }


def random_reads(
    descriptor: int,
    size_bytes: int,
    depth: int,
    seconds: float,
    methods: Sequence[str] = METHODS,
) -> Sample:
    """Read random 4 KiB pages with ``depth`` in flight; fresh offsets on every call.

    Args:
        descriptor: Opened with O_DIRECT.
        size_bytes: Part of the file to read from.
        depth: Reads in flight. One is done with plain ``preadv``, as an engine would.
        seconds: Length of the measurement.
        methods: Tried in order; the next only when the system refuses one.

    Raises:
        OSError: a read failed, or every method was refused.
    """
    pages = size_bytes // RANDOM_BYTES
    if pages < 1:
        raise OSError(errno.EINVAL, "the file is smaller than one page")
    if depth == 1:
        methods = ("threads",)

    def make_offsets(bulk: int) -> Callable[[], int]:
        return _random_offsets(pages, bulk)

    return _first_method(descriptor, depth, RANDOM_BYTES, seconds, methods, make_offsets)


def sequential_reads(descriptor: int, size_bytes: int, seconds: float) -> Sample:
    """Read 1 MiB blocks in order, four in flight, from the start again at the end.

    Raises:
        OSError: a read failed.
    """
    blocks = size_bytes // SEQUENTIAL_BYTES
    if blocks < 1:
        raise OSError(errno.EINVAL, "the file is smaller than one block")
    counter = itertools.count()

    def next_offset() -> int:
        return next(counter) % blocks * SEQUENTIAL_BYTES

    return _first_method(
        descriptor, SEQUENTIAL_DEPTH, SEQUENTIAL_BYTES, seconds, ("threads",), lambda _: next_offset
    )


def _random_offsets(pages: int, bulk: int) -> Callable[[], int]:
    """Return a source of random offsets that is cheap to ask: drawn in bulk, the first at once."""
    source = random.Random(os.urandom(16))
    span = range(0, pages * RANDOM_BYTES, RANDOM_BYTES)

    first = source.choices(span, k=bulk)

    def bulks() -> Iterator[list[int]]:
        yield first
        while True:
            yield source.choices(span, k=bulk)

    return itertools.chain.from_iterable(bulks()).__next__


def _first_method(
    descriptor: int,
    depth: int,
    block_bytes: int,
    seconds: float,
    methods: Sequence[str],
    make_offsets: OffsetMaker,
) -> Sample:
    refused: OSError | None = None
    for method in methods:
        try:
            return _timed(method, descriptor, depth, block_bytes, seconds, make_offsets)
        except _Refused as refusal:
            refused = refusal.cause
    raise refused or OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))


class _Refused(Exception):  # noqa: N818 - a signal between two functions
    """The system does not allow a method; the next one is tried."""

    def __init__(self, cause: OSError) -> None:
        super().__init__()
        self.cause = cause


def _timed(
    method: str,
    descriptor: int,
    depth: int,
    block_bytes: int,
    seconds: float,
    make_offsets: OffsetMaker,
) -> Sample:
    queue: Uring | ClassicAio | None = None
    if method != "threads":
        try:
            kind = Uring if method == "io_uring" else ClassicAio
            queue = kind(descriptor, depth, block_bytes)
        except OSError as error:
            raise _Refused(error) from error
    count = 1 if queue is not None else min(depth, MOST_THREADS)
    sources = [make_offsets(_OFFSETS_AT_ONCE // count) for _ in range(count)]
    clock = time.perf_counter
    cpu_before, began = time.process_time(), clock()
    deadline = began + seconds

    def keep_going() -> bool:
        return clock() < deadline

    try:
        if queue is None:
            reads = read_with_threads(descriptor, block_bytes, sources, keep_going)
        else:
            reads = queue.run(sources[0], keep_going)
    except OSError as error:
        # A kernel that makes rings but lacks the read operation answers with EINVAL.
        if queue is not None and error.errno in {errno.EINVAL, errno.EOPNOTSUPP}:
            raise _Refused(error) from error
        raise
    finally:
        elapsed = clock() - began
        cpu = time.process_time() - cpu_before
        if queue is not None:
            queue.close()
    if reads == 0:
        raise OSError(errno.EIO, "no read completed")
    return Sample(
        method=method,
        depth=depth,
        block_bytes=block_bytes,
        reads=reads,
        seconds=elapsed,
        cpu_us_per_read=cpu * 1e6 / reads,
        probe_bound=cpu > _BUSY * elapsed,
        lower_bound=method == "threads" and depth > MOST_THREADS,
    )
