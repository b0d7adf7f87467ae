"""The base of the console's full screens: they show the app's view and name their own commands."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, cast

from textual.reactive import var
from textual.screen import Screen

from qwen_tui.ui.commands import by_action
from qwen_tui.ui.state import View

if TYPE_CHECKING:
    from qwen_tui.ui.commands import Command
    from qwen_tui_profiles.text import Text

__all__ = ["Place"]


class Place(Screen[None]):
    """One full screen. *Mode* is the profile's word, hence *place*."""

    ABOUT: ClassVar[Text]
    """What the screen is for, in words; the help shows it."""
    COMMANDS_HERE: ClassVar[tuple[Command, ...]] = ()
    """Commands that only this screen has."""

    view: var[View] = var(View, init=False)

    def on_mount(self) -> None:
        """Follow the app's view."""
        self.watch(self.app, "view", self._take)

    def _take(self, view: View) -> None:
        self.view = view

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Refuse what makes no sense now, so that the footer leaves it out."""
        command = by_action(self.COMMANDS_HERE).get(action)
        # The first keys may come before the first view.
        view = cast("View", getattr(self.app, "view", self.view))
        return command is None or command.when(view)
