"""A list with a pane that explains the row under the cursor; several places are made of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from textual import on
from textual.containers import Container, VerticalScroll
from textual.content import Content
from textual.message import Message
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from textual.app import ComposeResult

__all__ = ["ListDetail", "ListRow"]


@dataclass(frozen=True, slots=True)
class ListRow:
    """One row: what it is called by the program, and what it shows."""

    id: str
    line: Content
    disabled: bool = False
    """A heading: the cursor passes over it."""


class ListDetail(Container):
    """List above or beside detail, as wide as the terminal allows."""

    DEFAULT_CSS = """
    ListDetail { height: 1fr; layout: vertical; }
    ListDetail > OptionList {
        height: 1fr; border: round $border-blurred; padding: 0; background: transparent;
        scrollbar-size-vertical: 1; border-title-color: $foreground;
        border-subtitle-color: $foreground-muted;
        &:focus { border: round $accent; }
    }
    ListDetail > VerticalScroll {
        height: 9; border: round $border-blurred; padding: 0 1; scrollbar-size-vertical: 1;
        border-title-color: $foreground; border-subtitle-color: $foreground-muted;
        &:focus { border: round $accent; }
    }
    ListDetail > VerticalScroll > Static { height: auto; }
    """

    _detail: Content | None = None
    """What the pane shows."""

    @dataclass
    class Shown(Message):
        """The cursor is on another row."""

        row: str

    @dataclass
    class Chosen(Message):
        """Enter was pressed on a row."""

        row: str

    def compose(self) -> ComposeResult:
        """Lay out list and pane."""
        yield OptionList()
        with VerticalScroll(can_focus=True):
            yield Static()

    @property
    def listing(self) -> OptionList:
        """The list."""
        return self.query_one(OptionList)

    @property
    def pane(self) -> VerticalScroll:
        """The pane."""
        return self.query_one(VerticalScroll)

    @property
    def row_width(self) -> int:
        """Cells that a row has."""
        # An option has one blank on each side, and the scroll bar takes a cell when it shows.
        return max(20, self.listing.content_size.width - 3)

    @property
    def pane_width(self) -> int:
        """Cells that a line of the pane has."""
        return max(20, self.pane.content_size.width - 1)

    @property
    def current(self) -> str | None:
        """The id of the row under the cursor."""
        at = self.listing.highlighted
        return None if at is None else self.listing.get_option_at_index(at).id

    def set_rows(self, rows: Sequence[ListRow], *, keep: bool = True) -> None:
        """Replace the rows; the cursor stays on its row if that is there, or goes to the first.

        Args:
            rows: The new rows.
            keep: False puts the cursor on the first row in any case.
        """
        held = self.current if keep else None
        listing = self.listing
        listing.set_options([Option(r.line, r.id, disabled=r.disabled) for r in rows])
        ids = [r.id for r in rows]
        if held in ids:
            listing.highlighted = ids.index(held)
        elif rows:
            listing.highlighted = next((n for n, r in enumerate(rows) if not r.disabled), None)

    def update_rows(self, rows: Sequence[ListRow]) -> None:
        """Show new lines; where the rows are the same ones, only changed lines are drawn."""
        listing = self.listing
        held = [listing.get_option_at_index(n) for n in range(listing.option_count)]
        if [option.id for option in held] != [row.id for row in rows]:
            self.set_rows(rows)
            return
        for number, (option, row) in enumerate(zip(held, rows, strict=True)):
            if not (isinstance(option.prompt, Content) and option.prompt.is_same(row.line)):
                listing.replace_option_prompt_at_index(number, row.line)

    def set_detail(self, lines: Iterable[Content]) -> None:
        """Replace what the pane shows, if it is something else."""
        detail = Content("\n").join(lines)
        if self._detail is None or not detail.is_same(self._detail):
            self._detail = detail
            self.query_one(Static).update(detail)

    @on(OptionList.OptionHighlighted)
    def _highlighted(self, event: OptionList.OptionHighlighted) -> None:
        event.stop()
        if event.option.id is not None:
            self.pane.scroll_home(animate=False)
            self.post_message(self.Shown(event.option.id))

    @on(OptionList.OptionSelected)
    def _selected(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        if event.option.id is not None:
            self.post_message(self.Chosen(event.option.id))
