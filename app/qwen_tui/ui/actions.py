"""What the console's commands do: ask where it matters, then let a worker do it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.app import App
from textual.binding import Binding
from textual.content import Content

from qwen_tui.services.snapshots import ServerState
from qwen_tui.ui import messages
from qwen_tui.ui.commands import APP
from qwen_tui.ui.screens.cards import ConfirmCard, LeaveCard
from qwen_tui.ui.screens.details import HelpCard
from qwen_tui.ui.screens.picker import PickProfile
from qwen_tui.ui.screens.place import Place
from qwen_tui.ui.screens.swap import SwapCard
from qwen_tui_profiles.errors import QwenTuiError
from qwen_tui_profiles.text import t, tr

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine

    from qwen_tui.services.console import ConsoleServices, Progress
    from qwen_tui.ui.commands import Command
    from qwen_tui.ui.state import View
    from qwen_tui_profiles.profile import EngineProfile
    from qwen_tui_profiles.text import Text

__all__ = ["Actions"]


class Actions(App[None]):
    """The actions behind :data:`qwen_tui.ui.commands.APP`."""

    services: ConsoleServices
    view: View
    clock: Callable[[], float]
    change: Callable[..., None]

    def begin(self, what: Text) -> None:
        """Show what is being done instead of how the last thing ended."""
        self.change(busy=what, said=None)

    def action_start(self) -> None:
        """Launch the selected profile."""
        profile = self.view.selected
        if profile is not None:
            self.begin(t("Launching {profile}", profile=profile.name))
            self._do("operation", self._start(profile))

    def action_pick(self) -> None:
        """Choose a profile."""
        selected = None if self.view.selected is None else self.view.selected.name
        self.push_screen(PickProfile(self.view.profiles, selected), self._picked)

    def _picked(self, name: str | None) -> None:
        profile = self.view.profiles.find(name)
        if profile is not None:
            self.change(selected=profile, selected_why=None)
            self._do("select", self.services.select(profile.name))

    def action_swap(self) -> None:
        """Show what a swap changes; Enter does it."""
        source, target = self.view.profile, self.view.partner
        if source is not None and target is not None:
            self.push_screen(
                SwapCard(self.view, source, target),
                lambda yes: self._swap_confirmed(target) if yes else None,
            )

    def _swap_confirmed(self, target: EngineProfile) -> None:
        self.begin(t("Swapping to {profile}", profile=target.name))
        self._do("operation", self._steps(self.services.swap(target)))

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
        self._do("stop", self._steps(self.services.stop()))

    def action_probe(self) -> None:
        """Send one request and time it."""
        url = self.view.server.url
        if url is not None:
            self.begin(t("Probing {url}", url=url))
            self._do("probe", self._probe(url))

    def action_doctor(self) -> None:
        """Open the doctor for the profile in question."""
        from qwen_tui.ui.screens.doctor import DoctorScreen

        if isinstance(self.screen, DoctorScreen):
            return
        self.push_screen(DoctorScreen(lambda: self.services.checks(self.view.profile), self.clock))

    def action_help(self) -> None:
        """Explain the screen."""
        screen = self.screen
        here = screen.COMMANDS_HERE if isinstance(screen, Place) else ()
        rows = [(self._key_of(c), c, c.when(self.view)) for c in (*here, *APP)]
        about = screen.ABOUT if isinstance(screen, Place) else t("The console.")
        self.push_screen(HelpCard(self.view, about, rows))

    def _key_of(self, command: Command) -> str:
        return self.get_key_display(Binding(command.keys.partition(",")[0], command.action))

    def action_leave(self) -> None:
        """Leave; with a server running, say what becomes of it."""
        if not self.view.alive:
            self.exit()
            return
        may_stop = self.view.ours and self.view.busy is None
        card = LeaveCard(leave_words(self.view), may_stop=may_stop)
        self.push_screen(card, self._left)

    def _left(self, choice: str | None) -> None:
        if choice == "leave":
            self.exit()
        elif choice == "stop":
            self.begin(t("Stopping"))
            self._do("stop", self._steps(self.services.stop(), then_exit=True))

    def _do(self, group: str, what: Coroutine[object, object, None]) -> None:
        self.run_worker(what, group=group, exclusive=True, exit_on_error=False)

    async def _start(self, profile: EngineProfile) -> None:
        try:
            await self.services.select(profile.name)
            await self.services.start(profile)
        except QwenTuiError as error:
            self.post_message(messages.Failed(error))
        finally:
            self.post_message(messages.Finished())

    async def _probe(self, url: str) -> None:
        try:
            self.post_message(messages.Probed(await self.services.probe(url)))
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


def stop_consequences(view: View) -> list[Content]:
    """Return what a stop would cost, as far as it is known."""
    lines = [Content.styled(view.server.profile or tr(t("the server")), "bold")]
    if view.server.state is ServerState.STARTING:
        lines.append(Content(tr(t("The boot is broken off; nothing was served yet."))))
        return lines
    if view.in_flight is not None:
        lines.append(
            Content.styled(
                tr(t("Requests in flight: {requests}.", requests=view.in_flight)), "bold $warning"
            )
        )
    elif view.live is None or view.live.stale_s is not None:
        lines.append(Content(tr(t("Whether requests are in flight is not known."))))
    else:
        lines.append(Content(tr(t("No request is in flight."))))
    lines.append(Content(tr(t("The prefix cache is lost; the next start loads the model again."))))
    return lines


def leave_words(view: View) -> list[Content]:
    """Return what leaving means for the server."""
    name = view.server.profile or tr(t("the server"))
    lines = [
        Content(
            tr(
                t(
                    "{name} goes on running at {url}. Open qwen-tui again to find it.",
                    name=name,
                    url=view.server.url or "",
                )
            )
        )
    ]
    if view.busy is not None:
        warning = t("Under way: {what}. Leaving now breaks it off.", what=view.busy)
        lines.append(Content.styled(tr(warning), "bold $warning"))
    if view.in_flight is not None:
        requests = t("Requests in flight: {requests}.", requests=view.in_flight)
        lines.append(Content.styled(tr(requests), "$warning"))
    return lines
