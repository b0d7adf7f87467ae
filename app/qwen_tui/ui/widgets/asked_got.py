"""Asked → got: every value that the engine did not take as it was asked, until it was seen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType
from textual.content import Content
from textual.message import Message
from textual.reactive import reactive

from qwen_tui.ui import figures
from qwen_tui.ui.cells import fit, wrapped
from qwen_tui.ui.glyphs import glyphs
from qwen_tui.ui.widgets.boot import boot_summary
from qwen_tui.ui.widgets.panel import Panel
from qwen_tui_profiles.text import t, tr

if TYPE_CHECKING:
    from textual import events

    from qwen_tui.ui.state import View
    from qwen_tui_profiles.findings import Clamp
    from qwen_tui_profiles.text import Text

__all__ = ["AskedGotPanel", "Row", "asked_got_rows"]


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table and what unfolds under it."""

    line: Content
    detail: tuple[Content, ...] = ()
    clamp: Clamp | None = None
    unseen: bool = False


class AskedGotPanel(Panel, can_focus=True):
    """The table; the row under the cursor unfolds, Enter opens it whole."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", "Up", show=False),
        Binding("down,j", "move(1)", "Down", show=False),
        Binding("enter", "open", "Open", show=False),
    ]

    cursor = reactive(0, layout=True)

    @dataclass
    class Opened(Message):
        """The reader wants to see one clamp whole."""

        clamp: Clamp

    def concerns(self, old: View, new: View) -> bool:
        """What the engine reported and what was seen of it."""
        return (
            old.server.report is not new.server.report
            or old.server.state is not new.server.state
            or old.acknowledged is not new.acknowledged
            or usable(old) != usable(new)
            or old.predicted_kv != new.predicted_kv
        )

    def titles(self) -> tuple[Content | str, Content | str]:
        """Count what waits to be seen."""
        unseen = len(self.view.unseen)
        title: Content | str = tr(t("Asked {arrow} got", arrow=glyphs().arrow))
        if unseen:
            note = tr(t("{count} to acknowledge", count=unseen))
            title = Content.assemble(title, "  ", (f"{glyphs().warn} {note}", "bold $warning"))
        return title, boot_summary(self.view)

    def lines(self, width: int, height: int) -> list[Content]:
        """Return the rows that fit, the cursor's always among them."""
        rows = asked_got_rows(self.view, width)
        at = min(self.cursor, len(rows) - 1)
        tall = self.screen.has_class("-tall")
        out: list[Content] = []
        first = last = 0
        for number, row in enumerate(rows):
            if number == at:
                first = len(out)
            here = self.has_focus and number == at
            out.append(row.line.stylize("reverse") if here else row.line)
            if (row.unseen and (tall or number == at)) or (here and row.detail):
                out += row.detail
            if number == at:
                last = len(out)
        if height and len(out) > height:
            start = 0 if last <= height else min(first, len(out) - height)
            out = out[start : start + height]
        return out

    def action_move(self, step: int) -> None:
        """Move the cursor."""
        rows = len(asked_got_rows(self.view, self.content_size.width))
        self.cursor = max(0, min(rows - 1, self.cursor + step))

    def action_open(self) -> None:
        """Open the clamp under the cursor."""
        rows = asked_got_rows(self.view, self.content_size.width)
        clamp = rows[min(self.cursor, len(rows) - 1)].clamp
        if clamp is not None:
            self.post_message(self.Opened(clamp))

    def on_focus(self) -> None:
        """The cursor shows only while the panel has the focus."""
        self.refresh(layout=True)

    def on_blur(self) -> None:
        """The cursor hides."""
        self.refresh(layout=True)

    def on_click(self, event: events.Click) -> None:
        """Put the cursor on the row that was clicked, or open it when it is there already."""
        target = event.y - self.gutter.top
        rows = asked_got_rows(self.view, self.content_size.width)
        if 0 <= target < len(rows):
            self.cursor = min(target, len(rows) - 1)


def asked_got_rows(view: View, width: int) -> list[Row]:
    """Return the clamps (unseen first), then what the engine settled on."""
    columns = _columns(view.clamps, width)
    rows = [_clamp_row(c, width, columns, seen=view.seen(c)) for c in view.clamps]
    # Beside differences there is room for one line; what does not fit whole is left out.
    lines = _flowed(_facts(view), width)[: 1 if rows else None]
    rows += [Row(fit(line, width)) for line in lines]
    if not rows:
        rows.append(Row(Content.styled(_nothing(view), "$foreground-muted")))
    return rows


def _columns(clamps: tuple[Clamp, ...], width: int) -> tuple[int, int, int]:
    """Return the widths of argument, asked and got, so that the arrows stand below each other."""
    argument = max((len(c.arg) for c in clamps), default=0)
    asked = max((len(figures.value(c.asked)) for c in clamps), default=0)
    got = max((len(figures.value(c.got)) for c in clamps), default=0)
    room = max(12, (width - 8) // 4)
    return min(argument, 2 * room), min(asked, room), min(got, room)


def _clamp_row(clamp: Clamp, width: int, columns: tuple[int, int, int], *, seen: bool) -> Row:
    marks = glyphs()
    argument, asked, got = columns
    line = Content.assemble(
        (f"{marks.ok} ", "$success") if seen else (f"{marks.warn} ", "bold $warning"),
        fit(clamp.arg, argument),
        "  ",
        fit(figures.value(clamp.asked), asked, align="right"),
        (f" {marks.arrow} ", "$foreground-muted"),
        fit((figures.value(clamp.got), "bold" if seen else "bold $warning"), got),
        "  ",
        (tr(t("by {who}", who=clamp.by)), "$foreground-muted"),
    )
    detail = [*wrapped((tr(clamp.why), ""), width, indent=2, most=3)]
    if clamp.remedy is not None:
        remedy = Content.assemble((f"{marks.remedy} ", "$accent"), tr(clamp.remedy))
        detail += wrapped(remedy, width, indent=2, most=3)
    return Row(fit(line, width), tuple(detail), clamp, unseen=not seen)


def _facts(view: View) -> list[Content]:
    """Return what the engine settled on, the most important first."""
    report = view.server.report
    facts = {} if report is None else report.facts
    parts: list[Content] = []
    pool = facts.get("kv_tokens")
    if isinstance(pool, int | float):
        parts.append(Content(tr(t("KV pool {tokens} tokens", tokens=figures.count(pool)))))
        if view.predicted_kv is not None and pool:
            off = t(
                "predicted {tokens} ({off} %)",
                tokens=figures.count(view.predicted_kv),
                off=f"{100 * (view.predicted_kv - pool) / pool:+.2f}",
            )
            parts.append(Content.styled(tr(off), "$foreground-muted"))
    longest = usable(view)
    if longest is not None:
        parts.append(
            Content.assemble(tr(t("usable context {tokens} tokens", tokens=figures.count(longest))))
        )
    requests = facts.get("max_running_requests_effective")
    replicas, together = facts.get("dp_replicas"), facts.get("max_running_requests_all")
    if isinstance(requests, int) and isinstance(together, int) and isinstance(replicas, int):
        parts.append(Content(tr(_of_replicas(requests, replicas, together))))
    elif isinstance(requests, int | float):
        parts.append(
            Content.assemble(tr(t("requests at once: {count}", count=figures.count(requests))))
        )
    return parts


def _of_replicas(least: int, replicas: int, together: int) -> Text:
    """Say how many requests run at once in data-parallel replicas, which may be unlike."""
    if least * replicas == together:
        return t(
            "requests at once: {count} in each of {replicas} replicas, {together} in all",
            count=figures.count(least),
            replicas=str(replicas),
            together=figures.count(together),
        )
    return t(
        "requests at once: {together} in {replicas} replicas, {count} in the smallest",
        together=figures.count(together),
        replicas=str(replicas),
        count=figures.count(least),
    )


def _flowed(parts: list[Content], width: int) -> list[Content]:
    """Return the parts in as few lines as hold them; none is cut: half a figure misleads."""
    dot = Content(f" {glyphs().dot} ")
    lines: list[Content] = []
    for part in parts:
        longer = Content.assemble(lines[-1], dot, part) if lines else None
        if longer is not None and longer.cell_length <= width:
            lines[-1] = longer
        else:
            lines.append(Content.assemble("  ", part))
    return lines


def usable(view: View) -> int | None:
    """Return the longest request that the engine would take, in tokens."""
    return None if view.live is None else view.live.context_usable


def _nothing(view: View) -> str:
    if not view.alive:
        return tr(t("Start a profile to see what the engine makes of it."))
    if view.server.report is None:
        return tr(t("No boot log: what was asked is not known."))
    if view.server.report.phase in {None, "args"}:
        return tr(t("Reading the boot …"))
    return tr(t("Nothing differs so far."))
