"""The panel of a serving engine: latency, speed, acceptance, cache, pools, and what binds it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from textual.content import Content

from qwen_tui.ui import figures
from qwen_tui.ui.cells import bar, fit, spark_rows
from qwen_tui.ui.glyphs import glyphs
from qwen_tui.ui.widgets.panel import Panel
from qwen_tui_profiles.text import t, tr

if TYPE_CHECKING:
    from collections.abc import Callable

    from qwen_tui.services.snapshots import LiveSnapshot
    from qwen_tui.ui.state import View

__all__ = ["LivePanel", "bound_words", "live_lines", "percentile", "probe_line"]

LABEL = 9
FIGURES = 19
TALL = 10
"""From this many lines on, each curve has rows of its own."""


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


@dataclass(frozen=True, slots=True)
class _Curve:
    label: str
    series: str
    figure: Callable[[LiveSnapshot], str]
    style: str
    top: float | None = None


def _ttft(live: LiveSnapshot) -> str:
    if live.ttft is None:
        return figures.plain(None)
    p50 = percentile(live.ttft.p50_ms, live.ttft.p50_bucket_ms)
    p95 = percentile(live.ttft.p95_ms, live.ttft.p95_bucket_ms)
    return f"{p50} p50  {p95} p95"


def percentile(milliseconds: float | None, bucket: tuple[float, float | None] | None) -> str:
    """Say no more than the histogram knows about a value in its first or last bucket."""
    if bucket is not None and milliseconds is not None:
        low, high = bucket
        if high is None:
            return f"> {figures.latency(low)}"
        if low <= 0:
            return f"< {figures.latency(high)}"
    return figures.latency(milliseconds)


def _accept(live: LiveSnapshot) -> str:
    if live.accept_length is None:
        return figures.plain(None)
    of = ""
    if live.draft_tokens is not None:
        of = " " + tr(t("of {count} drafted", count=live.draft_tokens))
    return figures.decimal(live.accept_length) + of


def _decode(live: LiveSnapshot) -> str:
    if live.decode_tok_s is None:
        return figures.plain(None)
    return tr(t("{rate} tok/s", rate=figures.count(live.decode_tok_s)))


def _curves() -> tuple[_Curve, ...]:
    return (
        _Curve(tr(t("TTFT")), "ttft_ms", _ttft, "$accent"),
        _Curve(
            tr(t("decode")),
            "decode_tok_s",
            _decode,
            "$success",
        ),
        _Curve(tr(t("accept")), "accept_length", _accept, "$success"),
        _Curve(
            tr(t("hit rate")),
            "cache_hit_rate",
            lambda live: figures.share(live.cache_hit_rate),
            "$accent",
            1.0,
        ),
    )


def live_lines(view: View, width: int, height: int) -> list[Content]:
    """Return the panel's lines: two columns of figures with curves, then the pools."""
    live = view.live
    problem = _problem(live)
    if live is None or problem is not None:
        return [problem or Content("")]
    rows = 1 if height < TALL else max(1, (height - 3) // 2 - 1)
    curves = _curves()
    out = [
        *_pair(view, live, curves[0], curves[1], width, rows),
        *_pair(view, live, curves[2], curves[3], width, rows),
        _pools(live, width),
        _requests(view, live, width),
    ]
    return out if height < TALL else [*out, *_advice(live, width)]


def _problem(live: LiveSnapshot | None) -> Content | None:
    """Return why there are no figures, if there are none."""
    if live is None:
        text = tr(t("Waiting for the first figures from /metrics …"))
        return Content.styled(text, "$foreground-muted")
    if live.source == "other" and live.error is None:
        text = tr(t("It answers, but exports no metrics that this console knows."))
        return Content.styled(text, "$warning")
    if live.error is not None and live.running is None:
        return Content.styled(tr(live.error), "$warning")
    return None


def _pair(
    view: View, live: LiveSnapshot, left: _Curve, right: _Curve, width: int, rows: int
) -> list[Content]:
    half = (width - 2) // 2
    first = _curve(left, view, live, half, rows)
    second = _curve(right, view, live, width - 2 - half, rows)
    return [Content.assemble(a, "  ", b) for a, b in zip(first, second, strict=True)]


def _advice(live: LiveSnapshot, width: int) -> list[Content]:
    """Return the knob that would help with its price, else why a figure is missing; one line."""
    if live.bound is not None and live.bound.knob is not None:
        text = Content.assemble((f"{glyphs().remedy} ", "$accent"), tr(live.bound.knob))
        if live.bound.price is not None:
            text = Content.assemble(text, (f"  {tr(live.bound.price)}", "$foreground-muted"))
        return [fit(text, width)]
    return [fit((tr(note), "$foreground-muted"), width) for note in live.notes[:1]]


def _curve(curve: _Curve, view: View, live: LiveSnapshot, width: int, rows: int) -> list[Content]:
    values = view.series.of(curve.series)
    label = fit((curve.label, "$foreground-muted"), LABEL)
    figure = curve.figure(live)
    if rows == 1:
        room = FIGURES if width - LABEL - FIGURES >= 8 else max(0, width - LABEL - 8)
        room = max(room, min(len(figure) + 1, width - LABEL))
        drawn = spark_rows(values, max(0, width - LABEL - room), 1, curve.top)[0]
        return [Content.assemble(label, fit((figure, "bold"), room), (drawn, curve.style))]
    peak = None if _is_bound(curve, live) else view.series.peak(curve.series)
    head = Content.assemble(label, (figure, "bold"))
    if peak is not None and curve.top is None:
        shown = figures.latency(peak) if curve.series == "ttft_ms" else figures.decimal(peak, 1)
        head = Content.assemble(
            head, ("  " + tr(t("peak {value}", value=shown)), "$foreground-muted")
        )
    drawn_rows = spark_rows(values, width, rows, curve.top)
    return [fit(head, width), *(Content.styled(r, curve.style) for r in drawn_rows)]


def _is_bound(curve: _Curve, live: LiveSnapshot) -> bool:
    """Whether the figure is a bound ("< 100 ms"): a peak of interpolated values would mislead."""
    bucket = None if live.ttft is None else live.ttft.p50_bucket_ms
    return curve.series == "ttft_ms" and bucket is not None and bucket[0] <= 0


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
