"""Profiles as lines: a row, the sheet of one, and the comparison of two."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.content import Content

from qwen_tui.ui.cells import fit, wrapped
from qwen_tui.ui.findings import finding_lines
from qwen_tui.ui.glyphs import glyphs
from qwen_tui.ui.words import MODES, profile_engine
from qwen_tui_profiles.citations import cited
from qwen_tui_profiles.text import t, tr, tr_shipped

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qwen_tui.services.desks import ProfileSheet
    from qwen_tui_profiles.compare import Change, Comparison
    from qwen_tui_profiles.errors import ProfileError
    from qwen_tui_profiles.profile import EngineProfile, Provenance

__all__ = ["change_lines", "comparison_lines", "profile_row", "sheet_lines"]

FLAG = 30
SIDE = 16


def profile_row(profile: EngineProfile, width: int, *, selected: bool) -> Content:
    """Return one line: name, mode, engine, whose file it is."""
    marks = glyphs()
    origin = tr(t("yours")) if profile.origin.kind == "user" else ""
    line = Content.assemble(
        (f"{marks.now if selected else ' '} ", "bold $accent"),
        fit((profile.name, "bold"), 22),
        " ",
        fit(tr(MODES[profile.mode]), 8),
        " ",
        fit(profile_engine(profile), 17),
        (f" {origin}", "$accent"),
    )
    return fit(line, width)


def sheet_lines(sheet: ProfileSheet, problems: Sequence[ProfileError], width: int) -> list[Content]:
    """Return title, findings, command, notes and the origin of each value."""
    profile, marks = sheet.profile, glyphs()
    out = wrapped((tr_shipped(profile.title), "bold"), width)
    if profile.origin.path:
        out.append(fit((profile.origin.path, "$foreground-muted"), width))
    if sheet.problem is not None:
        out += wrapped((f"{marks.warn} {tr(sheet.problem)}", "$warning"), width, most=3)
    for finding in sheet.findings:
        out += finding_lines(finding, width)
    if profile.ignore:
        text = t("Overridden rules: {rules}", rules=", ".join(profile.ignore))
        out += wrapped((tr(text), "$warning"), width)
    out.append(Content.styled(tr(t("Command")), "bold"))
    out += [fit(f"  {name}={value}", width) for name, value in sheet.env.items()]
    out += wrapped((sheet.command, ""), width, indent=2)
    for note in profile.notes:
        out += wrapped((f"{marks.dot} {tr_shipped(note)}", "$foreground-muted"), width)
    if profile.provenance:
        out.append(Content.styled(tr(t("Where the values come from")), "bold"))
        for key, origin in profile.provenance.items():
            out += wrapped(_origin(key, origin), width, indent=2, most=3)
    for problem in problems:
        out += wrapped((f"{marks.warn} {tr(problem.message)}", "$warning"), width, most=3)
    return out


def _origin(key: str, origin: Provenance) -> Content:
    parts = [
        cited(origin.source),
        origin.date,
        tr_shipped(origin.figure or ""),
        tr_shipped(origin.note or ""),
    ]
    text = f" {glyphs().dot} ".join(part for part in parts if part)
    return Content.assemble(key.removeprefix("args."), "  ", (text, "$foreground-muted"))


def comparison_lines(comparison: Comparison, width: int) -> list[Content]:
    """Return every difference with what follows, then rules that come and go."""
    if comparison.same:
        return [Content(tr(t("Both launch the same thing.")))]
    out: list[Content] = []
    for change in comparison.changes:
        out += change_lines(change, width)
    for title, findings in (
        (t("Only the second one has"), comparison.appeared),
        (t("Only the first one has"), comparison.gone),
    ):
        if findings:
            out += [Content(""), Content.styled(tr(title), "bold")]
            for finding in findings:
                out += finding_lines(finding, width)
    return out


def change_lines(change: Change, width: int) -> list[Content]:
    """Return one difference: key, before, after, and what follows."""
    unset = tr(t("not set"))
    line = Content.assemble(
        fit(change.key, FLAG),
        " ",
        fit(change.before or unset, SIDE, align="right"),
        (f" {glyphs().arrow} ", "$foreground-muted"),
        (change.after or unset, "bold"),
    )
    out = [fit(line, width)]
    if change.consequence is not None:
        out += wrapped((tr(change.consequence), "$foreground-muted"), width, indent=4, most=3)
    return out
