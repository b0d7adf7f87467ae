"""Lines of fixed width in terminal cells, and small charts drawn with text.

Everything here measures in cells, not characters: model folders and logs may be Chinese.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from textual.content import Content

from qwen_tui.ui.glyphs import glyphs
from qwen_tui_profiles.wrapping import breaks

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["Part", "bar", "fit", "join", "spark", "spark_rows", "split_row", "wrapped"]

Part = str | Content | tuple[str, str]
"""Plain text, content, or text with a style."""


def fit(part: Part, width: int, align: str = "left") -> Content:
    """Return ``part`` in exactly ``width`` cells: cut with an ellipsis or padded with blanks."""
    content = Content.assemble(part)
    if width <= 0:
        return Content("")
    if content.cell_length > width:
        mark = glyphs().ellipsis
        cut = content.truncate(width - 1)
        content = Content.assemble(cut, mark, " " * (width - 1 - cut.cell_length))
    missing = width - content.cell_length
    if align == "right":
        return content.pad_left(missing)
    return content.pad_right(missing)


def join(lines: Iterable[Content]) -> Content:
    """Return the lines as one block."""
    return Content("\n").join(lines)


def split_row(left: Part, right: Part, width: int) -> Content:
    """Return one line with ``right`` at its end; ``left`` gives way first."""
    end = Content.assemble(right)
    room = width - end.cell_length
    if room <= 0:
        return fit(end, width)
    return Content.assemble(fit(left, room), end)


def wrapped(part: Part, width: int, *, indent: int = 0, most: int | None = None) -> list[Content]:
    """Wrap ``part`` to ``width`` cells, each line indented; at most ``most`` lines, cut with …."""
    content = Content.assemble(part)
    lines = [line.rstrip() for line in _broken(content, max(1, width - indent))]
    if most is not None and len(lines) > most:
        kept = lines[:most]
        kept[-1] = fit(Content.assemble(kept[-1], " ", *lines[most:]), width - indent)
        lines = kept
    return [line.pad_left(indent) for line in lines]


def _broken(content: Content, width: int) -> list[Content]:
    """Break at spaces, and Chinese where its typesetting allows; Textual knows only spaces."""
    begins = None if content.plain.isascii() else breaks(content.plain, width)
    if begins is None or "\n" in content.plain:
        return content.wrap(width)
    return content.divide(begins)


def bar(share: float | None, width: int, style: str) -> Content:
    """Return a horizontal bar for a share of 0 to 1; all empty when the share is unknown."""
    marks = glyphs()
    if share is None or width <= 0:
        return Content.styled(marks.empty * max(0, width), "$foreground-disabled")
    steps = len(marks.part) + 1
    filled = min(max(share, 0.0), 1.0) * width
    whole = int(filled)
    step = math.floor((filled - whole) * steps)
    partial = marks.part[step - 1] if step and whole < width else ""
    if share > 0 and not whole and not partial:
        partial = marks.part[0] if marks.part else marks.full
    rest = width - whole - len(partial)
    return Content.assemble(
        (marks.full * whole + partial, style), (marks.empty * rest, "$foreground-disabled")
    )


def spark(values: Sequence[float | None], width: int, top: float | None = None) -> str:
    """Return the last ``width`` values as one row of block heights.

    An unknown value is a blank, not a zero. ``top`` is the value of a full cell; without it the
    largest value shown.
    """
    return spark_rows(values, width, 1, top)[0]


def spark_rows(
    values: Sequence[float | None], width: int, rows: int, top: float | None = None
) -> list[str]:
    """Return the last ``width`` values as ``rows`` rows of block heights, the top row first."""
    # One row keeps its top eighth free, or it would run into the line above.
    marks = glyphs().spark if rows > 1 else glyphs().spark[:-1]
    shown = list(values[-width:]) if width > 0 else []
    known = [v for v in shown if v is not None]
    highest = max(known, default=0.0) if top is None else top
    levels = [_level(v, highest, rows * len(marks)) for v in shown]
    out: list[str] = []
    for row in range(rows - 1, -1, -1):
        base = row * len(marks)
        out.append("".join(_mark(level - base, marks) for level in levels).rjust(width))
    return out


def _level(value: float | None, highest: float, most: int) -> int:
    if value is None:
        return 0
    if highest <= 0:
        return 1
    return max(1, min(most, math.ceil(value / highest * most)))


def _mark(level: int, marks: str) -> str:
    if level <= 0:
        return " "
    return marks[min(level, len(marks)) - 1]
