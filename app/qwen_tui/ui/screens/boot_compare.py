"""The card that holds two boots side by side."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Static

from qwen_tui.services.boot_compare import compare_boots, conditions
from qwen_tui.services.words import boot_state
from qwen_tui.ui import figures
from qwen_tui.ui.cells import fit
from qwen_tui.ui.glyphs import glyphs
from qwen_tui.ui.screens.cards import TextCard
from qwen_tui.ui.words import PHASES
from qwen_tui_profiles.text import Text, t, tr

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qwen_tui.services.boot_compare import BootLine
    from qwen_tui.services.history_rows import BootRow

__all__ = ["CompareCard", "compare_lines"]

SECTIONS: dict[str, Text] = {
    "asked": t("asked"),
    "got": t("got"),
    "predicted": t("predicted"),
    "phases": t("phases"),
    "seconds": t("seconds"),
}
TIMES = frozenset({"phases", "seconds"})
LABELS: dict[str, Text] = {
    "predicted_kv_tokens": t("KV pool, tokens"),
    "first_token_s": t("first token"),
    "ready_s": t("ready after"),
}
MOST = 132
"""Cells that a wide terminal gives the card."""
FRAME = 8


class CompareCard(TextCard):
    """Every figure of two boots; differences are marked, ``f`` leaves the rest out."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("f", "only", "Differences", show=False)]

    def __init__(self, before: BootRow, after: BootRow, screen_width: int) -> None:
        self._boots = before, after
        self._only = False
        self._width = min(MOST, screen_width - FRAME)
        body = compare_lines(before, after, self._width, only=False)
        super().__init__(tr(t("Two boots")), body, (("f", t("Differences only")),))

    def on_mount(self) -> None:
        """Take the room that the terminal has: two columns need it."""
        self.query_one(VerticalScroll).styles.width = self._width + 5

    def action_only(self) -> None:
        """Leave out what is the same, or show it again."""
        self._only = not self._only
        body = compare_lines(*self._boots, self._width, only=self._only)
        self.query_one("#card-text", Static).update(Content("\n").join(body))


def compare_lines(before: BootRow, after: BootRow, width: int, *, only: bool) -> list[Content]:
    """Return the boots' figures in three columns of together ``width`` cells.

    Args:
        before: The boot on the left.
        after: The boot on the right.
        width: Cells.
        only: Leave out what is the same.
    """
    columns = _columns(width)
    out = _head(before, after, columns)
    lines = compare_boots(before, after)
    for section, title in SECTIONS.items():
        mine = [line for line in lines if line.section == section]
        shown = [line for line in mine if line.differs or not only]
        if shown:
            out += [Content(""), Content.styled(tr(title), "bold")]
            out += [_line(line, columns) for line in shown]
    return out


def _columns(width: int) -> tuple[int, int]:
    """Return the cells of the names and of each value; the mark has two."""
    name = min(36, max(24, width * 2 // 5))
    return name, (width - name - 2) // 2


def _head(before: BootRow, after: BootRow, columns: tuple[int, int]) -> list[Content]:
    rows: list[tuple[str, str, str]] = [
        ("", _number(before), _number(after)),
        (tr(t("started")), _when(before), _when(after)),
        (tr(t("profile")), before.profile, after.profile),
        (tr(t("engine")), _engine(before), _engine(after)),
        (tr(t("state")), _state(before), _state(after)),
    ]
    out = [_row(label, a, b, columns, differs=a != b and number > 1)
           for number, (label, a, b) in enumerate(rows)]  # fmt: skip
    same, different = conditions(before, after)
    text = t(
        "same: {same}; different: {changed}",
        same=_names(same),
        changed=_names(different),
    )
    return [*out, Content.styled(tr(text), "$foreground-muted")]


def _names(names: Sequence[Text]) -> str:
    return ", ".join(tr(name) for name in names) or glyphs().unknown


def _line(line: BootLine, columns: tuple[int, int]) -> Content:
    if line.section == "phases":
        label = tr(PHASES[line.what]) if line.what in PHASES else line.what
    else:
        label = tr(LABELS[line.what]) if line.what in LABELS else line.what
    show = _time if line.section in TIMES else _value
    return _row(label, show(line.before), show(line.after), columns, differs=line.differs)


def _row(
    label: str, before: str, after: str, columns: tuple[int, int], *, differs: bool
) -> Content:
    name, value = columns
    mark = (f"{glyphs().now} ", "bold $warning") if differs else "  "
    style = "bold" if differs else "$foreground-muted"
    return Content.assemble(
        mark,
        fit((label, "" if differs else "$foreground-muted"), name),
        fit((before, style), value),
        fit((after, style), value),
    )


def _state(boot: BootRow) -> str:
    return boot.cause or tr(boot_state(boot.state))


def _value(value: object) -> str:
    """Return a value as a person writes it; a flag without one is on."""
    return tr(t("on")) if value == "" else figures.value(value)


def _time(seconds: object) -> str:
    return (
        figures.seconds(float(seconds)) if isinstance(seconds, int | float) else figures.plain(None)
    )


def _number(boot: BootRow) -> str:
    return boot.run.split("-")[0].lstrip("0") or "0"


def _when(boot: BootRow) -> str:
    return datetime.datetime.fromtimestamp(boot.started).astimezone().strftime("%Y-%m-%d %H:%M")


def _engine(boot: BootRow) -> str:
    return f"{boot.engine} {boot.engine_version}" if boot.engine_version else boot.engine
