"""Classic asynchronous I/O (``io_submit``): allowed where containers refuse io_uring."""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import struct
from typing import TYPE_CHECKING

from qwen_tui_diagnostics.diskio.syscalls import (
    AIO_CALLS,
    buffer_address,
    call,
    machine,
    raw_syscall,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

__all__ = ["ClassicAio"]

# linux/aio_abi.h
_IOCB = struct.Struct("=QIIHhIQQqQII")  # data key rw_flags opcode prio fd buf nbytes offset …
_IOCB_WORDS = _IOCB.size // 8
_IOCB_OFFSET_WORD = 5
_EVENT_BYTES = 32
_CMD_PREAD = 0


class ClassicAio:
    """A context that keeps ``depth`` reads of one size in flight on one file.

    Raises:
        OSError: ENOSYS on an unknown architecture; EAGAIN when ``fs.aio-max-nr`` is used up.
    """

    def __init__(self, descriptor: int, depth: int, block_bytes: int) -> None:
        numbers = AIO_CALLS.get(machine())
        if numbers is None:
            raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
        setup, self._destroy, self._getevents, self._submit = numbers
        self.depth, self.block_bytes = depth, block_bytes
        context = ctypes.c_ulong(0)
        call(setup, depth, ctypes.addressof(context))
        self._context = context.value
        self.buffer = mmap.mmap(-1, depth * block_bytes)
        self._blocks = bytearray(depth * _IOCB.size)
        base, blocks = buffer_address(self.buffer), buffer_address(self._blocks)
        for slot in range(depth):
            address = base + slot * block_bytes
            _IOCB.pack_into(
                self._blocks, slot * _IOCB.size,
                slot, 0, 0, _CMD_PREAD, 0, descriptor, address, block_bytes, 0, 0, 0, 0,
            )  # fmt: skip
        self._addresses = [blocks + slot * _IOCB.size for slot in range(depth)]
        self._list = (ctypes.c_uint64 * depth)()
        self._events = bytearray(depth * _EVENT_BYTES)

    def __enter__(self) -> ClassicAio:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Release the context; the kernel waits for reads in flight."""
        if self._context:
            call(self._destroy, self._context)
            self._context = 0

    def run(self, next_offset: Callable[[], int], keep_going: Callable[[], bool]) -> int:
        """Keep the queue full until ``keep_going`` says no, then drain it; see ``Uring.run``.

        Raises:
            OSError: a read failed or came up short (``EIO``).
        """
        function, context, depth, block = (
            raw_syscall().function, self._context, self.depth, self.block_bytes,
        )  # fmt: skip
        words = memoryview(self._blocks).cast("Q")
        events = memoryview(self._events).cast("q")
        pointers, list_at = self._list, ctypes.addressof(self._list)
        events_at = buffer_address(self._events)
        limit = max(1, depth // 8)
        for slot in range(depth):
            words[slot * _IOCB_WORDS + _IOCB_OFFSET_WORD] = next_offset()
            pointers[slot] = self._addresses[slot]
        self._submit_all(depth, list_at)
        in_flight, done, going = depth, 0, True
        while in_flight:
            going = going and keep_going()
            most = limit if going else in_flight
            count = function(self._getevents, context, 1, most, events_at, 0, 0)
            if count < 0:
                code = ctypes.get_errno()
                if code == errno.EINTR:
                    continue
                raise OSError(code, os.strerror(code))
            for index in range(count):
                slot, result = events[index * 4], events[index * 4 + 2]
                if result != block:
                    code = -result if result < 0 else errno.EIO
                    raise OSError(code, os.strerror(code))
                if going:
                    words[slot * _IOCB_WORDS + _IOCB_OFFSET_WORD] = next_offset()
                    pointers[index] = self._addresses[slot]
            done += count
            if going:
                self._submit_all(count, list_at)
            else:
                in_flight -= count
        return done

    def _submit_all(self, count: int, list_at: int) -> None:
        sent = 0
        while sent < count:
            try:
                sent += call(self._submit, self._context, count - sent, list_at + sent * 8)
            except OSError as error:
                if error.errno not in {errno.EINTR, errno.EAGAIN}:
                    raise
