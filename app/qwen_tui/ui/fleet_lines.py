"""One server of a fleet in one line, and in a pane."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.content import Content

from qwen_tui.services.live.fronts import front_words
from qwen_tui.ui import figures
from qwen_tui.ui.cells import fit, wrapped
from qwen_tui.ui.curves import percentile
from qwen_tui.ui.glyphs import glyphs
from qwen_tui.ui.widgets.live import bound_words, replica_words, why_no_figures
from qwen_tui.ui.words import ENGINES
from qwen_tui_profiles.text import Text, t, tr

if TYPE_CHECKING:
    from collections.abc import Callable

    from qwen_tui.services.snapshots import LiveSnapshot

__all__ = ["fleet_head", "fleet_lines", "fleet_row"]

ADDRESS = 21
MARK = 2
NOBODY = frozenset({"unknown", "other"})
"""Sources that name no engine."""
BOUND = 20
"""Cells from which on it is worth saying what binds the server."""


def _running(live: LiveSnapshot) -> str:
    return f"{figures.count(live.running)}+{figures.count(live.queue)}"


def _ttft(live: LiveSnapshot) -> str:
    if live.ttft is None:
        return figures.plain(None)
    return percentile(live.ttft.p50_ms, live.ttft.p50_bucket_ms)


COLUMNS: tuple[tuple[Text, int, Callable[[LiveSnapshot], str]], ...] = (
    (t("requests"), 9, _running),
    (t("tok/s"), 7, lambda live: figures.count(live.decode_tok_s)),
    (t("KV"), 6, lambda live: figures.share(live.kv_used)),
    (t("accept"), 7, lambda live: figures.decimal(live.accept_length)),
    (t("hit rate"), 9, lambda live: figures.share(live.cache_hit_rate)),
    (t("TTFT"), 10, _ttft),
)
"""Title, cells, figure; running and waiting requests stand as 2+1."""


def fleet_head(width: int) -> Content:
    """Return the line above the servers."""
    titles = [fit(tr(title), cells, "right") for title, cells, _ in COLUMNS]
    line = Content.assemble(" " * MARK, fit(tr(t("server")), ADDRESS), *titles)
    return fit(line.stylize("$foreground-muted"), width)


def fleet_row(url: str, live: LiveSnapshot | None, width: int) -> Content:
    """Return one server; what is unknown is a dash, and why there are no figures is said."""
    head = Content.assemble(_mark(live), " ", fit((_short(url), "bold"), ADDRESS))
    if live is None:
        text = tr(t("not heard of yet"))
        return fit(Content.assemble(head, " ", (text, "$foreground-muted")), width)
    problem = why_no_figures(live)
    if problem is not None:
        return fit(Content.assemble(head, " ", (tr(problem), "$warning")), width)
    style = "$foreground-muted" if live.stale_s is not None else ""
    cells = [fit((figure(live), style), cells, "right") for _, cells, figure in COLUMNS]
    line = Content.assemble(head, *cells)
    if width - line.cell_length >= BOUND:
        line = Content.assemble(line, (f"  {_what(live)}", "$foreground-muted"))
    return fit(line, width)


def _what(live: LiveSnapshot) -> str:
    """Name a router or gateway, with how many of its workers answer; of an engine, its limit."""
    if front_words(live) is None:
        return bound_words(live)
    told = [r.healthy for r in live.replicas if r.healthy is not None]
    return ENGINES[live.source] + (f" {sum(told)}/{len(told)}" if told else "")


def _short(url: str) -> str:
    return url.removeprefix("http://").removeprefix("https://")


def _mark(live: LiveSnapshot | None) -> tuple[str, str]:
    marks = glyphs()
    if live is None:
        return marks.later, "$foreground-muted"
    if live.stale_s is not None:
        return marks.warn, "bold $warning"
    if why_no_figures(live) is not None:
        return marks.fail, "bold $error"
    return (marks.warn, "bold $warning") if live.alarms else (marks.running, "$success")


def fleet_lines(
    url: str, live: LiveSnapshot | None, width: int, engine: str | None = None
) -> list[Content]:
    """Return what the pane says about one server.

    Args:
        url: Its address.
        live: What it said last; ``None`` = nothing yet.
        width: Cells of a line.
        engine: What it is, where that is known better than from its metrics (a simulation).
    """
    out = [Content.styled(url, "bold")]
    if live is None:
        return [*out, Content.styled(tr(t("not heard of yet")), "$foreground-muted")]
    version = f" {live.engine_version}" if live.engine_version else ""
    known = live.source if live.source not in NOBODY else ""
    engine = engine or ENGINES.get(live.source, known) + version
    models = "  " + ", ".join(live.models) if live.models else ""
    if engine or models:
        out.append(fit((f"{engine}{models}", "$foreground-muted"), width))
    if live.error is not None:
        out += wrapped((tr(live.error), "$warning"), width)
    if live.stale_s is not None:
        age = t("stale for {age}", age=figures.seconds(live.stale_s))
        out.append(Content.styled(tr(age), "bold $warning"))
    front = front_words(live) if live.error is None else None
    if front is not None:
        out += wrapped(tr(front), width)
    elif bound_words(live):
        out += wrapped(bound_words(live), width)
    out += _limits(live, width)
    for alarm in live.alarms:
        out += wrapped((f"{glyphs().warn} {tr(alarm.text)}", "bold $warning"), width)
    for replica in live.replicas:
        line = Content.assemble((replica.rank, "bold"), "  ", replica_words(replica))
        out.append(fit(line, width))
    for note in live.notes:
        out += wrapped((tr(note), "$foreground-muted"), width)
    return out


def _limits(live: LiveSnapshot, width: int) -> list[Content]:
    if live.context_usable is None and live.max_running_requests is None:
        return []
    text = t(
        "usable context {context} tokens, requests at once: {requests}",
        context=figures.count(live.context_usable),
        requests=figures.count(live.max_running_requests),
    )
    return wrapped((tr(text), "$foreground-muted"), width)
