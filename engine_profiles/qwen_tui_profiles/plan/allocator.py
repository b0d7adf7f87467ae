"""What PyTorch's caching allocator reserves on the card for a list of tensors.

Tensors do not take their bytes but whole segments: 2 MiB for small ones, 20 MiB shared by those up
to 10 MiB, and multiples of 2 MiB above. For the 27B in 4 bits this alone is 0.25 GiB, more than
many pools can hide (``c10/cuda/CUDACachingAllocator``: kSmallSize, kSmallBuffer, kLargeBuffer,
kMinLargeAlloc, kRoundLarge).
"""

from __future__ import annotations

import bisect
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["reserved_bytes"]

_ROUND = 512
_SMALL = 1 << 20
_SMALL_SEGMENT = 2 << 20
_LARGE_SEGMENT = 20 << 20
_OWN_SEGMENT = 10 << 20
_ROUND_LARGE = 2 << 20


def reserved_bytes(sizes: Iterable[float]) -> int:
    """Return the bytes of all segments after allocating ``sizes`` in order; nothing is freed."""
    small: list[int] = []
    large: list[int] = []
    reserved = 0
    for size in sizes:
        wanted = max(_ROUND, -(-int(size) // _ROUND) * _ROUND)
        pool = small if wanted <= _SMALL else large
        index = bisect.bisect_left(pool, wanted)
        if index < len(pool):
            block = pool.pop(index)
        else:
            block = _segment(wanted)
            reserved += block
        rest = block - wanted
        # The rest of a large block stays usable only if it is larger than a small allocation.
        if rest >= (_ROUND if pool is small else _SMALL + 1):
            bisect.insort(pool, rest)
    return reserved


def _segment(size: int) -> int:
    if size <= _SMALL:
        return _SMALL_SEGMENT
    if size < _OWN_SEGMENT:
        return _LARGE_SEGMENT
    return -(-size // _ROUND_LARGE) * _ROUND_LARGE
