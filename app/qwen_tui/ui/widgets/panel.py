"""The base of the panels: a box whose lines are drawn by a pure function of view and width.

One widget per panel, not one per figure: a refresh then costs one render, and the drawing can be
tested without an app.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.content import Content
from textual.reactive import var
from textual.widget import Widget

from qwen_tui.ui.cells import join
from qwen_tui.ui.state import View

if TYPE_CHECKING:
    from textual.geometry import Size

__all__ = ["Panel"]


class Panel(Widget):
    """A bordered box of text lines."""

    ALLOW_SELECT = True
    DEFAULT_CSS = """
    Panel {
        height: auto;
        border: round $border-blurred;
        border-title-color: $text;
        border-subtitle-color: $foreground-muted;
        padding: 0 1;
        text-wrap: nowrap;
        text-overflow: ellipsis;
        &:focus { border: round $accent; }
    }
    """

    view: var[View] = var(View, init=False)
    _drawn: tuple[Content, ...] = ()
    """Titles and lines as they were drawn last."""

    def lines(self, width: int, height: int) -> list[Content]:
        """Return what the panel shows; ``height`` is 0 while the panel's height is not known."""
        raise NotImplementedError

    def concerns(self, old: View, new: View) -> bool:
        """Whether a change of view changes what this panel shows."""
        return old is not new

    def titles(self) -> tuple[Content | str, Content | str]:
        """Return the title and the subtitle."""
        return "", ""

    def watch_view(self, old: View, new: View) -> None:
        """Draw again when the new view concerns this panel."""
        if self.concerns(old, new):
            self.redraw()

    def redraw(self) -> None:
        """Draw again what has changed; lay out again only where the height follows the content."""
        title, subtitle = (Content.assemble(part) for part in self.titles())
        # All lines, not only those that fit: the panel may have to grow for them.
        drawn = (title, subtitle, *self.lines(self.content_size.width, 0))
        before, self._drawn = self._drawn, drawn
        if len(before) == len(drawn) and all(map(Content.is_same, before, drawn)):
            return
        self.border_title = title
        self.border_subtitle = subtitle
        # A panel that is not laid out yet cannot tell its height from its lines.
        taller = len(before) != len(drawn) or not self.content_size.height
        self.refresh(layout=bool(self.styles.auto_dimensions) and taller)

    def on_mount(self) -> None:
        """Draw for the first time."""
        self.redraw()

    def render(self) -> Content:
        """Return the lines as one block."""
        return join(self.lines(self.content_size.width, self.content_size.height))

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """Return how many lines there are at this width."""
        return max(1, len(self.lines(width, 0)))
