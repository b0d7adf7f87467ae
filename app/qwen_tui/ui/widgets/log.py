"""The engine's log: follows while at its end, holds still while somebody reads further up.

Only the lines on the screen are drawn, so that a stream of thousands of lines a second costs what
sixty lines cost.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from rich.cells import cell_len, get_character_cell_size
from rich.segment import Segment
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.geometry import Size
from textual.reactive import var
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.style import Style

from qwen_tui.ui.logkinds import LineKind, kind_of, without_date
from qwen_tui.ui.state import View
from qwen_tui.ui.widgets.painted import PaintedLines
from qwen_tui.ui.widgets.thumb import move_thumb
from qwen_tui_profiles.text import t, tr

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.style import Style as RichStyle
    from textual.selection import Selection

    from qwen_tui.ui.state import LogBuffer

__all__ = ["LogPanel", "LogView"]

KEPT = 5000
"""Lines that a view keeps, as many as the buffer."""
KEPT_AT_HOME = 500
"""The main screen's panel keeps some screens of lines; the place of logs keeps all."""


class LogView(PaintedLines, ScrollView, can_focus=True):
    """Shows a :class:`~qwen_tui.ui.state.LogBuffer`, whole or filtered.

    While the reader is not at the end, new lines wait in the buffer: a view that moved under the
    eyes could not be read.
    """

    DEFAULT_CSS = """
    LogView {
        border: round $border-blurred;
        border-title-color: $foreground;
        border-subtitle-color: $foreground-muted;
        padding: 0 1;
        background: transparent;
        scrollbar-size-vertical: 1;
        scrollbar-size-horizontal: 0;
        overflow-x: auto;
        overflow-y: auto;
        &:focus { border: round $accent; }
        &.-held { border-subtitle-color: $warning; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "scroll_up", "Up", show=False),
        Binding("down", "scroll_down", "Down", show=False),
        Binding("left", "scroll_left", "Left", show=False),
        Binding("right", "scroll_right", "Right", show=False),
        Binding("pageup", "page_up", "Page up", show=False),
        Binding("pagedown", "page_down", "Page down", show=False),
        Binding("home", "scroll_home", "Top", show=False),
    ]
    ALLOW_SELECT = True

    view: var[View] = var(View, init=False)

    def __init__(
        self,
        buffer: LogBuffer,
        *,
        title: str,
        name: str,
        accept: Callable[[str], bool] = lambda _: True,
        shape: Callable[[str], str] = lambda line: line,
        kept: int = KEPT,
    ) -> None:
        super().__init__(id=name)
        self.border_title = Content(title)
        self._buffer = buffer
        self._accept = accept
        self._shape = shape
        self._kept = kept
        self._epoch = buffer.epoch
        self._taken = 0
        self._rows: list[str] = []
        self._longest = 0
        self._styles: dict[str, RichStyle | None] = {}
        self._said = ""
        self.following = True
        self.needle = ""
        """Text that is marked wherever it stands."""
        self.marked: int | None = None
        """Row that the last search found."""

    def on_mount(self) -> None:
        """Show what is there already."""
        self.take()

    def watch_view(self, old: View, new: View) -> None:
        """Take what is new in the buffer."""
        if old.log_total != new.log_total or self._epoch != self._buffer.epoch:
            self.take()

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Hold still when the reader goes up; catch up when the end is reached again."""
        if not self.is_attached:
            return
        move_thumb(self, len(self._rows))
        if round(old_value) != round(new_value):
            self.refresh(self.size.region)
        # A panel that grows moves its view too, but then the old place does not exist any more.
        if new_value < old_value <= self.max_scroll_y:
            self.following = False
        elif not self.following and self.is_vertical_scroll_end:
            self.following = True
            self.call_after_refresh(self.take)

    def watch_show_vertical_scrollbar(self, shown: bool) -> None:
        """Tell the scroll bar where the view is: nobody did while it was not shown."""
        if shown:
            self.vertical_scrollbar.position = self.scroll_y

    def on_resize(self) -> None:
        """Stay at the end when the panel changes its height."""
        if self.following:
            self._to_end()

    @property
    def rows(self) -> list[str]:
        """The lines that are shown, as far as they are kept."""
        return self._rows

    @property
    def waiting(self) -> int:
        """Lines in the buffer that are not shown yet."""
        return self._buffer.total - self._taken

    def take(self) -> None:
        """Append what is new, unless somebody reads further up."""
        if self._epoch != self._buffer.epoch:
            self._epoch = self._buffer.epoch
            self.restart()
        if self.waiting > 0 and self.following:
            self._append(self._buffer.since(self._taken))
            self._taken = self._buffer.total
            self._to_end()
        self._say_waiting()

    def show_only(self, accept: Callable[[str], bool]) -> None:
        """Change the filter and show what it accepts."""
        self._accept = accept
        self.restart()
        self.take()
        self.refresh()

    def restart(self) -> None:
        """Forget what is shown; :meth:`take` shows the buffer again."""
        self._rows, self._longest, self._taken, self.marked = [], 0, 0, None
        self.following = True
        self.virtual_size = Size(0, 0)

    def follow(self) -> None:
        """Go to the end and follow from there."""
        self.following = True
        self.take()
        self._to_end()

    def find(self, needle: str, step: int) -> bool:
        """Go to the next row (``step`` 1) or the previous one (-1) that holds ``needle``."""
        self.needle = needle
        wanted = needle.casefold()
        start = self._first_row(step) if self.marked is None else self.marked + step
        order = range(start, len(self._rows)) if step > 0 else range(start, -1, -1)
        found = next((n for n in order if wanted in self._rows[n].casefold()), None)
        if found is not None:
            self.go_to(found)
        self.refresh()
        return found is not None

    def go_to(self, row: int) -> None:
        """Mark a row and bring it into the middle."""
        self.marked = row
        self.following = False
        # Forced: right after a change of filter there is no scroll bar yet.
        top = max(0, row - self.size.height // 2)
        self.scroll_to(y=top, animate=False, immediate=True, force=True)
        self.refresh()

    def _first_row(self, step: int) -> int:
        top = round(self.scroll_y)
        return top if step > 0 else min(top + self.size.height, len(self._rows)) - 1

    def _append(self, lines: list[str]) -> None:
        new = [self._shape(line) for line in lines if self._accept(line)]
        if not new:
            return
        self._rows += new
        self._forget(len(self._rows) - self._kept)
        self._longest = max([self._longest, *(_width(line) for line in new)])
        self._grow_to(Size(self._longest, len(self._rows)))
        self.refresh(self.size.region)

    def _forget(self, rows: int) -> None:
        """Drop the oldest rows; the mark stays on its line as long as that is kept."""
        if rows <= 0:
            return
        del self._rows[:rows]
        if self.marked is not None:
            self.marked = self.marked - rows if self.marked >= rows else None

    def _grow_to(self, size: Size) -> None:
        """Change what can be scrolled through; lay out only when a scrollbar comes or goes.

        A plain change of ``virtual_size`` lays out and paints the whole screen, and a log of a busy
        server changes all the time.
        """
        room = self.container_size
        tall, wide = size.height > room.height, size.width > room.width
        if (tall, wide) != (self.show_vertical_scrollbar, self.show_horizontal_scrollbar):
            self.virtual_size = size
            return
        self.set_reactive(ScrollView.virtual_size, size)
        move_thumb(self, size.height)
        if wide:
            self.horizontal_scrollbar.window_virtual_size = size.width

    def _to_end(self) -> None:
        # Forced: before the first layout there is no scroll bar, which would count as a refusal.
        # Not scroll_end, which scrolls once more later, when the reader may be elsewhere already.
        self.scroll_to(y=self.max_scroll_y, animate=False, immediate=True, force=True)

    def _say_waiting(self) -> None:
        text = ""
        if not self._rows:
            text = tr(t("no such line") if self._buffer.total else t("no log yet"))
        if self.waiting > 0:
            text = tr(t("+{count} lines, f follows", count=f"{self.waiting:,}"))
        if text != self._said:  # a title that is set paints the whole panel
            self._said = text
            self.set_class(self.waiting > 0, "-held")
            self.border_subtitle = Content(text)

    def render_line(self, y: int) -> Strip:
        """Draw one row of the screen."""
        across, down = self.scroll_offset
        row, width = down + y, self.size.width
        if row >= len(self._rows):
            return Strip.blank(width, self.rich_style)
        strip = self._strip(row, across, width)
        return strip if self.painting else strip.apply_offsets(across, row)

    def _strip(self, row: int, across: int, width: int) -> Strip:
        """Draw what is seen of one line.

        A line of one colour is cut as text. Textual would cut it as a piece with a style, and Rich
        remembers 16,384 such cuts with the whole text of each: 8 MB after an hour of a busy log.
        """
        line = self._rows[row]
        selection = self.text_selection
        if self.needle or row == self.marked or selection is not None:
            content = self._content(row)
            if selection is not None:
                content = self._selected(content, selection, row)
            return self.paint(content).crop_extend(across, across + width, self.rich_style)
        return Strip([Segment(cut(line, across, width), self._style_of(kind_of(line)))], width)

    def _style_of(self, kind: LineKind) -> RichStyle | None:
        """Return the finished style of a kind of lines; the long way costs half a millisecond."""
        if kind.id not in self._styles:
            (sample,) = self.paint(Content.styled("x", kind.style))
            self._styles[kind.id] = sample.style
        return self._styles[kind.id]

    def _selected(self, content: Content, selection: Selection, row: int) -> Content:
        """Mark what of a line is selected."""
        span = selection.get_span(row)
        if span is None:
            return content
        start, end = span
        style = Style.from_styles(self.screen.get_component_styles("screen--selection"))
        return content.stylize(style, start, len(content) if end == -1 else end)

    def notify_style_update(self) -> None:
        """Draw everything in the new colours."""
        super().notify_style_update()
        self._styles.clear()

    def _content(self, row: int) -> Content:
        line = self._rows[row]
        content = Content.styled(line, kind_of(line).style)
        if self.needle:
            wanted, folded = self.needle.casefold(), line.casefold()
            # A folding that changes the length would put the mark elsewhere: then there is none.
            at = folded.find(wanted) if len(folded) == len(line) else -1
            while at >= 0:
                content = content.stylize("reverse", at, at + len(wanted))
                at = folded.find(wanted, at + len(wanted))
        return content.stylize("bold underline") if row == self.marked else content

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        """Return what the mouse selected."""
        return selection.extract("\n".join(self._rows)), "\n"

    def selection_updated(self, selection: Selection | None) -> None:
        """Draw the selection."""
        self.refresh()


class LogPanel(LogView):
    """The log on the main screen: short times, and no lines about this console's own polls."""

    def __init__(self, buffer: LogBuffer) -> None:
        super().__init__(
            buffer,
            title=tr(t("Log, without polls")),
            name="log",
            accept=lambda line: kind_of(line).id != "poll",
            shape=without_date,
            kept=KEPT_AT_HOME,
        )


def _width(line: str) -> int:
    return len(line) if line.isascii() else cell_len(line)


def cut(line: str, start: int, width: int) -> str:
    """Return ``width`` cells of a line from cell ``start`` on, filled up with blanks.

    Half of a wide character at either edge becomes a blank.
    """
    if line.isascii():
        return line[start : start + width].ljust(width)
    out: list[str] = []
    at = 0
    for character in line:
        cells = get_character_cell_size(character)
        if at >= start + width:
            break
        if at >= start and at + cells <= start + width:
            out.append(character)
        elif at + cells > start:
            out.append(" " * (min(at + cells, start + width) - max(at, start)))
        at += cells
    return "".join(out) + " " * max(0, start + width - max(at, start))
