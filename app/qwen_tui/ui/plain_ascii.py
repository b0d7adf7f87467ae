"""ASCII and nothing else: the last step before the screen, for what the marks do not cover.

Sentences have arrows and dashes, Textual's own widgets have edges of block glyphs. Names that come
from elsewhere (a Chinese folder) stay as they are: another letter would be another name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.segment import Segment
from textual.filter import LineFilter

if TYPE_CHECKING:
    from textual.color import Color

__all__ = ["PlainAscii", "plain_ascii"]

_STANDS_FOR = {
    "-": "─━═╌┄—–−·╸╺▔",
    "_": "▁",
    "|": "│┃║▏▎▍▕",
    "+": "╭╮╰╯┌┐└┘├┤┬┴┼╔╗╚╝✓",
    "#": "█▓▇▆▅▄▃▂▌▐▋▊▉▀■§",
    ".": "…░",
    ":": "▒",
    ">": "→↳▸▶≥",
    "<": "←◀≤",
    "^": "↑▲",
    "v": "↓▼",
    "x": "×✗",
    "*": "●•",
    "o": "○",
    "~": "◐◑≈",
    "/": "÷",
    " ": "°\u00a0",
    "u": "µ",
    "'": "‘’",
    '"': "“”",
}
"""One cell for one cell, so that columns stay where they are."""
_TABLE = str.maketrans({glyph: mark for mark, glyphs in _STANDS_FOR.items() for glyph in glyphs})


def plain_ascii(text: str) -> str:
    """Return a text with an ASCII mark for each glyph."""
    return text if text.isascii() else text.translate(_TABLE)


class PlainAscii(LineFilter):
    """Textual's filter of painted lines."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """Return the segments in ASCII."""
        return [Segment(plain_ascii(text), style, control) for text, style, control in segments]
