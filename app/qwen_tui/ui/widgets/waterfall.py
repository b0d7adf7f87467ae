"""Where the memory of a boot went: a waterfall from free before the weights to what stays free."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.content import Content

from qwen_tui.ui.cells import fit
from qwen_tui.ui.glyphs import glyphs
from qwen_tui.ui.widgets.panel import Panel
from qwen_tui_profiles.text import Text, t, tr

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qwen_tui.ui.state import View
    from qwen_tui_diagnostics.enginelog.report import BudgetPart

__all__ = ["PARTS", "MemoryPanel", "waterfall_lines"]

PARTS: dict[str, Text] = {
    "total": t("total"),
    "share": t("share asked for"),
    "free_before_load": t("free before"),
    "weights": t("weights"),
    "draft": t("draft"),
    "state_pool": t("state pool"),
    "state_intermediate": t("rollback states"),
    "kv_pool": t("KV pool"),
    "draft_kv": t("draft's KV"),
    "graphs": t("graphs"),
    "activation": t("peak activation"),
    "non_torch": t("outside torch"),
    "other": t("not accounted for"),
    "late_freed": t("freed too late"),
    "free": t("stays free"),
}
LEVELS = frozenset({"total", "share", "free_before_load", "free"})
LABEL = 18
FIGURE = 12
BASIS_FROM = 70
"""From this width on each line says where its figure stands in the log."""


class MemoryPanel(Panel):
    """The waterfall of the last boot."""

    def concerns(self, old: View, new: View) -> bool:
        """The report only."""
        return old.server.report is not new.server.report

    def titles(self) -> tuple[Content | str, Content | str]:
        """Say whose figures these are."""
        return tr(t("Memory of GPU 0, as the engine printed it")), ""

    def lines(self, width: int, height: int) -> list[Content]:
        """Return the waterfall."""
        report = self.view.server.report
        return waterfall_lines(() if report is None else report.budget, width)


def waterfall_lines(parts: Sequence[BudgetPart], width: int) -> list[Content]:
    """Return one line per part: name, GiB, a bar at its place, and its line of the log."""
    if not parts:
        text = tr(t("The log prints too little of the memory to draw it."))
        return [Content.styled(text, "$foreground-muted")]
    basis = 24 if width >= BASIS_FROM else 0
    room = max(0, width - LABEL - FIGURE - basis)
    top = max(p.gib for p in parts) or 1.0
    out: list[Content] = []
    level = next((p.gib for p in parts if p.part == "free_before_load"), None)
    for part in parts:
        start, level = _span(part, level)
        line = Content.assemble(
            fit(tr(PARTS.get(part.part, t("{part}", part=part.part))), LABEL),
            fit((f"{part.gib:.2f} GiB ", "bold"), FIGURE, align="right"),
            _bar(start, part.gib, top, room, _style(part.part)),
        )
        if basis:
            line = Content.assemble(line, fit(("  " + tr(part.basis), "$foreground-muted"), basis))
        out.append(line)
    return out


def _span(part: BudgetPart, level: float | None) -> tuple[float, float | None]:
    """Return where a part's bar begins, and the level after it."""
    if part.part in LEVELS or level is None:
        return 0.0, level
    if part.part == "late_freed":
        return level, level + part.gib
    return level - part.gib, level - part.gib


def _bar(start: float, gib: float, top: float, room: int, style: str) -> Content:
    begin = min(room, max(0, round(start / top * room)))
    length = min(room - begin, max(1 if gib > 0 else 0, round(abs(gib) / top * room)))
    return Content.assemble(
        " " * begin, (glyphs().full * length, style), " " * (room - begin - length)
    )


def _style(part: str) -> str:
    if part == "free_before_load":
        return "$foreground-muted"
    if part in {"free", "late_freed"}:
        return "$success"
    if part == "other":
        return "$warning"
    return "$accent" if part == "kv_pool" else "$primary"
