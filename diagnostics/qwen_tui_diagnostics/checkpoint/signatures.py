"""What a file is that is not what its name says: pointers, error pages, other formats."""

from __future__ import annotations

import re
from dataclasses import dataclass

__all__ = ["PointerFacts", "looks_like_page", "read_pointer"]

_LFS = b"version https://git-lfs"
_PAGES = (b"<!doctype", b"<html", b"<?xml", b'{"error"', b"entry not found", b"invalid username",
          b"access to model", b"repository not found", b"not found", b"unauthorized")  # fmt: skip
_OID = re.compile(rb"^oid sha256:([0-9a-f]{64})\s*$", re.MULTILINE)
_SIZE = re.compile(rb"^size (\d{1,18})\s*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class PointerFacts:
    """What a Git LFS pointer stands for."""

    sha256: str | None
    size_bytes: int | None


def read_pointer(head: bytes) -> PointerFacts | None:
    """Return the facts of a Git LFS pointer; None for anything else."""
    if not head.startswith(_LFS):
        return None
    oid, size = _OID.search(head), _SIZE.search(head)
    return PointerFacts(
        None if oid is None else oid[1].decode(), None if size is None else int(size[1])
    )


def looks_like_page(head: bytes) -> bool:
    """Whether a file begins like a page or message that a server sent instead of data."""
    start = head.lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    return start.startswith(_PAGES)
