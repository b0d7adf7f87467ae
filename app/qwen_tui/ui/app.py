"""The console: wiring only. Facts come in as messages, become one view, and flow to the screens."""

from __future__ import annotations

import asyncio
import signal
import time
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.app import App
from textual.reactive import var
from textual.worker import Worker, WorkerState

from qwen_tui import __version__
from qwen_tui.ui import messages
from qwen_tui.ui.actions import Actions
from qwen_tui.ui.app_commands import APP
from qwen_tui.ui.commands import bindings, by_action, called
from qwen_tui.ui.downloads import Downloads
from qwen_tui.ui.facts import Facts
from qwen_tui.ui.feeds import Feeds
from qwen_tui.ui.looks import Looks
from qwen_tui.ui.palette import ConsoleProvider
from qwen_tui.ui.places import PLACES
from qwen_tui.ui.probing import Probing
from qwen_tui.ui.screens.cards import ErrorCard
from qwen_tui.ui.screens.place import Kit
from qwen_tui.ui.state import LogBuffer, View
from qwen_tui.ui.themes import THEMES
from qwen_tui_profiles.errors import QwenTuiError

if TYPE_CHECKING:
    from collections.abc import Callable

    from qwen_tui.services.console import ConsoleServices

__all__ = ["ConsoleApp"]

WIDTHS = [(0, "-narrow"), (110, "-wide"), (160, "-huge")]
HEIGHTS = [(0, "-short"), (36, "-tall")]


class ConsoleApp(Actions, Probing, Downloads, Looks, Facts, Feeds, App[None]):
    """The console over one :class:`~qwen_tui.services.console.ConsoleServices`."""

    TITLE = "qwen-tui"
    CSS_PATH = "console.tcss"
    COMMANDS = {ConsoleProvider}  # noqa: RUF012 - Textual's own declaration
    DEFAULT_MODE = PLACES[0].id
    HORIZONTAL_BREAKPOINTS = WIDTHS
    VERTICAL_BREAKPOINTS = HEIGHTS
    BINDINGS = bindings(APP)
    COMMANDS_HERE: ClassVar = by_action(APP)

    view: var[View] = var(View, init=False)

    def __init__(
        self,
        services: ConsoleServices,
        *,
        clock: Callable[[], float] = time.time,
        read_only: bool = False,
        after_first_paint: Callable[[], object] = lambda: None,
        paced: bool = True,
    ) -> None:
        super().__init__()
        self.paced = paced
        self.services = services
        self.clock = clock
        self.read_only = read_only
        self._after_first_paint = after_first_paint
        self.log_buffer = LogBuffer()
        self._offered: tuple[object, ...] = ()
        kit = Kit(services, self.log_buffer, clock)
        for row in PLACES:
            self.add_mode(row.id, partial(row.make, kit))
        for theme in THEMES:
            self.register_theme(theme)
        self.theme = THEMES[0].name

    def on_mount(self) -> None:
        """Paint first; ask the world after the first refresh."""
        self._handle_signals()
        self.call_after_refresh(self._begin)

    def _begin(self) -> None:
        """Start the feeds after the first paint."""
        self._after_first_paint()
        self.start_feeds()
        self.beat()

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
        if action == "go" and parameters == (self.current_mode,):
            return False
        command = self.COMMANDS_HERE.get(called(action, parameters))
        return command is None or command.when(self.view)

    def watch_view(self, _: View, new: View) -> None:
        """Renew the footer only when what can be done is something else."""
        offered = (bool(new.unseen), bool(new.alarms), new.ended, new.said is None)
        offered += tuple((c.id, str(c.name(new))) for c in APP if c.when(new))  # type: ignore[assignment]
        if offered != self._offered:
            self._offered = offered
            for screen in self.screen_stack:  # also the one below a card
                screen.refresh_bindings()

    @on(Worker.StateChanged)
    async def _worker_changed(self, event: Worker.StateChanged) -> None:
        """Report a feed or action that ended on an error nobody foresaw; the console goes on."""
        error = event.worker.error
        if event.state is not WorkerState.ERROR or not isinstance(error, Exception):
            return
        if isinstance(error, QwenTuiError):
            self.post_message(messages.Failed(error))
        else:
            from qwen_tui.services.crash import as_user_error

            known = await asyncio.to_thread(as_user_error, error, version=__version__)
            self.post_message(messages.Failed(known))

    @on(messages.Failed)
    def _failed(self, event: messages.Failed) -> None:
        self.push_screen(ErrorCard(event.error))
