"""Moves a scroll bar's thumb, and paints the bar only when the thumb looks different.

Textual paints a scroll bar whenever a number behind it changes. At the end of a log of thousands of
lines each new line changes those numbers and none of them can be seen; the bar was a sixth of what
the console cost beside a busy server.
"""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING

from textual.scrollbar import ScrollBar

if TYPE_CHECKING:
    from textual.widget import Widget

__all__ = ["move_thumb", "thumb_eighths"]

STEPS = 8
"""A thumb's ends are drawn in eighths of a cell."""


def thumb_eighths(cells: int, rows: float, window: float, at: float) -> tuple[int, int]:
    """Return where a thumb begins and ends, in eighths of a cell; (0, 0) when there is none.

    Args:
        cells: Length of the scroll bar.
        rows: Rows that there are.
        window: Rows that are shown.
        at: The first row that is shown.
    """
    if cells <= 0 or window <= 0 or rows <= window:
        return 0, 0
    length = max(1.0, window * cells / rows)
    start = int((cells - length) * at / (rows - window) * STEPS)
    return start, start + ceil(length * STEPS)


def move_thumb(widget: Widget, rows: int) -> None:
    """Bring the vertical scroll bar of ``widget`` to its place in ``rows`` rows."""
    if not widget.show_vertical_scrollbar:
        return
    bar = widget.vertical_scrollbar
    cells, window = bar.size.height, bar.window_size
    before = thumb_eighths(cells, bar.window_virtual_size, window, bar.position)
    if _whole(thumb_eighths(cells, rows, window, widget.scroll_y)) == _whole(before):
        # Known to the bar all the same: it counts with these numbers when it is dragged.
        bar.set_reactive(ScrollBar.window_virtual_size, rows)
        bar.set_reactive(ScrollBar.position, bar.validate_position(widget.scroll_y))
        return
    bar.window_virtual_size = rows
    bar.position = widget.scroll_y


def _whole(thumb: tuple[int, int]) -> tuple[int, int]:
    """Return the cells that a thumb touches: less than one is not worth a paint."""
    return thumb[0] // STEPS, ceil(thumb[1] / STEPS)
