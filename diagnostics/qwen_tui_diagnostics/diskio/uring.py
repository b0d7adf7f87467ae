"""io_uring by three system calls and two memory maps.

One submission entry belongs to one slot of the read buffer and is written once; per read only its
offset changes. The ring is used from one thread without ``SQPOLL``: the kernel looks at the queue
only inside ``io_uring_enter``, so plain stores are ordered by the call itself.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import struct
from typing import TYPE_CHECKING

from qwen_tui_diagnostics.diskio.syscalls import (
    IO_URING_ENTER,
    IO_URING_SETUP,
    buffer_address,
    call,
    raw_syscall,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

__all__ = ["Uring", "setup_errno"]

# linux/io_uring.h
_PARAMS_BYTES = 120
_SQE_BYTES = 64
_CQE_BYTES = 16
_OFF_SQ_RING, _OFF_CQ_RING, _OFF_SQES = 0, 0x8000000, 0x10000000
_ENTER_GETEVENTS = 1
_OP_READ = 22
_SQE = struct.Struct("=BBHiQQIIQ")  # opcode flags ioprio fd off addr len rw_flags user_data
_SQE_OFFSET_WORD = 1
"""Index of ``off`` in an entry seen as 64-bit words."""
_SQE_WORDS = _SQE_BYTES // 8


def setup_errno(entries: int) -> int:
    """Create and close a ring; return 0 or the ``errno``.

    EPERM: refused by ``kernel.io_uring_disabled`` or by seccomp; ENOSYS: no io_uring in this
    kernel; ENOMEM: the ring does not fit into ``RLIMIT_MEMLOCK``.
    """
    params = (ctypes.c_ubyte * _PARAMS_BYTES)()
    try:
        descriptor = call(IO_URING_SETUP, entries, ctypes.addressof(params))
    except OSError as error:
        return error.errno or errno.EINVAL
    os.close(descriptor)
    return 0


class Uring:
    """A ring that keeps ``depth`` reads of one size in flight on one file.

    Args:
        descriptor: File opened for reading, usually with O_DIRECT.
        depth: Reads in flight, 1 to 4096.
        block_bytes: Size of a read; a multiple of the file's alignment.

    Raises:
        OSError: the ring cannot be made (see :func:`setup_errno`).
    """

    def __init__(self, descriptor: int, depth: int, block_bytes: int) -> None:
        self.depth = depth
        self.block_bytes = block_bytes
        params = (ctypes.c_ubyte * _PARAMS_BYTES)()
        self._ring = call(IO_URING_SETUP, depth, ctypes.addressof(params))
        self._maps: list[mmap.mmap] = []
        self._views: list[memoryview] = []
        try:
            self._map(bytes(params), descriptor)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Uring:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Release ring and buffers; the kernel waits for reads in flight."""
        if self._ring >= 0:
            os.close(self._ring)
            self._ring = -1
        for view in reversed(self._views):
            view.release()
        self._views.clear()
        self._maps.clear()

    def _map(self, params: bytes, descriptor: int) -> None:
        entries, completions = struct.unpack_from("=II", params, 0)
        # struct io_sqring_offsets at 40, struct io_cqring_offsets at 80.
        _, sq_tail, sq_mask, _, _, _, sq_array = struct.unpack_from("=7I", params, 40)
        cq_head, cq_tail, cq_mask, _, _, cqes = struct.unpack_from("=6I", params, 80)
        sq_words = self._area(sq_array + entries * 4, _OFF_SQ_RING).cast("I")
        cq_area = self._area(cqes + completions * _CQE_BYTES, _OFF_CQ_RING)
        cq_words = cq_area[: (cqes + completions * _CQE_BYTES) // 4 * 4].cast("I")
        sqe_area = self._area(entries * _SQE_BYTES, _OFF_SQES)
        self._views += [sq_words, cq_words]
        self.buffer = mmap.mmap(-1, self.depth * self.block_bytes)
        self._maps.append(self.buffer)
        base = buffer_address(self.buffer)
        for slot in range(self.depth):
            address = base + slot * self.block_bytes
            entry = (_OP_READ, 0, 0, descriptor, 0, address, self.block_bytes, 0, slot)
            _SQE.pack_into(sqe_area, slot * _SQE_BYTES, *entry)
        self._sqes = sqe_area.cast("Q")
        self._views.append(self._sqes)
        self._sq, self._cq = sq_words, cq_words
        self._sq_tail, self._sq_array = sq_tail // 4, sq_array // 4
        self._sq_mask = sq_words[sq_mask // 4]
        self._cq_head, self._cq_tail, self._cqes = cq_head // 4, cq_tail // 4, cqes // 4
        self._cq_mask = cq_words[cq_mask // 4]

    def _area(self, size: int, offset: int) -> memoryview:
        area = mmap.mmap(
            self._ring,
            size,
            flags=mmap.MAP_SHARED | mmap.MAP_POPULATE,
            prot=mmap.PROT_READ | mmap.PROT_WRITE,
            offset=offset,
        )
        self._maps.append(area)
        view = memoryview(area)
        self._views.append(view)
        return view

    def run(self, next_offset: Callable[[], int], keep_going: Callable[[], bool]) -> int:
        """Keep the queue full until ``keep_going`` says no, then drain it.

        At most an eighth of the depth is reaped a turn: reaping everything that is ready makes the
        queue breathe, and the device idles.

        Args:
            next_offset: Gives the byte offset of the next read.
            keep_going: Asked once a turn.

        Returns:
            The number of completed reads.

        Raises:
            OSError: a read failed or came up short (``EIO``).
        """
        enter, ring, depth = raw_syscall().function, self._ring, self.depth
        sq, cq, sqes = self._sq, self._cq, self._sqes
        tail_at, array_at, sq_mask = self._sq_tail, self._sq_array, self._sq_mask
        head_at, cq_tail_at, cqes_at, cq_mask = (
            self._cq_head, self._cq_tail, self._cqes, self._cq_mask,
        )  # fmt: skip
        block, limit = self.block_bytes, max(1, depth // 8)
        tail, head = sq[tail_at], cq[head_at]
        for slot in range(depth):
            sqes[slot * _SQE_WORDS + _SQE_OFFSET_WORD] = next_offset()
            sq[array_at + (tail & sq_mask)] = slot
            tail = tail + 1 & 0xFFFFFFFF
        sq[tail_at] = tail
        pending, in_flight, done, going = depth, depth, 0, True
        while in_flight:
            result = enter(IO_URING_ENTER, ring, pending, 1, _ENTER_GETEVENTS, 0, 0)
            if result < 0:
                code = ctypes.get_errno()
                if code in {errno.EINTR, errno.EAGAIN, errno.EBUSY}:
                    continue
                raise OSError(code, os.strerror(code))
            pending -= result
            ready = cq[cq_tail_at] - head & 0xFFFFFFFF
            going = going and keep_going()
            for _ in range(min(ready, limit) if going else ready):
                at = cqes_at + (head & cq_mask) * 4
                if cq[at + 2] != block:
                    self._raise(cq[at + 2])
                slot = cq[at]
                head = head + 1 & 0xFFFFFFFF
                done += 1
                if going:
                    sqes[slot * _SQE_WORDS + _SQE_OFFSET_WORD] = next_offset()
                    sq[array_at + (tail & sq_mask)] = slot
                    tail = tail + 1 & 0xFFFFFFFF
                    pending += 1
                else:
                    in_flight -= 1
            cq[head_at] = head
            sq[tail_at] = tail
        return done

    @staticmethod
    def _raise(result: int) -> None:
        signed = result - (1 << 32) if result >> 31 else result
        code = -signed if signed < 0 else errno.EIO
        raise OSError(code, os.strerror(code))
