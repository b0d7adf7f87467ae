"""How the difference between two profiles looks: lines for people, a document for programs."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from qwen_tui_profiles.citations import cited
from qwen_tui_profiles.text import t, tr
from qwen_tui_profiles.wrapping import wrapped

if TYPE_CHECKING:
    from collections.abc import Iterator

    from qwen_tui_profiles.compare import Comparison
    from qwen_tui_profiles.profile import EngineProfile

__all__ = ["diff_document", "diff_lines"]


def diff_document(
    before: EngineProfile, after: EngineProfile, comparison: Comparison
) -> dict[str, object]:
    """Return the JSON document of ``profiles diff``."""
    return {
        "schema": "qwen-tui.profile-diff/1",
        "before": before.name,
        "after": after.name,
        "changes": [
            {
                "key": change.key,
                "step": change.step.value,
                "before": change.before,
                "after": change.after,
                "consequence": None if change.consequence is None else str(change.consequence),
                "source": change.source,
            }
            for change in comparison.changes
        ],
        "findings_appeared": [finding.as_json() for finding in comparison.appeared],
        "findings_gone": [finding.as_json() for finding in comparison.gone],
    }


def diff_lines(
    before: EngineProfile, after: EngineProfile, comparison: Comparison
) -> Iterator[str]:
    """Yield one line a difference, and under it what follows from it."""
    yield f"{before.name} → {after.name}"
    if comparison.same:
        yield tr(t("Both launch the same."))
        return
    for change in comparison.changes:
        yield f"  {change.key:<34} {change.before or '—'} → {change.after or '—'}"
        if change.consequence is not None:
            source = "" if change.source in {None, "—"} else f" ({cited(change.source or '')})"
            yield from _wrapped(tr(change.consequence) + source, "      ")
    for title, findings in (
        (t("Rules that now speak up"), comparison.appeared),
        (t("Rules that no longer do"), comparison.gone),
    ):
        if findings:
            yield tr(title)
            for finding in findings:
                line = f"{finding.severity.value}: {tr(finding.title)}  [{finding.rule}]"
                yield from _wrapped(line, "  ")


def _wrapped(text: str, indent: str) -> list[str]:
    width = min(shutil.get_terminal_size((100, 24)).columns, 110)
    return wrapped(text, max(width, 40), indent, indent)
