"""How the engine ends: drain after SIGTERM, run-time faults, the death of its child."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import signal
import subprocess
import time
from typing import TYPE_CHECKING, NoReturn

from qwen_tui.demo_engine.boot import crash_text, kill_tree
from qwen_tui.demo_engine.faults import FAULTS
from qwen_tui.demo_engine.log import emit

if TYPE_CHECKING:
    import uvicorn

    from qwen_tui.demo_engine.arguments import DemoOptions
    from qwen_tui.demo_engine.engine import Engine

__all__ = ["Lifecycle"]

_PR_SET_PDEATHSIG = 1


class Lifecycle:
    """Signals, child and faults of one engine process."""

    def __init__(self, demo: DemoOptions) -> None:
        self._demo = demo
        self._child = _start_child() if demo.child else None
        self._engine: Engine | None = None
        self._server: uvicorn.Server | None = None
        self._requests = 0
        self._term = asyncio.Event()

    def attach(self, engine: Engine, server: uvicorn.Server) -> None:
        """Take over the signals (the event loop runs)."""
        self._engine, self._server = engine, server
        loop = asyncio.get_running_loop()
        if self._demo.fault != "ignore-term":
            loop.add_signal_handler(signal.SIGTERM, self._on_term)
        loop.add_signal_handler(signal.SIGINT, self._on_int)
        loop.add_signal_handler(signal.SIGQUIT, self._on_quit)

    def on_request(self) -> None:
        """Count a generation request and play the run-time fault when its turn has come."""
        self._requests += 1
        fault = self._demo.fault
        if fault is None or self._requests != self._demo.fault_after:
            return
        if fault == "hang-running" and self._engine is not None:
            self._engine.scheduler.stopped = True
            return
        if FAULTS[fault].when != "run":
            return
        loop = asyncio.get_running_loop()
        # After the prefill has begun, so that the request is in flight.
        loop.call_later(0.05, self._crash, fault)

    async def watch(self) -> None:
        """Wait for SIGTERM and drain; notice a dead child. Returns when the server may end."""
        while not self._term.is_set():
            self._look_at_child()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(0.1 if self._child else None):
                    await self._term.wait()
        # SGLang looks for the signal only every few seconds.
        await self._pause(self._demo.drain_poll_seconds)
        while True:
            open_requests = {} if self._engine is None else self._engine.open
            rids = list(open_requests)
            remaining = len(rids) + (self._demo.fault == "slow-drain")
            emit(
                f"Gracefully exiting... Remaining number of requests {remaining}. "
                f"Remaining requests remaining_rids={rids!r}."
            )
            if remaining == 0:
                break
            await self._pause(max(self._demo.drain_poll_seconds, 0.05))
        pid = os.getpid()
        self.end_child()
        emit(f"kill_process_tree called: parent_pid={pid}, include_parent=False, pid={pid}")

    def end_child(self) -> None:
        """Kill and reap the child."""
        if self._child is not None:
            with contextlib.suppress(ProcessLookupError):
                self._child.kill()
            self._child.wait()
            self._child = None

    async def _pause(self, seconds: float) -> None:
        """Sleep, and still notice a child that dies meanwhile."""
        until = time.monotonic() + seconds
        while True:
            self._look_at_child()
            left = until - time.monotonic()
            if left <= 0:
                return
            await asyncio.sleep(min(left, 0.1))

    def _look_at_child(self) -> None:
        if self._child is None:
            return
        code = self._child.poll()
        if code is not None:
            self._lost_scheduler(self._child.pid, code)

    def _on_term(self) -> None:
        emit("SIGTERM received. signum=None frame=None. Draining requests and shutting down...")
        if self._engine is not None:
            self._engine.draining = True
        self._term.set()

    def _on_int(self) -> None:
        if self._server is not None:
            self._server.should_exit = True

    def _on_quit(self) -> None:
        self._crashed()

    def _crash(self, fault: str) -> None:
        if fault == "scheduler-killed":
            if self._child is not None:
                self._child.kill()
                return
            self._lost_scheduler(os.getpid() + 1, -signal.SIGKILL)
        row = FAULTS[fault]
        emit(crash_text(row.error or "", row.frames))
        self._crashed()

    def _lost_scheduler(self, pid: int, code: int) -> NoReturn:
        emit(
            f"Subprocess scheduler_0 (pid={pid}) crashed with exit code {code}. "
            "Triggering SIGQUIT for cleanup..."
        )
        self._crashed()

    def _crashed(self) -> NoReturn:
        emit("SIGQUIT received. signum=None, frame=None. It usually means one child failed.")
        pause = self._demo.crash_seconds
        emit(f"Sleeping {pause:g} seconds before crash diagnostics to let GPU activity settle.")
        # The real handler blocks its event loop here, so nothing is answered meanwhile.
        time.sleep(pause)
        emit("No live scheduler processes found; skipping py-spy and CUDA coredump.")
        self.end_child()
        kill_tree()


def _start_child() -> subprocess.Popen[bytes]:
    """Start the process that stands for the scheduler; the kernel kills it with its parent."""
    libc = ctypes.CDLL(None)

    def die_with_parent() -> None:
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)

    return subprocess.Popen(
        ["demo::scheduler", "infinity"],
        executable="/usr/bin/sleep" if os.path.exists("/usr/bin/sleep") else "/bin/sleep",  # noqa: PTH110
        stdin=subprocess.DEVNULL,
        preexec_fn=die_with_parent,  # noqa: PLW1509 - no thread has been started yet
    )
