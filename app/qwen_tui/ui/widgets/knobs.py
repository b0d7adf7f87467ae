"""A column of knobs: up and down choose one, left and right turn it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType
from textual.content import Content
from textual.message import Message
from textual.reactive import reactive
from textual.widget import Widget

from qwen_tui.ui.cells import bar, fit
from qwen_tui.ui.glyphs import glyphs
from qwen_tui.ui.knobs import KNOBS, Knob
from qwen_tui_profiles.text import t, tr

if TYPE_CHECKING:
    from textual import events

__all__ = ["KnobColumn"]

LABEL = 13
VALUE = 11


class KnobColumn(Widget, can_focus=True):
    """Shows where each knob stands and which of them were turned."""

    DEFAULT_CSS = """
    KnobColumn {
        border: round $border-blurred; padding: 0 1; height: 100%;
        border-title-color: $foreground; border-subtitle-color: $foreground-muted;
        text-wrap: nowrap;
        &:focus { border: round $accent; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "move(-1)", "Up", show=False),
        Binding("down", "move(1)", "Down", show=False),
        Binding("left", "turn(-1)", "Less", show=False),
        Binding("right", "turn(1)", "More", show=False),
        Binding("backspace,delete", "reset", "As in the profile", show=False),
    ]

    cursor = reactive(0)

    @dataclass
    class Turned(Message):
        """A knob stands somewhere else now."""

        knobs: dict[str, str | None]

    def __init__(self) -> None:
        super().__init__(id="knobs")
        self._start: dict[str, str | None] = {}
        self._now: dict[str, str | None] = {}
        self._shown: list[Knob] = []
        self.retitle()

    def retitle(self) -> None:
        """Name the box in the language that is spoken."""
        self.border_title = Content(tr(t("Knobs")))
        self.border_subtitle = Content(tr(t("arrows turn")))

    @property
    def knobs(self) -> dict[str, str | None]:
        """Where the knobs stand."""
        return dict(self._now)

    @property
    def turned(self) -> bool:
        """Whether any knob stands elsewhere than at the start."""
        return self._now != self._start

    def load(self, start: dict[str, str | None], engine: str) -> None:
        """Begin with the values of a profile."""
        self._start, self._now = dict(start), dict(start)
        self._shown = [k for k in KNOBS if engine in k.engines or not k.flags]
        self.cursor = min(self.cursor, max(0, len(self._shown) - 1))
        self.refresh()

    def action_move(self, step: int) -> None:
        """Choose another knob."""
        self.cursor = max(0, min(len(self._shown) - 1, self.cursor + step))

    def action_turn(self, step: int) -> None:
        """Turn the chosen knob."""
        if not self._shown:
            return
        knob = self._shown[self.cursor]
        value = _next(knob, self._now.get(knob.id), step)
        if value != self._now.get(knob.id):
            self._now[knob.id] = value
            self.refresh()
            self.post_message(self.Turned(self.knobs))

    def action_reset(self) -> None:
        """Set the chosen knob back to the profile's value."""
        if self._shown:
            knob = self._shown[self.cursor]
            self._now[knob.id] = self._start.get(knob.id)
            self.refresh()
            self.post_message(self.Turned(self.knobs))

    def on_click(self, event: events.Click) -> None:
        """Choose the knob under the pointer; a click left or right of its middle turns it."""
        row = event.y - self.gutter.top
        if 0 <= row < len(self._shown):
            if row == self.cursor:
                self.action_turn(1 if event.x > self.size.width // 2 else -1)
            self.cursor = row

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        """Turn with the wheel."""
        event.stop()
        self.action_turn(-1)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """Turn with the wheel."""
        event.stop()
        self.action_turn(1)

    def render(self) -> Content:
        """Return one line per knob."""
        width = self.content_size.width
        return Content("\n").join(
            self._line(knob, width, here=number == self.cursor)
            for number, knob in enumerate(self._shown)
        )

    def _line(self, knob: Knob, width: int, *, here: bool) -> Content:
        value, start = self._now.get(knob.id), self._start.get(knob.id)
        moved = value != start
        shown = tr(t("not set")) if value is None else _grouped(value)
        style = "bold $warning" if moved else "bold"
        cursor = glyphs().now if here else " "
        room = max(0, width - 2 - LABEL - VALUE - 1)
        return Content.assemble(
            (f"{cursor} ", "bold $accent"),
            fit((tr(knob.title), "bold" if here and self.has_focus else ""), LABEL),
            fit((shown, style), VALUE, align="right"),
            " ",
            bar(_share(knob, value), room, "$warning" if moved else "$accent"),
        )


def _next(knob: Knob, value: str | None, step: int) -> str | None:
    """Return the step after ``value``, which may stand between two of them."""
    if value in knob.values:
        at = knob.values.index(value) + step
        return knob.values[max(0, min(len(knob.values) - 1, at))]
    number = _number(value)
    if number is None:
        return knob.values[-1] if step > 0 else knob.values[0]
    known = [(n, v) for v in knob.values if (n := _number(v)) is not None]
    if step > 0:
        return next((v for n, v in known if n > number), known[-1][1])
    return next((v for n, v in reversed(known) if n < number), known[0][1])


def _number(value: str | None) -> float | None:
    try:
        return None if value is None else float(value)
    except ValueError:
        return None


def _grouped(value: str) -> str:
    return f"{int(value):,}" if value.isdecimal() else value


def _share(knob: Knob, value: str | None) -> float | None:
    if value is None:
        return 0.0
    if value in knob.values:
        return knob.values.index(value) / max(1, len(knob.values) - 1)
    number = _number(value)
    if number is None:
        return None
    steps = [n for v in knob.values if (n := _number(v)) is not None]
    return sum(n <= number for n in steps) / max(1, len(steps))
