"""The panel of a boot: which phase it is in, how long each took, what comes next."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.content import Content

from qwen_tui.services.snapshots import ServerState
from qwen_tui.ui import figures
from qwen_tui.ui.cells import bar, fit
from qwen_tui.ui.glyphs import glyphs
from qwen_tui.ui.widgets.panel import Panel
from qwen_tui.ui.words import PHASES
from qwen_tui_profiles.text import joined, t, tr

if TYPE_CHECKING:
    from collections.abc import Callable

    from qwen_tui.ui.state import View
    from qwen_tui_diagnostics.enginelog.report import PhaseSpan

__all__ = ["BootPanel", "boot_lines", "boot_spans", "boot_summary", "phase_item"]

ORDER = tuple(PHASES)
OPTIONAL = frozenset({"distributed", "load_draft", "state_pool", "graph_capture", "tree_cache"})
"""Phases that not every boot has; they are not announced before they come."""
AFTER = frozenset({"ready", "serving", "stopping"})
DAY = 86_400
IMPORTS = "imports"
"""What an engine does before its first line; no phase of the log."""


class BootPanel(Panel):
    """The timeline while the engine starts."""

    def __init__(self, clock: Callable[[], float]) -> None:
        super().__init__(id="boot")
        self._clock = clock

    def tick(self) -> None:
        """Let the running phase go on: a second has passed."""
        if self.display:
            self.refresh()

    def concerns(self, old: View, new: View) -> bool:
        """The server only."""
        return old.server is not new.server

    def titles(self) -> tuple[Content | str, Content | str]:
        """Name the phase."""
        phase = self.view.server.phase
        now = "" if phase is None else tr(PHASES.get(phase, t("{phase}", phase=phase)))
        eta = self.view.server.eta_s
        if eta is not None:
            now += "  " + tr(t("about {time} left", time=figures.seconds(eta)))
        return tr(t("Boot")), now

    def lines(self, width: int, height: int) -> list[Content]:
        """Return the timeline for this size."""
        return boot_lines(self.view, width, height, self._clock())


def boot_lines(view: View, width: int, height: int, now: float) -> list[Content]:
    """Return the timeline: flowing in few lines, one phase a line when there is room."""
    spans = boot_spans(view, now)
    if height > len(spans):
        return _column(spans, width)
    return _flow(spans, width)


def boot_summary(view: View) -> str:
    """Return one line about a boot that is over: total, then the longest phases."""
    report = view.server.report
    timed = [] if report is None or not report.ready else [s for s in report.timeline if s.seconds]
    if not timed:
        return ""
    total = sum(s.seconds or 0 for s in timed)
    longest = sorted(timed, key=lambda s: -(s.seconds or 0))[:3]
    parts = [f"{tr(PHASES[s.phase])} {figures.seconds(s.seconds)}" for s in longest]
    return tr(t("boot {total}: {parts}", total=figures.seconds(total), parts=joined(parts)))


def boot_spans(view: View, now: float) -> list[tuple[str, str, float | None]]:
    """Return (phase, done|now|later, seconds) in boot order."""
    report = view.server.report
    seen: tuple[PhaseSpan, ...] = () if report is None else report.timeline
    current = view.server.phase
    out: list[tuple[str, str, float | None]] = []
    for span in seen:
        if span.phase in AFTER:
            continue
        state = "now" if span.phase == current else "done"
        out.append((span.phase, state, span.seconds if state == "done" else _age(span, now)))
    if not out and current is None and view.server.state is ServerState.STARTING:
        # The engine's imports take seconds, or minutes from a cold disk, before its first line.
        since = view.server.started
        out.append((IMPORTS, "now", None if since is None else max(0.0, now - since)))
    names = [phase for phase, _, _ in out]
    if current in ORDER and current not in names and current not in AFTER:
        out.append((str(current), "now", None))
    last = max((ORDER.index(p) for p, _, _ in out if p in ORDER), default=-1)
    later = [p for p in ORDER[last + 1 :] if p not in AFTER | OPTIONAL]
    return [*out, *((p, "later", None) for p in later), ("ready", "later", None)]


def _age(span: PhaseSpan, now: float) -> float | None:
    if span.started is None:
        return None
    age = now - span.started
    return age if 0 <= age < DAY else None


def phase_item(phase: str, state: str, seconds: float | None) -> Content:
    """Return glyph, word and seconds of a phase."""
    marks = glyphs()
    word = tr(PHASES.get(phase, t("{phase}", phase=phase)))
    if phase == IMPORTS:
        word = tr(t("the engine is being imported"))
    if state == "later":
        return Content.styled(f"{marks.later} {word}", "$foreground-muted")
    time = "" if seconds is None else f" {figures.seconds(seconds)}"
    if state == "now":
        return Content.styled(f"{marks.now} {word}{time}", "bold $warning")
    return Content.assemble((f"{marks.done} ", "$success"), word, (time, "$foreground-muted"))


def _flow(spans: list[tuple[str, str, float | None]], width: int) -> list[Content]:
    lines = [Content("")]
    for span in spans:
        item = phase_item(*span)
        glued = item if not lines[-1].plain else Content.assemble(lines[-1], "   ", item)
        if glued.cell_length <= width:
            lines[-1] = glued
        else:
            lines.append(item)
    return lines


def _column(spans: list[tuple[str, str, float | None]], width: int) -> list[Content]:
    longest = max((s or 0.0 for _, _, s in spans), default=0.0)
    out: list[Content] = []
    for phase, state, seconds in spans:
        item = fit(phase_item(phase, state, seconds), 28)
        share = (seconds or 0.0) / longest if longest else 0.0
        drawn = Content("") if seconds is None else bar(share, max(0, width - 30), "$accent 60%")
        out.append(Content.assemble(item, "  ", drawn))
    return out
