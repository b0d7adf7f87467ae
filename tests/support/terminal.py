"""A real program in a real pseudo-terminal, read through a terminal emulator."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pyte
import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

__all__ = ["Terminal", "terminal"]


class Terminal:
    """One program and the screen that it paints."""

    def __init__(self, argv: list[str], env: Mapping[str, str], columns: int, rows: int) -> None:
        self._master, slave = pty.openpty()
        self._size(slave, columns, rows)
        self.before = termios.tcgetattr(slave)
        self.screen = pyte.Screen(columns, rows)
        self._stream = pyte.ByteStream(self.screen)
        self.bytes_read = 0
        self._slave = slave
        self.process = subprocess.Popen(
            argv, stdin=slave, stdout=slave, stderr=slave, env=dict(env), start_new_session=True
        )

    @staticmethod
    def _size(handle: int, columns: int, rows: int) -> None:
        fcntl.ioctl(handle, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def resize(self, columns: int, rows: int) -> None:
        """Change the size as a window manager would."""
        self.screen.resize(rows, columns)
        self._size(self._slave, columns, rows)
        self.process.send_signal(signal.SIGWINCH)

    @property
    def text(self) -> str:
        """What stands on the screen."""
        return "\n".join(line.rstrip() for line in self.screen.display)

    def read(self, seconds: float = 0.05) -> int:
        """Take what the program paints within ``seconds``; returns the number of bytes."""
        end = time.monotonic() + seconds
        taken = 0
        while (left := end - time.monotonic()) > 0:
            ready, _, _ = select.select([self._master], [], [], left)
            if not ready:
                break
            try:
                data = os.read(self._master, 65_536)
            except OSError:
                break
            taken += len(data)
            # pyte does not know the private modes that Textual asks for with "$p".
            with contextlib.suppress(TypeError):
                self._stream.feed(data)
        self.bytes_read += taken
        return taken

    def read_for(self, seconds: float) -> None:
        """Take everything that comes within ``seconds``."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.read(min(0.1, max(0.01, end - time.monotonic())))

    @property
    def state(self) -> str:
        """The process state as the kernel writes it: ``R``, ``S``, ``T`` (stopped), …."""
        stat = Path(f"/proc/{self.process.pid}/stat").read_text(encoding="utf-8")
        return stat.rpartition(")")[2].split()[0]

    def wait(self, true: Callable[[str], bool] | str, limit_s: float = 20.0) -> str:
        """Read until the screen shows a text (or a predicate holds)."""
        end = time.monotonic() + limit_s
        while time.monotonic() < end:
            self.read()
            text = self.text
            if (true in text) if isinstance(true, str) else true(text):
                return text
            if self.process.poll() is not None and not self.read(0.2):
                break
        pytest.fail(f"never shown: {true!r}\n{self.text}\nexit code {self.process.poll()}")

    def press(self, keys: str) -> None:
        """Type."""
        os.write(self._master, keys.encode())

    def ended(self, limit_s: float = 10.0) -> int:
        """Wait for the end and return the exit code."""
        end = time.monotonic() + limit_s
        while self.process.poll() is None and time.monotonic() < end:
            self.read()
        self.read(0.2)
        return self.process.wait(1)

    @property
    def sane(self) -> bool:
        """Whether the terminal's settings are what they were before the program began."""
        now = termios.tcgetattr(self._slave)
        return now[:4] == self.before[:4]

    def close(self) -> None:
        """End the program, whatever it does."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(5)
        for handle in (self._master, self._slave):
            with contextlib.suppress(OSError):
                os.close(handle)


@contextlib.contextmanager
def terminal(
    *arguments: str, env: Mapping[str, str], columns: int = 80, rows: int = 24
) -> Iterator[Terminal]:
    """Run ``qwen-tui`` with these arguments in a terminal."""
    running = Terminal([sys.executable, "-m", "qwen_tui", *arguments], env, columns, rows)
    try:
        yield running
    finally:
        running.close()
