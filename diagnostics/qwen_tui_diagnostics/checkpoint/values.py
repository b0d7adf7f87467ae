"""Small values read from the data: global scales and stored shapes."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from qwen_tui_diagnostics.checkpoint.headers import Shard
    from qwen_tui_diagnostics.checkpoint.source import Source
    from qwen_tui_diagnostics.checkpoint.stock import Stored

__all__ = ["ValueReader"]

_CODES = {"F32": "f", "F64": "d", "F16": "e", "I64": "q", "I32": "i"}
_MOST_VALUES = 8


class ValueReader:
    """Reads scalars with one small ``pread`` each; None where a value cannot be had."""

    def __init__(self, source: Source, shards: Mapping[str, Shard]) -> None:
        self._source = source
        self._shards = shards
        self.usable = source.folder is not None
        """False for a repository far away: a request per scalar would take minutes."""

    def numbers(self, stored: Stored) -> tuple[float, ...] | None:
        """Return the values of a tensor with at most eight."""
        entry = stored.entry
        shard = self._shards[stored.file]
        code = _CODES.get(entry.dtype)
        # Holes read as zeros that nobody stored.
        if not self.usable or code is None or shard.hole_bytes:
            return None
        size = struct.calcsize("<" + code)
        count = (entry.end - entry.begin) // size
        if not 0 < count <= _MOST_VALUES:
            return None
        try:
            raw = self._source.read(stored.file, shard.data_begin + entry.begin, count * size)
        except OSError:
            return None
        return struct.unpack(f"<{count}{code}", raw) if len(raw) == count * size else None
