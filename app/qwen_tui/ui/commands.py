"""What a command of the console is: footer, help, palette and key map all read this definition.

The commands themselves are in :mod:`qwen_tui.ui.app_commands` (everywhere) and
in the file of each place (on that screen). A command's id is its binding id, so that a user's key
map can move it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from textual.binding import Binding, BindingType

from qwen_tui_profiles.text import Text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from qwen_tui.ui.state import View

__all__ = ["Command", "bindings", "by_action", "called", "moved_keys"]


@dataclass(frozen=True, slots=True)
class Command:
    """One thing that a person can do, and when it can be done."""

    id: str
    keys: str
    """Keys as Textual names them, separated by commas; the footer shows the first."""
    action: str
    label: Text | Callable[[View], Text]
    """A word or two for the footer."""
    help: Text
    """One sentence for help and palette."""
    when: Callable[[View], bool] = lambda _: True
    rank: int = 50
    """Place in the footer, lowest first; commands from 90 on stay when room is short."""
    footer: bool = True

    def name(self, view: View) -> Text:
        """Return the label for this moment."""
        return self.label if isinstance(self.label, Text) else self.label(view)


def bindings(commands: Iterable[Command]) -> list[BindingType]:
    """Return the Textual bindings of some commands."""
    return [
        Binding(
            c.keys,
            c.action,
            description=c.id,
            show=c.footer,
            tooltip=str(c.help),
            id=c.id,
        )
        for c in commands
    ]


def by_action(commands: Iterable[Command]) -> dict[str, Command]:
    """Index commands by their action, parameters included."""
    return {c.action: c for c in commands}


def called(action: str, parameters: tuple[object, ...]) -> str:
    """Return an action as a command writes it: ``start``, ``go('home')``."""
    return f"{action}({', '.join(map(repr, parameters))})" if parameters else action


def moved_keys(moved: Mapping[str, str], commands: Iterable[Command]) -> dict[str, str]:
    """Return a key map that moves some commands and holds the others on their keys.

    Commands that are never offered together share a key (start and swap). Textual takes a key that
    is moved away from all of them, so that those that stay have to be named, too.
    """
    known = tuple(commands)
    left = {key for c in known if c.id in moved for key in c.keys.split(",")}
    stay = {c.id: c.keys for c in known if c.id not in moved and left & set(c.keys.split(","))}
    return {**stay, **moved}
