"""A launch in a file of any of the kinds that people keep it in."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from qwen_tui_profiles.cmdline.command import find_engine, parse_command
from qwen_tui_profiles.cmdline.compose import read_compose
from qwen_tui_profiles.cmdline.shell import MAX_CHARACTERS, SimpleCommand
from qwen_tui_profiles.cmdline.systemd import read_unit
from qwen_tui_profiles.errors import InputError
from qwen_tui_profiles.text import t

if TYPE_CHECKING:
    from pathlib import Path

    from qwen_tui_profiles.cmdline.command import EngineCommand

__all__ = ["parse_file", "parse_text"]


def parse_file(path: Path) -> EngineCommand:
    """Read a shell script, systemd unit, compose file or plain command line.

    Raises:
        InputError: the file cannot be read, or launches nothing that we know.
    """
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_CHARACTERS + 1)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise InputError(
            t("Cannot read {path} ({reason}).", path=str(path), reason=reason),
            t("Name a shell script, a systemd unit or a compose file."),
        ) from error
    if b"\0" in raw:
        raise InputError(
            t("{path} is not a text file.", path=str(path)),
            t("Name a shell script, a systemd unit or a compose file."),
        )
    return parse_text(raw.decode("utf-8", "replace"), path.name)


def parse_text(text: str, name: str = "") -> EngineCommand:
    """Read the text of such a file; ``name`` helps to tell its kind.

    Raises:
        InputError: it launches nothing that we know.
    """
    if name.endswith(".service") or re.search(r"^\s*\[Service\]\s*$", text, re.MULTILINE):
        unit = read_unit(text)
        found = find_engine(SimpleCommand(unit.words, unit.env, unit.unresolved))
        if found is None:
            raise InputError(
                t("The unit's ExecStart= launches neither SGLang nor vLLM."),
                t("If it runs a script, pass that script."),
            )
        return replace(found, env={**unit.env, **found.env})
    if name.endswith((".yml", ".yaml")) or re.search(r"^services:\s*(?:#.*)?$", text, re.MULTILINE):
        return read_compose(text)
    return parse_command(text)
