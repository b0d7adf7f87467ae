"""The launch in a systemd unit: ``ExecStart=`` with the variables of ``Environment=``.

systemd has quoting rules of its own: no shell, quotes anywhere in a word are taken away, which is
how JSON in ``Environment=`` loses them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from qwen_tui_profiles.errors import InputError
from qwen_tui_profiles.text import t

__all__ = ["Unit", "read_unit"]

_ESCAPES = {"s": " ", "n": "\n", "t": "\t", "\\": "\\", '"': '"', "'": "'"}
_SPECIFIERS = {"%h": "~", "%%": "%"}
_VARIABLE = re.compile(r"\$\{(\w+)\}")


@dataclass(frozen=True, slots=True)
class Unit:
    """What a unit would run."""

    words: tuple[str, ...]
    env: dict[str, str]
    unresolved: tuple[str, ...]
    """Files whose variables are not known here (``EnvironmentFile=``)."""


def read_unit(text: str) -> Unit:
    """Read the ``[Service]`` section.

    Raises:
        InputError: there is no ``ExecStart=``, or a quote in it stays open.
    """
    entries = _service_entries(text)
    env: dict[str, str] = {}
    files: list[str] = []
    start: str | None = None
    for name, value in entries:
        if name == "Environment":
            for word in _split(value):
                key, equals, content = word.partition("=")
                if equals:
                    env[key] = content
        elif name == "EnvironmentFile":
            files.append(value.removeprefix("-"))
        elif name == "ExecStart":
            # An empty ExecStart= clears the ones before it; for a service the last one runs.
            start = value or start
    if not start:
        raise InputError(
            t("The unit has no ExecStart= in [Service]."),
            t("Pass the unit that starts the engine."),
        )
    words: list[str] = []
    for word in _split(start.lstrip("-@:+!|")):
        bare = re.fullmatch(r"\$(\w+)", word)
        if bare is not None and bare[1] in env:
            # `$NAME` as a word of its own is split at blanks, `${NAME}` is not.
            words += env[bare[1]].split()
        else:
            words.append(_VARIABLE.sub(lambda m: env.get(m[1], m[0]), word))
    return Unit(tuple(words), env, tuple(files))


def _service_entries(text: str) -> list[tuple[str, str]]:
    entries: list[tuple[str, str]] = []
    section = ""
    joined = re.sub(r"\\[ \t]*\r?\n", " ", text)
    for raw in joined.splitlines():
        line = raw.strip()
        if not line or line[0] in "#;":
            continue
        if line.startswith("[") and line.endswith("]"):
            section = line[1:-1]
            continue
        name, equals, value = line.partition("=")
        if equals and section in {"Service", ""}:
            entries.append((name.strip(), value.strip()))
    return entries


def _split(value: str) -> list[str]:
    """Split into words as systemd does: quotes group, wherever they stand, and disappear."""
    words: list[str] = []
    word: list[str] = []
    quote = ""
    started = False
    index = 0
    while index < len(value):
        character = value[index]
        if character == "\\" and index + 1 < len(value):
            following = value[index + 1]
            word.append(_ESCAPES.get(following, "\\" + following))
            index += 2
            started = True
            continue
        if quote:
            if character == quote:
                quote = ""
            else:
                word.append(character)
        elif character in "'\"":
            quote = character
            started = True
        elif character.isspace():
            if started:
                words.append(_specified("".join(word)))
            word, started = [], False
        else:
            word.append(character)
            started = True
        index += 1
    if quote:
        raise InputError(
            t("A {quote} in the unit is never closed.", quote=quote),
            t("Close it; systemd would refuse the line, too."),
        )
    if started:
        words.append(_specified("".join(word)))
    return words


def _specified(word: str) -> str:
    return re.sub(r"%[h%]", lambda match: _SPECIFIERS[match[0]], word)
