"""The doctor: every check of this machine for a profile, with evidence and remedy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual import on, work
from textual.containers import Container, VerticalScroll
from textual.content import Content
from textual.reactive import var
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from qwen_tui.ui.cells import fit, split_row
from qwen_tui.ui.commands import DOCTOR, bindings
from qwen_tui.ui.glyphs import glyphs
from qwen_tui.ui.screens.place import Place
from qwen_tui.ui.widgets.header import Header
from qwen_tui.ui.widgets.keybar import KeyBar
from qwen_tui_diagnostics.result import CheckResult, Status
from qwen_tui_profiles.errors import QwenTuiError
from qwen_tui_profiles.text import t, tr

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable

    from textual.app import ComposeResult

    from qwen_tui_profiles.text import Text

__all__ = ["DoctorScreen", "check_lines", "check_row", "verdict_line"]

ORDER = {Status.FAIL: 0, Status.WARN: 1, Status.OK: 2, Status.SKIP: 3}
STYLES = {
    Status.OK: "$success",
    Status.WARN: "bold $warning",
    Status.FAIL: "bold $error",
    Status.SKIP: "$foreground-muted",
}
REDRAW_S = 0.1


class DoctorScreen(Place):
    """Runs the checks when it opens; the list is there at once and fills as results come."""

    ABOUT = t(
        "What this machine has and what the selected profile needs. A check that could not be "
        "made is SKIP with its reason, never OK. The pane shows what was seen, what was expected "
        "and what to do."
    )
    BINDINGS = bindings(DOCTOR)
    COMMANDS_HERE = DOCTOR

    running: var[bool] = var(False)

    def __init__(
        self, run: Callable[[], AsyncIterator[CheckResult]], clock: Callable[[], float]
    ) -> None:
        super().__init__(id="doctor")
        self._run = run
        self._clock = clock
        self._results: list[CheckResult] = []
        self._only_bad = False
        self._error: QwenTuiError | None = None

    def compose(self) -> ComposeResult:
        """Lay out list and detail pane."""
        yield Header(self._clock).data_bind(DoctorScreen.view)
        with Container(id="checks"):
            yield OptionList(id="list")
            with VerticalScroll(id="detail", can_focus=False):
                yield Static(id="detail-text")
        yield KeyBar().data_bind(DoctorScreen.view)

    def on_mount(self) -> None:
        """Name the panes and start."""
        self.query_one("#detail").border_title = tr(t("Detail"))
        self.action_again()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Only one run at a time."""
        if action == "again" and self.running:
            return False
        return super().check_action(action, parameters)

    def action_again(self) -> None:
        """Run every check."""
        self._results, self._error = [], None
        self.running = True
        self.refresh_bindings()
        self._collect()

    def action_filter(self) -> None:
        """Show problems only, or everything."""
        self._only_bad = not self._only_bad
        self._redraw()

    def action_back(self) -> None:
        """Leave the screen."""
        self.app.pop_screen()

    @work(group="doctor", exclusive=True, exit_on_error=False)
    async def _collect(self) -> None:
        timer = self.set_interval(REDRAW_S, self._redraw)
        try:
            async for result in self._run():
                self._results.append(result)
        except QwenTuiError as error:
            self._error = error
        finally:
            timer.stop()
            self.running = False
            if self.is_attached:
                self.refresh_bindings()
                self._redraw()

    def _shown(self) -> list[CheckResult]:
        groups = list(dict.fromkeys(r.group for r in self._results))
        wanted = [
            r
            for r in self._results
            if not self._only_bad or (r.status in {Status.FAIL, Status.WARN} and r.counted)
        ]
        return sorted(wanted, key=lambda r: (groups.index(r.group), ORDER[r.status], r.id))

    def _redraw(self) -> None:
        listing = self.query_one(OptionList)
        at = listing.highlighted
        held = None if at is None else listing.get_option_at_index(at).id
        shown = self._shown()
        width = max(20, listing.scrollable_content_region.width - 2)  # an option's own padding
        listing.set_options([Option(check_row(r, width), r.id) for r in shown])
        ids = [r.id for r in shown]
        if ids:
            listing.highlighted = ids.index(held) if held in ids else 0
        listing.border_title = verdict_line(self._results, running=self.running)
        if self._error is not None:
            self._detail([Content.styled(tr(self._error.message), "bold $error")])

    def on_resize(self) -> None:
        """Fit the rows to the new width."""
        self.call_after_refresh(self._redraw)

    @on(OptionList.OptionHighlighted)
    def _show(self, event: OptionList.OptionHighlighted) -> None:
        result = next((r for r in self._results if r.id == event.option.id), None)
        if result is not None:
            self._detail(check_lines(result))

    def _detail(self, lines: Iterable[Content]) -> None:
        self.query_one("#detail-text", Static).update(Content("\n").join(lines))


def status_mark(status: Status) -> tuple[str, str]:
    """Return glyph and word of a status, with its colour."""
    glyph = getattr(glyphs(), status.value.lower())
    return f"{glyph} {status.value:<4}", STYLES[status]


def check_row(result: CheckResult, width: int) -> Content:
    """Return one line: status, title, what was seen."""
    seen = "$foreground-muted" if result.status in {Status.OK, Status.SKIP} else ""
    if not result.counted:
        seen = "$foreground-muted"
    head = Content.assemble(
        "" if result.counted else "  ",
        status_mark(result.status),
        "  ",
        (tr(result.title), "bold" if result.status in {Status.FAIL, Status.WARN} else ""),
        "  ",
        (tr(result.observed), seen),
    )
    return split_row(head, (f" {result.group}", "$foreground-muted"), width)


def check_lines(result: CheckResult) -> list[Content]:
    """Return everything that one check says."""
    marks = glyphs()
    out = [
        Content.assemble(status_mark(result.status), "  ", (tr(result.title), "bold")),
        Content.styled(result.id, "$foreground-muted"),
        *_field(t("seen"), result.observed),
        *_field(t("expected"), result.expected),
        *_field(t("consequence"), result.consequence),
    ]
    out += [Content(tr(line)) for line in result.detail]
    if result.reason is not None:
        out += _field(t("not judged"), t("{reason}", reason=result.reason.value))
    if result.explained_by is not None:
        out += _field(t("follows from"), t("{check}", check=result.explained_by))
    if result.remedy is not None:
        out.append(Content.assemble((f"{marks.remedy} ", "$accent"), tr(result.remedy.text)))
        out += [Content.styled(f"  {command}", "bold") for command in result.remedy.commands]
        if result.remedy.docs is not None:
            out.append(Content.styled(f"  {result.remedy.docs}", "$foreground-muted"))
    return out


def _field(label: Text, text: Text | None) -> list[Content]:
    if text is None:
        return []
    return [Content.assemble((f"{tr(label)}: ", "$foreground-muted"), tr(text))]


def verdict_line(results: list[CheckResult], *, running: bool) -> Content:
    """Return the count of each status, or that the checks still run."""
    counted = [r for r in results if r.counted]
    parts: list[Content] = [Content(tr(t("Doctor")))]
    if running:
        parts.append(Content.styled(tr(t("checking …")), "$warning"))
    for status in (Status.FAIL, Status.WARN, Status.OK, Status.SKIP):
        number = sum(r.status is status for r in counted)
        if number:
            parts.append(
                fit((f"{number} {status.value}", STYLES[status]), len(f"{number} {status.value}"))
            )
    return Content("  ").join(parts)
