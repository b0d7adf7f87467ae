"""How a judged checkpoint looks on paper."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from qwen_tui_diagnostics.checkpoint.report import Verdict, reach_words
from qwen_tui_profiles.findings import Severity
from qwen_tui_profiles.foreign import clean
from qwen_tui_profiles.text import joined, t, tr
from qwen_tui_profiles.wrapping import columns, padded, wrapped

if TYPE_CHECKING:
    from collections.abc import Iterator

    from qwen_tui_diagnostics.checkpoint.report import CheckpointFinding, VerifyReport
    from qwen_tui_profiles.text import Text

__all__ = ["report_lines"]

_WORDS = {Severity.ERROR: "ERROR", Severity.WARN: "WARN ", Severity.INFO: "INFO "}
_VERDICTS = {
    Verdict.OK: t("ok"),
    Verdict.WARN: t("works, with warnings"),
    Verdict.ERROR: t("do not launch"),
    Verdict.UNKNOWN: t("not judged in full: unknown is not ok"),
}
_PARTS = {
    "target": t("target"),
    "embed": t("embedding"),
    "lm_head": t("output head"),
    "mtp": t("MTP head"),
    "vision": t("vision tower"),
    "ple": t("n-gram table"),
    "other": t("other"),
}


def report_lines(report: VerifyReport) -> Iterator[str]:
    """Yield findings worst first, the inventory, and the verdict last."""
    for finding in report.findings:
        yield from _finding_lines(finding)
    inventory = report.inventory
    if inventory.tensors:
        yield tr(
            t(
                "{tensors} tensors, {size} in {shards} files; {quantization}",
                tensors=f"{inventory.tensors:,}",
                size=_size(inventory.bytes),
                shards=inventory.shards,
                quantization=_scheme(report.quantization),
            )
        )
        for part, size in inventory.by_part.items():
            if size:
                kinds = ", ".join(
                    f"{dtype} {_size(kind_size)}"
                    for dtype, kind_size in sorted(
                        inventory.dtypes.get(part, {}).items(), key=lambda item: -item[1]
                    )[:4]
                )
                name = tr(_PARTS.get(part, t("other")))
                yield f"  {padded(name, 14)} {_size(size):>11}   {kinds}"
    judged = joined(reach_words(report.judged))
    yield tr(t("Judged: {judged}", judged=judged))
    assumed = report.assumed
    how = t("stated") if assumed.stated else t("the newest known; name another with --engine")
    yield tr(
        t(
            "{verdict} — for {engine} {version} ({how}), {speculation}, {ms} ms",
            verdict=_VERDICTS[report.verdict],
            engine=assumed.engine,
            version=assumed.engine_version,
            how=how,
            speculation=t("with speculation") if assumed.speculative else t("without speculation"),
            ms=f"{report.seconds * 1000:.0f}",
        )
    )


def _size(count: int) -> str:
    if count >= 1 << 30:
        return f"{count / 2**30:.2f} GiB"
    return f"{count / 2**20:.2f} MiB" if count >= 1 << 20 else f"{count / 2**10:.2f} KiB"


def _scheme(words: str | None) -> Text | str:
    if words is None:
        return t("quantization not known")
    return t("unquantized") if words == "none" else clean(words)


def _finding_lines(finding: CheckpointFinding) -> Iterator[str]:
    head = f"{tr(finding.title)}  [{finding.rule}]"
    yield from _wrapped(head, f"{_WORDS[finding.severity]}    ")
    if finding.detail is not None:
        yield from _wrapped(tr(finding.detail), "         ")
    if finding.detail is None or str(finding.evidence) not in str(finding.detail):
        yield from _wrapped(tr(finding.evidence), "         > ")
    if finding.files:
        more = (
            t(" and {count} more", count=len(finding.files) - 3) if len(finding.files) > 3 else ""
        )
        yield from _wrapped(", ".join(finding.files[:3]) + tr(more), "         > ")
    yield from _wrapped(tr(finding.consequence), "         ")
    if finding.remedy is not None:
        yield from _wrapped(tr(finding.remedy), "         → ")


def _wrapped(text: str, indent: str) -> list[str]:
    width = min(shutil.get_terminal_size((100, 24)).columns, 110)
    return wrapped(text, max(width, columns(indent) + 20), indent) or [indent.rstrip()]
