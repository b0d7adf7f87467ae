"""The profile editor: flags and values, with the rules and the plan of the draft beside them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from textual import on, work
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from qwen_tui.services.desks import PlanQuestion
from qwen_tui.ui.cells import fit, wrapped
from qwen_tui.ui.findings import finding_lines
from qwen_tui.ui.knobs import joined, pairs
from qwen_tui.ui.messages import Failed
from qwen_tui.ui.plan_lines import changed_keys, plan_summary
from qwen_tui.ui.widgets.keybar import key_hints
from qwen_tui_profiles.errors import QwenTuiError
from qwen_tui_profiles.text import t, tr

if TYPE_CHECKING:
    from textual.app import ComposeResult

    from qwen_tui.ui.screens.place import Kit
    from qwen_tui_profiles.profile import EngineProfile

__all__ = ["EditProfile"]

ADD = "+"
FLAG = 32
VALUE = 9


class EditProfile(ModalScreen[bool]):
    """Edits the arguments of one profile; dismisses with True when a file was written."""

    DEFAULT_CSS = """
    EditProfile { align: center middle; }
    EditProfile > Vertical {
        width: 100%; height: 100%; border: round $accent; background: $surface;
        border-title-color: $foreground; border-title-style: bold;
        border-subtitle-color: $foreground; padding: 0 1;
    }
    EditProfile OptionList {
        width: 1fr; height: 100%; border: none; padding: 0; background: $surface;
        &:focus { border: none; }
    }
    EditProfile VerticalScroll {
        width: 1fr; height: 100%; padding: 0 0 0 1;
        scrollbar-size-vertical: 1; scrollbar-gutter: stable;
    }
    EditProfile.-narrow OptionList { width: 43; }
    EditProfile Horizontal { height: 1fr; }
    EditProfile Input { display: none; }
    EditProfile Static { height: auto; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "Leave", show=False),
        Binding("w", "write", "Write", show=False),
        Binding("delete,backspace", "remove", "Remove", show=False),
    ]

    def __init__(self, kit: Kit, profile: EngineProfile) -> None:
        super().__init__()
        self.kit = kit
        self._profile = profile
        self._pairs = pairs(profile.argv)
        self._editing: str | None = None

    def compose(self) -> ComposeResult:
        """Lay out flags, judgement and the input line."""
        with Vertical() as box:
            box.border_title = Content(tr(t("Edit {name}", name=self._profile.name)))
            keys = (
                ("Enter", t("Change")),
                ("Del", t("Remove")),
                ("w", t("Write")),
                ("Esc", t("Back")),
            )
            box.border_subtitle = key_hints((key, tr(word)) for key, word in keys)
            with Horizontal():
                yield OptionList()
                with VerticalScroll(can_focus=True):
                    yield Static()
            yield Input()

    def on_mount(self) -> None:
        """Show the flags."""
        self.query_one(OptionList).focus()

    def on_resize(self) -> None:
        """Fit the rows to the new width."""
        self.call_after_refresh(self._redraw)

    @property
    def draft(self) -> EngineProfile:
        """The profile as it stands in the editor."""
        return replace(self._profile, argv=joined(self._pairs))

    def _redraw(self) -> None:
        listing = self.query_one(OptionList)
        at = listing.highlighted or 0
        before = pairs(self._profile.argv)
        width = max(20, listing.content_size.width - 3)
        options = [Option(self._row(f, v, before, width), f) for f, v in self._pairs.items()]
        options.append(Option(Content.styled(tr(t("+ add a flag")), "$accent"), ADD))
        listing.set_options(options)
        listing.highlighted = min(at, len(options) - 1)
        self._judge()

    @staticmethod
    def _row(flag: str, value: str, before: dict[str, str], width: int) -> Content:
        changed = before.get(flag) != value
        shown = value if value != "true" else tr(t("on"))
        # A flag that is cut can still be told from the others; a value cannot.
        cells = min(FLAG, width - VALUE - 1)
        style = "bold $warning" if changed else "bold"
        line = Content.assemble(fit(flag, cells), " ", (shown, style))
        return fit(line, width)

    @on(OptionList.OptionSelected)
    def _selected(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        flag = event.option.id or ADD
        line = self.query_one(Input)
        self._editing = flag
        line.placeholder = tr(t("--flag value")) if flag == ADD else flag
        line.value = "--" if flag == ADD else self._pairs.get(flag, "")
        line.display = True
        line.focus()
        line.cursor_position = len(line.value)

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        event.stop()
        text = event.value.strip()
        if self._editing == ADD:
            flag, _, value = text.replace("=", " ", 1).partition(" ")
            if flag.startswith("--") and len(flag) > 2:
                self._pairs[flag] = value.strip() or "true"
        elif self._editing is not None:
            self._pairs[self._editing] = text or "true"
        self._close_line()
        self._redraw()

    def _close_line(self) -> None:
        self._editing = None
        self.query_one(Input).display = False
        self.query_one(OptionList).focus()

    def action_remove(self) -> None:
        """Take the flag under the cursor away."""
        listing = self.query_one(OptionList)
        if listing.highlighted is not None:
            self._pairs.pop(listing.get_option_at_index(listing.highlighted).id or "", None)
            self._redraw()

    def action_leave(self) -> None:
        """Close the input line, or leave without writing."""
        if self._editing is not None:
            self._close_line()
        else:
            self.dismiss(False)

    def action_write(self) -> None:
        """Write what was changed."""
        changes = dict(changed_keys(self._profile, joined(self._pairs)))
        if changes:
            self._write(changes)
        else:
            self.dismiss(False)

    @work(group="save", exclusive=True, exit_on_error=False)
    async def _write(self, changes: dict[str, str | None]) -> None:
        try:
            await self.kit.services.files.change(self._profile.name, changes)
        except QwenTuiError as error:
            self.app.post_message(Failed(error))
        else:
            self.dismiss(True)

    @work(group="judge", exclusive=True, exit_on_error=False)
    async def _judge(self) -> None:
        draft = self.draft
        width = max(24, self.query_one("VerticalScroll Static").content_size.width)
        lines: list[Content] = []
        try:
            sheet = await self.kit.services.files.sheet(draft)
            for finding in sheet.findings:
                lines += finding_lines(finding, width)
            if not sheet.findings:
                lines.append(Content.styled(tr(t("The rules find nothing.")), "$success"))
            plan = await self.kit.services.plans.plan(PlanQuestion(draft))
            lines = [*plan_summary(plan, None, width), Content(""), *lines]
        except QwenTuiError as error:
            lines += wrapped((tr(error.message), "$warning"), width)
        self.query_one("VerticalScroll Static", Static).update(Content("\n").join(lines))
