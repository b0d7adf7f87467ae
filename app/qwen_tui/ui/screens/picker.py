"""Pickers: a list to choose one row of, each with a line that explains it."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from qwen_tui.ui import figures
from qwen_tui.ui.cells import fit, wrapped
from qwen_tui.ui.glyphs import glyphs
from qwen_tui.ui.widgets.keybar import key_hints
from qwen_tui.ui.widgets.prose import Prose
from qwen_tui.ui.words import MODES, profile_engine
from qwen_tui_profiles.text import Text, t, tr, tr_shipped

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from textual.app import ComposeResult

    from qwen_tui.services.console import ProfileList
    from qwen_tui.services.desks import ProbeMenu
    from qwen_tui_profiles.profile import EngineProfile

__all__ = ["PickProbe", "PickProfile", "Picker"]

WIDTH = 72
Row = tuple[str, Content, Content]
"""Id, first line, second line."""


class Picker(ModalScreen[str]):
    """A list with a foot; dismisses with the id of the chosen row."""

    DEFAULT_CSS = """
    Picker { align: center middle; }
    Picker > Vertical {
        width: 78; max-width: 98%; height: auto; max-height: 94%;
        border: round $accent; background: $surface; padding: 0 1;
        border-title-style: bold; border-subtitle-color: $foreground;
    }
    Picker OptionList {
        height: auto; max-height: 16; border: none; background: $surface; padding: 0;
        &:focus { border: none; }
    }
    Picker Static { height: auto; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss(None)", "Back", show=False),
    ]

    def __init__(
        self,
        title: Text,
        rows: Iterable[Row],
        selected: str | None,
        foot: Sequence[Content],
        *,
        verb: Text = t("Choose"),  # noqa: B008 - a Text is frozen
    ) -> None:
        super().__init__()
        self._title, self._verb = title, verb
        self._rows = tuple(rows)
        self._selected = selected
        self._foot = tuple(foot)

    def compose(self) -> ComposeResult:
        """Lay out list and foot."""
        with Vertical() as box:
            box.border_title = Content(tr(self._title))
            box.border_subtitle = key_hints([("Enter", tr(self._verb)), ("Esc", tr(t("Back")))])
            yield OptionList(*(_option(row) for row in self._rows))
            yield Prose(self._foot)

    def on_mount(self) -> None:
        """Start at the selected row."""
        names = [name for name, _, _ in self._rows]
        if self._selected in names:
            self.query_one(OptionList).highlighted = names.index(self._selected)

    @on(OptionList.OptionSelected)
    def _choose(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(event.option.id)


def _option(row: Row) -> Option:
    name, first, second = row
    return Option(Content("\n").join([fit(first, WIDTH), fit(second, WIDTH)]), name)


class PickProfile(Picker):
    """The profiles, and the files that are none."""

    def __init__(self, profiles: ProfileList, selected: str | None) -> None:
        foot: list[Content] = []
        for problem in profiles.problems:
            foot += wrapped((f"{glyphs().warn} {tr(problem.message)}", "$warning"), WIDTH, most=3)
        rows = (_profile_row(profile) for profile in profiles.profiles)
        super().__init__(t("Choose a profile"), rows, selected, foot)


def _profile_row(profile: EngineProfile) -> Row:
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
    return profile.name, first, second


class PickProbe(Picker):
    """The kinds of probe that this server can be asked for."""

    def __init__(self, menu: ProbeMenu, selected: str) -> None:
        rows = (
            (
                kind.name,
                Content.styled(tr(kind.title), "bold"),
                Content.styled(f"  {tr(kind.note)}", "$foreground-muted"),
            )
            for kind in menu.kinds
        )
        super().__init__(t("Send a probe"), rows, selected, _probe_foot(menu), verb=t("Send"))


def _probe_foot(menu: ProbeMenu) -> list[Content]:
    """Say how far the boundary is, and what is sent where a gateway is configured."""
    said: list[Text] = []
    if menu.usable_context is not None:
        said.append(
            t("Usable context: {tokens} tokens.", tokens=figures.count(menu.usable_context))
        )
    if menu.gateway is not None:
        said.append(
            t(
                "Sent twice directly and twice through {gateway}; the first pair warms up.",
                gateway=menu.gateway,
            )
        )
    return [line for text in said for line in wrapped((tr(text), "$foreground-muted"), WIDTH)]
