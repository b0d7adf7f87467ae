"""``/proc/meminfo`` in bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["read_meminfo"]


def read_meminfo(proc_root: Path) -> dict[str, int]:
    """Return the fields of ``meminfo`` (``MemTotal``, ``MemAvailable``, …) in bytes.

    Empty when it cannot be read; a malformed line is left out.
    """
    try:
        lines = (proc_root / "meminfo").read_text("ascii", "replace").splitlines()
    except OSError:
        return {}
    found: dict[str, int] = {}
    for line in lines:
        name, _, rest = line.partition(":")
        words = rest.split()
        if words and words[0].isdecimal() and words[0].isascii():
            found[name] = int(words[0]) * (1024 if words[1:] == ["kB"] else 1)
    return found
