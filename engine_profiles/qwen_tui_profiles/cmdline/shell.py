"""A small reading of POSIX shell: enough for launch scripts, never executed.

Words with quotes, continuations and comments; variables that the text itself sets (``X=…``,
``export X=…``, ``${X:-default}``, arrays); env prefixes; lists of commands. What would need a
running shell (``$(…)``, unknown variables) stays in the word as it was written and is listed in
:attr:`SimpleCommand.unresolved`, so that nobody mistakes it for a value.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from qwen_tui_profiles.cmdline.words import REDIRECT, Piece, Word, command_end, tokens
from qwen_tui_profiles.errors import InputError
from qwen_tui_profiles.text import t

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["MAX_CHARACTERS", "SimpleCommand", "read_script"]

MAX_CHARACTERS = 256 * 1024

_ASSIGNMENT = re.compile(r"(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?P<add>\+)?=")
_VARIABLE = re.compile(
    r"\$(?:(?P<plain>[A-Za-z_][A-Za-z0-9_]*)"
    r"|\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?P<all>\[[@*]\])?(?:(?P<op>:?[-=?+])(?P<word>[^{}]*))?\})"
)
_KEYWORDS = frozenset(
    {
        *("if", "then", "elif", "else", "fi", "do", "done", "while", "until", "for", "case"),
        *("esac", "in", "{", "}", "!", "time", "function", "[", "[["),
    }
)


@dataclass(frozen=True, slots=True)
class SimpleCommand:
    """One command of a script with its words expanded."""

    words: tuple[str, ...]
    env: Mapping[str, str]
    """Variables exported before it, or written in front of it."""
    unresolved: tuple[str, ...] = ()
    """Expansions in its words that only a running shell could make."""


@dataclass
class _Scope:
    """Variables as the script has set them so far."""

    values: dict[str, str] = field(default_factory=dict)
    arrays: dict[str, list[str]] = field(default_factory=dict)
    exported: set[str] = field(default_factory=set)

    def env(self) -> dict[str, str]:
        return {name: self.values[name] for name in self.exported if name in self.values}


def read_script(text: str, env: Mapping[str, str] | None = None) -> tuple[SimpleCommand, ...]:
    """Return the commands of a script, top to bottom, without judging conditions.

    Args:
        text: One command line or a whole script.
        env: Variables that are known beforehand.

    Raises:
        InputError: a quote is never closed, or the text is too large to be a script.
    """
    if len(text) > MAX_CHARACTERS:
        raise InputError(
            t("The text has {count} characters, more than any launch command.", count=len(text)),
            t("Pass the command or script that starts the engine."),
        )
    scope = _Scope(dict(env or {}))
    scope.exported |= set(env or {})
    commands: list[SimpleCommand] = []
    for words in _statements(tokens(text.replace("\r\n", "\n"))):
        command = _statement(words, scope)
        if command is not None:
            commands.append(command)
    return tuple(commands)


def _statement(words: list[Word | list[Word]], scope: _Scope) -> SimpleCommand | None:
    """Apply assignments to the scope; return the command, if there is one after them."""
    index = 0
    prefix: dict[str, str] = {}
    unresolved: list[str] = []
    while index < len(words):
        word = words[index]
        if isinstance(word, list):
            index += 1
            continue
        first = word.raw
        if word.bare and first in _KEYWORDS:
            index += 1
            continue
        match = _ASSIGNMENT.match(first)
        if match is None:
            break
        name = match["name"]
        following = words[index + 1] if index + 1 < len(words) else None
        if len(match[0]) == len(first) and isinstance(following, list):
            items = [item for entry in following for item in _expand(entry, scope, unresolved)]
            scope.arrays[name] = scope.arrays.get(name, []) + items if match["add"] else items
            index += 2
            continue
        value = "".join(_expand(_tail(word, len(match[0])), scope, unresolved, split=False))
        prefix[name] = scope.values.get(name, "") + value if match["add"] else value
        index += 1
    rest = [word for word in words[index:] if isinstance(word, Word)]
    if not rest:
        scope.values.update(prefix)
        return None
    if rest[0].raw in {"export", "declare", "local", "readonly", "typeset", "set"}:
        _declare(rest, scope, prefix)
        return None
    unresolved = []
    expanded = tuple(item for word in rest for item in _expand(word, scope, unresolved))
    return SimpleCommand(expanded, {**scope.env(), **prefix}, tuple(dict.fromkeys(unresolved)))


def _declare(rest: list[Word], scope: _Scope, prefix: dict[str, str]) -> None:
    scope.values.update(prefix)
    exports = rest[0].raw == "export" or any(w.raw in {"-x", "-gx", "-rx"} for w in rest[1:3])
    if rest[0].raw == "set":
        return
    for word in rest[1:]:
        match = _ASSIGNMENT.match(word.raw)
        name = match["name"] if match else word.raw
        if match is not None:
            scope.values[name] = "".join(
                _expand(_tail(word, len(match[0])), scope, [], split=False)
            )
        if exports and not name.startswith("-"):
            scope.exported.add(name)


def _expand(word: Word, scope: _Scope, unresolved: list[str], *, split: bool = True) -> list[str]:
    """Return the words that one word becomes; blanks of unquoted values separate words."""
    fields: list[list[str]] = [[]]
    seen = False
    for piece in word.pieces:
        if not piece.expand or ("$" not in piece.text and "`" not in piece.text):
            fields[-1].append(piece.text)
            seen = seen or bool(piece.text) or piece.quoted
            continue
        for part, from_variable in _substitute(piece.text, scope, unresolved):
            if isinstance(part, list):
                for number, item in enumerate(part):
                    if number:
                        fields.append([])
                    fields[-1].append(item)
                    seen = True
                continue
            if from_variable and not piece.quoted and split:
                for number, chunk in enumerate(re.split(r"\s+", part)):
                    if number:
                        fields.append([])
                    fields[-1].append(chunk)
            else:
                fields[-1].append(part)
            seen = seen or piece.quoted or bool(part)
    out = ["".join(parts) for parts in fields]
    if len(out) > 1:
        out = [item for item in out if item]
    return out if seen and out else []


def _substitute(
    text: str, scope: _Scope, unresolved: list[str]
) -> Iterator[tuple[str | list[str], bool]]:
    position = 0
    while position < len(text):
        start = min(
            (i for i in (text.find("$", position), text.find("`", position)) if i >= 0), default=-1
        )
        if start < 0:
            yield text[position:], False
            return
        if start > position:
            yield text[position:start], False
        match = _VARIABLE.match(text, start)
        if match is None:
            end = command_end(text, start)
            unresolved.append(text[start:end])
            yield text[start:end], False
            position = end
            continue
        yield _value(match, scope, unresolved)
        position = match.end()


def _value(
    match: re.Match[str], scope: _Scope, unresolved: list[str]
) -> tuple[str | list[str], bool]:
    name = match["plain"] or match["name"]
    if match["all"]:
        if name in scope.arrays:
            return list(scope.arrays[name]), True
    elif scope.arrays.get(name):
        return scope.arrays[name][0], True
    value = scope.values.get(name)
    operator, word = match["op"] or "", match["word"] or ""
    empty = value is None or (operator.startswith(":") and value == "")
    if operator.endswith("+"):
        return ("" if empty else _inner(word, scope, unresolved)), True
    if not empty:
        return value or "", True
    if operator.endswith(("-", "=")):
        return _inner(word, scope, unresolved), True
    if name in {"HOME"}:
        return "~", True
    if match["all"] or name in scope.values:
        return ([] if match["all"] else ""), True
    unresolved.append(match[0])
    return match[0], False


def _inner(word: str, scope: _Scope, unresolved: list[str]) -> str:
    bare = word[1:-1] if len(word) > 1 and word[0] == word[-1] and word[0] in "'\"" else word
    parts = [part for part, _ in _substitute(bare, scope, unresolved)]
    return "".join(" ".join(part) if isinstance(part, list) else part for part in parts)


def _tail(word: Word, length: int) -> Word:
    """Return the word without its first ``length`` characters (they are unquoted)."""
    pieces: list[Piece] = []
    for piece in word.pieces:
        cut = min(length, len(piece.text))
        length -= cut
        pieces.append(Piece(piece.text[cut:], piece.expand, piece.quoted))
    return Word(pieces)


def _statements(tokens: Iterator[Word | str]) -> Iterator[list[Word | list[Word]]]:
    """Group tokens into commands; ``( … )`` after ``X=`` becomes a list of words."""
    words: list[Word | list[Word]] = []
    skip_next = False
    group: list[Word] | None = None
    for token in tokens:
        if isinstance(token, str):
            if (
                token == "("
                and words
                and isinstance(words[-1], Word)
                and words[-1].raw.endswith("=")
            ):
                group = []
            elif token == ")" and group is not None:
                words.append(group)
                group = None
            elif REDIRECT.fullmatch(token):
                skip_next = True
            elif group is None:
                if words:
                    yield words
                words = []
            continue
        if skip_next:
            skip_next = False
        elif group is not None:
            group.append(token)
        else:
            words.append(token)
    if words:
        yield words
