"""Text in columns: as wide as a terminal shows it, broken where a reader expects it.

Chinese has no spaces and takes two columns a character; :mod:`textwrap` knows neither. Text without
wide characters goes to it unchanged.
"""

from __future__ import annotations

import re
import textwrap
import unicodedata

__all__ = ["breaks", "columns", "padded", "wrapped"]

_NEVER_FIRST = frozenset("，。、；：？！）》」』】”’…%)]},;:!?")
"""No line begins with one of these (the mainland's typesetting rule, GB/T 15834)."""
_NEVER_LAST = frozenset("（《「『【“‘")
_WIDE = r"ᄀ-ᅟ⺀-〿ぁ-꓏가-힣豈-﫿︰-﹏\uff00-｠￠-￦\U0001f300-\U0001faff\U00020000-\U0003fffd"
_PIECES = re.compile(rf"\s+|[{_WIDE}]|[^\s{_WIDE}]+")
"""A space, one wide character, or a run of narrow ones (a word, a flag, a path)."""


def columns(text: str) -> int:
    """Return how many columns of a terminal ``text`` takes."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1
        for c in text
    )


def padded(text: str, width: int) -> str:
    """Return ``text`` with spaces behind it until it takes ``width`` columns."""
    return text + " " * (width - columns(text))


def wrapped(text: str, width: int, first: str = "", rest: str | None = None) -> list[str]:
    """Break ``text`` into lines of at most ``width`` columns; words, flags and paths stay whole.

    Args:
        text: What to break.
        width: Columns of a line, indent included.
        first: What the first line begins with.
        rest: What the others begin with; as many spaces as ``first`` is wide when left out.
    """
    rest = " " * columns(first) if rest is None else rest
    if not re.search(f"[{_WIDE}]", text):
        return textwrap.wrap(
            text,
            width,
            initial_indent=first,
            subsequent_indent=rest,
            break_long_words=False,
            break_on_hyphens=False,
        )
    lines: list[str] = []
    line, indent = first, first
    for glued in _unbreakable(text):
        piece = re.sub(r"\s+", " ", glued)
        if line != indent and columns(line) + columns(piece.rstrip()) > width:
            lines.append(line.rstrip())
            line = indent = rest
        line += piece.lstrip() if line == indent else piece
    return [*lines, line.rstrip()]


def breaks(text: str, width: int) -> list[int] | None:
    """Return where lines of ``text`` begin, for text whose spaces and styles must be kept.

    A piece that is wider than a line (a path) is broken where the line ends.

    Returns:
        Indices of the first characters of the second line and on; ``None`` for text without wide
        characters, which needs no rule but that of spaces.
    """
    if not re.search(f"[{_WIDE}]", text):
        return None
    begins: list[int] = []
    used = at = 0
    for piece in _unbreakable(text):
        if used and used + columns(piece.rstrip()) > width:
            begins.append(at)
            used = 0
        for character in piece:
            wide = columns(character)
            if used + wide > width and not character.isspace():
                begins.append(at)
                used = 0
            used += wide
            at += 1
    return begins


def _unbreakable(text: str) -> list[str]:
    """Return pieces between which a line may end."""
    pieces: list[str] = []
    for piece in _PIECES.findall(text):
        glued = bool(pieces) and (
            piece[0] in _NEVER_FIRST or (not piece.isspace() and pieces[-1][-1:] in _NEVER_LAST)
        )
        if glued:
            pieces[-1] += piece
        else:
            pieces.append(piece)
    return pieces
