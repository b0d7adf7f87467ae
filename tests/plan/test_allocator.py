"""PyTorch's segments, by its published constants."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from qwen_tui_profiles.plan.allocator import reserved_bytes

_MIB = 1 << 20


def test_segments_by_size() -> None:
    assert reserved_bytes([]) == 0
    assert reserved_bytes([1]) == 2 * _MIB
    assert reserved_bytes([_MIB, _MIB]) == 2 * _MIB
    assert reserved_bytes([_MIB, _MIB, 512]) == 4 * _MIB
    assert reserved_bytes([_MIB + 512]) == 20 * _MIB
    # Two tensors of 9.9 MiB share a segment, a third does not fit.
    assert reserved_bytes([9.9 * _MIB] * 2) == 20 * _MIB
    assert reserved_bytes([9.9 * _MIB] * 3) == 40 * _MIB
    assert reserved_bytes([10 * _MIB]) == 10 * _MIB
    assert reserved_bytes([85 * _MIB]) == 86 * _MIB
    assert reserved_bytes([340 * _MIB]) == 340 * _MIB


def test_rest_of_a_large_segment_is_used_when_it_is_large_enough() -> None:
    # 42.5 of 44 MiB: the 1.5 MiB that are left serve a tensor of 1.2 MiB.
    assert reserved_bytes([42.5 * _MIB, 1.2 * _MIB]) == 44 * _MIB
    # 0.5 MiB do not: small tensors have segments of their own.
    assert reserved_bytes([43.5 * _MIB, 0.4 * _MIB]) == 46 * _MIB


@given(st.lists(st.integers(1, 64 * _MIB), max_size=60))
def test_never_less_than_the_tensors_and_never_absurdly_more(sizes: list[int]) -> None:
    reserved = reserved_bytes(sizes)
    assert reserved >= sum(sizes)
    assert reserved <= sum(sizes) + len(sizes) * 20 * _MIB
    assert reserved % (2 * _MIB) == 0
