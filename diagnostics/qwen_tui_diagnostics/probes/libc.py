"""The few C calls that Python lacks: ``statx``, ``cachestat``, ``mincore``."""

from __future__ import annotations

import ctypes
import mmap
import os
import struct
from dataclasses import dataclass
from functools import cache

__all__ = ["Alignment", "alignment_of", "resident_pages"]

_AT_EMPTY_PATH = 0x1000
_STATX_DIOALIGN = 0x2000
_STATX_DIO_READ_ALIGN = 0x20000
_STATX_BYTES = 256
# struct statx: stx_mask, then the two alignments (linux/stat.h).
_MASK_AT, _MEMORY_AT, _OFFSET_AT, _READ_OFFSET_AT = 0, 152, 156, 180
_SYS_CACHESTAT = 451
_PAGE = mmap.PAGESIZE


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True, slots=True)
class Alignment:
    """What ``statx`` says of direct I/O on one file."""

    known: bool
    """False: the kernel or the file system does not tell."""
    memory_bytes: int
    offset_bytes: int
    """0 although known: direct I/O is not supported on this file."""
    read_offset_bytes: int | None


def alignment_of(descriptor: int) -> Alignment | None:
    """Ask ``statx`` for the alignment of direct I/O; ``None`` where the C library has no statx."""
    try:
        statx = _libc().statx
    except AttributeError:
        return None
    buffer = ctypes.create_string_buffer(_STATX_BYTES)
    mask = ctypes.c_uint(_STATX_DIOALIGN | _STATX_DIO_READ_ALIGN)
    if statx(descriptor, b"", _AT_EMPTY_PATH, mask, buffer) != 0:
        return None
    (answered,) = struct.unpack_from("=I", buffer, _MASK_AT)
    memory, offset = struct.unpack_from("=II", buffer, _MEMORY_AT)
    read_offset: int | None = None
    if answered & _STATX_DIO_READ_ALIGN:
        (read_offset,) = struct.unpack_from("=I", buffer, _READ_OFFSET_AT)
    return Alignment(bool(answered & _STATX_DIOALIGN), memory, offset, read_offset)


def resident_pages(descriptor: int, *, trust_cachestat: bool) -> tuple[int, str] | None:
    """Count the pages of one of *our own* files that are in the page cache.

    For a file that is not ours ``mincore`` claims that everything is resident and ``cachestat``
    is refused; on overlay ``cachestat`` looks at the wrong inode and always says 0.

    Args:
        descriptor: A readable descriptor.
        trust_cachestat: False on overlay file systems.

    Returns:
        The number and the call that gave it, or ``None`` when neither works.
    """
    size = os.fstat(descriptor).st_size
    if trust_cachestat:
        ranges = (ctypes.c_uint64 * 2)(0, size)
        stats = (ctypes.c_uint64 * 5)()
        call = _libc().syscall
        if call(ctypes.c_long(_SYS_CACHESTAT), descriptor, ranges, stats, 0) == 0:
            return int(stats[0]), "cachestat"
    return _mincore(descriptor, size)


def _mincore(descriptor: int, size: int) -> tuple[int, str] | None:
    if size == 0:
        return 0, "mincore"
    libc = _libc()
    libc.mmap.restype = ctypes.c_void_p
    address = libc.mmap(
        None, ctypes.c_size_t(size), mmap.PROT_READ, mmap.MAP_SHARED, descriptor, ctypes.c_long(0)
    )
    if address in {None, ctypes.c_void_p(-1).value}:
        return None
    pages = (size + _PAGE - 1) // _PAGE
    vector = (ctypes.c_ubyte * pages)()
    try:
        if libc.mincore(ctypes.c_void_p(address), ctypes.c_size_t(size), vector) != 0:
            return None
    finally:
        libc.munmap(ctypes.c_void_p(address), ctypes.c_size_t(size))
    return sum(byte & 1 for byte in bytes(vector)), "mincore"
