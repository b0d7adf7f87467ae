"""The last boot: how long each phase took, where the memory went, what the figures mean."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual import work
from textual.containers import Container, VerticalScroll
from textual.content import Content
from textual.widgets import Static

from qwen_tui.ui import figures
from qwen_tui.ui.cells import bar, fit
from qwen_tui.ui.commands import bindings
from qwen_tui.ui.findings import finding_lines
from qwen_tui.ui.glyphs import glyphs
from qwen_tui.ui.screens.place import BACK, Kit, Place
from qwen_tui.ui.widgets.boot import boot_spans, phase_item
from qwen_tui.ui.widgets.panel import Panel
from qwen_tui.ui.widgets.waterfall import MemoryPanel
from qwen_tui_profiles.text import t, tr

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from textual.widget import Widget

    from qwen_tui.services.history import Durations
    from qwen_tui.ui.state import View
    from qwen_tui_profiles.findings import Clamp

__all__ = ["BootScreen", "TimelinePanel", "insight_lines", "timeline_lines"]

ITEM = 26
USUAL_FROM = 60


class TimelinePanel(Panel):
    """One phase a line, with its bar and what it usually takes."""

    def __init__(self, clock: Callable[[], float]) -> None:
        super().__init__(id="timeline")
        self._clock = clock
        self.usual: Mapping[str, Durations] = {}

    def tick(self) -> None:
        """Let the running phase go on: a second has passed."""
        if self.view.server.phase is not None and not self.view.server.ready and self.view.alive:
            self.refresh()

    def concerns(self, old: View, new: View) -> bool:
        """The server only."""
        return old.server is not new.server

    def titles(self) -> tuple[Content | str, Content | str]:
        """Name the sum."""
        report = self.view.server.report
        timed = [] if report is None else [s.seconds for s in report.timeline if s.seconds]
        return tr(t("Timeline")), figures.seconds(sum(timed)) if timed else ""

    def lines(self, width: int, height: int) -> list[Content]:
        """Return the phases."""
        return timeline_lines(self.view, self.usual, width, self._clock())


def timeline_lines(
    view: View, usual: Mapping[str, Durations], width: int, now: float
) -> list[Content]:
    """Return one line per phase; with room, what earlier boots of the profile took."""
    report = view.server.report
    if report is None:
        text = tr(t("No boot was seen yet."))
        return [Content.styled(text, "$foreground-muted")]
    spans = [s for s in boot_spans(view, now) if s[1] != "later" or view.alive]
    if report.ready:
        spans = [s for s in spans if s[1] != "later"]
    longest = max((s or 0.0 for _, _, s in spans), default=0.0)
    note = 20 if width >= USUAL_FROM else 0
    out: list[Content] = []
    for phase, state, seconds in spans:
        share = (seconds or 0.0) / longest if longest else 0.0
        room = max(0, width - ITEM - note)
        drawn = bar(share, room, "$accent") if seconds is not None else Content(" " * room)
        line = Content.assemble(fit(phase_item(phase, state, seconds), ITEM), drawn)
        if note:
            line = Content.assemble(line, fit(_usually(usual.get(phase)), note, align="right"))
        out.append(line)
    return out


def _usually(durations: Durations | None) -> Content:
    if durations is None:
        return Content("")
    text = t("usually {seconds}", seconds=figures.seconds(durations.median_s))
    return Content.styled(tr(text), "$foreground-muted")


class BootScreen(Place):
    """Timeline and memory of the boot that the supervisor follows or followed last."""

    ID = "boot"
    ABOUT = t(
        "How the last boot went, read from the engine's log: seconds by phase, beside what earlier "
        "boots of this profile took; the memory of the card step by step; and what those figures "
        "mean. Home shows what was asked and what was got."
    )
    BINDINGS = bindings((BACK,))
    COMMANDS_HERE = (BACK,)
    AUTO_FOCUS = "VerticalScroll"

    def __init__(self, kit: Kit) -> None:
        super().__init__(kit)
        self._asked_for: str | None = None

    def content(self) -> Iterable[Widget]:
        """Yield the panels."""
        with Container(id="boot-figures"):
            yield TimelinePanel(self.kit.clock).data_bind(Place.view)
            yield MemoryPanel(id="memory").data_bind(Place.view)
        with VerticalScroll(id="insights") as box:
            box.border_title = _meaning()
            yield Static()

    def on_mount(self) -> None:
        """Show what is known already."""
        self._show(self._app_view())

    def tick(self) -> None:
        """Let the boot's clock go on, too."""
        super().tick()
        for panel in self.query(TimelinePanel):  # not there yet while the place is being made
            panel.tick()

    def watch_view(self, old: View, new: View) -> None:
        """Show another report."""
        if old.server.report is not new.server.report:
            self._show(new)

    def refill(self) -> None:
        """Say what the figures mean."""
        self.query_one("#insights").border_title = _meaning()
        self._show(self.view)

    def on_resize(self) -> None:
        """Wrap to the new width."""
        self.call_after_refresh(lambda: self._show(self.view))

    def _show(self, view: View) -> None:
        width = max(20, self.query_one("#insights").content_size.width - 1)
        lines = insight_lines(view, width)
        self.query_one("#insights Static", Static).update(Content("\n").join(lines))
        if view.server.profile is not None and view.server.profile != self._asked_for:
            self._asked_for = view.server.profile
            self._ask(view.server.profile)

    @work(group="usual", exclusive=True, exit_on_error=False)
    async def _ask(self, profile: str) -> None:
        panel = self.query_one(TimelinePanel)
        panel.usual = await self.kit.services.history.phases(profile)
        panel.redraw()


def _meaning() -> Content:
    return Content(tr(t("What it means")))


def insight_lines(view: View, width: int) -> list[Content]:
    """Return findings, then what the engine chose by itself."""
    report = view.server.report
    if report is None:
        return [Content.styled(tr(t("Nothing was read yet.")), "$foreground-muted")]
    out: list[Content] = []
    for finding in report.findings:
        out += finding_lines(finding, width)
    if report.adjustments:
        out.append(Content.styled(tr(t("Chosen by the engine")), "bold"))
        out += [_chosen(change, width) for change in report.adjustments]
    if report.coverage is not None:
        share = figures.share(report.coverage)
        text = t("{share} of the engine's lines were recognised.", share=share)
        out.append(Content.styled(tr(text), "$foreground-muted"))
    return out or [Content.styled(tr(t("Nothing stands out.")), "$foreground-muted")]


def _chosen(change: Clamp, width: int) -> Content:
    text = Content.assemble(
        "  ",
        fit(change.arg, 32),
        figures.value(change.asked),
        (f" {glyphs().arrow} ", "$foreground-muted"),
        (figures.value(change.got), "bold"),
        ("  " + tr(change.why), "$foreground-muted"),
    )
    return fit(text, width)
