"""The past: boots and swaps, how long they took, how well they were predicted, how they ended."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING, Any

from textual import on, work
from textual.content import Content

from qwen_tui.services.words import boot_state, swap_outcome
from qwen_tui.ui import figures
from qwen_tui.ui.cells import fit, spark, split_row, wrapped
from qwen_tui.ui.commands import Command, bindings
from qwen_tui.ui.glyphs import glyphs
from qwen_tui.ui.screens.place import BACK, Kit, Place
from qwen_tui.ui.widgets.list_detail import ListDetail, ListRow
from qwen_tui.ui.words import PHASES
from qwen_tui_profiles.text import t, tr

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from textual.widget import Widget

    from qwen_tui.services.desks import Past
    from qwen_tui.services.history import BootRow, SwapRow

__all__ = ["HistoryScreen", "boot_detail", "boot_row", "swap_detail", "swap_row", "trend"]

HISTORY = (
    Command("history.again", "r", "again", t("Read again"), t("Read the history again."), rank=10),
    Command(
        "history.kind",
        "f",
        "kind",
        t("Kind"),
        t("Show boots and swaps, boots alone, or swaps alone."),
        rank=11,
    ),
    Command(
        "history.compare",
        "c",
        "compare",
        t("Compare"),
        t("Mark the boot under the cursor; on a second boot, show both side by side."),
        rank=12,
    ),
    BACK,
)
KINDS = ("all", "boots", "swaps")
TREND = 24


class HistoryScreen(Place):
    """A list of what happened, newest first, with a pane for each."""

    ID = "history"
    ABOUT = t(
        "Every boot and every swap, newest first. A boot shows what was asked and got, the seconds "
        "of its phases and how far the prediction was off; the curve above the list is the trend "
        "of one profile, oldest left."
    )
    BINDINGS = bindings(HISTORY)
    COMMANDS_HERE = HISTORY
    AUTO_FOCUS = "OptionList"

    def __init__(self, kit: Kit) -> None:
        super().__init__(kit)
        self._past: Past | None = None
        self._kind = "all"
        self._marked: str | None = None
        """The run that waits for another one to be compared with."""

    def content(self) -> Iterable[Widget]:
        """Yield list and pane."""
        yield ListDetail()

    def on_screen_resume(self) -> None:
        """Read what was added meanwhile."""
        self.action_again()

    def action_again(self) -> None:
        """Read the history."""
        self._read()

    def action_kind(self) -> None:
        """Show another kind of rows."""
        self._kind = KINDS[(KINDS.index(self._kind) + 1) % len(KINDS)]
        self._redraw()

    def action_compare(self) -> None:
        """Mark a boot, or compare it with the marked one; the older stands on the left."""
        boot = self._boot(self.query_one(ListDetail).current or "")
        marked = self._boot(f"boot {self._marked}")
        if boot is None:
            self.notify(tr(t("Only boots can be compared.")))
        elif marked is None or marked is boot:
            self._marked = None if marked is boot else boot.run
            self._redraw()
        else:
            from qwen_tui.ui.screens.boot_compare import CompareCard

            self._marked = None
            self._redraw()
            older, newer = sorted((marked, boot), key=lambda b: b.started)
            self.app.push_screen(CompareCard(older, newer, self.size.width))

    def _boot(self, row: str) -> BootRow | None:
        boots = () if self._past is None else self._past.boots
        return next((b for b in boots if f"boot {b.run}" == row), None)

    def refill(self) -> None:
        """Say what happened."""
        self._redraw()

    def on_resize(self) -> None:
        """Fit the rows to the new width."""
        self.call_after_refresh(self._redraw)

    @work(group="history", exclusive=True, exit_on_error=False)
    async def _read(self) -> None:
        self._past = await self.kit.services.history.past()
        self._redraw()

    def _redraw(self) -> None:
        past = self._past
        if past is None:
            return
        listing = self.query_one(ListDetail)
        width = listing.row_width
        dated: list[tuple[float, ListRow]] = []
        if self._kind != "swaps":
            dated += [(b.started, self._boot_line(b, width)) for b in past.boots]
        if self._kind != "boots":
            dated += [
                (s.started, ListRow(f"swap {n}", swap_row(s, width)))
                for n, s in enumerate(past.swaps)
            ]
        dated.sort(key=lambda item: -item[0])
        listing.set_rows([row for _, row in dated])
        names = {"all": t("Boots and swaps"), "boots": t("Boots"), "swaps": t("Swaps")}
        listing.listing.border_title = Content(tr(names[self._kind]))
        marked = self._boot(f"boot {self._marked}")
        listing.listing.border_subtitle = _marked_words(marked)
        if past.problem is not None:
            listing.set_detail([Content.styled(tr(past.problem), "bold $warning")])
        elif not dated:
            text = tr(t("Nothing happened yet; launch a profile and it stands here."))
            listing.set_detail([Content.styled(text, "$foreground-muted")])

    def _boot_line(self, boot: BootRow, width: int) -> ListRow:
        line = boot_row(boot, width)
        if boot.run == self._marked:
            mark = f" {glyphs().now} {tr(t('marked'))}"
            line = split_row(line, (mark, "bold $accent"), width)
        return ListRow(f"boot {boot.run}", line)

    @on(ListDetail.Shown)
    def _show(self, event: ListDetail.Shown) -> None:
        past = self._past
        if past is None:
            return
        kind, _, key = event.row.partition(" ")
        listing = self.query_one(ListDetail)
        if kind == "swap":
            listing.set_detail(swap_detail(past.swaps[int(key)], listing.pane_width))
            return
        boot = self._boot(event.row)
        if boot is not None:
            listing.set_detail(boot_detail(boot, past.boots, listing.pane_width))


def _marked_words(boot: BootRow | None) -> Content:
    """Say which boot waits for another one."""
    if boot is None:
        return Content("")
    text = t("c on another boot compares it with {when} {profile}", when=when(boot.started),
             profile=boot.profile)  # fmt: skip
    return Content.styled(tr(text), "bold $accent")


def when(unix: float) -> str:
    """Return day and time of a moment, local."""
    return datetime.datetime.fromtimestamp(unix).astimezone().strftime("%m-%d %H:%M")


def error_pct(boot: BootRow) -> float | None:
    """Return how far the predicted pool was off, in per cent of the real one."""
    if boot.predicted_kv_tokens is None or not boot.kv_tokens:
        return None
    return 100 * (boot.predicted_kv_tokens - boot.kv_tokens) / boot.kv_tokens


def boot_row(boot: BootRow, width: int) -> Content:
    """Return one line about a boot."""
    marks = glyphs()
    if boot.cause is not None:
        mark, how = (marks.fail, "bold $error"), boot.cause
    elif boot.ready_s is None:
        mark, how = (marks.warn, "$warning"), tr(t("never ready"))
    else:
        mark = (marks.ok, "$success")
        how = tr(t("ready in {seconds}", seconds=figures.seconds(boot.ready_s)))
    off = error_pct(boot)
    prediction = "" if off is None else tr(t("{off} % off", off=f"{off:+.2f}"))
    line = Content.assemble(
        (when(boot.started), "$foreground-muted"),
        " ",
        mark,
        " ",
        fit((boot.profile, "bold"), 18),
        " ",
        how,
        ("  " + prediction, "$foreground-muted"),
    )
    return fit(line, width)


def swap_row(swap: SwapRow, width: int) -> Content:
    """Return one line about a swap."""
    marks = glyphs()
    good = swap.outcome == "swapped"
    mark = (marks.ok, "$success") if good else (marks.warn, "bold $warning")
    down = ""
    if swap.down_s is not None:
        down = tr(t("{seconds} without answers", seconds=figures.seconds(swap.down_s)))
    line = Content.assemble(
        (when(swap.started), "$foreground-muted"),
        " ",
        mark,
        " ",
        (swap.before or marks.unknown, "bold"),
        (f" {marks.arrow} ", "$foreground-muted"),
        (swap.target, "bold"),
        "  ",
        tr(swap_outcome(swap.outcome)),
        ("  " + down, "$foreground-muted"),
    )
    return fit(line, width)


def trend(boots: Iterable[BootRow], profile: str, width: int) -> list[Content]:
    """Return the curves of one profile over its boots, oldest left; nothing for a single boot."""
    mine = [b for b in boots if b.profile == profile][::-1]
    if len(mine) < 2:
        return []
    ready = [b.ready_s for b in mine]
    off = [abs(e) if (e := error_pct(b)) is not None else None for b in mine]
    out = [Content.styled(tr(t("Trend of {profile}", profile=profile)), "bold")]
    room = min(TREND, max(4, width - 32))
    for label, values, last in (
        (t("ready after"), ready, figures.seconds(ready[-1])),
        (t("prediction off"), off, figures.plain(None) if off[-1] is None else f"{off[-1]:.2f} %"),
    ):
        if any(v is not None for v in values):
            out.append(
                Content.assemble(
                    fit((tr(label), "$foreground-muted"), 16),
                    (spark(values, min(room, len(values))), "$accent"),
                    f"  {last}",
                )
            )
    return out


def boot_detail(boot: BootRow, boots: Iterable[BootRow], width: int) -> list[Content]:
    """Return everything about a boot."""
    version = f" {boot.engine_version}" if boot.engine_version else ""
    out = [
        Content.assemble((boot.profile, "bold"), f"  {boot.engine}{version}"),
        Content.styled(
            f"{boot.run}  {when(boot.started)}  {tr(boot_state(boot.state))}", "$foreground-muted"
        ),
    ]
    if boot.message:
        out += wrapped((tr(boot.message), "bold"), width, most=4)
    out += _pool_lines(boot, width)
    out += [_clamp_line(clamp) for clamp in boot.clamps]
    out += trend(boots, boot.profile, width)
    out += _phase_lines(boot)
    if boot.asked:
        out += wrapped((" ".join(boot.asked), "$foreground-muted"), width, most=6)
    return out


def _pool_lines(boot: BootRow, width: int) -> list[Content]:
    if boot.kv_tokens is None:
        return []
    off = error_pct(boot)
    text = t(
        "KV pool {tokens} tokens, predicted {predicted}{off}",
        tokens=figures.count(boot.kv_tokens),
        predicted=figures.count(boot.predicted_kv_tokens),
        off="" if off is None else f" ({off:+.2f} %)",
    )
    return wrapped((tr(text), ""), width)


def _clamp_line(clamp: Mapping[str, Any]) -> Content:
    marks = glyphs()
    return Content.assemble(
        (f"{marks.warn} ", "$warning"),
        f"{clamp.get('arg')}  {figures.value(clamp.get('asked'))}",
        (f" {marks.arrow} ", "$foreground-muted"),
        (figures.value(clamp.get("got")), "bold"),
    )


def _phase_lines(boot: BootRow) -> list[Content]:
    out: list[Content] = []
    for span in boot.phases:
        seconds = span.get("seconds")
        if isinstance(seconds, int | float) and seconds > 0:
            phase = str(span.get("phase"))
            word = tr(PHASES.get(phase, t("{phase}", phase=phase)))
            out.append(
                Content.assemble(fit((word, "$foreground-muted"), 16), figures.seconds(seconds))
            )
    return out


def swap_detail(swap: SwapRow, width: int) -> list[Content]:
    """Return everything about a swap."""
    out = [
        Content.assemble(
            (swap.before or glyphs().unknown, "bold"), f" {glyphs().arrow} ", (swap.target, "bold")
        ),
        Content.styled(
            f"{when(swap.started)}  {tr(swap_outcome(swap.outcome))}", "$foreground-muted"
        ),
        *wrapped((tr(swap.message), ""), width, most=4),
    ]
    lost = None if swap.lost is None else f"{swap.lost}"
    for label, value in (
        (t("whole swap"), figures.seconds(swap.seconds)),
        (t("without answers"), figures.seconds(swap.down_s)),
        (t("foreseen"), figures.seconds(swap.predicted_s)),
        (t("requests lost"), figures.plain(lost)),
    ):
        out.append(Content.assemble(fit((tr(label), "$foreground-muted"), 18), value))
    return out
