"""What one probe showed: both first tokens, time per token and per chunk, cache, gateway."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType
from textual.content import Content

from qwen_tui.ui import figures
from qwen_tui.ui.cells import fit, wrapped
from qwen_tui.ui.glyphs import glyphs
from qwen_tui.ui.screens.cards import Card
from qwen_tui_profiles.text import Text, t, tr

if TYPE_CHECKING:
    from collections.abc import Callable

    from qwen_tui.services.desks import ProbeKind, ProbeReport
    from qwen_tui.services.probe.compare import Comparison
    from qwen_tui.services.snapshots import ProbeResult
    from qwen_tui.ui.state import View

__all__ = ["ProbeCard", "boundary_lines", "probe_lines"]

WIDTH = 72
LABEL = 14
FIGURE = 12


class ProbeCard(Card[str]):
    """One result; dismisses with ``again``."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("r", "again", "Again", show=False),
        Binding("y", "copy", "Copy as curl", show=False),
        Binding("enter", "no", "Back", show=False),
    ]

    def __init__(
        self,
        kind: ProbeKind,
        report: ProbeReport,
        copy: Callable[[], None] | None,
        *,
        crowded: bool = False,
    ) -> None:
        keys: tuple[tuple[str, Text], ...] = (("r", t("Again")), ("Esc", t("Back")))
        if copy is not None:
            keys = (("y", t("Copy as curl")), *keys)
        title = tr(t("Probe: {kind}", kind=kind.title))
        lines = probe_lines(report)
        if crowded:
            text = tr(t("Other requests ran meanwhile; the times include waiting for them."))
            lines += wrapped((f"{glyphs().warn} {text}", "$warning"), WIDTH)
        super().__init__(title, lines, keys)
        self._copy = copy
        self.set_class(report.result.error is not None, "-danger")

    def action_again(self) -> None:
        """Dismiss to send it again."""
        self.dismiss("again")

    def action_copy(self) -> None:
        """Copy the request; not every kind is one."""
        if self._copy is not None:
            self._copy()


def probe_lines(report: ProbeReport) -> list[Content]:
    """Return everything that a probe says."""
    result, marks = report.result, glyphs()
    out: list[Content] = []
    if result.error is not None:
        out += wrapped((f"{marks.fail} {tr(result.error)}", "bold $error"), WIDTH)
    if result.detail is not None:
        mark = (f"{marks.ok} ", "$success") if result.error is None else ""
        out += wrapped(Content.assemble(mark, tr(result.detail)), WIDTH)
    if result.ttft_ms is not None or result.tokens is not None:
        out += _figures(result)
    if report.comparison is not None and report.gateway is not None:
        out += [Content(""), *_gateway(report.gateway, report.comparison)]
    return out


def _figures(result: ProbeResult) -> list[Content]:
    rows = [
        _row(t("TTFT"), figures.latency(result.ttft_ms), t("request sent to first token")),
        _row(t("TTFO"), figures.latency(result.ttfo_ms), t("to the first visible token")),
        _row(t("per token"), _exact(result.ms_per_token), _tokens(result)),
        _row(t("per chunk"), figures.latency(result.chunk_gap_p50_ms), _chunks(result)),
        _row(t("accept length"), figures.decimal(result.accept_length), t("tokens a step")),
        _row(
            t("cached"),
            figures.count(result.cached_tokens),
            t("of {prompt} prompt tokens", prompt=figures.count(result.prompt_tokens)),
        ),
    ]
    if result.model is not None:
        rows.append(_row(t("model"), result.model, None))
    return rows


def _exact(milliseconds: float | None) -> str:
    return figures.plain(None) if milliseconds is None else f"{milliseconds:,.2f} ms"


def _tokens(result: ProbeResult) -> Text:
    speed = figures.decimal(result.decode_tok_s, 1)
    tokens = figures.count(result.tokens)
    if not result.reasoning_tokens:
        return t("{tokens} tokens at {speed} tok/s", tokens=tokens, speed=speed)
    return t(
        "{tokens} tokens at {speed} tok/s, {reasoning} reasoning",
        tokens=tokens,
        speed=speed,
        reasoning=figures.count(result.reasoning_tokens),
    )


def _chunks(result: ProbeResult) -> Text:
    return t(
        "median of {gaps} gaps, p95 {p95}, max {longest}",
        gaps=figures.count(max(0, result.chunks - 1) if result.chunks else None),
        p95=figures.latency(result.chunk_gap_p95_ms),
        longest=figures.latency(result.chunk_gap_max_ms),
    )


def _row(label: Text, figure: str, note: Text | None) -> Content:
    if note is None:
        value = fit((figure, "bold"), WIDTH - LABEL)
    else:
        value = Content.assemble(fit((figure, "bold"), FIGURE), (tr(note), "$foreground-muted"))
    return fit(Content.assemble(fit((tr(label), "$foreground-muted"), LABEL), value), WIDTH)


def _gateway(url: str, comparison: Comparison) -> list[Content]:
    """Return what the gateway adds, or why that was not measured."""
    out = [Content.assemble((tr(t("Through the gateway")), "bold"), f"  {url}")]
    for result in comparison.gateway:
        if result.error is not None:
            out += wrapped((f"{glyphs().fail} {tr(result.error)}", "$error"), WIDTH)
    if comparison.ttft_added_ms is None:
        return out
    out += [
        _row(t("TTFT"), _added(comparison.ttft_added_ms), t("against the direct request")),
        _row(t("TTFO"), _added(comparison.ttfo_added_ms), t("one request each way")),
        _row(t("decode"), figures.share(comparison.decode_ratio), t("of the direct speed")),
        _passed_on(comparison),
    ]
    queue = comparison.queue_time
    if queue is not None:
        note = t("mean wait inside the gateway, {n} requests", n=queue.n)
        out.append(_row(t("queue"), figures.latency(queue.mean_ms), note))
    return out


def _passed_on(comparison: Comparison) -> Content:
    """Return the tokens that the gateway's last answer tells of."""
    last = comparison.gateway[-1]
    note = t(
        "of {prompt} prompt tokens, as the gateway tells", prompt=figures.count(last.prompt_tokens)
    )
    return _row(t("cached"), figures.count(last.cached_tokens), note)


def _added(milliseconds: float | None) -> str:
    if milliseconds is None:
        return figures.plain(None)
    sign = "-" if milliseconds < 0 else "+"
    return sign + figures.latency(abs(milliseconds))


def boundary_lines(view: View, usable: int | None) -> list[Content]:
    """Return what a boundary probe costs the server and its clients."""
    tokens = figures.count(usable)
    lines = [
        t("A prompt of nearly the usable context is sent, {tokens} tokens.", tokens=tokens),
        t("It fills the KV pool once: what others have in the prefix cache may be evicted."),
        _wait(view, usable),
        t("Then one token more, which must be refused, and a short request: does it still serve?"),
    ]
    return [Content(tr(line)) for line in lines]


def _wait(view: View, usable: int | None) -> Text:
    """Say how long others wait behind its prefill, where that can be told."""
    speed = None if view.live is None else view.live.prefill_tok_s
    if not speed or usable is None:
        return t("Other requests wait behind its prefill.")
    return t(
        "Other requests wait behind its prefill: about {seconds} at {speed} tok/s.",
        seconds=figures.seconds(usable / speed),
        speed=figures.count(speed),
    )
