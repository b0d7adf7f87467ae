"""The base of the console's full screens: header, body, keys; they show the app's view."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, cast

from textual.containers import Container
from textual.reactive import var
from textual.screen import Screen

from qwen_tui.ui.commands import Command, by_action, called
from qwen_tui.ui.state import View
from qwen_tui.ui.widgets.header import Header, Notice, Tabs
from qwen_tui.ui.widgets.keybar import KeyBar
from qwen_tui.ui.widgets.panel import Panel
from qwen_tui_profiles.text import Text, language, t

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from textual.app import ComposeResult
    from textual.widget import Widget

    from qwen_tui.services.console import ConsoleServices
    from qwen_tui.ui.state import LogBuffer

__all__ = ["BACK", "Kit", "Place"]

BACK = Command("place.back", "escape", "back", t("Back"), t("Go back to Home."), rank=90)


@dataclass(frozen=True, slots=True)
class Kit:
    """What every place is given."""

    services: ConsoleServices
    log: LogBuffer
    clock: Callable[[], float]
    """Unix time; stands still in tests."""


class Place(Screen[None]):
    """One full screen."""

    ID: ClassVar[str]
    """As in :data:`qwen_tui.ui.places.PLACES`."""
    ABOUT: ClassVar[Text]
    """What the screen is for, in words; the help shows it."""
    COMMANDS_HERE: ClassVar[tuple[Command, ...]] = (BACK,)
    """Commands that only this screen has."""
    AUTO_FOCUS = ""

    view: var[View] = var(View, init=False)

    def __init__(self, kit: Kit) -> None:
        super().__init__(id=self.ID)
        self.kit = kit
        self._language = language()
        """What is spoken on this screen."""

    def compose(self) -> ComposeResult:
        """Lay out what every place has around its own content."""
        yield Header(self.ID, self.kit.clock).data_bind(Place.view)
        yield Tabs(self.ID).data_bind(Place.view)
        yield Notice().data_bind(Place.view)
        with Container(classes="place--body"):
            yield from self.content()
        yield KeyBar().data_bind(Place.view)

    def content(self) -> Iterable[Widget]:
        """Yield the widgets between header and keys."""
        raise NotImplementedError

    def on_mount(self) -> None:
        """Follow the app's view."""
        self.watch(self.app, "view", self._take)

    def tick(self) -> None:
        """Let the clocks go on: a second has passed."""
        self.query_one(Header).tick()

    def on_screen_resume(self) -> None:
        """Catch up with what happened while another place was shown."""
        self._take(self._app_view())
        self.speak()

    def on_screen_suspend(self) -> None:
        """Let go of what is painted, unless only a card lies over it.

        Textual keeps every painted line, each with seven caches: nine places were 6 MB (measured).
        """
        if self not in self.app.screen_stack:
            for widget in self.query("*"):
                widget.refresh()

    def speak(self) -> None:
        """Say everything anew if the language is another one; what was done here stays."""
        if self._language == language():
            return
        self._language = language()
        for widget in self.query("*"):
            if isinstance(widget, Panel):
                widget.redraw()
            widget.refresh(layout=True)
        self.call_after_refresh(self.refill)

    def refill(self) -> None:
        """Say again what the widgets do not make themselves when they are drawn."""

    def _take(self, view: View) -> None:
        # A place that nobody sees costs nothing; a card over it leaves it visible.
        if self in self.app.screen_stack:
            self.view = view

    def _app_view(self) -> View:
        return cast("View", getattr(self.app, "view", self.view))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Refuse what makes no sense now, so that the footer leaves it out."""
        command = by_action(self.COMMANDS_HERE).get(called(action, parameters))
        return command is None or command.when(self._app_view())

    async def action_back(self) -> None:
        """Go back to the first place."""
        await self.app.run_action("go('home')", self.app)
