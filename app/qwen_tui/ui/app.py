"""The console: wiring only. Facts come in as messages, become one view, and flow to the screens."""

from __future__ import annotations

import asyncio
import signal
import time
from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.app import App
from textual.reactive import var
from textual.worker import Worker, WorkerState

from qwen_tui import __version__
from qwen_tui.ui import messages
from qwen_tui.ui.actions import Actions
from qwen_tui.ui.commands import APP, bindings, by_action
from qwen_tui.ui.feeds import ANSWERING, Feeds
from qwen_tui.ui.screens.cards import ErrorCard
from qwen_tui.ui.screens.home import HomeScreen
from qwen_tui.ui.selection import choose
from qwen_tui.ui.state import LogBuffer, Series, View
from qwen_tui.ui.themes import THEMES

if TYPE_CHECKING:
    from collections.abc import Callable

    from textual.screen import Screen

    from qwen_tui.services.console import ConsoleServices

__all__ = ["ConsoleApp"]

WIDTHS = [(0, "-narrow"), (110, "-wide"), (160, "-huge")]
HEIGHTS = [(0, "-short"), (36, "-tall")]


class ConsoleApp(Actions, Feeds, App[None]):
    """The console over one :class:`~qwen_tui.services.console.ConsoleServices`."""

    TITLE = "qwen-tui"
    CSS_PATH = "console.tcss"
    ENABLE_COMMAND_PALETTE = False
    HORIZONTAL_BREAKPOINTS = WIDTHS
    VERTICAL_BREAKPOINTS = HEIGHTS
    BINDINGS = bindings(APP)
    COMMANDS_HERE: ClassVar = by_action(APP)

    view: var[View] = var(View, init=False)

    def __init__(
        self, services: ConsoleServices, *, clock: Callable[[], float] = time.time
    ) -> None:
        super().__init__()
        self.services = services
        self.clock = clock
        self.log_buffer = LogBuffer()
        self._offered: tuple[object, ...] = ()
        for theme in THEMES:
            self.register_theme(theme)
        self.theme = THEMES[0].name

    def get_default_screen(self) -> Screen[None]:
        """Open with the main screen."""
        return HomeScreen(self.log_buffer, self.clock)

    def on_mount(self) -> None:
        """Paint first; ask the world after the first refresh."""
        self._handle_signals()
        self.call_after_refresh(self.start_feeds)

    def _handle_signals(self) -> None:
        """Leave in order on TERM and HUP; Textual alone would leave the tty raw."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGHUP):
            try:
                loop.add_signal_handler(number, self.exit)
            except (NotImplementedError, RuntimeError, ValueError):
                return  # not the main thread (tests), or a platform without signal handlers

    @property
    def crash(self) -> Exception | None:
        """The error of our own that ended the console, if one did."""
        return self._exception

    def _fatal_error(self) -> None:
        """End without Textual's traceback: it prints local variables, which may hold secrets."""
        self._close_messages_no_wait()

    async def on_unmount(self) -> None:
        """Let go of the services; the server goes on."""
        await self.services.close()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Refuse what cannot be done now, so that the footer leaves it out."""
        command = self.COMMANDS_HERE.get(action)
        return command is None or command.when(self.view)

    def watch_view(self, _: View, new: View) -> None:
        """Renew the footer only when what can be done is something else."""
        offered = (
            bool(new.unseen),
            new.ended,
            *((c.id, str(c.name(new))) for c in APP if c.when(new)),
        )
        if offered != self._offered:
            self._offered = offered
            self.screen.refresh_bindings()

    def change(self, **changes: object) -> None:
        """Replace the view."""
        self.view = self.view.but(**changes)

    @on(messages.ServerChanged)
    def _server_changed(self, event: messages.ServerChanged) -> None:
        changes: dict[str, object] = {"server": event.server, "server_known": True}
        if event.server.state not in ANSWERING or event.server.pid != self.view.server.pid:
            changes.update(live=None, series=Series(), probe=None, probe_at=None)
        self.change(**changes)
        self.follow_server(event.server)

    @on(messages.LiveSampled)
    def _live_sampled(self, event: messages.LiveSampled) -> None:
        if self.view.server.state in ANSWERING:
            self.view.series.add(event.live)
            self.change(live=event.live)

    @on(messages.GpuRead)
    def _gpu_read(self, event: messages.GpuRead) -> None:
        self.change(gpu=event.gpu)
        self._select_first()

    @on(messages.LogGrew)
    def _log_grew(self, event: messages.LogGrew) -> None:
        self.log_buffer.add(event.chunk)
        self.change(log_total=self.log_buffer.total)

    @on(messages.ProfilesRead)
    def _profiles_read(self, event: messages.ProfilesRead) -> None:
        self.remembered = event.selected
        self.change(profiles=event.profiles, acknowledged=event.acknowledged)
        self._select_first()

    def _select_first(self) -> None:
        """Select a profile once profiles and GPU are known, unless the user was faster."""
        view = self.view
        if view.selected is None and view.gpu.known and view.profiles.profiles:
            profile, why = choose(view.profiles, view.gpu, self.remembered)
            self.change(selected=profile, selected_why=why)

    @on(messages.Acknowledged)
    async def _acknowledged(self, event: messages.Acknowledged) -> None:
        self.change(acknowledged=self.view.acknowledged | event.keys, said=None)
        await self.services.acknowledge(event.keys)

    @on(messages.Probed)
    def _probed(self, event: messages.Probed) -> None:
        self.change(probe=event.result, probe_at=self.clock(), busy=None)

    @on(messages.Progressed)
    def _progressed(self, event: messages.Progressed) -> None:
        progress = event.progress
        if progress.done:
            self.change(busy=None, said=progress.text, said_failed=progress.failed)
        else:
            self.change(busy=progress.text)

    @on(Worker.StateChanged)
    async def _worker_changed(self, event: Worker.StateChanged) -> None:
        """Report a feed or action that ended on an error nobody foresaw; the console goes on."""
        error = event.worker.error
        if event.state is WorkerState.ERROR and isinstance(error, Exception):
            from qwen_tui.services.crash import as_user_error

            known = await asyncio.to_thread(as_user_error, error, version=__version__)
            self.post_message(messages.Failed(known))

    @on(messages.Finished)
    def _finished(self, event: messages.Finished) -> None:
        self.change(busy=None)
        if event.then_exit:
            self.exit()

    @on(messages.Failed)
    def _failed(self, event: messages.Failed) -> None:
        self.push_screen(ErrorCard(event.error))
