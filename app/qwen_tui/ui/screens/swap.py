"""The swap card: what changes when one side of a pair takes the other's place."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.content import Content

from qwen_tui.ui import figures
from qwen_tui.ui.cells import fit
from qwen_tui.ui.glyphs import glyphs
from qwen_tui.ui.screens.cards import ConfirmCard
from qwen_tui.ui.words import MODES
from qwen_tui_profiles.foreign import redact_argv
from qwen_tui_profiles.text import t, tr

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qwen_tui.ui.state import View
    from qwen_tui_profiles.profile import EngineProfile
    from qwen_tui_profiles.text import Text

__all__ = ["SwapCard", "flag_changes", "swap_body"]

FLAG = 34
SIDE = 17
NOT_BOOT = frozenset({"ready", "serving", "stopping"})


class SwapCard(ConfirmCard):
    """Asks before a swap, with the differences on the table."""

    def __init__(self, view: View, source: EngineProfile, target: EngineProfile) -> None:
        title = tr(
            t(
                "Swap {source} {arrow} {target}",
                source=source.name,
                arrow=glyphs().arrow,
                target=target.name,
            )
        )
        super().__init__(title, swap_body(view, source, target), t("Swap"), danger=False)


def flags_of(argv: Sequence[str]) -> dict[str, str]:
    """Return flags and values of an argument list; a flag without a value is ``on``."""
    out: dict[str, str] = {}
    name: str | None = None
    for item in redact_argv(argv):
        if item.startswith("--"):
            flag, equals, value = item.partition("=")
            name = None if equals else flag
            out[flag] = value if equals else "on"
        elif name is not None:
            out[name] = item if out[name] == "on" else f"{out[name]} {item}"
    return out


def flag_changes(
    source: EngineProfile, target: EngineProfile
) -> list[tuple[str, str | None, str | None]]:
    """Return (flag, before, after) for every flag that differs; ``None`` = not set."""
    before, after = flags_of(source.argv), flags_of(target.argv)
    names = [*before, *(name for name in after if name not in before)]
    return [(n, before.get(n), after.get(n)) for n in names if before.get(n) != after.get(n)]


def swap_body(view: View, source: EngineProfile, target: EngineProfile) -> list[Content]:
    """Return the card's text: flags that change, then what it costs."""
    marks = glyphs()
    out = [
        Content.assemble(
            fit("", FLAG),
            fit((tr(MODES[source.mode]), "bold"), SIDE),
            "   ",
            (tr(MODES[target.mode]), "bold $accent"),
        )
    ]
    for flag, before, after in flag_changes(source, target):
        out.append(
            Content.assemble(
                fit(flag, FLAG),
                fit(_shown(before), SIDE),
                (f" {marks.arrow} ", "$foreground-muted"),
                (_shown(after), "bold"),
            )
        )
    out.append(Content(""))
    out += [Content.assemble((f"{marks.warn} ", "$warning"), tr(line)) for line in _costs(view)]
    same = source.url == target.url and source.model.served_name == target.model.served_name
    kept = (
        t("Address and model name stay the same for your clients: {url}", url=target.url)
        if same
        else t("Your clients need another address or model name: {url}", url=target.url)
    )
    out.append(Content.assemble((f"{marks.ok if same else marks.warn} ", "$accent"), tr(kept)))
    return out


def _costs(view: View) -> list[Text]:
    lines: list[Text] = []
    if view.in_flight is not None:
        lines.append(t("Requests in flight are cut off: {requests}.", requests=view.in_flight))
    elif view.live is None or view.live.stale_s is not None:
        lines.append(t("Whether requests are in flight is not known."))
    used = None if view.live is None else view.live.kv_used_tokens
    if used:
        lines.append(t("The prefix cache is lost: {tokens} tokens.", tokens=figures.count(used)))
    else:
        lines.append(t("The prefix cache is lost."))
    boot = None if view.server.report is None else view.server.report.timeline
    took = sum(span.seconds or 0.0 for span in boot or () if span.phase not in NOT_BOOT)
    if took:
        lines.append(
            t("No answers meanwhile; this boot took {seconds}.", seconds=figures.seconds(took))
        )
    else:
        lines.append(t("No answers until the other one is ready."))
    return lines


def _shown(value: str | None) -> str:
    return tr(t("not set")) if value is None else figures.value(value)
