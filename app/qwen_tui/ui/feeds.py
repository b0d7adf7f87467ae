"""The console's workers: each takes one stream of the services and posts it as messages.

They belong to the app, so that no screen's removal cancels them. A service's error becomes a
message; nothing else may end a feed.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from textual.app import App

from qwen_tui.services.snapshots import ServerState
from qwen_tui.ui import messages
from qwen_tui_profiles.errors import QwenTuiError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from qwen_tui.services.console import ConsoleServices
    from qwen_tui.services.snapshots import ServerSnapshot
    from qwen_tui.ui.state import LogBuffer, View

__all__ = ["Feeds"]

ANSWERING = frozenset({ServerState.RUNNING, ServerState.STOPPING, ServerState.UNREACHABLE})
"""States in which the engine may answer; a draining one still has figures."""
AGAIN_S = 5.0
"""Pause before a feed that failed is started again."""


class Feeds(App[None]):
    """The app's side of the services' streams."""

    services: ConsoleServices
    view: View
    log_buffer: LogBuffer
    read_only: bool
    change: Callable[..., None]
    _live_url: str | None = None
    _log_path: Path | None = None
    _said: str | None = None

    def start_feeds(self) -> None:
        """Start what runs as long as the console does."""
        for name, feed in (
            ("profiles", self._read_profiles),
            ("server", self._watch_server),
            ("control", self._watch_control),
            ("gpu", self._watch_gpus),
        ):
            self.run_worker(feed(), group=name, exclusive=True, exit_on_error=False)

    def follow_server(self, server: ServerSnapshot) -> None:
        """Start, change or end what depends on the server: its figures and its log."""
        url = server.url if server.state in ANSWERING else None
        if url != self._live_url:
            self._live_url = url
            self.poll_anew()
        if server.log_path != self._log_path and server.log_path is not None:
            self._log_path = server.log_path
            self.log_buffer.clear()
            self.change(log_total=0)
            self.workers.cancel_group(self, "log")
            self.run_worker(self._watch_log(server.log_path), group="log", exit_on_error=False)

    def poll_anew(self) -> None:
        """Begin to poll the server's address, if there is one, at the pace of the view."""
        self.workers.cancel_group(self, "live")
        if self._live_url is not None:
            self.run_worker(self._watch_live(self._live_url), group="live", exit_on_error=False)

    async def _read_profiles(self) -> None:
        try:
            profiles = await self.services.profiles()
            settings = await self.services.settings()
            acknowledged = await self.services.acknowledged()
        except QwenTuiError as error:
            self.post_message(messages.Failed(error))
        else:
            self.post_message(messages.ProfilesRead(profiles, settings, acknowledged))

    def _say_once(self, error: QwenTuiError) -> None:
        """Report an error of a feed that tries again and again, but not again and again."""
        if str(error) != self._said:
            self._said = str(error)
            self.post_message(messages.Failed(error))

    async def _watch_server(self) -> None:
        while True:
            try:
                async for snapshot in self.services.servers():
                    self.post_message(messages.ServerChanged(snapshot))
            except QwenTuiError as error:
                self._say_once(error)
            await asyncio.sleep(AGAIN_S)

    async def _watch_control(self) -> None:
        if self.read_only:
            self.post_message(messages.ControlChanged(controls=False, holder=None))
            return
        try:
            async for controls, holder in self.services.control():
                self.post_message(messages.ControlChanged(controls, holder))
        except QwenTuiError as error:
            self.post_message(messages.Failed(error))

    def action_read_profiles(self) -> None:
        """Read the profile folders again: something in them was changed."""
        self.run_worker(
            self._read_profiles(), group="profiles", exclusive=True, exit_on_error=False
        )

    async def _watch_gpus(self) -> None:
        async for gpu in self.services.gpus():
            self.post_message(messages.GpuRead(gpu))

    async def _watch_live(self, url: str) -> None:
        try:
            async for live in self.services.live(url, self.view.interval_s):
                self.post_message(messages.LiveSampled(live))
        except QwenTuiError as error:
            self.post_message(messages.Failed(error))

    async def _watch_log(self, path: Path) -> None:
        async for chunk in self.services.log(path):
            self.post_message(messages.LogGrew(chunk))
