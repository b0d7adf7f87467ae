"""The base of the panels: a box whose lines are drawn by a pure function of view and width.

One widget per panel, not one per figure: a refresh then costs one render, and the drawing can be
tested without an app.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from textual.content import Content
from textual.geometry import Region
from textual.reactive import var
from textual.strip import Strip

from qwen_tui.ui.cells import join
from qwen_tui.ui.state import View
from qwen_tui.ui.widgets.painted import PaintedLines, changed_runs

if TYPE_CHECKING:
    from textual.geometry import Size

__all__ = ["Panel"]


class Panel(PaintedLines):
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
    _titles: tuple[Content, Content] = (Content(""), Content(""))
    _drawn: list[Content] | None = None
    """The lines as they are shown; ``None`` when they have to be made anew."""
    _drawn_size: Size | None = None
    _needed = 0
    """Lines that there are, whether they fit or not."""

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
        before = self._drawn if self._drawn_size == self.content_size else None
        self._retitle()
        if self._grown():
            self.refresh(layout=True)
            return
        if not self.content_size.height:
            self.refresh()  # hidden: made anew when it is shown
            return
        now = self._make()
        if before is None:
            self.refresh()
            return
        self._drawn, self._drawn_size = now, self.content_size
        width = self.content_size.width
        regions = [Region(0, y, width, rows) for y, rows in changed_runs(before, now)]
        if regions:
            self.refresh(*regions)

    def _retitle(self) -> None:
        title, subtitle = (Content.assemble(part) for part in self.titles())
        before, self._titles = self._titles, (title, subtitle)
        if not title.is_same(before[0]):
            self.border_title = title
        if not subtitle.is_same(before[1]):
            self.border_subtitle = subtitle

    def _grown(self) -> bool:
        """Whether a panel that is as high as its lines needs another height."""
        if not self.styles.auto_dimensions:
            return False
        # All lines, not only those that fit: the panel may have to grow for them.
        before, self._needed = self._needed, len(self.lines(self.content_size.width, 0))
        return before != self._needed

    def refresh(
        self,
        *regions: Region,
        repaint: bool = True,
        layout: bool = False,
        recompose: bool = False,
    ) -> Self:
        """Paint again; without regions the lines are made anew, too."""
        if not regions:
            self._drawn = None
        return super().refresh(*regions, repaint=repaint, layout=layout, recompose=recompose)

    def on_mount(self) -> None:
        """Draw for the first time."""
        self.redraw()

    def _make(self) -> list[Content]:
        return self.lines(self.content_size.width, self.content_size.height)

    def _shown(self) -> list[Content]:
        """Return the lines for the size that the panel has now."""
        if self._drawn is None or self._drawn_size != self.content_size:
            self._drawn, self._drawn_size = self._make(), self.content_size
        return self._drawn

    def render(self) -> Content:
        """Return the lines as one block: what the mouse selects from."""
        return join(self._shown())

    def render_line(self, y: int) -> Strip:
        """Paint one line."""
        if self.text_selection is not None:
            return super().render_line(y)
        shown, width = self._shown(), self.content_size.width
        if y >= len(shown):
            return Strip.blank(width, self.rich_style)
        strip = self.paint(shown[y], width)
        return strip if self.painting else strip.apply_offsets(0, y)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """Return how many lines there are at this width."""
        return max(1, len(self.lines(width, 0)))
