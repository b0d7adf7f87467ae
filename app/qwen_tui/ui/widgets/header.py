"""The first line: which profile, which engine, where, in what state and since when."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.content import Content
from textual.geometry import Region
from textual.reactive import var
from textual.widget import Widget

from qwen_tui.services.snapshots import ServerState
from qwen_tui.ui import figures
from qwen_tui.ui.cells import fit, split_row
from qwen_tui.ui.glyphs import glyphs
from qwen_tui.ui.places import PLACES, place_row
from qwen_tui.ui.state import View
from qwen_tui.ui.words import engine_words, state_mark, state_style
from qwen_tui_profiles.findings import Severity
from qwen_tui_profiles.text import t, tr

if TYPE_CHECKING:
    from collections.abc import Callable

    from textual import events

    from qwen_tui.services.snapshots import Alarm

__all__ = ["Header", "Notice", "Tabs", "header_line", "notice_line"]


UPTIME = 12
"""Cells at the end of the line that hold the uptime."""


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

    def __init__(self, place: str, clock: Callable[[], float]) -> None:
        super().__init__()
        self._place = place_row(place)
        self._clock = clock
        self._drawn = Content("")

    def tick(self) -> None:
        """Let the uptime go on."""
        if self.view.alive and self.view.server.started is not None:
            # The uptime alone: a whole line a second is much for a slow ssh.
            self.refresh(Region(self.size.width - UPTIME, 0, UPTIME, 1))

    def watch_view(self, old: View, new: View) -> None:
        """Draw again when the server or the selection is another one."""
        if any(
            getattr(old, name) is not getattr(new, name)
            for name in ("server", "selected", "paused", "controls", "server_known")
        ) and not self._line().is_same(self._drawn):
            self.refresh()

    def render(self) -> Content:
        """Return the line."""
        self._drawn = self._line()
        return self._drawn

    def _line(self) -> Content:
        place = f"{self._place.key} {tr(self._place.title)}"
        return header_line(self.view, self.content_size.width, self._clock(), place)


def header_line(view: View, width: int, now: float, place: str) -> Content:
    """Return the header in ``width`` cells; the address gives way first, then the place."""
    state = Content.assemble(
        (state_mark(view.server.state), f"bold {state_style(view.server.state)}")
    )
    if view.alive and view.server.started is not None:
        state = Content.assemble(state, " ", figures.duration(now - view.server.started))
    if not view.server_known:
        state = Content.styled(figures.plain(None), "$foreground-muted")
    tags = _tags(view)
    if tags.plain:
        state = Content.assemble(tags, "  ", state)
    profile = view.server.profile if view.alive else view.selected and view.selected.name
    if view.alive and profile is None and view.server.attached:
        profile = tr(t("attached"))
    engine_style = "bold $warning" if view.simulated else ""
    parts: list[tuple[int, Content]] = [
        (2, Content.styled(place, "$foreground-muted")),
        (0, Content.styled(figures.plain(profile), "bold")),
        (1, Content.styled(engine_words(view), engine_style)),
        (3, Content.styled(_address(view), "")),
    ]
    shown = [(rank, part) for rank, part in parts if part.plain]
    room = width - state.cell_length - 1
    while len(shown) > 1 and _length(shown) > room:
        shown.remove(max(shown, key=lambda item: item[0]))
    return split_row(fit(Content("  ").join(p for _, p in shown), room), state, width)


def _tags(view: View) -> Content:
    tags = []
    if view.paused:
        tags.append(Content.styled(tr(t("PAUSED")), "bold $warning"))
    if not view.controls:
        tags.append(Content.styled(tr(t("READ-ONLY")), "bold $warning"))
    return Content("  ").join(tags)


def _length(parts: list[tuple[int, Content]]) -> int:
    return sum(p.cell_length for _, p in parts) + 2 * (len(parts) - 1)


def _address(view: View) -> str:
    url = view.server.url if view.alive else view.selected and view.selected.url
    return "" if not url else url.removeprefix("http://").rstrip("/")


class Tabs(Widget):
    """The places with their keys; only where there are lines to spare."""

    DEFAULT_CSS = """
    Tabs {
        height: 1;
        padding: 0 1;
        display: none;
        text-wrap: nowrap;
        background: $surface;
    }
    """

    view: var[View] = var(View, init=False)

    def __init__(self, place: str) -> None:
        super().__init__()
        self._place = place

    def render(self) -> Content:
        """Return the line."""
        return Content("  ").join(
            Content.assemble(
                (row.key, "bold $accent"),
                " ",
                (tr(row.title), "bold" if row.id == self._place else "$foreground-muted"),
            )
            for row in PLACES
        )

    async def on_click(self, event: events.Click) -> None:
        """Go to the place under the pointer."""
        start = self.gutter.left
        for row in PLACES:
            end = start + Content(f"{row.key} {tr(row.title)}").cell_length
            if start <= event.x < end:
                await self.app.run_action(f"go('{row.id}')", self.app)
                return
            start = end + 2


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
            for name in ("server", "busy", "said", "selected_why", "controls", "controller")
        ) or (old.alarms != new.alarms):
            shown = bool(notice_line(new).plain)
            changed = shown != self.has_class("-shown")
            self.set_class(shown, "-shown")
            if shown:
                self.refresh(layout=changed)

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
    if view.alarms:
        return _alarm(view.alarms)
    if not view.controls:
        who = t("pid {pid}", pid=view.controller) if view.controller else t("another console")
        return Content.assemble(("i ", "$accent"), tr(t("Read-only: {who} controls.", who=who)))
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


def _alarm(alarms: tuple[Alarm, ...]) -> Content:
    """Return the first alarm with what to do, and how many more there are."""
    marks, first = glyphs(), alarms[0]
    bad = first.severity is Severity.ERROR
    mark = (f"{marks.fail} ", "bold $error") if bad else (f"{marks.warn} ", "bold $warning")
    text = Content.assemble(mark, (tr(first.text), "bold"))
    if first.remedy is not None:
        text = Content.assemble(text, (f"  {marks.remedy} ", "$accent"), tr(first.remedy))
    if len(alarms) > 1:
        more = tr(t("and {count} more", count=len(alarms) - 1))
        text = Content.assemble(text, (f"  {more}", "$foreground-muted"))
    return text
