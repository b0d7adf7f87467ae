"""What the doctor can repair by itself: shown as the exact change, done only when agreed to."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType
from textual.content import Content

from qwen_tui.ui.cells import wrapped
from qwen_tui.ui.glyphs import glyphs
from qwen_tui.ui.screens.cards import Card, ConfirmCard, TextCard
from qwen_tui_profiles.text import Text, t, tr

if TYPE_CHECKING:
    from qwen_tui.services.desks import RepairDesk
    from qwen_tui.services.doctor_fixes import Repaired
    from qwen_tui.ui.app import ConsoleApp
    from qwen_tui_diagnostics.fixes import Fixes

__all__ = ["FixCard", "fix_lines", "offer_fixes"]

WIDTH = 72


class FixCard(Card[bool]):
    """The changes; dismisses with True when they are to be made."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "yes", "Do it", show=False),
        Binding("y", "copy", "Copy the commands", show=False),
    ]

    def __init__(self, fixes: Fixes) -> None:
        keys: tuple[tuple[str, Text], ...] = (("Esc", t("Back")),)
        if fixes.by_hand:
            keys = (("y", t("Copy the commands")), *keys)
        if not fixes.empty:
            keys = (("Enter", t("Do it")), *keys)
        super().__init__(tr(t("Repairs")), fix_lines(fixes), keys)
        self._fixes = fixes
        self.set_class(not fixes.empty, "-danger")

    def action_yes(self) -> None:
        """Agree, where there is something to agree to."""
        if not self._fixes.empty:
            self.dismiss(True)

    def action_copy(self) -> None:
        """Copy what is for the user to run."""
        commands = [command for _, commands in self._fixes.by_hand for command in commands]
        if commands:
            self.app.copy_to_clipboard("\n".join(commands))
            self.notify(tr(t("Copied: {what}", what=commands[0])), markup=False)


def fix_lines(fixes: Fixes) -> list[Content]:
    """Return each change, then the commands that need somebody with more rights."""
    marks, out = glyphs(), []
    if fixes.empty:
        out += wrapped(tr(t("Nothing can be repaired without you.")), WIDTH)
    for line in fixes.lines():
        out += wrapped(Content.assemble((f"{marks.arrow} ", "$accent"), tr(line)), WIDTH)
    if fixes.jit_caches:
        text = tr(t("Each deletion is asked for once more."))
        out.append(Content.styled(text, "$foreground-muted"))
    if fixes.by_hand:
        out += [Content(""), Content.styled(tr(t("For you to run")), "bold")]
    for check, commands in fixes.by_hand:
        out.append(Content.styled(f"# {check}", "$foreground-muted"))
        for command in commands:
            out += wrapped((command, "bold"), WIDTH, indent=2)
    return out


async def offer_fixes(app: ConsoleApp, desk: RepairDesk, fixes: Fixes) -> bool:
    """Show the repairs, make those that were agreed to, and say what came of it.

    Runs in a worker. Returns whether anything was done.
    """
    if not await app.push_screen_wait(FixCard(fixes)):
        return False
    steps = [await desk.repair(fixes)]
    for path in fixes.jit_caches:
        body = wrapped((path, "bold"), WIDTH) + wrapped(
            tr(t("Kernels of another version; that version compiles them anew when it runs.")),
            WIDTH,
        )
        card = ConfirmCard(tr(t("Delete this folder?")), body, t("Delete it"), danger=True)
        if await app.push_screen_wait(card):
            steps.append(await desk.delete(path))
    await _tell(app, steps)
    return any(step.done for step in steps)


async def _tell(app: ConsoleApp, steps: list[Repaired]) -> None:
    """Say what was done; a profile that was written can be selected at once."""
    marks, body = glyphs(), []
    for step in steps:
        for line in step.done:
            body += wrapped(Content.assemble((f"{marks.ok} ", "$success"), tr(line)), WIDTH)
        for line in step.failed:
            body += wrapped((f"{marks.fail} {tr(line)}", "bold $error"), WIDTH)
    title = tr(t("Repairs"))
    profile = steps[0].profile
    if profile is not None:
        app.action_read_profiles()
    if profile is None or not app.check_action("pick", ()):
        await app.push_screen_wait(TextCard(title, body))
        return
    confirm = t("Select {profile}", profile=profile)
    if await app.push_screen_wait(ConfirmCard(title, body, confirm)):
        app.picked(profile)
