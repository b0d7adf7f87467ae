"""Every figure of a serving engine by windows: a table whose rows appear once they have news."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from textual.content import Content

from qwen_tui.ui import figures
from qwen_tui.ui.cells import fit, wrapped
from qwen_tui.ui.curves import percentile
from qwen_tui.ui.widgets.live import replica_words
from qwen_tui_profiles.text import Text, t, tr

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from qwen_tui.services.snapshots import LatencySummary, LiveSnapshot, LiveWindow

__all__ = ["ROWS", "WindowRow", "window_lines"]

LABEL = 20
LEAST = 9
"""Cells of a column at least."""


@dataclass(frozen=True, slots=True)
class WindowRow:
    """One figure: what it is called, what a window says of it (``None`` = nothing)."""

    label: Text
    value: Callable[[LiveWindow], str | None]
    peak: str | None = None
    """Name among :attr:`LiveSnapshot.peaks`, where one is kept."""


def _percentile(name: str, q: str) -> Callable[[LiveWindow], str | None]:
    def read(window: LiveWindow) -> str | None:
        summary: LatencySummary | None = getattr(window, name)
        if summary is None:
            return None
        value, bucket = getattr(summary, f"{q}_ms"), getattr(summary, f"{q}_bucket_ms")
        return None if value is None else percentile(value, bucket)

    return read


LATENCIES: tuple[tuple[str, Text], ...] = (
    ("ttft", t("TTFT")),
    ("itl", t("ITL")),
    ("e2e", t("e2e")),
    ("queue_time", t("in queue")),
    ("tpot", t("TPOT")),
    ("overhead", t("gateway adds")),
)


def _latencies() -> Iterator[WindowRow]:
    for name, what in LATENCIES:
        for q in ("p50", "p90", "p99"):
            yield WindowRow(t("{what} {q}", what=what, q=q), _percentile(name, q))


def _number(name: str, digits: int = 0) -> Callable[[LiveWindow], str | None]:
    def read(window: LiveWindow) -> str | None:
        value = getattr(window, name)
        if value is None:
            return None
        return figures.decimal(value, digits) if digits else figures.count(value)

    return read


def _share(name: str) -> Callable[[LiveWindow], str | None]:
    def read(window: LiveWindow) -> str | None:
        value = getattr(window, name)
        return None if value is None else figures.share(value)

    return read


def _positions(window: LiveWindow) -> str | None:
    """Return the acceptance of the first draft positions, in per cent."""
    shares = [f"{share * 100:.0f}" for share in window.accept_at[:4]]
    return "/".join(shares) if shares else None


ROWS: tuple[WindowRow, ...] = (
    *_latencies(),
    WindowRow(t("decode tok/s"), _number("decode_tok_s"), "decode_tok_s"),
    WindowRow(t("one stream tok/s"), _number("stream_tok_s")),
    WindowRow(t("prefill tok/s"), _number("prefill_tok_s"), "prefill_tok_s"),
    WindowRow(t("prompt tokens"), _number("prompt_tokens")),
    WindowRow(t("of them cached"), _number("cached_tokens")),
    WindowRow(t("from host memory"), _number("cached_host_tokens")),
    WindowRow(t("from a storage"), _number("cached_storage_tokens")),
    WindowRow(t("hit rate"), _share("cache_hit_rate")),
    WindowRow(t("output tokens"), _number("output_tokens")),
    WindowRow(t("accept length"), _number("accept_length", 2)),
    WindowRow(t("accept rate"), _share("accept_rate")),
    WindowRow(t("accepted at 1/2/… %"), _positions),
    WindowRow(t("requests ended"), _number("requests")),
    WindowRow(t("aborted"), _number("aborted")),
    WindowRow(t("retracted"), _number("retracted")),
    WindowRow(t("J per 1,000 tokens"), _number("energy_j_per_1k")),
)

_HOW = t(
    "Percentiles come from the engine's histograms, straight lines inside a bucket; < and > where "
    "only the bucket is known. A window younger than its length says so in its head."
)


def window_lines(live: LiveSnapshot | None, width: int) -> list[Content]:
    """Return the table, the pools and how to read it."""
    if live is None or not live.windows:
        return [Content.styled(tr(t("No figures yet.")), "$foreground-muted")]
    windows = _different(live.windows)
    rows = [(row, [row.value(window) for window in windows]) for row in ROWS]
    known = [(row, cells) for row, cells in rows if any(cells)]
    peaks = any(row.peak in live.peaks for row, _ in known if row.peak)
    columns = len(windows) + peaks
    cell = max(LEAST, (width - LABEL) // max(1, columns))
    heads = [_head(window) for window in windows] + ([tr(t("peak"))] if peaks else [])
    out = [_line("", heads, cell, width, "$foreground-muted")]
    for row, cells in known:
        said = [value or figures.plain(None) for value in cells]
        if peaks:
            peak = live.peaks.get(row.peak) if row.peak else None
            said.append("" if peak is None else figures.count(peak))
        out.append(_line(tr(row.label), said, cell, width))
    if not known:
        out.append(Content(tr(t("Nothing has happened since the engine started."))))
    out += [Content(""), *_pools(live, width)]
    for note in live.notes:
        out += wrapped((tr(note), "$foreground-muted"), width)
    return [*out, *wrapped((tr(_HOW), "$foreground-muted"), width)]


def _different(windows: tuple[LiveWindow, ...]) -> list[LiveWindow]:
    """Leave out windows that are as short as the one before: the watch is younger than both."""
    out: list[LiveWindow] = []
    for window in windows:
        if window.window_s is None or not out or out[-1].window_s != window.window_s:
            out.append(window)
    return out


def _head(window: LiveWindow) -> str:
    if window.window_s is None:
        return tr(t("this boot"))
    if not window.window_s:
        return figures.plain(None)
    if window.window_s < 120:
        return figures.seconds(window.window_s)
    return tr(t("{count} min", count=f"{window.window_s / 60:.3g}"))


def _line(label: str, cells: list[str], cell: int, width: int, style: str = "") -> Content:
    parts = [fit((text, style), cell, "right") for text in cells]
    return fit(Content.assemble(fit((label, "$foreground-muted"), LABEL), *parts), width)


def _pools(live: LiveSnapshot, width: int) -> Iterator[Content]:
    """Yield what the pools hold and what of it gives way when room is needed."""
    rows = (
        (t("KV tokens"), live.kv_used_tokens, live.kv_tokens, live.kv_evictable_tokens),
        (t("state slots"), live.mamba_used_slots, live.mamba_slots, live.mamba_evictable_slots),
        (t("HiCache tokens"), live.hicache_used_tokens, live.hicache_tokens, None),
    )
    for label, used, total, evictable in rows:
        if used is None and evictable is None:
            continue
        text = t("{used} of {total} used", used=figures.count(used), total=figures.count(total))
        if evictable is not None:
            text = t("{used}, {count} evictable", used=text, count=figures.count(evictable))
        head = fit((tr(label), "$foreground-muted"), LABEL)
        yield fit(Content.assemble(head, tr(text)), width)
    for replica in live.replicas:
        head = fit((replica.rank, "bold"), LABEL)
        yield fit(Content.assemble(head, replica_words(replica)), width)
