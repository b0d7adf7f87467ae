"""Reading environment variables as facts: "not set" has to be known, not assumed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qwen_tui_diagnostics.facts import MissingFact

if TYPE_CHECKING:
    from qwen_tui_diagnostics.facts import Facts

__all__ = ["variable"]


def variable(facts: Facts, name: str) -> str | None:
    """Return the value of a variable of the engine's environment; ``None`` = it is not set.

    Raises:
        MissingFact: the environment was not read, or not for this variable.
    """
    path = f"env.set.{name}"
    if facts.has(path):
        return facts.text(path)
    if name in facts.texts("env.unset"):
        return None
    raise MissingFact(path, facts.why_absent(path))
