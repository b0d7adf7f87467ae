"""The profiles: what each launches, what the rules say, what differs between two, and editing."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from textual import on, work
from textual.content import Content

from qwen_tui.ui.commands import Command, bindings
from qwen_tui.ui.messages import Failed
from qwen_tui.ui.profile_lines import comparison_lines, profile_row, sheet_lines
from qwen_tui.ui.screens.cards import InputCard, TextCard
from qwen_tui.ui.screens.editor import EditProfile
from qwen_tui.ui.screens.place import BACK, Kit, Place
from qwen_tui.ui.widgets.list_detail import ListDetail, ListRow
from qwen_tui_profiles.errors import QwenTuiError
from qwen_tui_profiles.text import t, tr

if TYPE_CHECKING:
    from collections.abc import Iterable

    from textual.widget import Widget

    from qwen_tui.services.desks import ProfileSheet
    from qwen_tui.ui.state import View
    from qwen_tui_profiles.profile import EngineProfile

__all__ = ["ProfilesScreen"]

PROFILES = (
    Command(
        "profiles.edit",
        "e",
        "edit",
        t("Edit"),
        t("Change flags with the rules and the plan beside them; saved as a file of yours."),
        lambda view: view.controls,
        rank=10,
    ),
    Command(
        "profiles.compare",
        "c",
        "compare",
        t("Compare"),
        t("Compare with the other side of its pair, or else with the selected profile."),
        rank=11,
    ),
    Command(
        "profiles.copy",
        "y",
        "copy",
        t("Copy command"),
        t("Copy the command that would be launched to the clipboard."),
        rank=12,
    ),
    Command(
        "profiles.new",
        "n",
        "new",
        t("New"),
        t("Make a profile of your own that extends this one."),
        lambda view: view.controls,
        rank=13,
    ),
    BACK,
)
WIDTH = 72


class ProfilesScreen(Place):
    """A list of profiles with a pane for the one under the cursor; Enter selects it."""

    ID = "profiles"
    ABOUT = t(
        "Every profile that can be launched: shipped ones, and yours from the profiles folder. "
        "Enter selects one. The pane shows the exact command, what the rules say about it and "
        "where each value comes from."
    )
    BINDINGS = bindings(PROFILES)
    COMMANDS_HERE = PROFILES
    AUTO_FOCUS = "OptionList"

    def __init__(self, kit: Kit) -> None:
        super().__init__(kit)
        self._sheets: dict[str, ProfileSheet] = {}

    def content(self) -> Iterable[Widget]:
        """Yield list and pane."""
        yield ListDetail()

    def on_mount(self) -> None:
        """Show what is known already."""
        self._redraw(self._app_view())

    def watch_view(self, old: View, new: View) -> None:
        """Show other profiles, or another selection."""
        if old.profiles is not new.profiles:
            self._sheets = {}
        if old.profiles is not new.profiles or old.selected is not new.selected:
            self._redraw(new)

    def refill(self) -> None:
        """Say what the profiles are."""
        self._redraw(self.view)

    def on_resize(self) -> None:
        """Fit the rows to the new width."""
        self.call_after_refresh(lambda: self._redraw(self.view))

    @property
    def current(self) -> EngineProfile | None:
        """The profile under the cursor."""
        return self.view.profiles.find(self.query_one(ListDetail).current)

    def _redraw(self, view: View) -> None:
        listing = self.query_one(ListDetail)
        width = listing.row_width
        chosen = None if view.selected is None else view.selected.name
        rows = [
            ListRow(p.name, profile_row(p, width, selected=p.name == chosen))
            for p in view.profiles.profiles
        ]
        listing.set_rows(rows)
        listing.listing.border_title = Content(tr(t("Profiles")))
        broken = len(view.profiles.problems)
        note = tr(t("unreadable files: {count}", count=broken)) if broken else ""
        listing.listing.border_subtitle = Content.styled(note, "$warning")
        if self.current is not None:
            self._explain(self.current)

    @on(ListDetail.Shown)
    def _shown(self, event: ListDetail.Shown) -> None:
        profile = self.view.profiles.find(event.row)
        if profile is not None:
            self._explain(profile)

    def _explain(self, profile: EngineProfile) -> None:
        sheet = self._sheets.get(profile.name)
        listing = self.query_one(ListDetail)
        if sheet is None:
            listing.set_detail([Content.styled(tr(t("Reading …")), "$foreground-muted")])
            self._read(profile)
        else:
            problems = self.view.profiles.problems
            listing.set_detail(sheet_lines(sheet, problems, listing.pane_width))

    @work(group="sheet", exclusive=True, exit_on_error=False)
    async def _read(self, profile: EngineProfile) -> None:
        try:
            self._sheets[profile.name] = await self.kit.services.files.sheet(profile)
        except QwenTuiError as error:
            text = Content.styled(tr(error.message), "bold $error")
            self.query_one(ListDetail).set_detail([text])
            return
        if self.current is profile:
            self._explain(profile)

    @on(ListDetail.Chosen)
    async def _chosen(self, event: ListDetail.Chosen) -> None:
        if self.app.check_action("pick", ()):
            await self.app.run_action(f"pick_named({event.row!r})", self.app)
        else:
            self.notify(tr(t("Stop the running server first, or swap on Home.")))

    def action_copy(self) -> None:
        """Copy the command."""
        sheet = None if self.current is None else self._sheets.get(self.current.name)
        if sheet is not None:
            env = "".join(f"{name}={value} " for name, value in sheet.env.items())
            self.app.copy_to_clipboard(env + sheet.command)
            self.notify(tr(t("The command is in the clipboard.")))

    def action_compare(self) -> None:
        """Compare with the pair, or with the selection."""
        profile = self.current
        if profile is None:
            return
        other = self.view.profiles.partner(profile) or self.view.selected
        if other is None or other is profile:
            self.notify(tr(t("Select another profile with Enter to compare with it.")))
            return
        self._compare(profile, other)

    @work(group="compare", exclusive=True, exit_on_error=False)
    async def _compare(self, before: EngineProfile, after: EngineProfile) -> None:
        comparison = await self.kit.services.files.compare(before, after)
        title = tr(t("{before} and {after}", before=before.name, after=after.name))
        self.app.push_screen(TextCard(title, comparison_lines(comparison, WIDTH)))

    def action_new(self) -> None:
        """Ask for a name."""
        profile = self.current
        if profile is not None:
            card = InputCard(
                tr(t("New profile from {name}", name=profile.name)),
                tr(t("Name: lower-case letters, digits, dots and dashes")),
                suggestion(profile.name, {p.name for p in self.view.profiles.profiles}),
            )
            self.app.push_screen(card, lambda name: self._named(profile, name))

    def _named(self, profile: EngineProfile, name: str | None) -> None:
        if name:
            self._make(profile, name)

    @work(group="save", exclusive=True, exit_on_error=False)
    async def _make(self, profile: EngineProfile, name: str) -> None:
        try:
            await self.kit.services.files.new(name, profile.name)
        except QwenTuiError as error:
            self.app.post_message(Failed(error))
        else:
            await self.app.run_action("read_profiles", self.app)

    def action_edit(self) -> None:
        """Open the editor."""
        if self.current is not None:
            self.app.push_screen(EditProfile(self.kit, self.current), self._edited)

    async def _edited(self, written: bool | None) -> None:
        if written:
            await self.app.run_action("read_profiles", self.app)


def suggestion(base: str, taken: set[str]) -> str:
    """Return a free name that begins like ``base``."""
    stem = re.sub(r"-mine(-\d+)?$", "", base)
    names = (f"{stem}-mine", *(f"{stem}-mine-{n}" for n in range(2, 1000)))
    return next(name for name in names if name not in taken)
