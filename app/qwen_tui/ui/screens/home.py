"""The main screen: state, asked → got, what the engine does now, GPU and log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual import on
from textual.containers import Container
from textual.content import Content

from qwen_tui.services.snapshots import ServerState
from qwen_tui.ui.commands import Command, bindings
from qwen_tui.ui.messages import Acknowledged
from qwen_tui.ui.screens.details import ClampCard
from qwen_tui.ui.screens.place import Place
from qwen_tui.ui.state import View, clamp_key
from qwen_tui.ui.widgets.asked_got import AskedGotPanel
from qwen_tui.ui.widgets.boot import BootPanel
from qwen_tui.ui.widgets.gpu import GpuPanel
from qwen_tui.ui.widgets.live import LivePanel
from qwen_tui.ui.widgets.log import LogPanel
from qwen_tui.ui.widgets.rest import EndedPanel, LaunchPanel
from qwen_tui_profiles.text import t, tr

if TYPE_CHECKING:
    from collections.abc import Iterable

    from textual.widget import Widget

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


HOME = (
    Command(
        "clamps.acknowledge",
        "a",
        "acknowledge",
        t("Seen"),
        t("Mark as seen what differs between asked and got, and how the last server ended."),
        lambda view: bool(view.unseen or view.alarms) or view.ended or view.said is not None,
        rank=15,
    ),
    Command(
        "home.figures",
        "w",
        "figures",
        t("Figures"),
        t("Show every live figure by windows: 10 s, a minute, five minutes, since the start."),
        lambda view: view.live is not None,
        rank=89,
    ),
    Command(
        "home.copy",
        "y",
        "copy",
        t("Copy address"),
        t("Copy the server's address to the clipboard."),
        lambda view: view.server.url is not None and view.alive,
        footer=False,
    ),
    Command(
        "log.follow",
        "f,end",
        "follow",
        t("Follow"),
        t("Go to the end of the log and follow it."),
        footer=False,
    ),
)


class HomeScreen(Place):
    """One server, whole, at a glance."""

    ID = "home"
    ABOUT = t(
        "The server that you run: what it is, what you asked for and what you got, what it does "
        "now, the GPU, and the engine's log. Tab goes from panel to panel; Enter opens a row."
    )
    BINDINGS = bindings(HOME)
    COMMANDS_HERE = HOME

    def content(self) -> Iterable[Widget]:
        """Yield the panels; the style sheet places them for each size."""
        with Container(id="body"):
            with Container(id="facts"):
                yield AskedGotPanel(id="asked").data_bind(Place.view)
                yield LaunchPanel(id="rest").data_bind(Place.view)
                yield BootPanel(self.kit.clock).data_bind(Place.view)
                yield LivePanel(id="live").data_bind(Place.view)
                yield EndedPanel(id="ended").data_bind(Place.view)
            with Container(id="tail"):
                yield GpuPanel(id="gpu").data_bind(Place.view)
                yield LogPanel(self.kit.log).data_bind(Place.view)

    def on_mount(self) -> None:
        """Show the stage of the first view."""
        self._set_stage()

    def watch_view(self, old: View, new: View) -> None:
        """Change the stage with the server's state."""
        if old.server.state is not new.server.state:
            self._set_stage()

    def tick(self) -> None:
        """Let the boot's clock go on, too."""
        super().tick()
        for panel in self.query(BootPanel):  # not there yet while the place is being made
            panel.tick()

    def refill(self) -> None:
        """Name the log."""
        self.query_one(LogPanel).border_title = Content(tr(t("Log, without polls")))

    def _set_stage(self) -> None:
        stage = STAGES[self.view.server.state]
        for name in dict.fromkeys(STAGES.values()):
            self.set_class(name == stage, name)

    def action_acknowledge(self) -> None:
        """Mark every difference as seen."""
        keys = frozenset(clamp_key(self.view.server.profile, c) for c in self.view.unseen)
        self.app.post_message(Acknowledged(keys))

    def action_figures(self) -> None:
        """Open every figure by windows; they go on while they are read."""
        from qwen_tui.ui.screens.windows import WindowsCard

        self.app.push_screen(WindowsCard(self.view, self.view.server.url or "", ours=True))

    def action_copy(self) -> None:
        """Copy the address."""
        url = self.view.server.url or ""
        self.app.copy_to_clipboard(url)
        self.notify(tr(t("Copied: {what}", what=url)), markup=False)

    def action_follow(self) -> None:
        """Follow the log again."""
        self.query_one(LogPanel).follow()

    @on(AskedGotPanel.Opened)
    def _open_clamp(self, event: AskedGotPanel.Opened) -> None:
        event.stop()
        self.app.push_screen(ClampCard(event.clamp))
