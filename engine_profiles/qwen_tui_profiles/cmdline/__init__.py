"""Command lines of engines, as people write and paste them."""

from __future__ import annotations

from qwen_tui_profiles.cmdline.arguments import (
    Arguments,
    Option,
    Trouble,
    TroubleKind,
    read_arguments,
)
from qwen_tui_profiles.cmdline.command import EngineCommand, parse_command, parse_words
from qwen_tui_profiles.cmdline.files import parse_file, parse_text

__all__ = [
    "Arguments",
    "EngineCommand",
    "Option",
    "Trouble",
    "TroubleKind",
    "parse_command",
    "parse_file",
    "parse_text",
    "parse_words",
    "read_arguments",
]
