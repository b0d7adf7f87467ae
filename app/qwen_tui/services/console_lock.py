"""One console acts, the others watch: a lock that the kernel frees when its holder is gone."""

from __future__ import annotations

import contextlib
import fcntl
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from qwen_tui.services.paths import Paths

__all__ = ["ConsoleLock"]


class ConsoleLock:
    """The right to act on the server from a console."""

    def __init__(self, paths: Paths) -> None:
        self._paths = paths
        self._handle: int | None = None

    @property
    def held(self) -> bool:
        """Whether this process has the right."""
        return self._handle is not None

    def take(self) -> bool:
        """Take the right if nobody has it.

        Returns:
            Whether this process has it now. A state folder that cannot be written counts as free:
            whatever the console then does is refused with its own reason.

        Raises:
            ConfigError: the state folder cannot be made.
        """
        if self._handle is not None:
            return True
        path = self._paths.make(self._paths.state) / "console.lock"
        try:
            handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError:
            return True
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(handle)
            return False
        self._handle = handle
        with contextlib.suppress(OSError):  # a full disk: only the holder's number is lost
            os.ftruncate(handle, 0)
            os.pwrite(handle, str(os.getpid()).encode(), 0)
        return True

    def holder(self) -> int | None:
        """Return the pid of the console that has the right, as far as it is known."""
        try:
            text = (self._paths.state / "console.lock").read_text(encoding="ascii")
        except (OSError, UnicodeDecodeError):
            return None
        return int(text) if text.isdecimal() else None

    def release(self) -> None:
        """Give the right back."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None
