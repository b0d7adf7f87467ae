"""Every live figure by windows, over the screen that asked; the figures go on while read."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen

from qwen_tui.ui.widgets.keybar import key_hints
from qwen_tui.ui.widgets.panel import Panel
from qwen_tui.ui.window_lines import window_lines
from qwen_tui_profiles.text import t, tr

if TYPE_CHECKING:
    from textual.app import ComposeResult

    from qwen_tui.services.snapshots import LiveSnapshot
    from qwen_tui.ui.state import View

__all__ = ["WindowsCard"]


class FiguresTable(Panel):
    """The table; as high as it has rows."""

    DEFAULT_CSS = """
    FiguresTable { border: none; padding: 0; }
    """

    def concerns(self, old: View, new: View) -> bool:
        """The figures only."""
        return old.live is not new.live

    def lines(self, width: int, height: int) -> list[Content]:
        """Return the table for this width."""
        return window_lines(self.view.live, width)


class WindowsCard(ModalScreen[None]):
    """The figures of one server in 10 s, a minute, five minutes and since its start."""

    DEFAULT_CSS = """
    WindowsCard { align: center middle; }
    WindowsCard > VerticalScroll {
        width: 98%; max-width: 100; height: auto; max-height: 96%; border: round $accent;
        background: $surface; padding: 0 1; scrollbar-size-vertical: 1;
        border-title-style: bold; border-title-color: $foreground;
        border-subtitle-color: $foreground;
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,enter,q,w", "dismiss(None)", "Back", show=False)
    ]

    def __init__(self, view: View, url: str, *, ours: bool) -> None:
        """Prepare the card.

        Args:
            view: What is known already.
            url: The server's address.
            ours: It is the console's own server, whose figures come with the app's view; those of
                others come through :meth:`show`.
        """
        super().__init__()
        self.url = url
        self._first = view
        self._ours = ours

    def compose(self) -> ComposeResult:
        """Lay out the table."""
        with VerticalScroll() as box:
            box.border_title = Content(tr(t("Figures of {server}", server=self.url)))
            box.border_subtitle = key_hints([("Esc", tr(t("Back")))])
            yield FiguresTable()

    def on_mount(self) -> None:
        """Show what is known already."""
        self.query_one(FiguresTable).view = self._first
        if self._ours:
            self.watch(self.app, "view", lambda view: self.show(view.live), init=False)

    def show(self, live: LiveSnapshot | None) -> None:
        """Show the newest figures."""
        table = self.query_one(FiguresTable)
        table.view = table.view.but(live=live)
