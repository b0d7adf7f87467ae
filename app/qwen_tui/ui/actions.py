"""What the console's commands do: ask where it matters, then let a worker do it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.app import App
from textual.command import CommandPalette

from qwen_tui.services.desks import PlanQuestion
from qwen_tui.services.snapshots import ServerState
from qwen_tui.ui import messages
from qwen_tui.ui.app_commands import APP, INTERVALS_S
from qwen_tui.ui.consequences import download_words, leave_words, stop_consequences
from qwen_tui.ui.palette import palette
from qwen_tui.ui.screens.cards import ConfirmCard, LeaveCard
from qwen_tui.ui.screens.details import FindingsCard, HelpCard, PlacesCard
from qwen_tui.ui.screens.guide import GuideCard, next_step
from qwen_tui.ui.screens.picker import PickProfile
from qwen_tui.ui.screens.place import Place
from qwen_tui.ui.screens.swap import DRAIN_S, SwapCard, SwapSheet
from qwen_tui.ui.widgets.keybar import shown_key
from qwen_tui_profiles.errors import QwenTuiError
from qwen_tui_profiles.text import t, tr

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine

    from qwen_tui.services.console import ConsoleServices, Progress
    from qwen_tui.ui.state import View
    from qwen_tui_profiles.plan.result import Plan
    from qwen_tui_profiles.profile import EngineProfile
    from qwen_tui_profiles.text import Text

__all__ = ["Actions"]


class Actions(App[None]):
    """The actions behind :data:`qwen_tui.ui.app_commands.APP`."""

    services: ConsoleServices
    view: View
    clock: Callable[[], float]
    change: Callable[..., None]
    poll_anew: Callable[[], None]
    depart: Callable[[], None]

    def begin(self, what: Text) -> None:
        """Show what is being done instead of how the last thing ended."""
        self.change(busy=what, said=None)

    def action_start(self) -> None:
        """Launch the selected profile."""
        profile = self.view.selected
        if profile is not None:
            self.begin(t("Checking {profile}", profile=profile.name))
            self.do("operation", self._check_and_start(profile))

    async def _check_and_start(self, profile: EngineProfile) -> None:
        try:
            errors = await self.services.preflight(profile)
        except QwenTuiError as error:
            self.post_message(messages.Failed(error))
            self.post_message(messages.Finished())
            return
        if errors:
            self.post_message(messages.Finished())
            card = FindingsCard(profile.name, errors)
            await self.push_screen(card, lambda reason: self._forced(profile, reason))
        else:
            await self._start(profile, None)

    def _forced(self, profile: EngineProfile, reason: str | None) -> None:
        if reason is not None:
            self.do("operation", self._start(profile, reason))

    def action_pick(self) -> None:
        """Choose a profile."""
        selected = None if self.view.selected is None else self.view.selected.name
        self.push_screen(PickProfile(self.view.profiles, selected), self.picked)

    def picked(self, name: str | None) -> None:
        """Select a profile and remember it."""
        profile = self.view.profiles.find(name)
        if profile is not None:
            self.change(selected=profile, selected_why=None)
            self.do("select", self.services.remember(last_profile=profile.name))

    def action_pick_named(self, name: str) -> None:
        """Select a profile by name."""
        self.picked(name)

    def action_swap(self) -> None:
        """Show what a swap changes; Enter does it."""
        source, target = self.view.profile, self.view.partner
        if source is not None and target is not None:
            self.do("sheet", self._show_swap(source, target))

    async def _show_swap(self, source: EngineProfile, target: EngineProfile) -> None:
        try:
            comparison = await self.services.files.compare(source, target)
            down = await self.services.history.down(target.name)
            plan = await self._plan_or_none(target)
        except QwenTuiError as error:
            self.post_message(messages.Failed(error))
            return
        sheet = SwapSheet(source, target, comparison, plan, down)
        await self.push_screen(
            SwapCard(self.view, sheet), lambda choice: self._swap_confirmed(target, choice)
        )

    async def _plan_or_none(self, profile: EngineProfile) -> Plan | None:
        try:
            return await self.services.plans.plan(PlanQuestion(profile))
        except QwenTuiError:
            return None  # a swap does not depend on a prediction

    def _swap_confirmed(self, target: EngineProfile, choice: str | None) -> None:
        if choice is not None:
            self.begin(t("Swapping to {profile}", profile=target.name))
            self.change(swapping=True)
            drain_s = DRAIN_S if choice == "drain" else 0.0
            self.do("operation", self._steps(self.services.swap(target, drain_s)))

    def action_cancel_swap(self) -> None:
        """Ask the swap to go back."""
        if not self.services.cancel_swap():
            self.notify(tr(t("It cannot be cancelled while the old server is being stopped.")))

    def action_stop(self) -> None:
        """Ask, with what a stop costs."""
        starting = self.view.server.state is ServerState.STARTING
        title = t("Cancel the launch?") if starting else t("Stop the server?")
        confirm = t("Cancel it") if starting else t("Stop it")
        card = ConfirmCard(tr(title), stop_consequences(self.view), confirm, danger=True)
        self.push_screen(card, lambda yes: self._stop_confirmed() if yes else None)

    def _stop_confirmed(self) -> None:
        self.begin(t("Stopping"))
        # Its own group: it must not cancel the launch that it ends; that one reports by itself.
        self.do("stop", self._steps(self.services.stop()))

    async def action_go(self, place: str) -> None:
        """Go to a place."""
        await self.switch_mode(place)

    def action_places(self) -> None:
        """Name the places with their keys."""
        self.push_screen(PlacesCard(self.view, self.current_mode), self._went)

    async def _went(self, place: str | None) -> None:
        if place is not None:
            await self.switch_mode(place)

    def action_interval(self, step: int) -> None:
        """Ask for figures more or less often."""
        at = INTERVALS_S.index(self.view.interval_s) + step
        chosen = INTERVALS_S[max(0, min(at, len(INTERVALS_S) - 1))]
        self.change(interval_s=chosen)
        self.poll_anew()
        self.notify(tr(t("Figures every {seconds} s", seconds=f"{chosen:g}")), timeout=2)

    def action_guide(self) -> None:
        """Show the first steps."""
        self.push_screen(GuideCard(self.view), self._guided)

    async def _guided(self, choice: str | None) -> None:
        step = next_step(self.view)
        self.do("remember", self.services.remember(guide="done"))
        if step is None or choice is None:
            return
        if choice == "skip":
            self.change(skipped=self.view.skipped | {step.id})
            self.action_guide()
        else:
            await self.run_action(step.action, self)

    def action_command_palette(self) -> None:
        """Show everything that can be done now."""
        if not CommandPalette.is_open(self.app):
            self.push_screen(palette())

    def action_press(self, key: str) -> None:
        """Press a key, for what was clicked."""
        # Not from here: a key whose sender is the clicked box would go no further than that box.
        self.call_later(self.simulate_key, key)

    def action_help(self) -> None:
        """Explain the screen."""
        screen = self.screen
        here = screen.COMMANDS_HERE if isinstance(screen, Place) else ()
        # The places have a card of their own.
        shown = [c for c in (*here, *APP) if not c.id.startswith("place.") or c in here]
        rows = [(shown_key(self, c), c, c.when(self.view)) for c in shown]
        about = screen.ABOUT if isinstance(screen, Place) else t("The console.")
        self.push_screen(HelpCard(self.view, about, rows))

    def action_leave(self) -> None:
        """Leave; with a server or a download running, say what becomes of it."""
        if not self.view.alive:
            self._leave_alone()
            return
        may_stop = self.view.ours and self.view.busy is None
        card = LeaveCard(leave_words(self.view), may_stop=may_stop)
        self.push_screen(card, self._left)

    def _leave_alone(self) -> None:
        """Leave with no server running."""
        if not self.view.downloading:
            self.depart()
            return
        body, confirm = download_words(self.view), t("Stop it and quit")
        card = ConfirmCard(tr(t("Leave the console")), body, confirm)
        self.push_screen(card, lambda yes: self.depart() if yes else None)

    def _left(self, choice: str | None) -> None:
        if choice == "leave":
            self.depart()
        elif choice == "stop":
            self.begin(t("Stopping"))
            self.do("stop", self._steps(self.services.stop(), then_exit=True))

    def do(self, group: str, what: Coroutine[object, object, None]) -> None:
        """Run something in a worker; a second of the same group takes its place."""
        self.run_worker(what, group=group, exclusive=True, exit_on_error=False)

    async def _start(self, profile: EngineProfile, force: str | None) -> None:
        self.begin(t("Launching {profile}", profile=profile.name))
        try:
            await self.services.remember(last_profile=profile.name)
            await self.services.start(profile, force)
        except QwenTuiError as error:
            self.post_message(messages.Failed(error))
        finally:
            self.post_message(messages.Finished())

    async def _steps(self, steps: AsyncIterator[Progress], *, then_exit: bool = False) -> None:
        failed = False
        try:
            async for progress in steps:
                failed = progress.failed
                self.post_message(messages.Progressed(progress))
        except QwenTuiError as error:
            failed = True
            self.post_message(messages.Failed(error))
        finally:
            self.post_message(messages.Finished(then_exit and not failed))
