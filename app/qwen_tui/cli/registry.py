"""The table of commands: name → module and one-line help.

The help stands here, so that ``qwen-tui --help`` imports no command. The order is the help's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from qwen_tui_profiles.text import Text

__all__ = ["COMMANDS"]

COMMANDS: dict[str, tuple[str, Text]] = {}
