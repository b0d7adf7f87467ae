"""``qwen-tui web`` as a process, in a home of its own with a demo profile on a free port."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
from typing import TYPE_CHECKING

import psutil

from qwen_tui.services.paths import Paths
from support.supervise import kill_all

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["WebConsole", "web_console"]


class WebConsole:
    """A running web console."""

    def __init__(self, process: subprocess.Popen[str], url: str) -> None:
        self.process = process
        self.url = url

    @property
    def origin(self) -> str:
        """The address without path and key."""
        return self.url.partition("/?")[0]

    def consoles(self) -> list[psutil.Process]:
        """The console processes of its tabs."""
        return psutil.Process(self.process.pid).children()

    def end(self, number: signal.Signals = signal.SIGINT) -> tuple[int, str]:
        """End it as Ctrl+C does; returns the exit code and what it said."""
        self.process.send_signal(number)
        _, said = self.process.communicate(timeout=20)
        return self.process.returncode, said


@contextlib.contextmanager
def web_console(home: Path) -> Iterator[WebConsole]:
    """Run ``qwen-tui web`` on a free port."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    paths = Paths(home / "config", home / "state", home / "cache")
    paths.profiles.mkdir(parents=True)
    (paths.config / "config.toml").write_text('[console]\nguide = "done"\n')
    (paths.profiles / "demo-speed.toml").write_text(
        f'extends = "demo-speed"\nport = {port}\n[args]\ndemo-load-seconds = 0.4\n'
    )
    env = {k: v for k, v in os.environ.items() if k not in {"NO_COLOR", "COLUMNS", "LINES"}}
    process = subprocess.Popen(
        [sys.executable, "-m", "qwen_tui", "web", "--port", "0"],
        env={**env, "QWEN_TUI_HOME": str(home), "LC_ALL": "C.UTF-8"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert process.stdout is not None
        yield WebConsole(process, process.stdout.readline().strip())
    finally:
        if process.poll() is None:
            process.terminate()
            process.communicate(timeout=20)
        for stream in (process.stdout, process.stderr):
            if stream is not None:
                stream.close()
        kill_all(paths)
