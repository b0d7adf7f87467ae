"""Raw system calls through libc's ``syscall``, with every argument passed as a long."""

from __future__ import annotations

import ctypes
import os
import platform
from functools import cache

__all__ = ["AIO_CALLS", "IO_URING_ENTER", "IO_URING_SETUP", "buffer_address", "call", "raw_syscall"]

# The same on every architecture since they were added together (unistd.h).
IO_URING_SETUP = 425
IO_URING_ENTER = 426

AIO_CALLS: dict[str, tuple[int, int, int, int]] = {
    # setup, destroy, getevents, submit
    "x86_64": (206, 207, 208, 209),
    "aarch64": (0, 1, 4, 2),
}


class _Syscall:
    """Typed view of ``syscall(2)``: seven longs."""

    def __init__(self) -> None:
        function = ctypes.CDLL(None, use_errno=True).syscall
        function.restype = ctypes.c_long
        function.argtypes = [ctypes.c_long] * 7
        self.function = function


@cache
def raw_syscall() -> _Syscall:
    """Return the function once; making it costs more than calling it."""
    return _Syscall()


def call(number: int, *arguments: int) -> int:
    """Make a system call and return its result.

    Raises:
        OSError: the call failed.
    """
    padded = (*arguments, 0, 0, 0, 0, 0, 0)[:6]
    result: int = raw_syscall().function(number, *padded)
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
    return result


def machine() -> str:
    """Return the architecture's name."""
    return platform.machine()


def buffer_address(buffer: object) -> int:
    """Return the address of a writable buffer; the buffer must outlive every use of it."""
    return ctypes.addressof(ctypes.c_char.from_buffer(buffer))  # type: ignore[arg-type]
