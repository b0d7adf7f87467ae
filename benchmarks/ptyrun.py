"""Programs on pseudo-terminals, measured by the CPU time and memory of their process trees."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import signal
import struct
import subprocess
import termios
import threading
import time
from dataclasses import dataclass

import psutil


@dataclass(frozen=True)
class Cost:
    """CPU share of one core, and resident memory at the end, over one measured stretch."""

    cpu_pct: float
    rss_mib: float
    seconds: float

    def as_json(self) -> dict[str, float]:
        return {
            "cpu_pct": round(self.cpu_pct, 2),
            "rss_mib": round(self.rss_mib, 1),
            "seconds": round(self.seconds, 1),
        }


class Terminal:
    """One program on a terminal of its own; its output is read and thrown away."""

    def __init__(
        self,
        argv: list[str],
        *,
        size: tuple[int, int] = (160, 48),
        env: dict[str, str] | None = None,
    ) -> None:
        columns, rows = size
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.process = subprocess.Popen(
            argv,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            close_fds=True,
            start_new_session=True,
            env={
                **os.environ,
                "TERM": "xterm-256color",
                "COLUMNS": str(columns),
                "LINES": str(rows),
                **(env or {}),
            },
        )
        os.close(slave)
        self.bytes_seen = 0
        self.last = b""
        threading.Thread(target=self._drain, daemon=True).start()

    def _drain(self) -> None:
        with contextlib.suppress(OSError):
            while data := os.read(self.master, 65536):
                self.bytes_seen += len(data)
                self.last = (self.last + data)[-20000:]

    def _tree(self) -> list[psutil.Process]:
        main = psutil.Process(self.process.pid)
        return [main, *main.children(recursive=True)]

    def cpu_s(self) -> float:
        """CPU seconds of the tree so far, ended children included."""
        total = 0.0
        for process in self._tree():
            with contextlib.suppress(psutil.Error):
                times = process.cpu_times()
                total += times.user + times.system + times.children_user + times.children_system
        return total

    def rss_mib(self) -> float:
        """Resident memory of the tree."""
        total = 0
        for process in self._tree():
            with contextlib.suppress(psutil.Error):
                total += process.memory_info().rss
        return total / 2**20

    def alive(self) -> bool:
        return self.process.poll() is None

    def press(self, keys: str) -> None:
        """Send key presses."""
        os.write(self.master, keys.encode())

    def end(self) -> None:
        """TERM, then KILL, to this program's own session."""
        if self.alive():
            self.process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(timeout=5)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(timeout=10)
        with contextlib.suppress(OSError):
            os.close(self.master)


def measure(programs: dict[str, Terminal], seconds: float) -> dict[str, Cost]:
    """Measure all programs over the same stretch of time."""
    began = time.monotonic()
    before = {name: p.cpu_s() for name, p in programs.items() if p.alive()}
    time.sleep(seconds)
    took = time.monotonic() - began
    return {
        name: Cost((programs[name].cpu_s() - cpu) / took * 100, programs[name].rss_mib(), took)
        for name, cpu in before.items()
        if programs[name].alive()
    }
