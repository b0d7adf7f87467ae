"""The swap card: what changes when one side of a pair takes the other's place, and the cost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType
from textual.content import Content

from qwen_tui.ui import figures
from qwen_tui.ui.cells import wrapped
from qwen_tui.ui.consequences import fate_of_requests
from qwen_tui.ui.findings import finding_lines
from qwen_tui.ui.glyphs import glyphs
from qwen_tui.ui.profile_lines import change_lines
from qwen_tui.ui.screens.cards import Card
from qwen_tui_profiles.text import t, tr

if TYPE_CHECKING:
    from qwen_tui.services.history import Durations
    from qwen_tui.ui.state import View
    from qwen_tui_profiles.compare import Comparison
    from qwen_tui_profiles.plan.result import Plan
    from qwen_tui_profiles.profile import EngineProfile
    from qwen_tui_profiles.text import Text

__all__ = ["DRAIN_S", "SwapCard", "SwapSheet", "swap_body"]

DRAIN_S = 120.0
"""How long a swap that drains waits for running requests."""
NOT_BOOT = frozenset({"ready", "serving", "stopping"})
WIDTH = 72


@dataclass(frozen=True, slots=True, eq=False)
class SwapSheet:
    """What is known about a swap before it begins."""

    source: EngineProfile
    target: EngineProfile
    comparison: Comparison
    plan: Plan | None
    """What the other side is predicted to get; ``None`` = it cannot be planned."""
    down: Durations | None
    """How long earlier swaps to it took."""


class SwapCard(Card[str]):
    """Asks before a swap, differences on the table; dismisses with ``now`` or ``drain``."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "choose('now')", "Swap", show=False),
        Binding("d", "choose('drain')", "Drain first", show=False),
    ]

    def __init__(self, view: View, sheet: SwapSheet) -> None:
        title = tr(
            t(
                "Swap {source} {arrow} {target}",
                source=sheet.source.name,
                arrow=glyphs().arrow,
                target=sheet.target.name,
            )
        )
        keys = (("Enter", t("Swap")), ("d", t("Drain first")), ("Esc", t("Back")))
        super().__init__(title, swap_body(view, sheet), keys)

    def action_choose(self, choice: str) -> None:
        """Dismiss with the choice."""
        self.dismiss(choice)


def swap_body(view: View, sheet: SwapSheet) -> list[Content]:
    """Return the card's text: what it costs, what the other side gets, what changes."""
    marks = glyphs()
    out: list[Content] = []
    calm = view.in_flight is None and view.live is not None and view.live.stale_s is None
    mark = (f"{marks.ok} ", "$success") if calm else (f"{marks.warn} ", "bold $warning")
    out += wrapped(Content.assemble(mark, tr(fate_of_requests(view))), WIDTH)
    for line in _costs(view, sheet):
        out += wrapped(Content.assemble((f"{marks.warn} ", "$warning"), tr(line)), WIDTH)
    out += _kept(sheet)
    out += _gets(sheet)
    out.append(Content(""))
    for change in sheet.comparison.changes:
        out += change_lines(change, WIDTH)
    for finding in sheet.comparison.appeared:
        out += finding_lines(finding, WIDTH)
    return out


def _kept(sheet: SwapSheet) -> list[Content]:
    source, target = sheet.source, sheet.target
    same = source.url == target.url and source.model.served_name == target.model.served_name
    text = (
        t("Address and model name stay the same: {url}", url=target.url)
        if same
        else t("Your clients need another address or model name: {url}", url=target.url)
    )
    mark = (f"{glyphs().ok} ", "$success") if same else (f"{glyphs().warn} ", "bold $warning")
    return wrapped(Content.assemble(mark, tr(text)), WIDTH)


def _gets(sheet: SwapSheet) -> list[Content]:
    plan = sheet.plan
    if plan is None or plan.kv_tokens.value is None:
        return []
    text = t(
        "Predicted there: KV pool {tokens} tokens, {requests} at once, usable context {context}.",
        tokens=figures.count(plan.kv_tokens.value),
        requests=figures.count(plan.requests),
        context=figures.count(plan.context_usable),
    )
    return wrapped(Content.assemble((f"{glyphs().dot} ", "$accent"), tr(text)), WIDTH)


def _costs(view: View, sheet: SwapSheet) -> list[Text]:
    lines: list[Text] = []
    used = None if view.live is None else view.live.kv_used_tokens
    if used:
        lines.append(t("The prefix cache is lost: {tokens} tokens.", tokens=figures.count(used)))
    else:
        lines.append(t("The prefix cache is lost."))
    lines.append(_down(view, sheet))
    return lines


def _down(view: View, sheet: SwapSheet) -> Text:
    if sheet.down is not None:
        return t(
            "No answers for about {seconds} (median of {count} swaps).",
            seconds=figures.seconds(sheet.down.median_s),
            count=sheet.down.n,
        )
    boot = None if view.server.report is None else view.server.report.timeline
    took = sum(span.seconds or 0.0 for span in boot or () if span.phase not in NOT_BOOT)
    if took:
        return t("No answers meanwhile; this boot took {seconds}.", seconds=figures.seconds(took))
    return t("No answers until the other one is ready.")
