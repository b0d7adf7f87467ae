"""Reading TOML so that a mistake can be named by file, line and column.

:mod:`tomllib` says where a *syntax* error is, but forgets where a value stood. A profile can also
be wrong in its content, so :class:`Document` finds the line of a key again when it has to.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from qwen_tui_profiles.errors import ProfileError
from qwen_tui_profiles.foreign import clean
from qwen_tui_profiles.text import Text, t

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

__all__ = ["MAX_BYTES", "Document", "ProfileFileError", "parse_toml", "read_toml"]

MAX_BYTES = 1 << 20
"""A profile is a page of text; anything larger was put there by mistake."""

_AT = re.compile(r" \(at (?:line (?P<line>\d+), column (?P<column>\d+)|end of document)\)$")
_BARE_OR_QUOTED = r"(?:[A-Za-z0-9_-]+|\"(?:[^\"\\]|\\.)*\"|'[^']*')"
_KEY = re.compile(rf"\s*(?P<key>{_BARE_OR_QUOTED}(?:\s*\.\s*{_BARE_OR_QUOTED})*)\s*=")
_HEADER = re.compile(rf"\s*\[\[?\s*(?P<key>{_BARE_OR_QUOTED}(?:\s*\.\s*{_BARE_OR_QUOTED})*)\s*\]")
_PART = re.compile(_BARE_OR_QUOTED)


class ProfileFileError(ProfileError):
    """A profile file is unusable; says where.

    Attributes:
        path: The file.
        line: 1-based line of the mistake; ``None`` when the whole file is meant.
        column: 1-based column of the mistake.
    """

    def __init__(
        self, path: str, line: int | None, column: int | None, reason: Text, remedy: Text | None
    ) -> None:
        place = t("{path}", path=path)
        if line is not None:
            place = t("{path}, line {line}, column {column}", path=path, line=line, column=column)
        super().__init__(t("{place}: {reason}", place=place, reason=reason), remedy)
        self.path = path
        self.line = line
        self.column = column
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Document:
    """A parsed TOML file that remembers its text."""

    path: str
    text: str
    data: Mapping[str, Any]

    def where(self, key: Sequence[str]) -> tuple[int, int] | None:
        """Return line and column (1-based) of a key, or of the table that holds it."""
        table: tuple[str, ...] = ()
        best: tuple[int, tuple[int, int]] | None = None
        wanted = tuple(key)
        quote = ""
        for number, line in enumerate(self.text.splitlines(), start=1):
            if quote:
                if quote in line:
                    quote = ""
                continue
            found: tuple[str, ...] | None = None
            if (header := _HEADER.match(line)) is not None:
                table = found = _parts(header["key"])
                column = header.start("key") + 1
            elif (entry := _KEY.match(line)) is not None:
                found = (*table, *_parts(entry["key"]))
                column = entry.start("key") + 1
                quote = _opened_quote(line[entry.end() :])
            if found and wanted[: len(found)] == found and (best is None or len(found) > best[0]):
                best = (len(found), (number, column))
        return best[1] if best else None

    def error(self, key: Sequence[str], reason: Text, remedy: Text | None) -> ProfileFileError:
        """Build the error for a key whose value cannot be used."""
        line, column = self.where(key) or (1, 1)
        return ProfileFileError(self.path, line, column, reason, remedy)


def read_toml(path: Path) -> Document:
    """Read one file.

    Raises:
        ProfileFileError: it cannot be read, is not UTF-8, is too large or is not TOML.
    """
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_BYTES + 1)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise ProfileFileError(
            str(path),
            None,
            None,
            t("the file cannot be read ({reason}).", reason=reason),
            t("Make it a readable text file, or move it out of the folder."),
        ) from error
    if len(raw) > MAX_BYTES:
        raise ProfileFileError(
            str(path),
            None,
            None,
            t("the file is larger than {limit} bytes, so it is no profile.", limit=MAX_BYTES),
            t("Move it out of the folder."),
        )
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        column = error.start - (raw.rfind(b"\n", 0, error.start) + 1) + 1
        raise ProfileFileError(
            str(path),
            line,
            column,
            t("byte 0x{byte:02x} is not UTF-8.", byte=raw[error.start]),
            t("Save the file as UTF-8."),
        ) from error
    return parse_toml(text, str(path))


def parse_toml(text: str, path: str) -> Document:
    """Parse TOML text that came from ``path``.

    Raises:
        ProfileFileError: the text is not TOML.
    """
    try:
        return Document(path, text, tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        message = str(error)
        match = _AT.search(message)
        lines = text.splitlines() or [""]
        line, column = len(lines), len(lines[-1]) + 1
        if match is not None:
            message = message[: match.start()]
            if match["line"]:
                line, column = int(match["line"]), int(match["column"])
        raise ProfileFileError(
            path,
            line,
            column,
            t("not valid TOML ({reason}).", reason=clean(message)),
            t("Correct this line; the other profiles are not affected."),
        ) from error
    except RecursionError as error:
        raise ProfileFileError(
            path,
            None,
            None,
            t("values are nested too deeply to read."),
            t("Write the profile without nested arrays."),
        ) from error


def _parts(dotted: str) -> tuple[str, ...]:
    return tuple(
        part[1:-1] if part[0] in "\"'" else part for part in (m[0] for m in _PART.finditer(dotted))
    )


def _opened_quote(rest: str) -> str:
    """Return the delimiter of a multi-line string that opens in ``rest`` and stays open."""
    for quote in ('"""', "'''"):
        if rest.count(quote) == 1:
            return quote
    return ""
