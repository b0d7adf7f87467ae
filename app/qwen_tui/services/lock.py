"""The lock that one process at a time holds on what runs, and what it says of its holder."""

from __future__ import annotations

import errno
import fcntl
import json
import os
from typing import TYPE_CHECKING

from qwen_tui_profiles.text import as_record, from_record, t

if TYPE_CHECKING:
    from pathlib import Path

    from qwen_tui_profiles.text import Text

__all__ = ["holder_of", "open_lock", "sign", "try_lock"]

_HOLDER_BYTES = 2000


def open_lock(path: Path) -> int:
    """Open a lock, for reading alone where its disk became read-only: a server can be stopped then.

    Raises:
        OSError: it cannot be opened.
    """
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        if error.errno != errno.EROFS:
            raise
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)


def try_lock(handle: int) -> bool:
    """Take the lock; False when somebody else has it. The kernel frees it with its holder."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True  # a file system without locks: better without one than not at all
    return True


def sign(handle: int, purpose: Text) -> None:
    """Write who holds it and what for: an English line, and its parts on a second one.

    Raises:
        OSError: it cannot be written; the lock holds all the same.
    """
    holder = t("pid {pid}, {purpose}", pid=os.getpid(), purpose=purpose)
    line = f"{holder}\n{json.dumps(as_record(holder))}".encode()[:_HOLDER_BYTES]
    os.ftruncate(handle, 0)
    os.pwrite(handle, line, 0)


def holder_of(handle: int) -> Text:
    """Return what the holder wrote."""
    data = os.pread(handle, _HOLDER_BYTES, 0)
    english, _, parts = data.decode("utf-8", "replace").strip().partition("\n")
    try:
        return from_record(json.loads(parts), english)
    except ValueError:
        return from_record(None, english)
