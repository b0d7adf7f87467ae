"""The main screen: state, asked → got, what the engine does now, GPU and log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual import on
from textual.containers import Container

from qwen_tui.services.snapshots import ServerState
from qwen_tui.ui.commands import HOME, bindings
from qwen_tui.ui.messages import Acknowledged
from qwen_tui.ui.screens.details import ClampCard
from qwen_tui.ui.screens.place import Place
from qwen_tui.ui.state import View, clamp_key
from qwen_tui.ui.widgets.asked_got import AskedGotPanel
from qwen_tui.ui.widgets.boot import BootPanel
from qwen_tui.ui.widgets.gpu import GpuPanel
from qwen_tui.ui.widgets.header import Header, Notice
from qwen_tui.ui.widgets.keybar import KeyBar
from qwen_tui.ui.widgets.live import LivePanel
from qwen_tui.ui.widgets.log import LogPanel
from qwen_tui.ui.widgets.rest import EndedPanel, LaunchPanel
from qwen_tui_profiles.text import t

if TYPE_CHECKING:
    from collections.abc import Callable

    from textual.app import ComposeResult

    from qwen_tui.ui.state import LogBuffer

__all__ = ["HomeScreen"]

STAGES = {
    ServerState.STOPPED: "-rest",
    ServerState.STARTING: "-boot",
    ServerState.RUNNING: "-live",
    ServerState.STOPPING: "-live",
    ServerState.UNREACHABLE: "-live",
    ServerState.EXITED: "-ended",
    ServerState.FATAL: "-ended",
}


class HomeScreen(Place):
    """One server, whole, at a glance."""

    ABOUT = t(
        "The server that you run: what it is, what you asked for and what you got, what it does "
        "now, the GPU, and the engine's log. Tab goes from panel to panel; Enter opens a row."
    )
    BINDINGS = bindings(HOME)
    COMMANDS_HERE = HOME
    AUTO_FOCUS = ""

    def __init__(self, log: LogBuffer, clock: Callable[[], float]) -> None:
        super().__init__(id="home")
        self._log = log
        self._clock = clock

    def compose(self) -> ComposeResult:
        """Lay out the panels; the style sheet places them for each size."""
        yield Header(self._clock).data_bind(HomeScreen.view)
        yield Notice().data_bind(HomeScreen.view)
        with Container(id="body"):
            with Container(id="facts"):
                yield AskedGotPanel(id="asked").data_bind(HomeScreen.view)
                yield LaunchPanel(id="rest").data_bind(HomeScreen.view)
                yield BootPanel(self._clock).data_bind(HomeScreen.view)
                yield LivePanel(id="live").data_bind(HomeScreen.view)
                yield EndedPanel(id="ended").data_bind(HomeScreen.view)
            with Container(id="tail"):
                yield GpuPanel(id="gpu").data_bind(HomeScreen.view)
                yield LogPanel(self._log).data_bind(HomeScreen.view)
        yield KeyBar().data_bind(HomeScreen.view)

    def on_mount(self) -> None:
        """Show the stage of the first view."""
        self._set_stage()

    def watch_view(self, old: View, new: View) -> None:
        """Change the stage with the server's state."""
        if old.server.state is not new.server.state:
            self._set_stage()

    def _set_stage(self) -> None:
        stage = STAGES[self.view.server.state]
        for name in dict.fromkeys(STAGES.values()):
            self.set_class(name == stage, name)

    def action_acknowledge(self) -> None:
        """Mark every difference as seen."""
        keys = frozenset(clamp_key(self.view.server.profile, c) for c in self.view.unseen)
        self.app.post_message(Acknowledged(keys))

    def action_follow(self) -> None:
        """Follow the log again."""
        self.query_one(LogPanel).follow()

    @on(AskedGotPanel.Opened)
    def _open_clamp(self, event: AskedGotPanel.Opened) -> None:
        event.stop()
        self.app.push_screen(ClampCard(event.clamp))
