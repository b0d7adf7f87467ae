"""Reads the Prometheus text exposition format, for figures and not for completeness.

A scrape of a real engine is 60 to 90 KB and is read once a second, so the part of a line before
its value (name and labels) is parsed once and remembered: the next scrape costs one dictionary
lookup and one ``float()`` a line. A line that cannot be read is counted and skipped: one broken
exporter must not hide the figures beside it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["Exposition", "ExpositionParser", "Labels", "Sample"]

Labels = tuple[tuple[str, str], ...]
"""Label pairs sorted by name: hashable, equal for equal series."""

_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_LABEL = re.compile(r'\s*([a-zA-Z_][a-zA-Z0-9_]*)\s*=\s*"((?:[^"\\]|\\.)*)"\s*(,?)')
_ESCAPE = re.compile(r"\\(.)")
_UNESCAPED = {"n": "\n", "\\": "\\", '"': '"'}

_MAX_HEADS = 50_000
"""Remembered line heads; a peer that invents new labels on every scrape must not fill memory."""


class Sample(NamedTuple):
    """One series' value. NaN and infinities are kept as the peer sent them."""

    labels: Labels
    value: float


class _Series(NamedTuple):
    name: str
    labels: Labels


@dataclass(slots=True)
class Exposition:
    """The samples of one scrape by metric name."""

    samples: dict[str, list[Sample]] = field(default_factory=dict)
    broken_lines: int = 0
    """Lines that are not of the format; they are left out of ``samples``."""
    lines: int = 0
    """Sample lines seen, also those of unwanted names."""
    prefixes: set[str] = field(default_factory=set)
    """What each name begins with: up to its colon (``sglang``), else its first word (``smg``)."""

    def __iter__(self) -> Iterator[tuple[str, Sample]]:
        """Yield every sample with its name."""
        for name, samples in self.samples.items():
            for sample in samples:
                yield name, sample


class ExpositionParser:
    """Parses scrapes of one peer; keeps what it learned about its lines between them."""

    def __init__(self, wanted: Callable[[str], bool] | None = None) -> None:
        """Keep only the names that ``wanted`` accepts (default: all)."""
        self._wanted = wanted
        # Of an unwanted series only the prefix is kept: it tells which engine this is.
        self._heads: dict[str, _Series | str] = {}

    def parse(self, text: str, into: Exposition | None = None) -> Exposition:
        """Read ``text``; with ``into``, add to an earlier piece of the same scrape."""
        out = Exposition() if into is None else into
        heads = self._heads
        if len(heads) > _MAX_HEADS:
            heads.clear()
        samples = out.samples
        for line in text.split("\n"):
            if not line or line[0] == "#":
                continue
            # After the label block there are only numbers, so its end is the last "} ".
            head, end, rest = line.rpartition("} ")
            if not end:
                head, _, rest = line.partition(" ")
            series = heads.get(head, _UNKNOWN)
            if series is _UNKNOWN or "#" in rest:
                self._slow(line, out)
                continue
            out.lines += 1
            if isinstance(series, str):
                out.prefixes.add(series)
                continue
            try:
                value = float(rest)
            except ValueError:
                self._slow(line, out, counted=True)
                continue
            if "_" in rest:
                out.broken_lines += 1
                continue
            found = samples.get(series.name)
            if found is None:
                samples[series.name] = found = []
                out.prefixes.add(_prefix(series.name))
            found.append(Sample(series.labels, value))
        return out

    def _slow(self, line: str, out: Exposition, *, counted: bool = False) -> None:
        """Read a line whose head is new or whose tail is unusual (timestamp, exemplar)."""
        stripped = line.strip()
        if not stripped or stripped[0] == "#":
            return
        if not counted:
            out.lines += 1
        read = _read_line(stripped)
        if read is None:
            out.broken_lines += 1
            return
        written, value = read
        series = written._replace(name=self._own_name(written.name))
        out.prefixes.add(_prefix(series.name))
        kept = self._wanted is None or self._wanted(series.name)
        head, end, _ = line.rpartition("} ")
        # Remember the head only when the fast path would cut the line at the same place.
        if not end:
            head = line.partition(" ")[0]
        if _read_line(f"{head}{end or ' '}{_MARK}") == (written, float(_MARK)):
            self._heads[head] = series if kept else _prefix(series.name)
        if kept:
            out.samples.setdefault(series.name, []).append(Sample(series.labels, value))

    def _own_name(self, name: str) -> str:
        """Return the engine's own name of a metric that a router passes on.

        sglang-router 0.3.2 writes an underscore for the colon (``sglang_num_running_reqs``); its
        successor SMG 1.13 leaves it.
        """
        if self._wanted is None or self._wanted(name):
            return name
        colon = name.replace("_", ":", 1)
        return colon if self._wanted(colon) else name


def _prefix(name: str) -> str:
    before, colon, _ = name.partition(":")
    if colon:
        return before
    words = name.split("_", 2)
    # "sgl_router_…" is one product's prefix; everywhere else the first word is.
    return "_".join(words[:2]) if words[0] == "sgl" else words[0]


_MARK = "1.25e-300"
"""A value that no exporter has: read back, it shows where a line's value stands."""
_UNKNOWN = _Series("", ())
"""Marks a head that was never seen; never a real series (a name is not empty)."""


def _read_line(line: str) -> tuple[_Series, float] | None:
    name = _NAME.match(line)
    if name is None:
        return None
    at = name.end()
    labels: list[tuple[str, str]] = []
    rest = line[at:].lstrip()
    if rest.startswith("{"):
        read = _read_labels(rest)
        if read is None:
            return None
        labels, rest = read
    elif rest == line[at:]:
        return None  # nothing between the name and what follows: not a sample
    value = _read_value(rest)
    if value is None:
        return None
    return _Series(name.group(), tuple(sorted(labels))), value


def _read_labels(text: str) -> tuple[list[tuple[str, str]], str] | None:
    """Read ``{a="b",…}`` at the start; return the pairs and what follows the brace."""
    labels: list[tuple[str, str]] = []
    seen: set[str] = set()
    at = 1
    more = True
    while more:
        match = _LABEL.match(text, at)
        if match is None:
            break
        label, value, comma = match.groups()
        if label in seen:
            return None
        seen.add(label)
        if "\\" in value:
            value = _ESCAPE.sub(lambda m: _UNESCAPED.get(m.group(1), m.group(0)), value)
        labels.append((label, value))
        at = match.end()
        more = bool(comma)
    rest = text[at:].lstrip()
    if not rest.startswith("}"):
        return None
    return labels, rest[1:].lstrip()


def _read_value(text: str) -> float | None:
    """Read ``VALUE [TIMESTAMP]``; an OpenMetrics exemplar after ``#`` is ignored."""
    parts = text.split("#", 1)[0].split()
    if not 1 <= len(parts) <= 2:
        return None
    try:
        # Python's float() takes "1_000", which is not a number of this format.
        if any("_" in part for part in parts):
            return None
        value = float(parts[0])
        if len(parts) == 2:
            float(parts[1])
    except ValueError:
        return None
    return value
