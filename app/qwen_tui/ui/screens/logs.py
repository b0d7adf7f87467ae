"""The engine's log, whole: follow, search, filter by kind, jump to the lines that prove."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual import on
from textual.content import Content
from textual.widgets import Input

from qwen_tui.ui.commands import Command, bindings
from qwen_tui.ui.logkinds import KINDS, kind_of
from qwen_tui.ui.screens.place import BACK, Kit, Place
from qwen_tui.ui.widgets.log import LogView
from qwen_tui_profiles.text import t, tr

if TYPE_CHECKING:
    from collections.abc import Iterable

    from textual.widget import Widget

    from qwen_tui.ui.state import View

__all__ = ["LogsScreen", "evidence_of"]

LOGS = (
    Command("logs.search", "slash", "search", t("Search"), t("Search the log."), rank=10),
    Command(
        "logs.next", "n", "next(1)", t("Next"), t("Go to the next place that was found."), rank=11
    ),
    Command(
        "logs.previous",
        "N",
        "next(-1)",
        t("Previous"),
        t("Go to the place that was found before."),
        rank=12,
    ),
    Command(
        "logs.kind",
        "k",
        "kind",
        t("Kind"),
        t("Show one kind of lines: all, no polls, errors, warnings, batches, requests, boot."),
        rank=13,
    ),
    Command(
        "logs.evidence",
        "e",
        "evidence",
        t("Evidence"),
        t("Go to the next line that proves a difference between asked and got, or a death."),
        lambda view: bool(evidence_of(view)),
        rank=14,
    ),
    Command(
        "logs.follow", "f,end", "follow", t("Follow"), t("Go to the end and follow it."), rank=15
    ),
    BACK,
)

FIND = t("Text to find; Enter searches, Esc leaves")
FILTERS = ("all", "quiet", *(kind.id for kind in KINDS))


class LogsScreen(Place):
    """The log with a search line and filters."""

    ID = "logs"
    ABOUT = t(
        "The engine's log as it is written, control codes and secrets taken out. Search with /, "
        "choose a kind with k, and go to the lines that prove what Home says with e."
    )
    BINDINGS = bindings(LOGS)
    COMMANDS_HERE = LOGS
    AUTO_FOCUS = "LogView"

    def __init__(self, kit: Kit) -> None:
        super().__init__(kit)
        self._filter = "all"
        self._needle = ""
        self._proof = -1

    def content(self) -> Iterable[Widget]:
        """Yield log and search line."""
        yield LogView(self.kit.log, title=tr(t("Log")), name="whole-log").data_bind(Place.view)
        search = Input(placeholder=tr(FIND), id="search")
        search.display = False
        yield search

    def refill(self) -> None:
        """Name the kind of lines that are shown."""
        self.query_one(Input).placeholder = tr(FIND)
        self._title()

    @property
    def log_view(self) -> LogView:
        """The log."""
        return self.query_one(LogView)

    def action_search(self) -> None:
        """Open the search line."""
        line = self.query_one(Input)
        line.display = True
        line.focus()

    @on(Input.Submitted)
    def _search(self, event: Input.Submitted) -> None:
        event.stop()
        self._close_search()
        self._needle = event.value
        self.log_view.marked = None
        if event.value:
            self.action_next(-1)
        else:
            self.log_view.needle = ""
            self.log_view.refresh()

    def _close_search(self) -> None:
        self.query_one(Input).display = False
        self.log_view.focus()

    async def action_back(self) -> None:
        """Close the search line first, then go home."""
        if self.query_one(Input).display:
            self._close_search()
        else:
            await super().action_back()

    def action_next(self, step: int) -> None:
        """Go to the next or previous place."""
        if not self._needle:
            self.action_search()
        elif not self.log_view.find(self._needle, step):
            self.notify(tr(t("No more of {what}.", what=self._needle)), markup=False)

    def action_kind(self) -> None:
        """Show the next kind of lines."""
        self._show_kind(FILTERS[(FILTERS.index(self._filter) + 1) % len(FILTERS)])

    def _show_kind(self, chosen: str) -> None:
        self._filter = chosen
        view = self.log_view
        if chosen == "all":
            view.show_only(lambda _: True)
        elif chosen == "quiet":
            view.show_only(lambda line: kind_of(line).id != "poll")
        else:
            view.show_only(lambda line: kind_of(line).id == chosen)
        self._title()

    def _title(self) -> None:
        names = {"quiet": t("without polls")} | {kind.id: kind.title for kind in KINDS}
        kind = names.get(self._filter)
        title = t("Log") if kind is None else t("Log: {kind}", kind=kind)
        self.log_view.border_title = Content(tr(title))

    def action_evidence(self) -> None:
        """Go to the next line that proves something, through a filter that hides it."""
        if self._go_to_proof():
            return
        if self._filter != "all":
            self._show_kind("all")
            if self._go_to_proof():
                return
        self.notify(tr(t("Those lines are not in the part of the log that is kept here.")))

    def _go_to_proof(self) -> bool:
        proofs = evidence_of(self.view)
        rows = self.log_view.rows
        for _ in proofs:
            self._proof = (self._proof + 1) % len(proofs)
            wanted = proofs[self._proof][:60]
            found = next((n for n in range(len(rows) - 1, -1, -1) if wanted in rows[n]), None)
            if found is not None:
                self.log_view.go_to(found)
                return True
        return False

    def action_follow(self) -> None:
        """Follow the log again."""
        self.log_view.follow()


def evidence_of(view: View) -> list[str]:
    """Return the lines that prove clamps and a death, in the order of the log."""
    report = view.server.report
    if report is None:
        return []
    found = [c.evidence for c in (*report.clamps, *report.adjustments) if c.evidence is not None]
    if report.fatal is not None:
        found += report.fatal.evidence
    numbered = sorted(
        (e for e in found if e.line is not None and e.text), key=lambda e: e.line or 0
    )
    return list(dict.fromkeys(e.text for e in numbered))
