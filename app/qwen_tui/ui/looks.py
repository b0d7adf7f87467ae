"""How the console looks and speaks: theme, marks, language, keys."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from textual.app import App

from qwen_tui.services.language import preferred_language
from qwen_tui.ui.app_commands import APP
from qwen_tui.ui.commands import moved_keys
from qwen_tui.ui.glyphs import ASCII, UNICODE, use_glyphs
from qwen_tui.ui.plain_ascii import PlainAscii
from qwen_tui.ui.screens.place import Place
from qwen_tui.ui.themes import THEME_NAMES
from qwen_tui_profiles.text import language, set_language, t, tr

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    from textual.filter import LineFilter

    from qwen_tui.services.console import ConsoleServices
    from qwen_tui.services.settings import Settings

__all__ = ["Looks"]

LANGUAGES = ("en", "zh_CN")


class Looks(App[None]):
    """Settings of the eye: applied at once, remembered in the settings file."""

    services: ConsoleServices
    do: Callable[[str, Coroutine[object, object, None]], None]
    _ascii_asked: bool = False
    """Whether this run is to draw with ASCII, whatever the settings say."""
    _plain: PlainAscii | None = None

    def get_line_filters(self) -> Sequence[LineFilter]:
        """Add the filter that leaves ASCII alone, where that is wanted."""
        filters = super().get_line_filters()
        return filters if self._plain is None else [*filters, self._plain]

    def choose_marks(self, *, ascii_asked: bool, term: str) -> None:
        """Draw with ASCII where that is asked for, or where the terminal cannot show much else.

        The font of a Linux console has 256 or 512 glyphs: no round corners, no curves, no ticks.
        """
        self._ascii_asked = ascii_asked
        if ascii_asked or term == "linux":
            self.use_ascii(ascii_only=True)

    def get_theme_variable_defaults(self) -> dict[str, str]:
        """Return the colours that Textual's themes for sixteen-colour terminals leave out."""
        return {"foreground-disabled": "ansi_bright_black"}

    def apply_settings(self, settings: Settings) -> None:
        """Use what the user chose before; a theme that is not there any more counts as none."""
        if settings.theme in THEME_NAMES:
            self.theme = settings.theme
        if settings.marks is not None and not self._ascii_asked:
            self.use_ascii(ascii_only=settings.marks == "ascii")
        if settings.keys:
            self.set_keymap(moved_keys(settings.keys, APP))
        tag = preferred_language(os.environ, lambda: settings.language)
        if tag != language():
            self._speak(tag)

    def use_ascii(self, *, ascii_only: bool) -> None:
        """Draw with ASCII alone, or with box and block glyphs."""
        use_glyphs(ASCII if ascii_only else UNICODE)
        self._plain = PlainAscii() if ascii_only else None
        self.set_class(ascii_only, "-ascii")

    def action_theme(self) -> None:
        """Change to the next theme."""
        names = list(THEME_NAMES)
        at = names.index(self.theme) if self.theme in names else -1
        self.choose_theme(names[(at + 1) % len(names)])

    def choose_theme(self, name: str) -> None:
        """Change to a theme and remember it."""
        self.theme = name
        self.notify(tr(t("Theme: {name}", name=name)), timeout=2, markup=False)
        self.do("remember", self.services.remember(theme=name))

    def action_language(self) -> None:
        """Change to the next language and remember it."""
        tag = LANGUAGES[(LANGUAGES.index(language()) + 1) % len(LANGUAGES)]
        self._speak(tag)
        self.do("remember", self.services.remember(language=tag))

    def _speak(self, tag: str) -> None:
        """Use a language and draw every screen anew in it."""
        if not set_language(tag):
            self.notify(tr(t("There is no catalogue for {tag}.", tag=tag)), markup=False)
        for screen in self.screen_stack:  # places that are not shown do it when they are
            if isinstance(screen, Place):
                screen.speak()
            else:
                screen.refresh(recompose=True)
        self.refresh_bindings()
