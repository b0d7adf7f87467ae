"""The engine's log: follows while at its end, holds still while somebody reads further up."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from textual.content import Content
from textual.reactive import var
from textual.widgets import Log

from qwen_tui.ui.state import View
from qwen_tui_profiles.text import t, tr

if TYPE_CHECKING:
    from qwen_tui.ui.state import LogBuffer

__all__ = ["LogPanel"]


class LogPanel(Log):
    """Shows a :class:`~qwen_tui.ui.state.LogBuffer`; takes new lines only while at the end.

    ``Log`` would slide under a reader when old lines are pruned, so new lines wait in the buffer
    until the reader comes back to the end.
    """

    DEFAULT_CSS = """
    LogPanel {
        border: round $panel-lighten-2;
        border-title-color: $text;
        border-subtitle-color: $foreground-muted;
        &.-held { border-subtitle-color: $warning; }
        padding: 0 1;
        background: transparent;
        scrollbar-size-vertical: 1;
        scrollbar-size-horizontal: 0;
        &:focus { border: round $accent; }
    }
    """

    view: var[View] = var(View, init=False)

    def __init__(self, buffer: LogBuffer) -> None:
        super().__init__(highlight=False, max_lines=5000, auto_scroll=True, id="log")
        self._buffer = buffer
        self._epoch = buffer.epoch
        self._taken = 0
        self._following = True
        self.border_title = tr(t("Log, without polls"))

    def on_mount(self) -> None:
        """Show what is there already."""
        self.take()

    def watch_view(self, old: View, new: View) -> None:
        """Take what is new in the buffer."""
        if old.log_total != new.log_total or self._epoch != self._buffer.epoch:
            self.take()

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Hold still when the reader goes up; catch up when the end is reached again."""
        super().watch_scroll_y(old_value, new_value)
        if not self.is_attached:
            return
        # A panel that grows moves its view too, but then the old place does not exist any more.
        if new_value < old_value <= self.max_scroll_y:
            self._following = False
        elif not self._following and self.is_vertical_scroll_end:
            self._following = True
            self.call_after_refresh(self.take)

    def on_resize(self) -> None:
        """Stay at the end when the panel changes its height."""
        if self._following:
            self._to_end()

    @property
    def waiting(self) -> int:
        """Lines in the buffer that are not shown yet."""
        return self._buffer.total - self._taken

    def take(self) -> None:
        """Append what is new, unless somebody reads further up."""
        if self._epoch != self._buffer.epoch:
            self.clear()
            self._epoch, self._taken, self._following = self._buffer.epoch, 0, True
        if self.waiting > 0 and self._following:
            lines = self._buffer.since(self._taken)
            self._taken = self._buffer.total
            self.write_lines(without_date(line) for line in lines if not is_poll(line))
            self._to_end()
        self._say_waiting()

    def follow(self) -> None:
        """Go to the end and follow from there."""
        self._following = True
        self.take()
        self._to_end()

    def _to_end(self) -> None:
        self.scroll_end(animate=False, immediate=True, x_axis=False)

    def _say_waiting(self) -> None:
        text = "" if self._buffer.total else tr(t("no log yet"))
        self.set_class(self.waiting > 0, "-held")
        if self.waiting > 0:
            text = tr(t("+{count} lines, f follows", count=f"{self.waiting:,}"))
        self.border_subtitle = Content(text)


_POLL = re.compile(r'"GET /(?:metrics|server_info|get_server_info|v1/models|health)[ ?]')
_DATE = re.compile(r"^\[\d{4}-\d\d-\d\d (\d\d:\d\d:\d\d)(?:\.\d+)?([^\]]*)\] ")


def is_poll(line: str) -> bool:
    """Whether a line only says that somebody (mostly this console) looked at the engine's state."""
    return _POLL.search(line) is not None


def without_date(line: str) -> str:
    """Return an engine's line with the time of day alone: the date costs eleven columns a line."""
    return _DATE.sub(r"\1\2 ", line)
