"""The first line: which profile, which engine, where, in what state and since when."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.content import Content
from textual.reactive import var
from textual.widget import Widget

from qwen_tui.services.snapshots import ServerState
from qwen_tui.ui import figures
from qwen_tui.ui.cells import fit, split_row
from qwen_tui.ui.glyphs import glyphs
from qwen_tui.ui.state import View
from qwen_tui.ui.words import engine_words, state_mark, state_style
from qwen_tui_profiles.text import t, tr

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Header", "Notice", "header_line", "notice_line"]


class Header(Widget):
    """The state line of every screen."""

    DEFAULT_CSS = """
    Header {
        height: 1;
        background: $panel;
        color: $text;
        padding: 0 1;
        text-wrap: nowrap;
    }
    """

    view: var[View] = var(View, init=False)

    def __init__(self, clock: Callable[[], float]) -> None:
        super().__init__()
        self._clock = clock

    def on_mount(self) -> None:
        """Let the uptime tick."""
        self.set_interval(1.0, self._tick)

    def _tick(self) -> None:
        if self.view.alive and self.view.server.started is not None:
            self.refresh()

    def watch_view(self, old: View, new: View) -> None:
        """Draw again when the server or the selection is another one."""
        if old.server is not new.server or old.selected is not new.selected:
            self.refresh()

    def render(self) -> Content:
        """Return the line."""
        return header_line(self.view, self.content_size.width, self._clock())


def header_line(view: View, width: int, now: float) -> Content:
    """Return the header in ``width`` cells; the product's name gives way first."""
    state = Content.assemble(
        (state_mark(view.server.state), f"bold {state_style(view.server.state)}")
    )
    if view.alive and view.server.started is not None:
        state = Content.assemble(state, " ", figures.duration(now - view.server.started))
    if not view.server_known:
        state = Content.styled(figures.plain(None), "$foreground-muted")
    profile = view.server.profile if view.alive else view.selected and view.selected.name
    if view.alive and profile is None and view.server.attached:
        profile = tr(t("attached"))
    engine_style = "bold $warning" if view.simulated else ""
    parts: list[tuple[int, Content]] = [
        (3, Content.styled("qwen-tui", "$foreground-muted")),
        (0, Content.styled(figures.plain(profile), "bold")),
        (1, Content.styled(engine_words(view), engine_style)),
        (2, Content.styled(_address(view), "")),
    ]
    shown = [(rank, part) for rank, part in parts if part.plain]
    room = width - state.cell_length - 1
    while len(shown) > 1 and _length(shown) > room:
        shown.remove(max(shown, key=lambda item: item[0]))
    return split_row(fit(Content("  ").join(p for _, p in shown), room), state, width)


def _length(parts: list[tuple[int, Content]]) -> int:
    return sum(p.cell_length for _, p in parts) + 2 * (len(parts) - 1)


def _address(view: View) -> str:
    url = view.server.url if view.alive else view.selected and view.selected.url
    return "" if not url else url.removeprefix("http://").rstrip("/")


class Notice(Widget):
    """A second line that is there only while there is something to say."""

    DEFAULT_CSS = """
    Notice {
        height: auto;
        max-height: 3;
        padding: 0 1;
        background: $surface;
        color: $text;
        display: none;
        &.-shown { display: block; }
    }
    """

    view: var[View] = var(View, init=False)

    def watch_view(self, old: View, new: View) -> None:
        """Show or hide the line."""
        if any(
            getattr(old, name) is not getattr(new, name)
            for name in ("server", "busy", "said", "selected_why")
        ):
            self.set_class(bool(notice_line(new).plain), "-shown")
            self.refresh(layout=True)

    def render(self) -> Content:
        """Return the line."""
        return notice_line(self.view)


def notice_line(view: View) -> Content:
    """Return what is being done, or what the server's state needs to have said."""
    marks = glyphs()
    if view.busy is not None:
        return Content.assemble((f"{marks.now} ", "$warning"), (tr(view.busy), "bold"))
    if view.said is not None:
        mark = (
            (f"{marks.fail} ", "bold $error") if view.said_failed else (f"{marks.ok} ", "$success")
        )
        return Content.assemble(mark, tr(view.said))
    if (
        not view.alive
        and view.server.state is ServerState.STOPPED
        and view.selected_why is not None
    ):
        return Content.assemble(("i ", "$accent"), tr(view.selected_why))
    message = view.server.message
    if message is None or view.server.state in {ServerState.FATAL}:
        return Content("")
    return Content.assemble(("i ", "$accent"), tr(message))
