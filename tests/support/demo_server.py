"""The simulated engine as a process, for tests that need a server; it is always ended."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["DemoServer", "free_port", "running"]

READY = "The server is fired up and ready to roll!"
QUICK = (
    *("--demo-load-seconds", "0", "--demo-token-ms", "0", "--demo-prefill-tok-s", "0"),
    *("--demo-drain-poll-seconds", "0", "--demo-crash-seconds", "0", "--demo-health-seconds", "0"),
)
"""No delays at all."""
HYBRID = (
    *("--context-length", "159776", "--mem-fraction-static", "0.97", "--page-size", "32"),
    *("--kv-cache-dtype", "fp8_e4m3", "--chunked-prefill-size", "2048"),
    *("--speculative-algorithm", "EAGLE", "--speculative-num-steps", "5"),
    *("--speculative-eagle-topk", "1", "--speculative-num-draft-tokens", "6"),
    *("--mamba-radix-cache-strategy", "extra_buffer_lazy", "--mamba-ssm-dtype", "bfloat16"),
    *("--max-running-requests", "4", "--max-mamba-cache-size", "8"),
    *("--reasoning-parser", "qwen3", "--tool-call-parser", "qwen3_coder"),
    *("--enable-metrics", "--enable-cache-report"),
)
"""The shape of a speed profile: four requests asked, two got."""


def free_port() -> int:
    """Return a port that was free a moment ago."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


@dataclass
class DemoServer:
    """One process and what it has printed."""

    process: subprocess.Popen[bytes]
    port: int
    raw: bytearray = field(default_factory=bytearray)
    ended: threading.Event = field(default_factory=threading.Event)
    """Set when its output has been read to the end."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def log(self) -> str:
        return self.raw.decode("utf-8", "replace")

    def wait_for(self, text: str, timeout_s: float = 20) -> str:
        """Return the first line that holds ``text``."""
        until = time.monotonic() + timeout_s
        while time.monotonic() < until:
            for line in self.log.splitlines():
                if text in line:
                    return line
            if self.process.poll() is not None and self.ended.wait(2) and text not in self.log:
                break
            time.sleep(0.01)
        message = f"{text!r} did not come (rc {self.process.poll()}):\n{self.log[-3000:]}"
        raise AssertionError(message)

    def ask(
        self, path: str, body: object = None, *, key: str | None = None, method: str | None = None
    ) -> tuple[int, Any]:
        """Return status and parsed JSON (or text)."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.url}{path}", data=data, method=method)
        request.add_header("Content-Type", "application/json")
        if key is not None:
            request.add_header("Authorization", f"Bearer {key}")
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                status, text = answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                status, text = error.code, error.read().decode()
        try:
            return status, json.loads(text)
        except ValueError:
            return status, text

    def events(self, path: str, body: object) -> list[Any]:
        """Return the events of a stream; the closing ``[DONE]`` as that string."""
        status, text = self.ask(path, body)
        assert status == 200
        out = re.findall(r"^data: (.*)$", str(text), re.MULTILINE)
        return [item if item == "[DONE]" else json.loads(item) for item in out]

    def wait(self, timeout_s: float = 20) -> int:
        """Return the exit code, with all that it printed read."""
        code = self.process.wait(timeout_s)
        assert self.ended.wait(timeout_s), "the output is still open"
        return code


@contextlib.contextmanager
def running(*argv: str, ready: bool = True, quick: Sequence[str] = QUICK) -> Iterator[DemoServer]:
    """Start the engine in a session of its own; whatever happens, nothing of it is left."""
    port = free_port()
    command = [sys.executable, "-m", "qwen_tui.demo_engine", "--port", str(port), *quick, *argv]
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True
    )
    server = DemoServer(process, port)
    reader = threading.Thread(target=_read, args=(server,), daemon=True)
    reader.start()
    try:
        if ready:
            server.wait_for(READY)
        yield server
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        reader.join(5)
        if process.stderr is not None:
            process.stderr.close()


def _read(server: DemoServer) -> None:
    stream = server.process.stderr
    assert stream is not None
    while data := os.read(stream.fileno(), 65536):
        server.raw += data
    server.ended.set()
