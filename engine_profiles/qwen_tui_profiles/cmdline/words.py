"""Shell text into words and operators: quotes, continuations, comments, here-documents."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from qwen_tui_profiles.errors import InputError
from qwen_tui_profiles.text import t

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["REDIRECT", "Piece", "Word", "command_end", "tokens"]

REDIRECT = re.compile(r"\d*(?:>>|>\||>&|<&|&>|>|<<<|<)")
"""An operator that takes the next word away from the command."""

_OPERATORS = ("&&", "||", ";;", "&>", ";", "&", "|")
_ANGLES = (">>", ">|", ">&", "<<<", "<<-", "<<", "<&")


@dataclass
class Piece:
    """A stretch of a word that is quoted in one way."""

    text: str
    expand: bool
    """Whether ``$`` and backquotes mean something in it."""
    quoted: bool


@dataclass
class Word:
    """One word, with its quoting still known."""

    pieces: list[Piece] = field(default_factory=list)

    @property
    def raw(self) -> str:
        """The text without its quotes."""
        return "".join(piece.text for piece in self.pieces)

    @property
    def bare(self) -> bool:
        """Whether nothing in it is quoted."""
        return all(not piece.quoted for piece in self.pieces)


def tokens(text: str) -> Iterator[Word | str]:
    """Yield words and operators; line continuations and comments are gone."""
    position, word = 0, Word()
    plain: list[str] = []

    def flush_plain() -> None:
        if plain:
            word.pieces.append(Piece("".join(plain), expand=True, quoted=False))
            plain.clear()

    heredocs: list[str] = []
    while position < len(text):
        character = text[position]
        if character == "\\":
            following = text[position + 1 : position + 2]
            if following == "\n":
                position += 2
                continue
            # Blanks behind a continuation are the classic copy-and-paste slip; bash would end the
            # command here, the author did not mean it.
            blanks = re.compile(r"[ \t]+\n").match(text, position + 1)
            if blanks is not None:
                position = blanks.end()
                continue
            flush_plain()
            word.pieces.append(Piece(following, expand=False, quoted=True))
            position += 2
            continue
        if character in "'\"":
            flush_plain()
            position = _quoted(text, position, word)
            continue
        if text.startswith("$(", position) or text.startswith("${", position) or character == "`":
            end = command_end(text, position)
            plain.append(text[position:end])
            position = end
            continue
        boundary = not plain and not word.pieces
        if character == "#" and boundary:
            end = text.find("\n", position)
            position = len(text) if end < 0 else end
            continue
        operator = _operator(text, position)
        if character in " \t\n\u00a0" or operator:
            if operator and plain and "".join(plain).isdigit() and REDIRECT.fullmatch(operator):
                plain.clear()  # `2>`: the number belongs to the redirection
            flush_plain()
            if word.pieces:
                yield word
                word = Word()
            if character == "\n":
                yield "\n"
                position = _skip_heredocs(text, position + 1, heredocs)
                continue
            if operator in {"<<", "<<-"}:
                match = re.compile(r"[ \t]*['\"]?([A-Za-z_]\w*)['\"]?").match(
                    text, position + len(operator)
                )
                if match is not None:
                    heredocs.append(match[1])
                    position = match.end()
                    continue
            if operator:
                yield operator
                position += len(operator)
            else:
                position += 1
            continue
        plain.append(character)
        position += 1
    flush_plain()
    if word.pieces:
        yield word


def command_end(text: str, start: int) -> int:
    """Return the end of ``$(…)``, a backquoted command or a lone dollar sign."""
    if text[start] == "`":
        end = text.find("`", start + 1)
        return len(text) if end < 0 else end + 1
    if not text.startswith("$(", start):
        end = start + 1
        if text.startswith("${", start):
            closing = text.find("}", start)
            return len(text) if closing < 0 else closing + 1
        while end < len(text) and text[end] in "@*#?$!0123456789-":
            return end + 1
        return end
    depth = 0
    for index in range(start + 1, len(text)):
        depth += (text[index] == "(") - (text[index] == ")")
        if depth == 0:
            return index + 1
    return len(text)


def _operator(text: str, position: int) -> str:
    if text[position] in "()<>":
        for operator in _ANGLES:
            if text.startswith(operator, position):
                return operator
        return text[position]
    for operator in _OPERATORS:
        if text.startswith(operator, position):
            return operator
    return ""


def _quoted(text: str, position: int, word: Word) -> int:
    """Read one quoted stretch into ``word``; return where it ends."""
    quote = text[position]
    start = position + 1
    if quote == "'":
        end = text.find("'", start)
        if end < 0:
            raise _unclosed(text, position)
        word.pieces.append(Piece(text[start:end], expand=False, quoted=True))
        return end + 1
    out: list[str] = []
    index = start
    while index < len(text) and text[index] != '"':
        if text[index] == "\\" and text[index + 1 : index + 2] in {'"', "\\", "$", "`", "\n"}:
            if text[index + 1] == "$":
                word.pieces.append(Piece("".join(out), expand=True, quoted=True))
                word.pieces.append(Piece("$", expand=False, quoted=True))
                out = []
            elif text[index + 1] != "\n":
                out.append(text[index + 1])
            index += 2
            continue
        out.append(text[index])
        index += 1
    if index >= len(text):
        raise _unclosed(text, position)
    word.pieces.append(Piece("".join(out), expand=True, quoted=True))
    return index + 1


def _skip_heredocs(text: str, position: int, names: list[str]) -> int:
    """Return the position after the bodies of the here-documents that were announced."""
    for name in names:
        match = re.compile(rf"^\t*{re.escape(name)}$", re.MULTILINE).search(text, position)
        position = len(text) if match is None else match.end()
    names.clear()
    return position


def _unclosed(text: str, position: int) -> InputError:
    line = text.count("\n", 0, position) + 1
    column = position - (text.rfind("\n", 0, position) + 1) + 1
    return InputError(
        t(
            "The quote {quote} at line {line}, column {column} is never closed.",
            quote=text[position],
            line=line,
            column=column,
        ),
        t("Close it, or paste the whole command."),
    )
