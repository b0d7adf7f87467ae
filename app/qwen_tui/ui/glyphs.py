"""The marks that the console draws: box, block and status glyphs, or plain ASCII.

A status is always a word, a glyph and a colour, so that each of the three may be missing.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ASCII", "UNICODE", "Glyphs", "glyphs", "use_glyphs"]


@dataclass(frozen=True, slots=True)
class Glyphs:
    """One set of marks. Every glyph is one cell wide."""

    arrow: str
    """Between asked and got."""
    remedy: str
    dot: str
    """Separates facts on one line."""
    ok: str
    warn: str
    fail: str
    skip: str
    done: str
    now: str
    later: str
    running: str
    starting: str
    stopped: str
    stopping: str
    exited: str
    unreachable: str
    spark: str
    """Eight heights, lowest first."""
    full: str
    """A filled cell of a bar."""
    part: str
    """Partly filled cells in equal steps, smallest first; may be none."""
    empty: str
    """An unfilled cell of a bar."""
    unknown: str = "—"
    ellipsis: str = "…"


UNICODE = Glyphs(
    arrow="→",
    remedy="↳",
    dot="·",
    ok="✓",
    warn="!",
    fail="✗",
    skip="-",
    done="✓",
    now="▸",
    later="·",
    running="●",
    starting="◐",
    stopped="○",
    stopping="◑",
    exited="■",
    unreachable="?",
    spark="▁▂▃▄▅▆▇█",
    full="━",
    part="╸",
    empty="━",
)

ASCII = Glyphs(
    arrow=">",
    remedy=">",
    dot="-",
    ok="+",
    warn="!",
    fail="x",
    skip="-",
    done="+",
    now=">",
    later=".",
    running="*",
    starting="~",
    stopped="o",
    stopping="~",
    exited="#",
    unreachable="?",
    spark="_.,-=+*#",
    full="#",
    part="",
    empty=".",
    unknown="-",
    ellipsis="~",
)


class _InUse:
    current: Glyphs = UNICODE


def glyphs() -> Glyphs:
    """Return the set in use; :data:`UNICODE` until :func:`use_glyphs` is called."""
    return _InUse.current


def use_glyphs(chosen: Glyphs) -> None:
    """Choose the set for this process (one console, one terminal)."""
    _InUse.current = chosen
