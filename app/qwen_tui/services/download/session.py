"""The parent's side of a download: starts the worker, hands out its events, passes on commands."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from typing import TYPE_CHECKING, Any

from qwen_tui.services.download.sentences import describe

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from qwen_tui.services.download.request import DownloadRequest

__all__ = ["WORKER_COMMAND", "DownloadSession", "worker_environment"]

CANCEL_GRACE_S = 8.0
"""A worker that waits for a silent host cannot answer; killing it loses nothing."""
WORKER_COMMAND = (sys.executable, "-P", "-m", "qwen_tui.services.download.worker")
"""``-P``: Python would else import from the current folder first, and that may be a model's, whose
Python files are nobody's to run."""
_LINE_LIMIT = 64 << 20
"""A plan of many thousand files is one line."""


def worker_environment(base: Mapping[str, str], request: DownloadRequest) -> dict[str, str]:
    """Return the worker's environment: Xet off before anything is imported, no progress bars."""
    env = dict(base)
    env["HF_HUB_DISABLE_XET"] = "1"
    env["HF_HUB_DISABLE_PROGRESS_BARS"] = "1"
    env["HF_HUB_DISABLE_TELEMETRY"] = "1"
    # Dead since hub 1.0, where it only prints a warning.
    env.pop("HF_HUB_ENABLE_HF_TRANSFER", None)
    if request.endpoint is not None:
        env["HF_ENDPOINT"] = request.endpoint
    return env


class DownloadSession:
    """One download in a child process of its own session.

    ``failure`` is the worker's ``error`` event, once there is one.

    ::

        async with DownloadSession(request) as session:
            async for event in session.events():
                if event["event"] == "plan":
                    session.start()
    """

    def __init__(
        self,
        request: DownloadRequest,
        *,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._request = request
        self._environment = worker_environment(
            os.environ if environment is None else environment, request
        )
        self._process: asyncio.subprocess.Process | None = None
        self._noise: list[str] = []
        self.failure: dict[str, Any] | None = None
        self._last_resort: asyncio.TimerHandle | None = None

    async def __aenter__(self) -> DownloadSession:
        """Start the worker."""
        self._process = await asyncio.create_subprocess_exec(
            *WORKER_COMMAND,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=self._environment,
            start_new_session=True,
            limit=_LINE_LIMIT,
        )
        self._say(self._request.to_json())
        return self

    async def __aexit__(self, *_: object) -> None:
        """End the worker; what it received is kept in any case."""
        process = self._running()
        if process.returncode is None:
            self.cancel()
        await process.wait()
        if self._last_resort is not None:
            self._last_resort.cancel()

    @property
    def pid(self) -> int:
        """Process id of the worker."""
        return self._running().pid

    def start(self) -> None:
        """Agree to the plan."""
        self._say("start")

    def pause(self) -> None:
        """Close the connections and wait."""
        self._say("pause")

    def resume(self) -> None:
        """Go on."""
        self._say("resume")

    def cancel(self) -> None:
        """Stop cleanly; the worker answers with its result, or is ended when it cannot."""
        self._say("cancel")
        if self._last_resort is None and self._running().returncode is None:
            loop = asyncio.get_running_loop()
            self._last_resort = loop.call_later(CANCEL_GRACE_S, self.kill)

    def kill(self) -> None:
        """End the worker at once; the next run goes on from the bytes on the disk."""
        process = self._running()
        if process.returncode is not None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)

    async def events(self) -> AsyncIterator[dict[str, Any]]:
        """Yield the worker's events until it ends.

        Raises:
            DownloadError: The worker reports a failure, or ends without a result.
        """
        process = self._running()
        assert process.stdout is not None
        noise = asyncio.create_task(self._collect_noise(process))
        ended = False
        try:
            while line := await process.stdout.readline():
                event: dict[str, Any] = json.loads(line)
                if event["event"] == "error":
                    self.failure = event
                    raise describe(str(event["code"]), event["fields"])
                ended = ended or event["event"] == "result"
                yield event
        finally:
            noise.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await noise
        await process.wait()
        if not ended:
            fields = {"code": process.returncode, "last": self._noise[-1] if self._noise else ""}
            raise describe("worker_died", fields)

    async def _collect_noise(self, process: asyncio.subprocess.Process) -> None:
        assert process.stderr is not None
        while line := await process.stderr.readline():
            self._noise = [*self._noise[-20:], line.decode("utf-8", "replace").rstrip()]

    def _say(self, line: str) -> None:
        stdin = self._running().stdin
        if stdin is not None and not stdin.is_closing():
            with contextlib.suppress(OSError):
                stdin.write(line.encode() + b"\n")

    def _running(self) -> asyncio.subprocess.Process:
        assert self._process is not None, "the session was not entered"
        return self._process
