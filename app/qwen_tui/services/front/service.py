"""Starts, finds again and stops the front's process."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
import time
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from qwen_tui.services.live.http1 import FetchError, Target, get
from qwen_tui.services.paths import write_private
from qwen_tui.services.ports import accepts, require_free_port
from qwen_tui.services.process import ExitWatch, ProcessId, SystemKiller, alive, boot_id, identify
from qwen_tui.services.spawner import SystemSpawner
from qwen_tui_profiles.errors import LaunchError
from qwen_tui_profiles.text import t

if TYPE_CHECKING:
    from pathlib import Path

    from qwen_tui.services.paths import Paths
    from qwen_tui.services.process import Killer
    from qwen_tui.services.spawner import Spawner

__all__ = ["DEFAULT_HOLD_S", "FrontInfo", "FrontService"]

DEFAULT_HOLD_S = 600.0
"""How long a request may wait for a server. The first boot of a large model takes minutes."""

SCHEMA = "qwen-tui.front-record/1"
_STATUS_PATH = "/qwen-tui/front"
_START_S = 15.0
_STOP_S = 8.0


@dataclass(frozen=True, slots=True)
class FrontInfo:
    """The front that runs."""

    host: str
    port: int
    hold_s: float
    pid: int
    create_time: float
    boot: str | None

    @property
    def url(self) -> str:
        """Base URL for clients."""
        return f"http://{self.host}:{self.port}"

    @property
    def process(self) -> ProcessId:
        """Its identity."""
        return ProcessId(self.pid, self.create_time)


class FrontService:
    """The one front of a state folder."""

    def __init__(
        self, paths: Paths, *, spawner: Spawner | None = None, killer: Killer | None = None
    ) -> None:
        self._paths = paths
        self._spawner = spawner or SystemSpawner()
        self._killer = killer or SystemKiller()

    @property
    def log_path(self) -> Path:
        """Where the front writes what goes wrong."""
        return self._paths.state / "front.log"

    def find(self) -> FrontInfo | None:
        """Return the front if it runs."""
        try:
            raw = json.loads(self._record.read_bytes())
            if raw.pop("schema") != SCHEMA:
                return None
            info = FrontInfo(**raw)
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            return None
        return info if info.boot == boot_id() and alive(info.process) else None

    async def start(
        self, port: int, *, host: str = "127.0.0.1", hold_s: float = DEFAULT_HOLD_S
    ) -> FrontInfo:
        """Start the front, or return the one that serves there already.

        Raises:
            LaunchError: the port is taken, another front runs elsewhere, or it does not start.
        """
        running = self.find()
        if running is not None:
            if running.port == port:
                return running
            raise LaunchError(
                t("A front runs already on {url}.", url=running.url),
                t("Use its port, or end it with the server: qwen-tui down"),
            )
        require_free_port(host, port)
        self._paths.make(self._paths.state)
        # fmt: off
        argv = [
            sys.executable, "-m", "qwen_tui.services.front", "--state", str(self._paths.state),
            "--host", host, "--port", str(port), "--hold", str(hold_s),
        ]
        # fmt: on
        child = self._spawner.spawn(argv, {}, folder=self._paths.state, log=self.log_path)
        process = identify(child.pid, even_dead=True)
        created = 0.0 if process is None else process.create_time
        info = FrontInfo(host, port, hold_s, child.pid, created, boot_id())
        try:
            self._write(info)
            await self._until_it_listens(info)
        except (OSError, LaunchError) as error:
            self._killer.signal(info.process, signal.SIGKILL)
            if isinstance(error, LaunchError):
                raise
            raise LaunchError(
                t("The front cannot be recorded: {reason}.", reason=error.strerror or ""),
                t("Make room in {path}.", path=str(self._paths.state)),
            ) from error
        return info

    def register(self, host: str, port: int, hold_s: float) -> None:
        """Record this process as the front: it is found even if its launcher is killed at once.

        Raises:
            LaunchError: another front runs.
            OSError: the record cannot be written.
        """
        us = identify(os.getpid())
        running = self.find()
        if us is None or (running is not None and running.process != us):
            raise LaunchError(
                t("A front runs already on {url}.", url="—" if running is None else running.url),
                t("Use its port, or end it with the server: qwen-tui down"),
            )
        self._write(FrontInfo(host, port, hold_s, us.pid, us.create_time, boot_id()))

    def _write(self, info: FrontInfo) -> None:
        write_private(self._record, json.dumps({"schema": SCHEMA, **asdict(info)}).encode())

    async def stop(self) -> bool:
        """End the front; False when none runs."""
        info = self.find()
        if info is None:
            return False
        with ExitWatch(info.process) as watch:
            self._killer.signal(info.process, signal.SIGTERM)
            if not await watch.wait(_STOP_S):
                self._killer.signal(info.process, signal.SIGKILL)
                await watch.wait(_STOP_S)
        with contextlib.suppress(OSError):
            self._record.unlink()
        return True

    async def counters(self) -> dict[str, Any] | None:
        """Return what the front counts; ``None`` when none runs or it does not answer."""
        info = self.find()
        if info is None:
            return None
        try:
            answer = await get(
                Target.parse(info.url), _STATUS_PATH, timeout_s=2.0, limit_bytes=65536
            )
            document = json.loads(answer.body)
        except (FetchError, ValueError):
            return None
        return document if isinstance(document, dict) else None

    @property
    def _record(self) -> Path:
        return self._paths.state / "front.json"

    async def _until_it_listens(self, info: FrontInfo) -> None:
        end = time.monotonic() + _START_S
        while not accepts(info.host, info.port):
            if not alive(info.process) or time.monotonic() > end:
                raise LaunchError(
                    t("The front did not start on {url}.", url=info.url),
                    t("Read why in {path}.", path=str(self.log_path)),
                )
            await asyncio.sleep(0.03)
