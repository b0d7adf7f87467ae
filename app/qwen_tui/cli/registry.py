"""The table of commands: name → module and one-line help.

The help stands here, so that ``qwen-tui --help`` imports no command. The order is the help's.
"""

from __future__ import annotations

from qwen_tui_profiles.text import Text, t

__all__ = ["COMMANDS"]

COMMANDS: dict[str, tuple[str, Text]] = {
    "profiles": ("profiles", t("list, show, compare, edit and import launch profiles")),
}
