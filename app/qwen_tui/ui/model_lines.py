"""Checkpoints as lines: a folder, its verdict, what it holds, and a running download."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.content import Content

from qwen_tui.ui import figures
from qwen_tui.ui.cells import bar, fit, wrapped
from qwen_tui.ui.findings import STYLES
from qwen_tui.ui.glyphs import glyphs
from qwen_tui_diagnostics.checkpoint.report import reach_words
from qwen_tui_profiles.findings import Severity
from qwen_tui_profiles.foreign import clean
from qwen_tui_profiles.text import Text, joined, t, tr

if TYPE_CHECKING:
    from collections.abc import Mapping

    from qwen_tui.services.model_desk import ModelFolder
    from qwen_tui_diagnostics.checkpoint.report import CheckpointFinding, VerifyReport

__all__ = ["folder_lines", "folder_row", "report_lines", "verdict_mark"]

PARTS: dict[str, Text] = {
    "target": t("target"),
    "mtp": t("MTP head"),
    "vision": t("vision tower"),
    "lm_head": t("output head"),
    "embed": t("embeddings"),
    "ple": t("PLE tables"),
    "other": t("other"),
}
VERDICTS: dict[str, tuple[str, Text, str]] = {
    "ok": ("ok", t("OK"), "$success"),
    "warn": ("warn", t("WARN"), "bold $warning"),
    "error": ("fail", t("ERROR"), "bold $error"),
    "unknown": ("unreachable", t("UNKNOWN"), "bold $warning"),
}
LABEL = 16


def verdict_mark(verdict: str) -> tuple[str, str]:
    """Return glyph and word of a verdict, with its colour."""
    glyph, word, style = VERDICTS.get(verdict, VERDICTS["unknown"])
    return f"{getattr(glyphs(), glyph)} {tr(word)}", style


def folder_row(folder: ModelFolder, report: VerifyReport | None, width: int) -> Content:
    """Return one line: verdict, name, size, which profiles serve it."""
    if not folder.exists:
        mark: tuple[str, str] = (f"{glyphs().skip} {tr(t('not here'))}", "$foreground-muted")
    elif report is None:
        mark = (f"{glyphs().later} {tr(t('not judged'))}", "$foreground-muted")
    else:
        mark = verdict_mark(report.verdict.value)
    size = "" if not folder.bytes else f"{figures.gib(folder.bytes)} GiB"
    line = Content.assemble(
        fit(mark, 13),
        fit((clean(folder.path.name), "bold" if folder.exists else ""), 32),
        " ",
        fit(size, 10, align="right"),
        ("  " + ", ".join(folder.profiles), "$foreground-muted"),
    )
    return fit(line, width)


def folder_lines(folder: ModelFolder, report: VerifyReport | None, width: int) -> list[Content]:
    """Return the path, then the report, or what can be done to get one."""
    out = wrapped((clean(str(folder.path)), "bold"), width, most=2)
    if folder.repo:
        out.append(Content.styled(folder.repo, "$foreground-muted"))
    if not folder.exists:
        text = t("The folder is not here. f fetches it from the Hub; the plan comes first.")
        return [*out, *wrapped((tr(text), ""), width)]
    if report is None:
        text = t("Enter judges it from its headers, in milliseconds.")
        return [*out, *wrapped((tr(text), ""), width)]
    return [*out, *report_lines(report, width)]


def report_lines(report: VerifyReport, width: int) -> list[Content]:
    """Return verdict, inventory bars and findings of a checkpoint."""
    words = [w for w in (report.architecture, report.format, report.quantization) if w]
    head = Content.assemble(verdict_mark(report.verdict.value), "  ", clean(", ".join(words)))
    out = wrapped(head, width)
    out += wrapped((joined(reach_words(report.judged)), "$foreground-muted"), width)
    for finding in report.findings:
        out += checkpoint_finding(finding, width)
    out += inventory_lines(report.inventory.by_part, width)
    text = t(
        "{tensors} tensors in {shards} files, judged for {engine} {version} in {seconds}",
        tensors=figures.count(report.inventory.tensors),
        shards=report.inventory.shards,
        engine=report.assumed.engine,
        version=report.assumed.engine_version,
        seconds=figures.latency(report.seconds * 1000),
    )
    return [*out, *wrapped((tr(text), "$foreground-muted"), width)]


def inventory_lines(parts: Mapping[str, int], width: int) -> list[Content]:
    """Return one bar per part of the checkpoint."""
    total = sum(parts.values())
    room = max(0, width - LABEL - 13)
    return [
        Content.assemble(
            fit(tr(PARTS.get(part, t("{part}", part=part))), LABEL),
            fit((f"{figures.gib(size, 2)} GiB ", "bold"), 12, align="right"),
            bar(size / total, room, "$accent"),
        )
        for part, size in parts.items()
        if size and total
    ]


def checkpoint_finding(finding: CheckpointFinding, width: int) -> list[Content]:
    """Return a finding: title, what a user would see, what to do, what proves it."""
    marks = glyphs()
    glyph = {Severity.ERROR: marks.fail, Severity.WARN: marks.warn}.get(finding.severity, marks.dot)
    head = Content.assemble((f"{glyph} ", STYLES[finding.severity]), tr(finding.title))
    out = wrapped(head, width, most=3)
    if finding.severity is not Severity.INFO:
        out += wrapped((tr(finding.consequence), "$foreground-muted"), width, indent=2, most=3)
    if finding.remedy is not None:
        remedy = Content.assemble((f"{marks.remedy} ", "$accent"), tr(finding.remedy))
        out += wrapped(remedy, width, indent=2, most=3)
    proof = f" {marks.dot} ".join([finding.rule, *finding.tensors[:2], *finding.files[:1]])
    return [*out, *wrapped((clean(proof), "$foreground-muted"), width, indent=2, most=2)]
