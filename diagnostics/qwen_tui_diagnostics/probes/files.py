"""Small reads of ``/proc`` and ``/sys`` files."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from qwen_tui_profiles.foreign import clean

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["first_line", "read_text", "try_text"]

_LIMIT_BYTES = 4 * 1024 * 1024
_PIECE_BYTES = 65536


def read_text(path: Path) -> str:
    """Return a file's text (at most 4 MiB, undecodable bytes replaced).

    Raises:
        OSError: it cannot be read.
    """
    parts: list[bytes] = []
    left = _LIMIT_BYTES
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        # In small pieces: the kernel allocates what is asked for when a sysctl is read.
        while left > 0 and (part := os.read(descriptor, min(left, _PIECE_BYTES))):
            parts.append(part)
            left -= len(part)
    finally:
        os.close(descriptor)
    return b"".join(parts).decode("utf-8", "replace")


def try_text(path: Path) -> str | None:
    """Return a file's text, or ``None`` when it cannot be read."""
    try:
        return read_text(path)
    except OSError:
        return None


def first_line(path: Path) -> str:
    """Return the first line, cleaned.

    Raises:
        OSError: the file cannot be read.
    """
    return clean(read_text(path).partition("\n")[0]).strip()
