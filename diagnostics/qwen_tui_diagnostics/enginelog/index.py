"""Finds the rows that may match a line, so that most lines cost almost nothing."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["StartIndex"]

_KEY = 3
_LITERAL = re.compile(r"(?:[A-Za-z_#]|\\ | (?!\?)){4,}")


class Entry(Protocol):
    """What the index needs of a row."""

    @property
    def needle(self) -> str: ...

    @property
    def start(self) -> re.Pattern[str]: ...


T = TypeVar("T", bound=Entry)


class StartIndex(Generic[T]):
    """Rows by the first characters of the message; those without a fixed start are always tried."""

    def __init__(self, rows: Iterable[T]) -> None:
        self._by_start: dict[str, list[tuple[int, T]]] = {}
        self._anywhere: list[tuple[int, T]] = []
        for place, row in enumerate(rows):
            key = _fixed_start(row.start.pattern)
            if key is None:
                self._anywhere.append((place, row))
            else:
                self._by_start.setdefault(key, []).append((place, row))

    def candidates(self, message: str) -> Iterator[T]:
        """Yield the rows whose needle stands in ``message``, in the table's order."""
        found = [e for e in self._by_start.get(message[:_KEY], ()) if e[1].needle in message]
        found += [e for e in self._anywhere if e[1].needle in message]
        if len(found) > 1:
            found.sort(key=lambda entry: entry[0])
        return (row for _, row in found)


def _fixed_start(pattern: str) -> str | None:
    """Return the first characters that every match begins with; ``None`` when they vary."""
    depth = 0
    for char in re.sub(r"\\.|\[[^\]]*\]", "x", pattern):
        depth += (char == "(") - (char == ")")
        if char == "|" and depth == 0:
            return None
    match = _LITERAL.match(pattern)
    if match is None:
        return None
    # The last literal may carry a quantifier; the first three cannot.
    return match[0].replace("\\ ", " ")[:_KEY]
