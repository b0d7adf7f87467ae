"""The panel of a serving engine: latency, speed, acceptance, cache, pools, and what binds it."""

from __future__ import annotations

from itertools import zip_longest
from typing import TYPE_CHECKING

from textual.content import Content

from qwen_tui.ui import figures
from qwen_tui.ui.cells import bar, fit, spark_rows
from qwen_tui.ui.curves import ALWAYS, CURVES, curves_with_news
from qwen_tui.ui.glyphs import glyphs
from qwen_tui.ui.widgets.panel import Panel
from qwen_tui_profiles.text import t, tr

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qwen_tui.services.snapshots import LiveSnapshot, ReplicaSnapshot
    from qwen_tui.ui.curves import Curve
    from qwen_tui.ui.state import View
    from qwen_tui_profiles.text import Text

__all__ = [
    "LivePanel",
    "bound_words",
    "live_lines",
    "probe_line",
    "replica_words",
    "why_no_figures",
]

LABEL = 9
FIGURES = 19
TALL = 10
"""From this many lines on, each curve has rows of its own."""
LEAST_ROWS = 3
"""A curve's figure and two rows below it."""


class LivePanel(Panel):
    """What the engine does now."""

    def concerns(self, old: View, new: View) -> bool:
        """Figures, probe and what is being done."""
        return old.live is not new.live or old.probe is not new.probe

    def titles(self) -> tuple[Content | str, Content | str]:
        """Name the window that the rates are over, and what binds the engine."""
        live = self.view.live
        if live is None:
            return tr(t("Now")), ""
        title: Content | str = tr(
            t("Now, rates over {window}", window=figures.seconds(live.window_s))
        )
        if live.stale_s is not None:
            age = tr(t("stale for {age}", age=figures.seconds(live.stale_s)))
            title = Content.assemble(title, "  ", (f"{glyphs().warn} {age}", "bold $warning"))
        return title, bound_words(live)

    def lines(self, width: int, height: int) -> list[Content]:
        """Return the figures for this size."""
        return live_lines(self.view, width, height)


def bound_words(live: LiveSnapshot) -> str:
    """Say what limits the server, or that it has nothing to do."""
    if live.bound is not None and live.bound.kind == "idle":
        return tr(t("idle"))
    return "" if live.bound_by is None else tr(t("bound by {what}", what=tr(live.bound_by)))


def replica_words(replica: ReplicaSnapshot) -> str:
    """Say what one replica behind an address does."""
    if replica.healthy is False:
        return tr(t("does not answer"))
    figured = (replica.running, replica.queue, replica.kv_used)
    if replica.healthy and all(figure is None for figure in figured):
        return tr(t("healthy"))
    text = t(
        "{running} running, {queue} waiting, KV {kv}",
        running=figures.count(replica.running),
        queue=figures.count(replica.queue),
        kv=figures.share(replica.kv_used),
    )
    return tr(text)


def live_lines(view: View, width: int, height: int) -> list[Content]:
    """Return the panel's lines: two columns of figures with curves, then the pools."""
    live = view.live
    if live is None:
        text = tr(t("Waiting for the first figures from /metrics …"))
        return [Content.styled(text, "$foreground-muted")]
    problem = why_no_figures(live)
    if problem is not None:
        return [Content.styled(tr(problem), "$warning")]
    tail = [_pools(live, width), _requests(view, live, width)]
    if height < TALL:
        return [*_curve_lines(view, live, CURVES[:ALWAYS], width, 1), *tail]
    tail += [*_also(live, width), *_advice(live, width)]
    curves = curves_with_news(view.series)
    # As many as have a figure and two rows of their own; the important ones come first.
    room = height - len(tail)
    pairs = max(ALWAYS // 2, min((len(curves) + 1) // 2, room // LEAST_ROWS))
    rows = max(1, room // pairs - 1)
    return [*_curve_lines(view, live, curves[: 2 * pairs], width, rows), *tail]


def why_no_figures(live: LiveSnapshot) -> Text | None:
    """Return why a server that was asked has no figures at all; ``None`` = it has."""
    if live.source == "other" and live.error is None:
        return t("It answers, but exports no metrics that this console knows.")
    return live.error if live.running is None else None


def _curve_lines(
    view: View, live: LiveSnapshot, curves: Sequence[Curve], width: int, rows: int
) -> list[Content]:
    """Return the curves, two side by side."""
    half = (width - 2) // 2
    out: list[Content] = []
    for left, right in zip_longest(curves[::2], curves[1::2]):
        first = _curve(left, view, live, half, rows)
        second = [Content("")] * len(first)
        if right is not None:
            second = _curve(right, view, live, width - 2 - half, rows)
        out += [Content.assemble(a, "  ", b) for a, b in zip(first, second, strict=True)]
    return out


def _also(live: LiveSnapshot, width: int) -> list[Content]:
    """Return what is rare or in reserve, in one line; none of it while there is no news."""
    window = live.five_minutes
    parts: list[Text] = []
    if window is not None and window.retracted:
        parts.append(t("retracted: {count}", count=figures.count(window.retracted)))
    if window is not None and window.aborted:
        parts.append(t("aborted: {count}", count=figures.count(window.aborted)))
    if parts and window is not None:
        parts = [t("in {window}", window=figures.seconds(window.window_s)), *parts]
    if live.mamba_evictable_slots:
        parts.append(t("evictable slots: {count}", count=figures.count(live.mamba_evictable_slots)))
    if live.kv_evictable_tokens:
        parts.append(t("evictable tokens: {count}", count=figures.count(live.kv_evictable_tokens)))
    if live.hicache_tokens is not None:
        used, total = figures.count(live.hicache_used_tokens), figures.count(live.hicache_tokens)
        parts.append(t("HiCache: {used}/{total} tokens", used=used, total=total))
    text = f" {glyphs().dot} ".join(tr(part) for part in parts)
    label = fit((tr(t("also")), "$foreground-muted"), LABEL)
    return [fit(Content.assemble(label, text), width)] if parts else []


def _advice(live: LiveSnapshot, width: int) -> list[Content]:
    """Return the knob that would help with its price, else why a figure is missing; one line."""
    if live.bound is not None and live.bound.knob is not None:
        text = Content.assemble((f"{glyphs().remedy} ", "$accent"), tr(live.bound.knob))
        if live.bound.price is not None:
            text = Content.assemble(text, (f"  {tr(live.bound.price)}", "$foreground-muted"))
        return [fit(text, width)]
    return [fit((tr(note), "$foreground-muted"), width) for note in live.notes[:1]]


def _curve(curve: Curve, view: View, live: LiveSnapshot, width: int, rows: int) -> list[Content]:
    values = view.series.of(curve.series)
    label = fit((tr(curve.label), "$foreground-muted"), LABEL)
    figure = curve.figure(live)
    if rows == 1:
        room = FIGURES if width - LABEL - FIGURES >= 8 else max(0, width - LABEL - 8)
        room = max(room, min(len(figure) + 1, width - LABEL))
        drawn = spark_rows(values, max(0, width - LABEL - room), 1, curve.top)[0]
        return [Content.assemble(label, fit((figure, "bold"), room), (drawn, curve.style))]
    peak = curve.peak(view.series, live)
    head = Content.assemble(label, (figure, "bold"))
    if peak is not None:
        head = Content.assemble(
            head, ("  " + tr(t("peak {value}", value=peak)), "$foreground-muted")
        )
    drawn_rows = spark_rows(values, width, rows, curve.top)
    return [fit(head, width), *(Content.styled(r, curve.style) for r in drawn_rows)]


def _pools(live: LiveSnapshot, width: int) -> Content:
    half = (width - 2) // 2
    return Content.assemble(
        _pool(tr(t("KV")), live.kv_used, live.kv_used_tokens, live.kv_tokens, half),
        "  ",
        _pool(
            tr(t("slots")),
            live.mamba_used,
            live.mamba_used_slots,
            live.mamba_slots,
            width - 2 - half,
        ),
    )


def _pool(
    label: str, share: float | None, used: int | None, total: int | None, width: int
) -> Content:
    text = figures.share(share)
    if used is not None and total is not None:
        text += f"  {figures.count(used)}/{figures.count(total)}"
    style = "$error" if (share or 0) >= 0.97 else "$warning" if (share or 0) >= 0.85 else "$success"
    room = max(FIGURES, len(text) + 1)
    return Content.assemble(
        fit((label, "$foreground-muted"), LABEL),
        fit((text, "bold"), room),
        bar(share, max(0, width - LABEL - room), style),
    )


def _requests(view: View, live: LiveSnapshot, width: int) -> Content:
    running = figures.count(live.running)
    if live.max_running_requests is not None:
        running = tr(t("{running} of {limit}", running=running, limit=live.max_running_requests))
    waiting = figures.count(live.queue)
    left = Content.assemble(
        fit((tr(t("requests")), "$foreground-muted"), LABEL),
        (tr(t("{running} running", running=running)), "bold"),
        "  ",
        (
            tr(t("{waiting} waiting", waiting=waiting)),
            "bold $warning" if live.queue else "bold",
        ),
    )
    half = (width - 2) // 2
    return Content.assemble(fit(left, half), "  ", fit(probe_line(view), width - 2 - half))


def probe_line(view: View) -> Content:
    """Return the last probe: client-side first token and first visible token."""
    label = fit((tr(t("probe")), "$foreground-muted"), LABEL)
    result = view.probe
    if result is None:
        return Content.assemble(label, (tr(t("not sent yet")), "$foreground-muted"))
    if result.error is not None:
        return Content.assemble(label, (f"{glyphs().fail} {tr(result.error)}", "$error"))
    if result.ttft_ms is None and result.ttfo_ms is None and result.detail is not None:
        return Content.assemble(label, (f"{glyphs().ok} ", "$success"), tr(result.detail))
    return Content.assemble(
        label,
        ("TTFT ", "$foreground-muted"),
        (figures.latency(result.ttft_ms), "bold"),
        ("  TTFO ", "$foreground-muted"),
        (figures.latency(result.ttfo_ms), "bold"),
    )
