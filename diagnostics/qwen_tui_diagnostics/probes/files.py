"""Small reads of ``/proc`` and ``/sys`` files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qwen_tui_profiles.foreign import clean

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["first_line", "read_text", "try_text"]

_LIMIT_BYTES = 4 * 1024 * 1024


def read_text(path: Path) -> str:
    """Return a file's text (at most 4 MiB, undecodable bytes replaced).

    Raises:
        OSError: it cannot be read.
    """
    with path.open("rb") as file:
        return file.read(_LIMIT_BYTES).decode("utf-8", "replace")


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
