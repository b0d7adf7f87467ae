"""Two boots side by side: asked, got, predicted, seconds; every row, with whether it differs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from qwen_tui_profiles.text import t

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from qwen_tui.services.history_rows import BootRow
    from qwen_tui_profiles.text import Text

__all__ = ["PRINTS", "BootLine", "compare_boots", "conditions"]

PRINTS: Mapping[str, Text] = {
    "engine": t("engine"),
    "model": t("model"),
    "flags": t("flags"),
    "machine": t("machine"),
}
"""Fingerprint of a boot → what it is of."""


@dataclass(frozen=True, slots=True)
class BootLine:
    """One figure of two boots; ``None`` = that boot has none."""

    section: str
    """``asked``, ``got``, ``predicted``, ``phases`` or ``seconds``."""
    what: str
    """Flag, name of a fact, phase, or field of a boot."""
    before: Any
    after: Any

    @property
    def differs(self) -> bool:
        """Whether the boots disagree."""
        return bool(self.before != self.after)


def compare_boots(before: BootRow, after: BootRow) -> tuple[BootLine, ...]:
    """Return every figure that one of them has, section by section."""
    asked = _lines("asked", _flags(before.asked), _flags(after.asked))
    got = _lines("got", before.facts, after.facts)
    predicted = _lines("predicted", _predicted(before), _predicted(after))
    phases = _lines("phases", _phases(before), _phases(after))
    seconds = _lines("seconds", _seconds(before), _seconds(after))
    return (*asked, *got, *predicted, *phases, *seconds)


def conditions(before: BootRow, after: BootRow) -> tuple[tuple[Text, ...], tuple[Text, ...]]:
    """Return which conditions are the same and which are not, by the boots' fingerprints."""
    same = [name for name in PRINTS if before.prints.get(name) == after.prints.get(name)]
    return (
        tuple(PRINTS[name] for name in same),
        tuple(PRINTS[name] for name in PRINTS if name not in same),
    )


def _lines(section: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[BootLine]:
    for name in dict.fromkeys((*before, *after)):
        yield BootLine(section, name, before.get(name), after.get(name))


def _flags(asked: tuple[str, ...]) -> dict[str, str]:
    flags: dict[str, str] = {}
    last = ""
    for item in asked:
        if item.startswith("--"):
            last = item
            flags[last] = ""
        elif last:
            flags[last] = f"{flags[last]} {item}".strip()
    return flags


def _predicted(boot: BootRow) -> dict[str, Any]:
    return {"predicted_kv_tokens": boot.predicted_kv_tokens}


def _phases(boot: BootRow) -> dict[str, Any]:
    return {str(span.get("phase")): span.get("seconds") for span in boot.phases}


def _seconds(boot: BootRow) -> dict[str, Any]:
    return {"first_token_s": boot.first_token_s, "ready_s": boot.ready_s}
