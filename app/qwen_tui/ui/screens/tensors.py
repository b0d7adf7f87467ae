"""The tensor browser: every tensor of a checkpoint, narrowed down by typing."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input, OptionList
from textual.widgets.option_list import Option

from qwen_tui.ui import figures
from qwen_tui.ui.cells import fit
from qwen_tui_profiles.foreign import clean
from qwen_tui_profiles.text import t, tr

if TYPE_CHECKING:
    from textual.app import ComposeResult

    from qwen_tui.services.model_desk import TensorRow

__all__ = ["TensorsCard"]

SHOWN = 300
"""Rows drawn at once; a search narrows thousands down to them."""


class TensorsCard(ModalScreen[None]):
    """A search line above the tensors that match all its words."""

    DEFAULT_CSS = """
    TensorsCard > Vertical {
        width: 100%; height: 100%; border: round $accent; background: $surface;
        border-title-style: bold; border-title-color: $foreground;
        border-subtitle-color: $foreground-muted; padding: 0 1;
    }
    TensorsCard OptionList {
        height: 1fr; border: none; padding: 0; background: $surface;
        &:focus { border: none; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss(None)", show=False)]

    def __init__(self, name: str, rows: tuple[TensorRow, ...]) -> None:
        super().__init__()
        self._folder = clean(name)
        self._rows = rows

    def compose(self) -> ComposeResult:
        """Lay out search line and list."""
        with Vertical() as box:
            box.border_title = Content(self._folder)
            yield Input(placeholder=tr(t("words that the name, type or shard holds; Esc leaves")))
            yield OptionList()

    def on_resize(self) -> None:
        """Fit the rows to the new width."""
        self.call_after_refresh(self._redraw)

    @on(Input.Changed)
    def _typed(self, event: Input.Changed) -> None:
        event.stop()
        self._redraw()

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.query_one(OptionList).focus()

    def _redraw(self) -> None:
        words = self.query_one(Input).value.casefold().split()
        found = [r for r in self._rows if all(w in _text(r) for w in words)]
        listing = self.query_one(OptionList)
        width = max(40, listing.content_size.width - 3)
        listing.set_options([Option(_line(row, width)) for row in found[:SHOWN]])
        total = figures.gib(sum(row.bytes for row in found), 2)
        self.query_one(Vertical).border_subtitle = Content(
            tr(t("{n} of {all} tensors, {gib} GiB", n=len(found), all=len(self._rows), gib=total))
        )


def _text(row: TensorRow) -> str:
    return f"{row.name} {row.dtype} {row.shard}".casefold()


def _line(row: TensorRow, width: int) -> Content:
    shape = "×".join(map(str, row.shape)) or "scalar"
    right = Content.assemble(
        (f"{row.dtype:<8}", "$accent"),
        fit(shape, 16),
        fit((f"{row.bytes / 1e6:,.1f} MB", "bold"), 12, align="right"),
    )
    return Content.assemble(fit(row.name, max(10, width - right.cell_length - 1)), " ", right)
