"""One rule: a piece of knowledge about launches, as a record."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from qwen_tui_profiles.profile import EngineKind

if TYPE_CHECKING:
    from qwen_tui_profiles.findings import Severity
    from qwen_tui_profiles.text import Text

__all__ = ["Rule"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """What is known, for which engines it holds, when it applies and where it comes from."""

    id: str
    """Stable name; profiles override a rule by it."""
    severity: Severity
    """``error``: the launch fails, the server dies or most of what was asked is lost.
    ``warn``: something is not as asked, is slower or is exposed. ``info``: worth knowing."""
    title: Text
    """One sentence; may name facts (``{requests}``)."""
    what: Text
    """What happens, with the figure that was measured or read."""
    remedy: Text | None
    when: str
    """Condition over the facts of :mod:`qwen_tui_profiles.rules.facts`."""
    source: str
    """Seed table, upstream issue, recorded boot, source file."""
    engine: EngineKind | None = EngineKind.SGLANG
    """``None`` = any."""
    since: str | None = None
    """First release that it holds for; ``None`` = every known one."""
    until: str | None = None
    """Last release that it holds for; ``None`` = the newest checked."""
    models: tuple[str, ...] = ()
    """Kinds of model (:data:`~qwen_tui_profiles.rules.models.MODEL_KINDS`); empty = any."""
    cards: tuple[int, ...] = ()
    """Compute capabilities (120 = SM 12.0) that it was seen on; empty = any. A rule with cards
    also fires when the card is not known: its text names them."""
    shows: tuple[str, ...] = ()
    """Flags and variables to quote as evidence, as far as they were given."""
    checked: str = "0.5.23"
    """Newest release that the statement was checked against."""
