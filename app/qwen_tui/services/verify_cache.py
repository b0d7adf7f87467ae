"""Digests of files hashed before, kept between runs: an interrupted check goes on where it was."""

from __future__ import annotations

import contextlib
import json
import time
from typing import TYPE_CHECKING

from qwen_tui.services.paths import make_private, write_private

if TYPE_CHECKING:
    import os
    from pathlib import Path

__all__ = ["StoredHashes"]

_MOST_ENTRIES = 20_000
_SAVE_EVERY_S = 2.0


class StoredHashes:
    """``(device, inode, mtime, size)`` → SHA-256, in one file of the cache folder."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._known: dict[str, str] = {}
        self._saved = time.monotonic()
        with contextlib.suppress(OSError, ValueError):
            document = json.loads(path.read_bytes())
            if isinstance(document, dict):
                self._known = {str(k): v for k, v in document.items() if isinstance(v, str)}

    def get(self, facts: os.stat_result) -> str | None:
        """Return the digest of an unchanged file."""
        return self._known.get(_key(facts))

    def put(self, facts: os.stat_result, sha256: str) -> None:
        """Note a digest; it is on disk within two seconds."""
        self._known[_key(facts)] = sha256
        if time.monotonic() - self._saved > _SAVE_EVERY_S:
            self.save()

    def save(self) -> None:
        """Write what is known; a full or read-only disk costs the next run its head start only."""
        entries = list(self._known.items())[-_MOST_ENTRIES:]
        with contextlib.suppress(OSError):
            make_private(self._path.parent)
            write_private(self._path, json.dumps(dict(entries)).encode())
        self._saved = time.monotonic()


def _key(facts: os.stat_result) -> str:
    return f"{facts.st_dev}:{facts.st_ino}:{facts.st_mtime_ns}:{facts.st_size}"
