"""The part of YAML that compose files are written in; the standard library has no YAML.

Block mappings and sequences, flow sequences and mappings, plain and quoted scalars, literal and
folded blocks, comments. Anchors, aliases, tags and merge keys are refused by name rather than
misread.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from qwen_tui_profiles.errors import InputError
from qwen_tui_profiles.text import t

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qwen_tui_profiles.text import Text

__all__ = ["Node", "read_yaml"]

Node = "dict[str, Node] | list[Node] | str | None"

_KEY = re.compile(
    r"""(?P<key>"(?:[^"\\]|\\.)*"|'(?:[^']|'')*'|[^\s#'"\[{&*!|>%@`-][^#]*?|-[^\s#][^#]*?)\s*:(?=\s|$)"""
)
_BLOCK = re.compile(r"(?P<style>[|>])(?P<chomp>[+-]?)\d?\s*(?:#.*)?$")
_MAX_DEPTH = 40


@dataclass(frozen=True, slots=True)
class _Line:
    number: int
    indent: int
    text: str


class _Reader:
    def __init__(self, text: str) -> None:
        self.raw = text.splitlines()
        self.lines = [
            _Line(number, len(line) - len(line.lstrip(" ")), line.strip())
            for number, line in enumerate(self.raw, start=1)
        ]
        self.position = 0

    def fail(self, line: int, what: Text) -> InputError:
        return InputError(
            t("Line {line} of the YAML file: {what}.", line=line, what=what),
            t("Write the service without it, or pass the command itself."),
        )

    def skip(self) -> _Line | None:
        """Return the next line with content."""
        while self.position < len(self.lines):
            line = self.lines[self.position]
            if "\t" in self.raw[self.position][: line.indent + 1]:
                raise self.fail(line.number, t("a tab is used to indent"))
            if line.text and not line.text.startswith("#") and line.text not in {"---", "..."}:
                return line
            self.position += 1
        return None

    def block(self, indent: int, depth: int = 0) -> object:
        line = self.skip()
        if line is None or line.indent < indent:
            return None
        if depth > _MAX_DEPTH:
            raise self.fail(line.number, t("it is nested too deeply"))
        if line.text == "-" or line.text.startswith("- "):
            return self.sequence(line.indent, depth)
        if _KEY.match(line.text):
            return self.mapping(line.indent, depth)
        return self.scalar(line)

    def mapping(self, indent: int, depth: int) -> dict[str, object]:
        out: dict[str, object] = {}
        while (line := self.skip()) is not None and line.indent == indent:
            match = _KEY.match(line.text)
            if match is None:
                raise self.fail(line.number, t("a key and a colon are expected"))
            key = _unquoted(match["key"])
            if key == "<<":
                raise self.fail(line.number, t("merge keys (<<) are not read"))
            out[key] = self.value(line, line.text[match.end() :].strip(), indent, depth)
        if line is not None and line.indent > indent:
            raise self.fail(line.number, t("it is indented further than its neighbours"))
        return out

    def sequence(self, indent: int, depth: int) -> list[object]:
        out: list[object] = []
        while (line := self.skip()) is not None and line.indent == indent:
            if not (line.text == "-" or line.text.startswith("- ")):
                break
            rest = line.text[1:].strip()
            if rest and _KEY.match(rest) and rest[0] not in "\"'":
                # A mapping that begins behind the dash: its keys are indented to the first.
                inner = line.indent + line.text.index(rest)
                self.lines[self.position] = _Line(line.number, inner, rest)
                out.append(self.mapping(inner, depth + 1))
                continue
            if rest.startswith("- "):
                inner = line.indent + 1 + line.text[1:].index("-")
                self.lines[self.position] = _Line(line.number, inner, rest)
                out.append(self.sequence(inner, depth + 1))
                continue
            out.append(self.value(line, rest, indent, depth))
        return out

    def value(self, line: _Line, rest: str, indent: int, depth: int) -> object:
        """Read what stands behind a colon or dash; leaves the position after it."""
        self.position += 1
        if rest[:1] in {"&", "*", "!"}:
            raise self.fail(line.number, t("anchors, aliases and tags are not read"))
        match = _BLOCK.match(rest)
        if match is not None:
            return self.block_scalar(indent, match["style"], match["chomp"])
        if not rest or rest.startswith("#"):
            following = self.skip()
            if following is None:
                return None
            deeper = following.indent > indent
            # A list may stand at its key's own indentation.
            listed = following.indent == indent and following.text.startswith("- ")
            nested = listed and not line.text.startswith("-")
            return self.block(following.indent, depth + 1) if deeper or nested else None
        if rest[0] in "[{":
            return self.flow(line, rest)
        return self.plain(line, rest, indent)

    def scalar(self, line: _Line) -> object:
        self.position += 1
        if line.text[0] in "[{":
            return self.flow(line, line.text)
        return self.plain(line, line.text, line.indent - 1)

    def plain(self, line: _Line, rest: str, indent: int) -> str | None:
        """Read a scalar that may go on in deeper lines."""
        parts = [rest]
        quote = rest[0] if rest[0] in "\"'" else ""
        while not quote or not _closed(" ".join(parts), quote):
            following = self.lines[self.position] if self.position < len(self.lines) else None
            if following is None:
                if quote:
                    raise self.fail(line.number, t("a quote is never closed"))
                break
            if not quote and (
                not following.text or following.indent <= indent or _KEY.match(following.text)
            ):
                break
            parts.append(following.text)
            self.position += 1
        text = " ".join(part for part in parts if part)
        if quote:
            return _unquoted(text[: _end(text, quote)])
        text = re.sub(r"\s+#.*$", "", text)
        return None if text in {"~", "null", ""} else text

    def block_scalar(self, indent: int, style: str, chomp: str) -> str:
        out: list[str] = []
        base: int | None = None
        while self.position < len(self.lines):
            line = self.lines[self.position]
            raw = self.raw[self.position]
            if line.text and line.indent <= indent:
                break
            if line.text and base is None:
                base = line.indent
            out.append(raw[base or 0 :] if line.text else "")
            self.position += 1
        while out and not out[-1]:
            out.pop()
        text = "\n".join(out) if style == "|" else _folded(out)
        return text if chomp == "-" or not text else text + "\n"

    def flow(self, line: _Line, rest: str) -> object:
        text = rest
        while _open_brackets(text) > 0 and self.position < len(self.lines):
            text += " " + self.lines[self.position].text
            self.position += 1
        items, end = _flow_value(text, 0, 0)
        trailing = text[end:].strip()
        if end < 0 or (trailing and not trailing.startswith("#")):
            raise self.fail(line.number, t("a list or mapping in brackets is not closed"))
        return items


def read_yaml(text: str) -> object:
    """Return mappings as dict, sequences as list, scalars as text (``None`` for empty).

    Raises:
        InputError: the text uses something that is not read here; the line is named.
    """
    reader = _Reader(text)
    value = reader.block(0)
    rest = reader.skip()
    if rest is not None:
        raise reader.fail(rest.number, t("it does not belong to what stands above"))
    return value


def _unquoted(text: str) -> str:
    bare = text.strip()
    if len(bare) > 1 and bare[0] == bare[-1] == "'":
        return bare[1:-1].replace("''", "'")
    if len(bare) > 1 and bare[0] == bare[-1] == '"':
        return re.sub(r"\\(.)", lambda m: {"n": "\n", "t": "\t"}.get(m[1], m[1]), bare[1:-1])
    return bare


def _end(text: str, quote: str) -> int:
    """Return the index after the closing quote, or -1."""
    index = 1
    while index < len(text):
        if quote == '"' and text[index] == "\\":
            index += 2
            continue
        if text[index] == quote:
            if quote == "'" and text[index + 1 : index + 2] == "'":
                index += 2
                continue
            return index + 1
        index += 1
    return -1


def _closed(text: str, quote: str) -> bool:
    return _end(text, quote) > 0


def _folded(lines: Sequence[str]) -> str:
    out = ""
    for line in lines:
        if not line:
            out += "\n"
        else:
            out += line if not out or out.endswith("\n") else " " + line
    return out


def _open_brackets(text: str) -> int:
    depth = 0
    index = 0
    while index < len(text):
        if text[index] in "\"'":
            end = _end(text[index:], text[index])
            if end < 0:
                return depth
            index += end
            continue
        depth += (text[index] in "[{") - (text[index] in "]}")
        index += 1
    return depth


def _flow_value(text: str, index: int, depth: int) -> tuple[object, int]:
    """Read one flow value; an end of -1 means that it is not closed."""
    while index < len(text) and text[index].isspace():
        index += 1
    if index >= len(text) or depth > _MAX_DEPTH:
        return None, -1
    if text[index] in "[{":
        return _flow_collection(text, index, depth)
    if text[index] in "\"'":
        end = _end(text[index:], text[index])
        return (None, -1) if end < 0 else (_unquoted(text[index : index + end]), index + end)
    match = re.compile(r"[^,\[\]{}]*?(?=\s*(?:,|\]|\}|:\s|$))").match(text, index)
    end = index if match is None else match.end()
    word = text[index:end].strip()
    return (None if word in {"~", "null", ""} else word), end


def _flow_collection(text: str, index: int, depth: int) -> tuple[object, int]:
    closing = "]" if text[index] == "[" else "}"
    items: list[object] = []
    pairs: dict[str, object] = {}
    index += 1
    while True:
        while index < len(text) and (text[index].isspace() or text[index] == ","):
            index += 1
        if index >= len(text):
            return None, -1
        if text[index] == closing:
            return (items if closing == "]" else pairs), index + 1
        start = index
        value, index = _flow_value(text, index, depth + 1)
        if index < 0:
            return None, -1
        if closing == "}":
            match = re.compile(r"\s*:\s*").match(text, index)
            if match is None:
                pairs[str(value)] = None
            else:
                inner, index = _flow_value(text, match.end(), depth + 1)
                if index < 0:
                    return None, -1
                pairs[str(value)] = inner
        else:
            items.append(value)
        if index == start:
            return None, -1
