"""One server of the fleet: its live figures as Home has them, and probes of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen

from qwen_tui.ui.app_commands import APP
from qwen_tui.ui.fleet_probes import can_probe
from qwen_tui.ui.screens.home import HOME
from qwen_tui.ui.screens.windows import WindowsCard
from qwen_tui.ui.widgets.keybar import key_hints, shown_key
from qwen_tui.ui.widgets.live import LivePanel
from qwen_tui_profiles.text import t, tr

if TYPE_CHECKING:
    from textual.app import ComposeResult

    from qwen_tui.services.snapshots import LiveSnapshot
    from qwen_tui.ui.fleet_probes import FleetProbes
    from qwen_tui.ui.state import View

__all__ = ["ServerCard"]

KEYS = tuple(c for c in (*APP, *HOME) if c.id in {"probe", "probe.result", "home.figures"})
"""What can be done here as on Home, with the keys that it has there."""


class ServerCard(ModalScreen[None]):
    """The live figures of one server of the fleet."""

    DEFAULT_CSS = """
    ServerCard { align: center middle; }
    ServerCard > Vertical {
        width: 98%; height: 18; max-height: 94%; border: round $accent; background: $surface;
        padding: 0; border-title-style: bold; border-subtitle-color: $foreground;
    }
    ServerCard LivePanel { height: 1fr; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,enter,q", "dismiss(None)", "Back", show=False),
        *(Binding(c.keys, c.action, c.id, show=False, id=c.id) for c in KEYS),
    ]

    def __init__(self, url: str, view: View, probes: FleetProbes) -> None:
        super().__init__()
        self.url = url
        self._first = view
        self._probes = probes

    def compose(self) -> ComposeResult:
        """Lay out the panel."""
        with Vertical():
            yield LivePanel()

    def on_mount(self) -> None:
        """Show what is known already."""
        self.query_one(LivePanel).view = self._first
        self.renew()

    def renew(self) -> None:
        """Say what is under way and what can be done."""
        panel, box = self.query_one(LivePanel), self.query_one(Vertical)
        panel.view = panel.view.but(probe=self._probes.result(self.url))
        probing = self.url in self._probes.running
        box.border_title = Content(tr(t("Probing {url}", url=self.url)) if probing else self.url)
        keys = [
            (shown_key(self.app, c), tr(c.name(panel.view)))
            for c in KEYS
            if self.check_action(c.action, ())
        ]
        box.border_subtitle = key_hints([*keys, ("Esc", tr(t("Back")))])
        self.refresh_bindings()

    def show(self, live: LiveSnapshot) -> None:
        """Show the newest figures."""
        panel = self.query_one(LivePanel)
        could = can_probe(panel.view.live)
        panel.view = panel.view.but(live=live)
        if could is not can_probe(live):
            self.renew()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Offer what can be done with this server now."""
        if action == "probe":
            live = self.query_one(LivePanel).view.live
            return can_probe(live) and self.url not in self._probes.running
        if action == "probe_result":
            return self._probes.result(self.url) is not None
        return super().check_action(action, parameters)

    def action_probe(self) -> None:
        """Send a request of ours to this server and time it."""
        self._probes.ask(self.url)

    def action_probe_result(self) -> None:
        """Show what the last probe of this server measured."""
        self._probes.show(self.url)

    def action_figures(self) -> None:
        """Open every figure by windows."""
        self.app.push_screen(WindowsCard(self.query_one(LivePanel).view, self.url, ours=False))
