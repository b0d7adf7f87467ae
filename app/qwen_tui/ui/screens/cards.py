"""Cards: small questions and explanations over a screen. Enter agrees, Escape leaves."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Generic, TypeVar

from textual import on
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input

from qwen_tui.ui.glyphs import glyphs
from qwen_tui.ui.widgets.keybar import key_hints
from qwen_tui.ui.widgets.prose import Prose
from qwen_tui_profiles.text import t, tr

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.app import ComposeResult

    from qwen_tui_profiles.errors import QwenTuiError
    from qwen_tui_profiles.text import Text

__all__ = ["Card", "ConfirmCard", "ErrorCard", "InputCard", "LeaveCard", "TextCard"]

ResultT = TypeVar("ResultT")
Keys = tuple[tuple[str, "Text"], ...]


class Card(ModalScreen[ResultT], Generic[ResultT]):
    """A titled box with text; its keys stand in the lower border and never scroll away."""

    DEFAULT_CSS = """
    Card {
        align: center middle;
    }
    Card > VerticalScroll {
        width: 78;
        max-width: 98%;
        height: auto;
        max-height: 94%;
        border: round $accent;
        background: $surface;
        padding: 0 1;
        scrollbar-size-vertical: 1;
        border-title-color: $foreground;
        border-title-style: bold;
        border-subtitle-color: $foreground;
    }
    Card.-danger > VerticalScroll { border: round $error; }
    Card Static { height: auto; }
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "no", "Back", show=False),
    ]

    def __init__(self, title: str, body: Sequence[Content], keys: Keys) -> None:
        super().__init__()
        self._title = title
        self._body = tuple(body)
        self._keys = keys

    def compose(self) -> ComposeResult:
        """Lay out the box."""
        with VerticalScroll() as box:
            box.border_title = Content(self._title)
            box.border_subtitle = key_hints((key, tr(word)) for key, word in self._keys)
            yield Prose(self._body, id="card-text")

    def action_no(self) -> None:
        """Leave without doing anything."""
        self.dismiss(None)


class TextCard(Card[None]):
    """Something to read."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter,q", "no", "Back", show=False),
    ]

    def __init__(self, title: str, body: Sequence[Content], keys: Keys = ()) -> None:
        super().__init__(title, body, (*keys, ("Esc", t("Back"))))


class ConfirmCard(Card[bool]):
    """A question with its consequences; dismisses with True when confirmed."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "yes", "Confirm", show=False),
    ]

    def __init__(
        self, title: str, body: Sequence[Content], confirm: Text, *, danger: bool = False
    ) -> None:
        super().__init__(title, body, (("Enter", confirm), ("Esc", t("Back"))))
        self.set_class(danger, "-danger")

    def action_yes(self) -> None:
        """Confirm."""
        self.dismiss(True)


class InputCard(ModalScreen[str]):
    """Asks for one line; dismisses with it, or with nothing."""

    DEFAULT_CSS = """
    InputCard { align: center middle; }
    InputCard > Vertical {
        width: 70; max-width: 98%; height: auto; border: round $accent; background: $surface;
        padding: 0 1; border-title-style: bold; border-subtitle-color: $foreground;
    }
    InputCard Static { height: auto; color: $foreground-muted; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss(None)", "Back", show=False)]

    def __init__(self, title: str, hint: str, value: str = "") -> None:
        super().__init__()
        self._title, self._hint, self._value = title, hint, value

    def compose(self) -> ComposeResult:
        """Lay out the line."""
        with Vertical() as box:
            box.border_title = Content(self._title)
            yield Prose([Content(self._hint)])
            yield Input(self._value)

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.dismiss(event.value.strip() or None)


class LeaveCard(Card[str]):
    """Leave the server running, or stop it; dismisses with ``leave`` or ``stop``."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter,q", "choose('leave')", "Leave it running", show=False),
        Binding("x", "choose('stop')", "Stop it and quit", show=False),
    ]

    def __init__(self, body: Sequence[Content], *, may_stop: bool) -> None:
        keys: Keys = (("Enter", t("Leave it running")),)
        if may_stop:
            keys += (("x", t("Stop it and quit")),)
        super().__init__(tr(t("Leave the console")), body, (*keys, ("Esc", t("Back"))))
        self._may_stop = may_stop

    def action_choose(self, choice: str) -> None:
        """Dismiss with the choice."""
        if choice != "stop" or self._may_stop:
            self.dismiss(choice)


class ErrorCard(TextCard):
    """An error of ours: what was observed, what to do."""

    def __init__(self, error: QwenTuiError) -> None:
        body = [Content.styled(tr(error.message), "bold")]
        if error.remedy is not None:
            body += [
                Content(""),
                Content.assemble((f"{glyphs().remedy} ", "$accent"), tr(error.remedy)),
            ]
        super().__init__(tr(t("That did not work")), body)
        self.add_class("-danger")
