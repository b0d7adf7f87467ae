"""The last line: the keys that do something now, and nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.content import Content
from textual.reactive import var
from textual.style import Style
from textual.widget import Widget

from qwen_tui.ui.app_commands import APP
from qwen_tui.ui.places import PLACES
from qwen_tui.ui.state import View
from qwen_tui_profiles.text import tr

if TYPE_CHECKING:
    from collections.abc import Iterable

    from textual import events
    from textual.app import App
    from textual.dom import DOMNode
    from textual.screen import Screen

    from qwen_tui.ui.commands import Command

__all__ = ["KeyBar", "key_hints", "key_line", "key_name", "pressing", "shown_key"]

KEEP_RANK = 90
GAP = "  "
NAMES = {
    "escape": "Esc",
    "slash": "/",
    "question_mark": "?",
    "space": "Space",
    "minus": "-",
    "plus": "+",
}


def key_name(key: str) -> str:
    """Return a key as a person writes it."""
    return NAMES.get(key) or key.replace("ctrl+", "^").replace("enter", "Enter")


def shown_key(app: App[None], command: Command) -> str:
    """Return the first key of a command, where the user has moved it to."""
    moved = app._keymap.get(command.id) or command.keys
    return key_name(moved.partition(",")[0])


def key_hints(keys: Iterable[tuple[str, str]]) -> Content:
    """Return the keys of a card, as they are shown, with what they do; a click presses one."""
    return Content("   ").join(
        Content.assemble((key, "bold $accent"), f" {word}").stylize(pressing(key))
        for key, word in keys
    )


def pressing(key: str) -> Style:
    """Return the style of what presses a key, named as it is shown, when it is clicked."""
    named = {shown: name for name, shown in NAMES.items()}
    name = named.get(key) or {"Enter": "enter", "Del": "delete"}.get(key, key)
    name = name.replace("^", "ctrl+")
    return Style.from_meta({"@click": f"app.press({name!r})"})


class KeyBar(Widget):
    """One widget for the whole footer: a change of state costs one render, not a new DOM."""

    DEFAULT_CSS = """
    KeyBar {
        height: 1;
        background: $panel;
        color: $text;
        padding: 0 1;
        text-wrap: nowrap;
    }
    """

    view: var[View] = var(View, init=False)

    def on_mount(self) -> None:
        """Follow the screen's bindings."""
        self.screen.bindings_updated_signal.subscribe(self, self._changed)

    def _changed(self, _: Screen[object]) -> None:
        self.refresh()

    def render(self) -> Content:
        """Return the line."""
        return key_line(self._active(), self.view, self.content_size.width)

    def _active(self) -> list[tuple[str, Command]]:
        here: tuple[Command, ...] = getattr(self.screen, "COMMANDS_HERE", ())
        known = {c.id: c for c in (*APP, *here)}
        out: dict[str, tuple[str, Command]] = {}
        for active in self.screen.active_bindings.values():
            command = known.get(active.binding.id or "")
            if command is None or not command.footer or not active.enabled:
                continue
            key = key_name(active.binding.key)
            if command.id not in out or len(key) < len(out[command.id][0]):
                out[command.id] = (key, command)
        # A place's own keys first; on the main screen the server's are its own.
        order = {name: number for number, name in enumerate(known)}
        own = set() if self.screen.id == PLACES[0].id else {c.id for c in here}
        return sorted(
            out.values(),
            key=lambda item: (
                item[1].rank >= KEEP_RANK,
                item[1].id not in own,
                item[1].rank,
                order[item[1].id],
            ),
        )

    async def on_click(self, event: events.Click) -> None:
        """Run the command under the pointer."""
        event.stop()
        start = self.gutter.left
        for key, command in fitting(self._active(), self.view, self.content_size.width):
            end = start + _item(key, command, self.view).cell_length
            if start <= event.x < end:
                await self.app.run_action(command.action, self._owner(command))
                return
            start = end + len(GAP)

    def _owner(self, command: Command) -> DOMNode:
        for active in self.screen.active_bindings.values():
            if active.binding.id == command.id:
                return active.node
        return self.screen


def fitting(active: list[tuple[str, Command]], view: View, width: int) -> list[tuple[str, Command]]:
    """Return what fits in ``width`` cells; the highest ranks below 90 are left out first."""
    shown = list(active)
    while shown and _line(shown, view).cell_length > width:
        optional = [item for item in shown if item[1].rank < KEEP_RANK] or shown
        shown.remove(optional[-1])
    return shown


def key_line(active: list[tuple[str, Command]], view: View, width: int) -> Content:
    """Return the keys in ``width`` cells."""
    return _line(fitting(active, view, width), view)


def _line(shown: list[tuple[str, Command]], view: View) -> Content:
    return Content(GAP).join(_item(key, command, view) for key, command in shown)


def _item(key: str, command: Command, view: View) -> Content:
    return Content.assemble((key, "bold $accent"), " ", tr(command.name(view)))
