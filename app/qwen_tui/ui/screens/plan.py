"""The plan: turn the knobs of a profile and see what the launch would get, before it starts."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from textual import on, work
from textual.containers import Container, VerticalScroll
from textual.content import Content
from textual.reactive import var
from textual.widgets import Static

from qwen_tui.services.desks import PlanQuestion
from qwen_tui.ui.cells import wrapped
from qwen_tui.ui.commands import Command, bindings
from qwen_tui.ui.glyphs import glyphs
from qwen_tui.ui.knobs import changed_args, read_knobs
from qwen_tui.ui.messages import Failed, StepDone
from qwen_tui.ui.plan_lines import changed_keys, plan_detail, plan_summary
from qwen_tui.ui.screens.cards import ConfirmCard
from qwen_tui.ui.screens.place import BACK, Kit, Place
from qwen_tui.ui.widgets.knobs import KnobColumn
from qwen_tui_profiles.errors import QwenTuiError
from qwen_tui_profiles.text import t, tr

if TYPE_CHECKING:
    from collections.abc import Iterable

    from textual.widget import Widget

    from qwen_tui.ui.state import View
    from qwen_tui_profiles.plan.result import Plan
    from qwen_tui_profiles.profile import EngineProfile

__all__ = ["PlanScreen"]

PLAN = (
    Command(
        "plan.save",
        "w",
        "save",
        t("Save"),
        t("Write the turned knobs into the profile (a file of yours; the shipped one stays)."),
        lambda view: view.controls,
        rank=10,
    ),
    Command(
        "plan.reset", "r", "reset", t("Reset"), t("Set every knob back to the profile."), rank=11
    ),
    Command(
        "plan.profile",
        "n",
        "next_profile",
        t("Next profile"),
        t("Plan the next profile of the list."),
        rank=12,
    ),
    BACK,
)


class PlanScreen(Place):
    """Knobs on the left; on the right what the pools, limits and memory would be."""

    ID = "plan"
    ABOUT = t(
        "What a launch will get, computed as the engine computes it. Turn a knob with left and "
        "right: the pool moves, and the lines below say what is clamped and why. Every figure says "
        "what it rests on; an interval means that something had to be assumed."
    )
    BINDINGS = bindings(PLAN)
    COMMANDS_HERE = PLAN
    AUTO_FOCUS = "KnobColumn"

    profile: var[EngineProfile | None] = var(None)

    def __init__(self, kit: Kit) -> None:
        super().__init__(kit)
        self._base: Plan | None = None
        self._plan: Plan | None = None
        self._error: QwenTuiError | None = None

    def content(self) -> Iterable[Widget]:
        """Yield knobs, summary and detail."""
        with Container(id="plan-top"):
            yield KnobColumn()
            with VerticalScroll(id="plan-summary", can_focus=False):
                yield Static()
        with VerticalScroll(id="plan-detail") as box:
            box.border_title = _below()
            yield Static()

    def on_mount(self) -> None:
        """Begin with the profile in question."""
        self._begin(self._app_view().profile)

    def on_screen_resume(self) -> None:
        """Follow the selection, unless knobs were turned here."""
        wanted = self._app_view().profile
        if wanted is not None and not self.query_one(KnobColumn).turned:
            self._begin(wanted)

    def watch_view(self, old: View, new: View) -> None:
        """Take the first profile that is known."""
        if self.profile is None and new.profile is not None:
            self._begin(new.profile)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Saving and resetting need something that was turned."""
        if action in {"save", "reset"} and (
            not self.is_mounted or not self.query_one(KnobColumn).turned
        ):
            return False
        return super().check_action(action, parameters)

    def _begin(self, profile: EngineProfile | None) -> None:
        if profile is None or profile is self.profile:
            return
        self.profile = profile
        self._base = self._plan = None
        self.query_one(KnobColumn).load(read_knobs(profile), profile.engine.value)
        self.query_one("#plan-summary").border_title = Content(profile.name)
        self.refresh_bindings()
        self._predict(profile, {}, first=True)

    def action_next_profile(self) -> None:
        """Plan the next profile."""
        profiles = self._app_view().profiles.profiles
        names = [p.name for p in profiles]
        if self.profile is not None and self.profile.name in names:
            self._begin(profiles[(names.index(self.profile.name) + 1) % len(profiles)])

    def action_reset(self) -> None:
        """Set every knob back."""
        profile, self.profile = self.profile, None
        self._begin(profile)

    def action_save(self) -> None:
        """Ask, with the keys that are written."""
        profile = self.profile
        if profile is None:
            return
        changes = changed_keys(
            profile, changed_args(profile.argv, self.query_one(KnobColumn).knobs)
        )
        body = [Content(f"{key} = {tr(t('not set')) if v is None else v}") for key, v in changes]
        card = ConfirmCard(tr(t("Write to {name}?", name=profile.name)), body, t("Write"))
        self.app.push_screen(card, lambda yes: self._confirmed(profile, changes, yes))

    def _confirmed(
        self, profile: EngineProfile, changes: list[tuple[str, str | None]], yes: bool | None
    ) -> None:
        if yes:
            self._save(profile, dict(changes))

    @work(group="save", exclusive=True, exit_on_error=False)
    async def _save(self, profile: EngineProfile, changes: dict[str, str | None]) -> None:
        try:
            await self.kit.services.files.change(profile.name, changes)
        except QwenTuiError as error:
            self.app.post_message(Failed(error))
            return
        self.profile = None
        await self.app.run_action("read_profiles", self.app)

    @on(KnobColumn.Turned)
    def _turned(self, event: KnobColumn.Turned) -> None:
        event.stop()
        self.refresh_bindings()
        if self.profile is not None:
            self._predict(self.profile, event.knobs, first=False)

    @work(group="plan", exclusive=True, exit_on_error=False)
    async def _predict(
        self, profile: EngineProfile, knobs: dict[str, str | None], *, first: bool
    ) -> None:
        card = knobs.get("card")
        asked = replace(profile, argv=changed_args(profile.argv, knobs)) if knobs else profile
        question = PlanQuestion(asked, total_gib=None if card is None else float(card))
        try:
            plan = await self.kit.services.plans.plan(question)
        except QwenTuiError as error:
            self._error, self._plan = error, None
        else:
            self._error, self._plan = None, plan
            self.app.post_message(StepDone("plan"))
        if first:
            self._base = self._plan
        self._show()

    def refill(self) -> None:
        """Say what is planned; the knobs stay as they were turned."""
        self.query_one("#plan-detail").border_title = _below()
        self.query_one(KnobColumn).retitle()
        self._show()

    def on_resize(self) -> None:
        """Fit the lines to the new width."""
        self.call_after_refresh(self._show)

    def _show(self) -> None:
        summary = self.query_one("#plan-summary")
        detail = self.query_one("#plan-detail")
        wide, deep = summary.content_size.width - 1, detail.content_size.width - 1
        if self._error is not None:
            lines = wrapped((tr(self._error.message), "bold $error"), max(20, wide))
            if self._error.remedy is not None:
                remedy = f"{glyphs().remedy} {tr(self._error.remedy)}"
                lines += wrapped((remedy, ""), max(20, wide))
            below: list[Content] = []
        elif self._plan is None:
            lines = [Content.styled(tr(t("Computing …")), "$foreground-muted")]
            below = []
        else:
            lines = plan_summary(self._plan, self._base, max(20, wide))
            below = plan_detail(self._plan, max(20, deep))
        self.query_one("#plan-summary Static", Static).update(Content("\n").join(lines))
        self.query_one("#plan-detail Static", Static).update(Content("\n").join(below))


def _below() -> Content:
    return Content(tr(t("Memory, clamps and findings")))
