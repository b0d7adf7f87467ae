"""Lines of text, painted by the shortest way that Textual has.

A panel of figures changes every second for hours, so what one painted line costs is most of what
the console costs. Textual's own way renders the whole block for each change and gives every piece
of it a style of its own that holds its place, for the mouse. Here a line is painted when it has
changed, and places are added only when the mouse asks for one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.segment import Segment
from textual.strip import Strip
from textual.widget import Widget

from qwen_tui.ui.cells import fit

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.style import Style as RichStyle
    from textual.content import Content
    from textual.geometry import Region
    from textual.style import Style

__all__ = ["PaintedLines", "changed_runs"]

TAB = 8


class PaintedLines(Widget):
    """A widget whose lines are painted one by one.

    A subclass's ``render_line`` calls :meth:`paint` and, unless :attr:`painting`, gives the strip
    its places (``Strip.apply_offsets``): Textual asks for those when text is selected.
    """

    painting = False
    """Whether the lines are wanted for the screen, and not for a question of the mouse."""

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id)
        self._rich: dict[Style, RichStyle] = {}

    def render_lines(self, crop: Region) -> list[Strip]:
        """Paint the lines of ``crop``."""
        self.painting = True
        try:
            return super().render_lines(crop)
        finally:
            self.painting = False

    def paint(self, content: Content, width: int | None = None) -> Strip:
        """Return one line; with a ``width`` in cells, what is longer ends with an ellipsis."""
        if "\t" in content.plain:
            content = content.expand_tabs(TAB)
        if width is not None and content.cell_length > width:
            content = fit(content, width)
        parse = self.app.stylesheet.parse_style
        return Strip(
            [
                Segment(text, self._rich_style(style))
                for text, style in content.render(self.visual_style, end="", parse_style=parse)
            ],
            content.cell_length,
        )

    def _rich_style(self, style: Style) -> RichStyle:
        known = self._rich.get(style)
        if known is None:
            known = self._rich[style] = style.rich_style
        return known

    def notify_style_update(self) -> None:
        """Paint everything in the new colours."""
        super().notify_style_update()
        self._rich.clear()


def changed_runs(before: list[Content], now: list[Content]) -> Iterable[tuple[int, int]]:
    """Yield (first row, count) of each run of rows that differ, in text or in style."""
    first: int | None = None
    for row in range(max(len(before), len(now)) + 1):
        inside = row < min(len(before), len(now))
        same = inside and before[row].is_same(now[row])
        changed = not same and row < max(len(before), len(now))
        if changed and first is None:
            first = row
        elif not changed and first is not None:
            yield first, row - first
            first = None
