"""The profile picker."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from qwen_tui.ui.cells import fit, wrapped
from qwen_tui.ui.glyphs import glyphs
from qwen_tui.ui.words import MODES, profile_engine
from qwen_tui_profiles.text import t, tr, tr_shipped

if TYPE_CHECKING:
    from textual.app import ComposeResult

    from qwen_tui.services.console import ProfileList
    from qwen_tui_profiles.profile import EngineProfile

__all__ = ["PickProfile"]

WIDTH = 72


class PickProfile(ModalScreen[str]):
    """A list of profiles; dismisses with the name of the chosen one."""

    DEFAULT_CSS = """
    PickProfile { align: center middle; }
    PickProfile > Vertical {
        width: 78; max-width: 98%; height: auto; max-height: 94%;
        border: round $accent; background: $surface; padding: 0 1;
        border-title-style: bold; border-subtitle-color: $foreground;
    }
    PickProfile OptionList {
        height: auto; max-height: 16; border: none; background: $surface; padding: 0;
    }
    PickProfile Static { height: auto; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss(None)", "Back", show=False),
    ]

    def __init__(self, profiles: ProfileList, selected: str | None) -> None:
        super().__init__()
        self._profiles = profiles
        self._selected = selected

    def compose(self) -> ComposeResult:
        """Lay out list and problems."""
        with Vertical() as box:
            box.border_title = Content(tr(t("Choose a profile")))
            box.border_subtitle = Content.assemble(
                ("Enter", "bold $accent"),
                f" {tr(t('Choose'))}   ",
                ("Esc", "bold $accent"),
                f" {tr(t('Back'))}",
            )
            yield OptionList(*(self._option(p) for p in self._profiles.profiles))
            yield Static(self._foot())

    def on_mount(self) -> None:
        """Start at the selected profile."""
        names = [p.name for p in self._profiles.profiles]
        if self._selected in names:
            self.query_one(OptionList).highlighted = names.index(self._selected)

    def _option(self, profile: EngineProfile) -> Option:
        first = Content.assemble(
            fit((profile.name, "bold"), 26),
            fit(tr(MODES[profile.mode]), 10),
            profile_engine(profile),
        )
        origin = tr(t("yours")) if profile.origin.kind == "user" else ""
        second = Content.assemble(
            "  ",
            (tr_shipped(profile.title), "$foreground-muted"),
            (f"  {origin}" if origin else "", "$accent"),
        )
        return Option(Content("\n").join([fit(first, WIDTH), fit(second, WIDTH)]), profile.name)

    def _foot(self) -> Content:
        lines: list[Content] = []
        for problem in self._profiles.problems:
            lines += wrapped((f"{glyphs().warn} {tr(problem.message)}", "$warning"), WIDTH, most=3)
        return Content("\n").join(lines)

    @on(OptionList.OptionSelected)
    def _choose(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(event.option.id)
