"""The panels of a server that does not serve: what would be launched, how the last one ended."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.content import Content

from qwen_tui.services.snapshots import ServerState
from qwen_tui.ui.cells import fit, wrapped
from qwen_tui.ui.glyphs import glyphs
from qwen_tui.ui.widgets.panel import Panel
from qwen_tui.ui.words import MODES, profile_engine
from qwen_tui_profiles.foreign import redact_argv
from qwen_tui_profiles.text import t, tr, tr_shipped

if TYPE_CHECKING:
    from qwen_tui.ui.state import View
    from qwen_tui_profiles.text import Text

__all__ = ["EndedPanel", "LaunchPanel", "ended_lines", "launch_lines"]

LABEL = 9


class LaunchPanel(Panel):
    """What ``Start`` would launch."""

    def concerns(self, old: View, new: View) -> bool:
        """The selection only."""
        return old.selected is not new.selected or old.profiles is not new.profiles

    def titles(self) -> tuple[Content | str, Content | str]:
        """Say that this is what would be launched."""
        broken = len(self.view.profiles.problems)
        note = tr(t("unreadable profile files: {count}", count=broken)) if broken else ""
        return tr(t("Selected profile")), Content.styled(note, "$warning")

    def lines(self, width: int, height: int) -> list[Content]:
        """Return the profile for this size."""
        return launch_lines(self.view, width)


def launch_lines(view: View, width: int) -> list[Content]:
    """Return name, engine, model, address and flags of the selected profile."""
    profile = view.selected
    if profile is None:
        return [Content.styled(tr(t("Reading the profiles …")), "$foreground-muted")]
    model = profile.model.path or profile.model.repo
    pair = "" if profile.pair is None else "  " + tr(t("pair {name}", name=profile.pair))
    head = Content.assemble(
        (profile.name, "bold"),
        "  ",
        tr_shipped(profile.title),
        (f"  {tr(MODES[profile.mode])}", "$accent"),
    )
    out = [
        fit(head, width),
        _field(t("engine"), f"{profile_engine(profile)}  {profile.url}{pair}", width),
    ]
    if model is not None:
        out.append(_field(t("model"), model, width))
    flags = " ".join(redact_argv(profile.argv))
    label = fit((tr(t("flags")), "$foreground-muted"), LABEL)
    lines = wrapped((flags, "$foreground-muted"), width - LABEL, most=3) if flags else []
    for number, line in enumerate(lines):
        out.append(Content.assemble(label if number == 0 else " " * LABEL, line))
    return out


def _field(label: Text, value: str, width: int) -> Content:
    return Content.assemble(fit((tr(label), "$foreground-muted"), LABEL), fit(value, width - LABEL))


class EndedPanel(Panel):
    """How the last server ended, and what proves it."""

    def concerns(self, old: View, new: View) -> bool:
        """The server only."""
        return old.server is not new.server

    def titles(self) -> tuple[Content | str, Content | str]:
        """Name the class of the cause."""
        report = self.view.server.report
        if report is not None and report.fatal is not None:
            return Content.styled(
                tr(t("It died: {kind}", kind=report.fatal.kind)), "bold $error"
            ), ""
        return tr(t("It ended")), ""

    def lines(self, width: int, height: int) -> list[Content]:
        """Return the cause for this size."""
        return ended_lines(self.view, width)


def ended_lines(view: View, width: int) -> list[Content]:
    """Return the cause of the end, the remedy and the lines that prove it."""
    server, marks = view.server, glyphs()
    fatal = None if server.report is None else server.report.fatal
    out: list[Content] = []
    if fatal is not None:
        out += wrapped((tr(fatal.summary), "bold"), width, most=3)
        if fatal.remedy is not None:
            remedy = Content.assemble((f"{marks.remedy} ", "$accent"), tr(fatal.remedy))
            out += wrapped(remedy, width, most=3)
        for proof in fatal.evidence[:2]:
            number = "" if proof.line is None else f"{proof.line}: "
            out.append(fit((number + proof.text, "$foreground-muted"), width))
    elif server.message is not None:
        out += wrapped((tr(server.message), ""), width, most=4)
    elif server.state is ServerState.EXITED:
        out.append(Content(tr(t("The server ended by itself, without a failure in its log."))))
    else:
        out.append(Content(tr(t("The server died; its log does not say why."))))
    if fatal is not None and server.message is not None:
        out += wrapped((tr(server.message), "$foreground-muted"), width, most=2)
    return out
