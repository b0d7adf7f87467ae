"""The doctor: every check of this machine for a profile, with evidence and remedy."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from textual import on, work
from textual.content import Content
from textual.reactive import var

from qwen_tui.ui.cells import split_row
from qwen_tui.ui.commands import Command, bindings
from qwen_tui.ui.glyphs import glyphs
from qwen_tui.ui.messages import StepDone
from qwen_tui.ui.screens.place import BACK, Kit, Place
from qwen_tui.ui.widgets.list_detail import ListDetail, ListRow
from qwen_tui_diagnostics.groups import GROUPS
from qwen_tui_diagnostics.result import REASONS, CheckResult, Status
from qwen_tui_profiles.errors import QwenTuiError
from qwen_tui_profiles.text import t, tr

if TYPE_CHECKING:
    from collections.abc import Iterable

    from textual import events
    from textual.widget import Widget

    from qwen_tui.ui.app import ConsoleApp
    from qwen_tui_diagnostics.fixes import Fixes
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
MOVES = frozenset({"up", "down", "pageup", "pagedown", "home", "end"})

DOCTOR = (
    Command("doctor.again", "r", "again", t("Run again"), t("Run all checks again."), rank=10),
    Command(
        "doctor.one",
        "e",
        "one",
        t("This one"),
        t("Run only the check under the cursor again."),
        rank=12,
    ),
    Command(
        "doctor.bad",
        "f",
        "filter",
        t("Problems"),
        t("Show only failures and warnings, or everything."),
        rank=11,
    ),
    Command(
        "doctor.copy",
        "y",
        "copy",
        t("Copy fix"),
        t("Copy the commands of the remedy to the clipboard; nothing is run."),
        rank=10,
    ),
    Command(
        "doctor.report",
        "Y",
        "report",
        t("Copy report"),
        t("Copy the whole report as markdown, redacted, to paste into an issue."),
        rank=14,
    ),
    Command(
        "doctor.fix",
        "F",
        "fix",
        t("Repair"),
        t("Show what can be repaired here, change by change; nothing is done before you agree."),
        lambda view: view.controls,
        rank=10,
    ),
    BACK,
)


class DoctorScreen(Place):
    """Runs the checks when it opens; the list is there at once and fills as results come."""

    ID = "doctor"
    ABOUT = t(
        "What this machine has and what the selected profile needs. A check that could not be "
        "made is SKIP with its reason, never OK. The pane shows what was seen, what was expected "
        "and what to do."
    )
    BINDINGS = bindings(DOCTOR)
    COMMANDS_HERE = DOCTOR
    AUTO_FOCUS = "OptionList"

    running: var[bool] = var(False)

    def __init__(self, kit: Kit) -> None:
        super().__init__(kit)
        self._results: dict[str, CheckResult] = {}
        self._only_bad = False
        self._error: QwenTuiError | None = None
        self._judged: str | None = None
        self._repairs: Fixes | None = None
        """What the last whole run leads to; ``None`` = nothing."""
        self._touched = False
        """Whether the reader moved the cursor; until then it stays on the first row."""

    def content(self) -> Iterable[Widget]:
        """Yield list and pane."""
        yield ListDetail()

    def on_mount(self) -> None:
        """Start."""
        self.action_again()

    def on_screen_resume(self) -> None:
        """Judge again when another profile is in question."""
        if self._judged is not None and self._judged != self._profile_name():
            self.action_again()

    def _profile_name(self) -> str:
        profile = self._app_view().profile
        return "" if profile is None else profile.name

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Only one run at a time; copying needs something to copy."""
        if action in {"again", "one"} and self.running:
            return False
        if action == "copy" and not self._commands():
            return False
        if action == "fix" and not self._repairs:
            return False
        return super().check_action(action, parameters)

    def action_again(self) -> None:
        """Run every check."""
        self._results, self._repairs = {}, None
        self._touched = False
        self._judged = self._profile_name()
        self._run(())

    def action_one(self) -> None:
        """Run the check under the cursor."""
        row = self.query_one(ListDetail).current
        if row is not None:
            self._run((row,))

    def on_key(self, event: events.Key) -> None:
        """Leave the cursor to the reader once it was moved."""
        self._touched = self._touched or event.key in MOVES

    def action_filter(self) -> None:
        """Show problems only, or everything."""
        self._only_bad = not self._only_bad
        self._redraw()

    def action_copy(self) -> None:
        """Copy the remedy's commands."""
        commands = self._commands()
        self.app.copy_to_clipboard("\n".join(commands))
        self.notify(tr(t("Copied: {what}", what=commands[0])), markup=False)

    @work(group="report", exclusive=True, exit_on_error=False)
    async def action_report(self) -> None:
        """Copy the whole report."""
        text = await self.kit.services.doctor_report()
        if text:
            self.app.copy_to_clipboard(text)
            self.notify(tr(t("The report is in the clipboard.")))

    @work(group="fix", exclusive=True, exit_on_error=False)
    async def action_fix(self) -> None:
        """Offer the repairs; afterwards every check is run again."""
        from qwen_tui.ui.screens.fixes import offer_fixes

        app = cast("ConsoleApp", self.app)
        if self._repairs is not None and await offer_fixes(
            app, self.kit.services.repairs, self._repairs
        ):
            self.action_again()

    def _commands(self) -> tuple[str, ...]:
        if not self.is_mounted:
            return ()
        result = self._results.get(self.query_one(ListDetail).current or "")
        return () if result is None or result.remedy is None else result.remedy.commands

    def _run(self, only: tuple[str, ...]) -> None:
        self._error = None
        self.running = True
        self.refresh_bindings()
        self._collect(only)

    @work(group="doctor", exclusive=True, exit_on_error=False)
    async def _collect(self, only: tuple[str, ...]) -> None:
        timer = self.set_interval(REDRAW_S, self._redraw)
        try:
            async for result in self.kit.services.checks(self._app_view().profile, only):
                self._results[result.id] = result
        except QwenTuiError as error:
            self._error = error
        finally:
            timer.stop()
            self.running = False
            if self.is_attached:
                self.refresh_bindings()
                self._redraw()
        if self._error is None and not only:
            self.app.post_message(StepDone("doctor"))
            fixes = self.kit.services.repairs.fixes()
            if fixes is not None and (fixes.by_hand or not fixes.empty):
                self._repairs = fixes
            self.refresh_bindings()

    def _shown(self) -> list[CheckResult]:
        results = list(self._results.values())
        groups = list(dict.fromkeys(r.group for r in results))
        wanted = [
            r
            for r in results
            if not self._only_bad or (r.status in {Status.FAIL, Status.WARN} and r.counted)
        ]
        # What stops a launch comes first, whatever its group.
        return sorted(wanted, key=lambda r: (ORDER[r.status], groups.index(r.group), r.id))

    def _redraw(self) -> None:
        listing = self.query_one(ListDetail)
        width = listing.row_width
        rows = [ListRow(r.id, check_row(r, width)) for r in self._shown()]
        listing.set_rows(rows, keep=self._touched)
        listing.listing.border_title = verdict_line(
            list(self._results.values()), running=self.running
        )
        if self._error is not None:
            listing.set_detail([Content.styled(tr(self._error.message), "bold $error")])

    def refill(self) -> None:
        """Say the results."""
        self._redraw()

    def on_resize(self) -> None:
        """Fit the rows to the new width."""
        self.call_after_refresh(self._redraw)

    @on(ListDetail.Shown)
    def _show(self, event: ListDetail.Shown) -> None:
        result = self._results.get(event.row)
        if result is not None:
            self.query_one(ListDetail).set_detail(check_lines(result))
        self.refresh_bindings()


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
    group = tr(GROUPS.get(result.group, t("{group}", group=result.group)))
    return split_row(head, (f" {group}", "$foreground-muted"), width)


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
        out += _field(t("not judged"), REASONS[result.reason])
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
    return [Content.assemble((tr(t("{label}: ", label=label)), "$foreground-muted"), tr(text))]


def verdict_line(results: list[CheckResult], *, running: bool) -> Content:
    """Return the count of each status, or that the checks still run."""
    counted = [r for r in results if r.counted]
    parts: list[Content] = [Content(tr(t("Doctor")))]
    if running:
        parts.append(Content.styled(tr(t("checking …")), "$warning"))
    for status in (Status.FAIL, Status.WARN, Status.OK, Status.SKIP):
        number = sum(r.status is status for r in counted)
        if number:
            parts.append(Content.styled(f"{number} {status.value}", STYLES[status]))
    return Content("  ").join(parts)
