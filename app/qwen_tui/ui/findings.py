"""A finding as lines: what it says, what to do, what proves it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.content import Content

from qwen_tui.ui.cells import wrapped
from qwen_tui.ui.glyphs import glyphs
from qwen_tui_profiles.citations import cited
from qwen_tui_profiles.findings import Severity
from qwen_tui_profiles.text import tr

if TYPE_CHECKING:
    from qwen_tui_profiles.findings import Finding

__all__ = ["STYLES", "finding_lines"]

STYLES = {
    Severity.ERROR: "bold $error",
    Severity.WARN: "bold $warning",
    Severity.INFO: "$foreground-muted",
}


def finding_lines(finding: Finding, width: int) -> list[Content]:
    """Return a finding: title, what to do, evidence and source."""
    marks = glyphs()
    mark = {Severity.ERROR: marks.fail, Severity.WARN: marks.warn}.get(finding.severity, marks.dot)
    head = Content.assemble((f"{mark} ", STYLES[finding.severity]), tr(finding.title))
    out = wrapped(head, width, most=4)
    if finding.remedy is not None:
        remedy = Content.assemble((f"{marks.remedy} ", "$accent"), tr(finding.remedy))
        out += wrapped(remedy, width, indent=2, most=4)
    proofs = (tr(finding.evidence), cited(finding.source))
    proof = f" {marks.dot} ".join(part for part in proofs if part)
    if proof:
        out += wrapped((proof, "$foreground-muted"), width, indent=2, most=2)
    return out
