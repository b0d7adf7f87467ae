"""Facts: a tree of plain JSON values, in which every absence has a reason.

Collectors write them (:class:`Gathered`), judges read them (:class:`Facts`). A judge cannot read
past an absence by accident: the typed accessors raise :class:`MissingFact`, which the runner turns
into a result that is never OK. The tree may come from a bundle that somebody else sent, so the
accessors check the type of what they find as well.
"""

from __future__ import annotations

import errno
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from qwen_tui_diagnostics.result import REASONS, SkipReason
from qwen_tui_profiles.text import Text, as_record, from_record, t

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

__all__ = ["Absence", "Facts", "Gathered", "MissingFact"]

_BY_ERRNO = {
    errno.EACCES: SkipReason.NOT_PERMITTED,
    errno.EPERM: SkipReason.NOT_PERMITTED,
    errno.ENOSYS: SkipReason.UNSUPPORTED,
    errno.EOPNOTSUPP: SkipReason.UNSUPPORTED,
    errno.ETIMEDOUT: SkipReason.TIMEOUT,
}


_NOTHING = Text("")


@dataclass(frozen=True, slots=True)
class Absence:
    """Why a fact is not there."""

    reason: SkipReason
    detail: Text = _NOTHING
    """For the report: an errno's text, a tool's name, a limit. Empty = the reason says it all."""
    whole: bool = False
    """Everything of its collector is absent, not this fact alone."""

    @property
    def word(self) -> Text:
        """The reason, in a word."""
        return REASONS[self.reason]

    def as_json(self) -> dict[str, object]:
        """Return ``{reason, detail}`` in English, with the ``parts`` of a sentence with fields."""
        plain: dict[str, object] = {"reason": self.reason.value, "detail": str(self.detail)}
        return {**plain, "parts": as_record(self.detail)} if self.detail.fields else plain


class MissingFact(Exception):  # noqa: N818 - a judge's "I do not know", not an error
    """A judge asked for a fact that is absent.

    Attributes:
        path: Dotted path of the fact.
        absence: Why.
    """

    def __init__(self, path: str, absence: Absence) -> None:
        super().__init__(path)
        self.path = path
        self.absence = absence


class Gathered:
    """What one collector found."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self.absent: dict[str, Absence] = {}
        self.raw: dict[str, str] = {}
        """Name of a raw source (``proc/meminfo``) → its text, for bundles."""

    def put(self, path: str, value: Any) -> None:
        """Store a JSON value; ``None`` stores nothing (say why with :meth:`lack`)."""
        if value is None:
            return
        *folders, leaf = path.split(".")
        place = self.values
        for folder in folders:
            place = place.setdefault(folder, {})
        place[leaf] = value

    def lack(self, path: str, reason: SkipReason, detail: Text | str = "") -> None:
        """Say why a fact is absent; a plain string is foreign (an errno's text, a tool's word)."""
        self.absent[path] = Absence(reason, Text(detail) if isinstance(detail, str) else detail)

    def put_or(
        self,
        path: str,
        value: Any,
        reason: SkipReason = SkipReason.UNSUPPORTED,
        detail: Text | str = "",
    ) -> None:
        """Store the value; say why it is absent when it is ``None``."""
        if value is None:
            self.lack(path, reason, detail)
        else:
            self.put(path, value)

    @contextmanager
    def attempt(self, *paths: str) -> Iterator[None]:
        """Run the body; an ``OSError`` or unreadable content makes the paths absent, with why."""
        try:
            yield
        except OSError as error:
            reason = _BY_ERRNO.get(error.errno or 0, SkipReason.UNSUPPORTED)
            for path in paths:
                self.lack(path, reason, error.strerror or type(error).__name__)
        except (ValueError, LookupError, TypeError) as error:
            for path in paths:
                self.lack(
                    path, SkipReason.UNSUPPORTED, t("unreadable: {kind}", kind=type(error).__name__)
                )


class Facts:
    """Typed reading of a tree of facts by dotted path; a number in it is an index into a list.

    Args:
        tree: Nested JSON values.
        absent: Dotted path → why it is absent; holds for everything below the path too.
        prefix: Dotted path of ``tree`` in the whole.
        trace: Collects every path that was read (tests).
        sources: Names of the collectors that answered; of the whole tree, for a part of it.
    """

    def __init__(
        self,
        tree: Mapping[str, Any],
        absent: Mapping[str, Absence] | None = None,
        prefix: str = "",
        trace: set[str] | None = None,
        sources: frozenset[str] | None = None,
    ) -> None:
        self._sources = frozenset(tree) if sources is None else sources
        self._tree = tree
        self._absent = absent if absent is not None else {}
        self._prefix = prefix
        self._trace = trace

    def text(self, path: str) -> str:
        """Return a string."""
        value = self._value(path)
        if not isinstance(value, str):
            raise self._odd(path, value)
        return value

    def flag(self, path: str) -> bool:
        """Return a boolean."""
        value = self._value(path)
        if not isinstance(value, bool):
            raise self._odd(path, value)
        return value

    def integer(self, path: str) -> int:
        """Return a whole number."""
        value = self._value(path)
        if isinstance(value, bool) or not isinstance(value, int):
            raise self._odd(path, value)
        return value

    def number(self, path: str) -> float:
        """Return a number."""
        value = self._value(path)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self._odd(path, value)
        return float(value)

    def texts(self, path: str) -> tuple[str, ...]:
        """Return a list of strings."""
        value = self._value(path)
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise self._odd(path, value)
        return tuple(value)

    def integers(self, path: str) -> tuple[int, ...]:
        """Return a list of whole numbers (a version, a capability)."""
        value = self._value(path)
        if not isinstance(value, list) or not all(type(item) is int for item in value):
            raise self._odd(path, value)
        return tuple(value)

    def numbers(self, path: str) -> tuple[float, ...]:
        """Return a list of numbers, at least one."""
        value = self._value(path)
        if not isinstance(value, list) or not value:
            raise self._odd(path, value)
        if any(isinstance(item, bool) or not isinstance(item, int | float) for item in value):
            raise self._odd(path, value)
        return tuple(float(item) for item in value)

    def rows(self, path: str) -> tuple[Facts, ...]:
        """Return a list of subtrees."""
        value = self._value(path)
        if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
            raise self._odd(path, value)
        return tuple(
            Facts(item, self._absent, f"{self._full(path)}.{index}", self._trace, self._sources)
            for index, item in enumerate(value)
        )

    def length(self, path: str) -> int:
        """Return how many items a list has."""
        value = self._value(path)
        if not isinstance(value, list):
            raise self._odd(path, value)
        return len(value)

    def at(self, path: str) -> Facts:
        """Return the subtree at a path."""
        value = self._value(path)
        if not isinstance(value, dict):
            raise self._odd(path, value)
        return Facts(value, self._absent, self._full(path), self._trace, self._sources)

    def overlaid(self, values: Mapping[str, Any]) -> Facts:
        """Return this level with some values in place of its own."""
        return Facts(
            {**self._tree, **values}, self._absent, self._prefix, self._trace, self._sources
        )

    def tree(self, path: str) -> dict[str, Any]:
        """Return the subtree at a path as it is (a foreign document)."""
        value = self._value(path)
        if not isinstance(value, dict):
            raise self._odd(path, value)
        return dict(value)

    def names(self) -> tuple[str, ...]:
        """Return the names at this level."""
        return tuple(self._tree)

    def has(self, path: str) -> bool:
        """Tell whether a fact is there. A judge that asks decides what its absence means."""
        try:
            self._value(path)
        except MissingFact:
            return False
        return True

    def why_absent(self, path: str) -> Absence:
        """Return why a fact is absent."""
        full = self._full(path)
        while full:
            if full in self._absent:
                absence = self._absent[full]
                return absence if "." in full else replace(absence, whole=True)
            full = full.rpartition(".")[0]
        unheard = self._full(path).partition(".")[0] not in self._sources
        return Absence(SkipReason.UNSUPPORTED, t("not collected"), whole=unheard)

    def _value(self, path: str) -> Any:
        if self._trace is not None:
            self._trace.add(self._full(path))
        value: Any = self._tree
        for name in path.split("."):
            if isinstance(value, dict):
                value = value.get(name)
            elif isinstance(value, list) and name.isdecimal() and int(name) < len(value):
                value = value[int(name)]
            else:
                value = None
            if value is None:
                raise MissingFact(self._full(path), self.why_absent(path))
        return value

    def _full(self, path: str) -> str:
        return f"{self._prefix}.{path}" if self._prefix else path

    def _odd(self, path: str, value: Any) -> MissingFact:
        return MissingFact(
            self._full(path),
            Absence(SkipReason.UNSUPPORTED, t("unexpected {kind}", kind=type(value).__name__)),
        )


def absences_from_json(document: Any) -> dict[str, Absence]:
    """Rebuild the absences of a bundle; entries that are not understood are dropped."""
    found: dict[str, Absence] = {}
    items: Sequence[tuple[Any, Any]] = list(document.items()) if isinstance(document, dict) else []
    for path, entry in items:
        if not isinstance(path, str) or not isinstance(entry, dict):
            continue
        try:
            reason = SkipReason(str(entry.get("reason")))
        except ValueError:
            reason = SkipReason.UNSUPPORTED
        found[path] = Absence(reason, from_record(entry.get("parts"), str(entry.get("detail", ""))))
    return found
