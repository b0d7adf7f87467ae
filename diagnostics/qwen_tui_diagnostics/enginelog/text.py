"""The report for people: verdict, asked → got, budget, timeline, cause with evidence, figures."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qwen_tui_profiles.text import t, tr
from qwen_tui_profiles.wrapping import columns, padded, wrapped

if TYPE_CHECKING:
    from collections.abc import Iterator

    from qwen_tui_diagnostics.enginelog.report import LogReport
    from qwen_tui_profiles.findings import Clamp, Value
    from qwen_tui_profiles.text import Text

__all__ = ["boots_table", "report_lines", "verdict_line"]

_BAR = 24
_WIDTH = 96

_PARTS: dict[str, Text] = {
    "total": t("total"),
    "share": t("share asked for"),
    "free_before_load": t("free before loading"),
    "weights": t("weights"),
    "draft": t("draft"),
    "state_pool": t("state pool"),
    "state_intermediate": t("state, drafted steps"),
    "kv_pool": t("KV pool"),
    "draft_kv": t("draft's KV"),
    "graphs": t("graphs"),
    "activation": t("peak activation"),
    "non_torch": t("outside torch"),
    "other": t("not accounted for"),
    "late_freed": t("freed too late"),
    "free": t("stays free"),
}
_LEVELS = {"total", "share", "free_before_load", "free"}

_PHASES: dict[str, Text] = {
    "args": t("arguments"),
    "distributed": t("process group"),
    "load_weights": t("loading weights"),
    "load_draft": t("loading the draft"),
    "state_pool": t("state slots"),
    "kv_pool": t("KV pool"),
    "graph_capture": t("graph capture"),
    "tree_cache": t("prefix cache"),
    "warmup": t("warm-up"),
    "ready": t("ready"),
    "serving": t("serving"),
    "stopping": t("stopping"),
}

_FIGURES: tuple[tuple[str, Text], ...] = (
    ("model", t("model")),
    ("context_usable", t("one request, at most (tokens)")),
    ("kv_tokens", t("KV pool (tokens)")),
    ("max_concurrency", t("full-length requests that fit")),
    ("available_kv_gib", t("KV pool (GiB)")),
    ("max_running_requests_effective", t("running requests, at most")),
    ("dp_replicas", t("replicas (above: the smallest)")),
    ("kv_tokens_all", t("KV pool of all replicas (tokens)")),
    ("max_running_requests_all", t("running requests of all replicas")),
    ("hicache_host_tokens", t("HiCache in host memory (tokens)")),
    ("mamba_slots", t("state slots")),
    ("mamba_slots_per_request", t("slots per request")),
    ("attention_block_size", t("block of the prefix cache (tokens)")),
    ("kv_dtype", t("KV data type")),
    ("accept_len_last", t("accept length, last")),
    ("gen_tps_last", t("generation, last (tok/s)")),
    ("prefix_hit_last", t("prefix hit, last (%)")),
    ("mamba_usage_max", t("state slots taken, at most (share)")),
)


def verdict_line(report: LogReport) -> Text:
    """Say in one sentence how the boot ended or where it is."""
    if report.subject == "client":
        return t("This is the output of a benchmark client, not of a server.")
    if report.subject is None:
        return t("Nothing in it is a line of SGLang or vLLM.")
    engine = {"sglang": "SGLang", "vllm": "vLLM"}.get(report.engine or "", "?")
    name = engine if report.engine_version is None else f"{engine} {report.engine_version}"
    phase = report.facts.get("phase_at_failure")
    if report.fatal is not None and isinstance(phase, str):
        return t(
            "{engine} died ({kind}) in the phase: {phase}. It was {ready}ready before.",
            engine=name,
            kind=report.fatal.kind,
            phase=_PHASES.get(phase, phase),
            ready="" if report.ready else t("never "),
        )
    if report.fatal is not None:
        return t("{engine} died ({kind}).", engine=name, kind=report.fatal.kind)
    if report.phase == "stopping":
        return t("{engine} was stopped on purpose; it was {ready}ready before.",
                 engine=name, ready="" if report.ready else t("never "))  # fmt: skip
    if report.ready:
        return t("{engine} became ready.", engine=name)
    if report.phase is None:
        return t("{engine}: the log does not show how far it came.", engine=name)
    return t(
        "{engine} is not ready; the log ends in the phase: {phase}.",
        engine=name,
        phase=_PHASES.get(report.phase, report.phase),
    )


def report_lines(report: LogReport) -> Iterator[str]:
    """Yield the text report, line by line."""
    yield tr(verdict_line(report))
    if report.subject != "engine":
        return
    yield from _cause(report)
    yield from _changes(tr(t("Asked → got")), report.clamps)
    yield from _changes(tr(t("Chosen by the engine")), report.adjustments)
    yield from _findings(report)
    yield from _figures(report)
    yield from _budget(report)
    yield from _timeline(report)
    yield ""
    if report.version_range is not None:
        first, last = report.version_range
        yield tr(
            t(
                "The log prints no version; its wording fits {first} to {last}.",
                first=first or "…",
                last=last or "…",
            )
        )
    if report.coverage is not None:
        yield tr(
            t(
                "{percent:.1f} % of the engine's lines were recognised ({count} were not).",
                percent=report.coverage * 100,
                count=report.unread_lines,
            )
        )


def _sentence(text: Text, indent: str = "", mark: str = "") -> Iterator[str]:
    """Yield a sentence, wrapped; ``mark`` stands before its first line only."""
    yield from wrapped(tr(text), _WIDTH, indent + mark)


def boots_table(reports: tuple[LogReport, ...]) -> Iterator[str]:
    """Yield one line for each boot of a log."""
    for report in reports:
        number = tr(t("boot {number}, line {line}", number=report.boot, line=report.first_line))
        yield f"{number:<24} {tr(verdict_line(report))}"


def _cause(report: LogReport) -> Iterator[str]:
    fatal = report.fatal
    if fatal is None:
        return
    yield ""
    yield from _sentence(fatal.summary)
    if fatal.remedy is not None:
        yield from _sentence(fatal.remedy, "  ", "→ ")
    for evidence in fatal.evidence:
        yield f"  {evidence.line}: {evidence.text}"


def _changes(title: str, entries: tuple[Clamp, ...]) -> Iterator[str]:
    if not entries:
        return
    yield ""
    yield title
    width = max(len(e.arg) for e in entries)
    for entry in entries:
        who = entry.by
        if entry.evidence is not None:
            who = t("{who}, line {number}", who=entry.by, number=entry.evidence.line)
        yield (
            f"  {entry.arg:<{width}}  {_value(entry.asked)} → {_value(entry.got)}   "
            + tr(t("({what})", what=who))
        )
        yield from _sentence(entry.why, "      ")
        if entry.remedy is not None:
            yield from _sentence(entry.remedy, "      ", "→ ")


def _findings(report: LogReport) -> Iterator[str]:
    for finding in report.findings:
        yield ""
        yield from _sentence(finding.title, mark="· " if finding.severity == "info" else "! ")
        if finding.remedy is not None:
            yield from _sentence(finding.remedy, "      ", "→ ")
        if finding.evidence:
            yield "      " + tr(t("({what})", what=finding.evidence))


def _figures(report: LogReport) -> Iterator[str]:
    rows = [(tr(label), report.facts.get(name)) for name, label in _FIGURES]
    rows = [(label, value) for label, value in rows if value is not None]
    if not rows:
        return
    yield ""
    width = max(columns(label) for label, _ in rows)
    for label, value in rows:
        yield f"  {padded(label, width)}  {_value(value)}"


def _budget(report: LogReport) -> Iterator[str]:
    """Yield the waterfall: each part as a bar from where the one before it ended."""
    if not report.budget:
        return
    yield ""
    yield tr(t("Memory of one GPU (GiB)"))
    levels = [b.gib for b in report.budget if b.part in _LEVELS]
    scale = max([*levels, sum(b.gib for b in report.budget if b.part not in _LEVELS), 0.01])
    left = next((b.gib for b in report.budget if b.part in {"free_before_load", "total"}), scale)
    for part in report.budget:
        label = tr(_PARTS.get(part.part, t("{part}", part=part.part)))
        if part.part in _LEVELS:
            start, end = 0.0, part.gib
        elif part.part == "late_freed":
            start, end = left, left + part.gib
            left = end
        else:
            start, end = left - part.gib, left
            left = start
        yield f"  {padded(label, 22)} {part.gib:>8.2f}  {_bar(start, end, scale)}  {tr(part.basis)}"


def _bar(start: float, end: float, scale: float) -> str:
    low, high = sorted((max(min(start, scale), 0.0), max(min(end, scale), 0.0)))
    first = int(low / scale * _BAR)
    last = max(round(high / scale * _BAR), first + 1 if high > low else first)
    return " " * first + "█" * (last - first) + " " * (_BAR - last)


def _timeline(report: LogReport) -> Iterator[str]:
    spans = [s for s in report.timeline if s.seconds is not None]
    if not spans:
        return
    yield ""
    yield tr(t("Time"))
    for span in spans:
        yield f"  {padded(tr(_PHASES[span.phase]), 22)} {span.seconds:>8.1f} s"


def _value(value: Value) -> str:
    if value is None:
        return "—"
    if isinstance(value, bool):
        return tr(t("yes")) if value else tr(t("no"))
    if isinstance(value, int):
        return f"{value:,}"
    return str(value)
