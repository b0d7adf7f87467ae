"""Judging each folder of a launch and letting the worst speak."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from qwen_tui_diagnostics.check import not_applicable
from qwen_tui_diagnostics.facts import MissingFact
from qwen_tui_diagnostics.result import SkipReason, Status
from qwen_tui_profiles.text import t

if TYPE_CHECKING:
    from collections.abc import Callable

    from qwen_tui_diagnostics.facts import Facts
    from qwen_tui_diagnostics.result import Verdict

__all__ = ["WEIGHT_ROLES", "concerns", "role_entry", "worst_of"]

WEIGHT_ROLES = frozenset({"model", "ple", "hub"})
"""Folders that weights are read from."""
_ORDER = (Status.FAIL, Status.WARN, Status.SKIP, Status.OK)


def concerns(entry: Facts, roles: frozenset[str]) -> bool:
    """Tell whether a folder has one of the roles."""
    return bool(roles & set(entry.texts("roles")))


def role_entry(facts: Facts, *roles: str) -> Facts | None:
    """Return the folder of the first role that there is."""
    for role in roles:
        for entry in facts.rows("disk.paths"):
            if role in entry.texts("roles"):
                return entry
    return None


def worst_of(
    facts: Facts, judge: Callable[[Facts], Verdict], roles: frozenset[str] | None = None
) -> Verdict:
    """Judge every folder with one of the roles; return the worst verdict, the rest as detail.

    Raises:
        MissingFact: a folder cannot be judged, and no other has failed.
    """
    entries = [e for e in facts.rows("disk.paths") if roles is None or concerns(e, roles)]
    verdicts: list[Verdict] = []
    missing: MissingFact | None = None
    for entry in entries:
        try:
            verdicts.append(judge(entry))
        except MissingFact as fact:
            missing = missing or fact
    bad = [v for v in verdicts if v.status in {Status.FAIL, Status.WARN}]
    if missing is not None and not bad:
        raise missing
    if not verdicts:
        return not_applicable(t("the launch names no such folder"))
    # A folder that the question does not concern hides nothing.
    concerned = [v for v in verdicts if v.reason is not SkipReason.NOT_APPLICABLE] or verdicts
    worst = min(concerned, key=lambda verdict: _ORDER.index(verdict.status))
    others = tuple(v.observed for v in concerned if v is not worst)
    return replace(worst, detail=worst.detail + others)
