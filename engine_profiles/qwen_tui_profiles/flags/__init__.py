"""What the engines' command lines look like, by version: names, renames, removals, values."""

from __future__ import annotations

from qwen_tui_profiles.flags.renames import RENAMES, Rename, respell
from qwen_tui_profiles.flags.spec import Arity, FlagSpec, FlagTable
from qwen_tui_profiles.flags.tables import (
    Period,
    flag_table,
    history,
    known_versions,
    newest_version,
)

__all__ = [
    "RENAMES",
    "Arity",
    "FlagSpec",
    "FlagTable",
    "Period",
    "Rename",
    "flag_table",
    "history",
    "known_versions",
    "newest_version",
    "respell",
]
