"""How lists of module names are matched: the building blocks of every method's rules."""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["EntryList", "Globs", "Patterns", "Runs", "compile_pattern", "runs_of", "strings"]

_LONGEST_PATTERN = 2000
_NESTED = re.compile(r"\((?:[^()\\]|\\.)*[*+}](?:[^()\\]|\\.)*\)\s*[*+{]")
"""A repeated group that repeats inside: can take for ever on a long name."""


def strings(value: object) -> tuple[str, ...]:
    """Return the strings of a list; empty for null and for anything else."""
    if isinstance(value, str):
        return (value,)
    if not isinstance(value, list | tuple):
        return ()
    return tuple(item for item in value if isinstance(item, str))


def compile_pattern(text: str) -> re.Pattern[str] | None:
    """Compile a foreign expression; None where it is not one, or could run for ever."""
    if len(text) > _LONGEST_PATTERN or _NESTED.search(text):
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return re.compile(text)
    except (re.error, RecursionError, OverflowError):
        return None


def runs_of(name: str) -> Iterable[str]:
    """Yield every run of whole dotted segments of a name."""
    parts = name.split(".")
    for begin in range(len(parts)):
        for end in range(len(parts), begin, -1):
            yield ".".join(parts[begin:end])


class Runs:
    """Entries that match as a run of whole dotted segments anywhere in a name."""

    def __init__(self, entries: Iterable[str]) -> None:
        self._entries = frozenset(entries)

    def find(self, name: str) -> str | None:
        """Return the entry that occurs in the name."""
        if not self._entries:
            return None
        return next((run for run in runs_of(name) if run in self._entries), None)


class Patterns:
    """``re:`` entries, matched at the start of a name; broken ones are kept apart."""

    def __init__(self, entries: Iterable[tuple[str, str]]) -> None:
        self._compiled: list[tuple[str, re.Pattern[str]]] = []
        self.broken: list[str] = []
        for entry, expression in entries:
            pattern = compile_pattern(expression)
            if pattern is None:
                self.broken.append(entry)
            else:
                self._compiled.append((entry, pattern))

    def find(self, name: str) -> str | None:
        """Return the entry that matches."""
        return next((entry for entry, p in self._compiled if p.match(name)), None)


class EntryList:
    """compressed-tensors: ``re:`` expressions; plain entries equal the name or end it."""

    def __init__(self, entries: Sequence[str], *, suffixes: bool = True) -> None:
        self.plain = frozenset(entry for entry in entries if not entry.startswith("re:"))
        self.patterns = Patterns((e, e[3:]) for e in entries if e.startswith("re:"))
        self._suffixes = suffixes

    def find(self, name: str) -> str | None:
        """Return the entry that names the module."""
        if name in self.plain:
            return name
        if self._suffixes and self.plain:
            rest = name
            while True:
                _, dot, rest = rest.partition(".")
                if not dot:
                    break
                if rest in self.plain:
                    return rest
        return self.patterns.find(name)


@dataclass(frozen=True, slots=True)
class Globs:
    """ModelOpt's globs: ``*`` = anything, dots included; on the whole name or one dotted part."""

    heads: tuple[str, ...]
    """Entries that are a text and one star behind it."""
    others: tuple[tuple[str, re.Pattern[str]], ...]

    @classmethod
    def of(cls, entries: Iterable[str]) -> Globs:
        """Sort entries by how fast they match."""
        heads: list[str] = []
        others: list[tuple[str, re.Pattern[str]]] = []
        for entry in entries:
            if "*" not in entry:
                continue
            if entry.count("*") == 1 and entry.endswith("*"):
                heads.append(entry[:-1])
            else:
                # Runs of stars mean one; more than a few would make matching slow.
                text = re.sub(r"\*+", "*", entry)
                if text.count("*") <= 6 and len(text) <= _LONGEST_PATTERN:
                    others.append((entry, re.compile(re.escape(text).replace(r"\*", ".*"))))
        return cls(tuple(heads), tuple(others))

    def find(self, name: str) -> str | None:
        """Return the entry that matches."""
        parts = name.split(".")
        if self.heads:
            for text in (name, *parts):
                if text.startswith(self.heads):
                    return next(head for head in self.heads if text.startswith(head)) + "*"
        for entry, pattern in self.others:
            if pattern.fullmatch(name) or any(pattern.fullmatch(part) for part in parts):
                return entry
        return None
