"""The shape of a cause of death: the text that proves it, its class, the remedy."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from qwen_tui_profiles.text import Text

__all__ = ["Cause", "cause"]


@dataclass(frozen=True, slots=True)
class Cause:
    """A text that names why an engine died."""

    kind: str
    """A class of design §4."""
    needle: str
    """A substring of every such text."""
    pattern: re.Pattern[str]
    """Searched in the message; its groups fill the summary and ``facts``."""
    summary: Text
    remedy: Text | None
    """``None`` where the phase decides (out of memory)."""
    firm: bool = True
    """Whether the text alone proves a death (else a death mark must stand with it)."""
    frame: bool = False
    """Whether the text only introduces another that may name the cause."""
    phase: str | None = None
    """Where an engine is when it says this, if the text tells."""
    facts: Mapping[str, str] = field(default_factory=dict)
    """Group → fact that the text states."""
    engine: str | None = None
    """``None`` = both print it."""


def cause(
    kind: str,
    needle: str,
    pattern: str,
    summary: Text,
    remedy: Text | None,
    *,
    firm: bool = True,
    frame: bool = False,
    phase: str | None = None,
    facts: Mapping[str, str] | None = None,
    engine: str | None = None,
) -> Cause:
    """Build a row of a table of causes."""
    return Cause(
        kind,
        needle,
        re.compile(pattern),
        summary,
        remedy,
        firm,
        frame,
        phase,
        dict(facts or {}),
        engine,
    )
