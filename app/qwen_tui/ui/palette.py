"""What the command palette finds: what can be done now, kinds of probe, profiles and themes."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, cast

from textual.command import CommandPalette, DiscoveryHit, Hit, Hits, Provider

from qwen_tui.ui.app_commands import APP
from qwen_tui.ui.themes import THEME_NAMES
from qwen_tui_profiles.text import t, tr, tr_shipped

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from textual.dom import DOMNode

    from qwen_tui.ui.app import ConsoleApp
    from qwen_tui.ui.commands import Command

    Entry = tuple[str, Callable[[], object], str]

__all__ = ["ConsoleProvider", "palette"]


def palette() -> CommandPalette:
    """Return the palette, with its own texts in the language in use."""
    return CommandPalette(placeholder=tr(t("Search for commands…")), id="--command-palette")


def _nothing() -> None:
    """Do nothing."""


class ConsoleProvider(Provider):
    """Entries from the same definitions that footer and help are made of."""

    async def discover(self) -> Hits:
        """Offer everything before a letter was typed."""
        for title, run, help_text in self._entries():
            yield DiscoveryHit(title, run, help=help_text)

    async def search(self, query: str) -> Hits:
        """Offer what matches."""
        matcher = self.matcher(query)
        found = False
        for title, run, help_text in self._entries():
            score = matcher.match(f"{title} {help_text}")
            if score > 0:
                found = True
                yield Hit(score, matcher.highlight(title), run, help=help_text)
        if not found:
            # In our words: Textual would say it in English.
            title = tr(t("No matches found"))
            yield Hit(1, title, _nothing, text=title, help=tr(t("Esc closes the list.")))

    def _entries(self) -> Iterator[Entry]:
        app = cast("ConsoleApp", self.app)
        here: tuple[Command, ...] = getattr(self.screen, "COMMANDS_HERE", ())
        for commands, node in ((here, self.screen), (APP, app)):
            for command in commands:
                if command.when(app.view) and command.id != "palette":
                    yield self._command(command, node)
        for name in THEME_NAMES:
            title = tr(t("Theme: {name}", name=name))
            yield title, partial(app.choose_theme, name), tr(t("Use these colours."))
        if app.check_action("probe", ()):
            for kind in app.services.probes.kinds():
                title = tr(t("Probe: {kind}", kind=kind.title))
                yield title, partial(app.action_probe_kind, kind.name), tr(kind.note)
        if app.check_action("pick", ()):
            for profile in app.view.profiles.profiles:
                title = tr(t("Select {profile}", profile=profile.name))
                yield title, partial(app.picked, profile.name), tr_shipped(profile.title)

    def _command(self, command: Command, node: DOMNode) -> Entry:
        app = cast("ConsoleApp", self.app)
        title = tr(command.name(app.view))
        return title, partial(app.run_action, command.action, node), tr(command.help)
