"""What the engines' command lines look like, by version: names, renames, removals, values."""

from __future__ import annotations

from qwen_tui_profiles.flags.renames import RENAMES, Rename, respell

__all__ = ["RENAMES", "Rename", "respell"]
