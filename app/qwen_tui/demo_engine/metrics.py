"""A small Prometheus registry: counters, gauges and histograms in the text exposition format."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["Registry"]

_Labels = tuple[tuple[str, str], ...]


class _Histogram:
    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        self.counts = [0.0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, value: float, times: int = 1) -> None:
        self.counts[bisect_left(self.bounds, value)] += times
        self.total += value * times


class Registry:
    """Families in the order of declaration, samples in the order of first use."""

    def __init__(self) -> None:
        self._kinds: dict[str, tuple[str, str]] = {}
        self._bounds: dict[str, Sequence[float]] = {}
        self._values: dict[str, dict[_Labels, float]] = {}
        self._histograms: dict[str, dict[_Labels, _Histogram]] = {}

    def declare(self, name: str, kind: str, text: str, bounds: Sequence[float] = ()) -> None:
        """Declare a family; ``kind`` is ``counter``, ``gauge`` or ``histogram``."""
        self._kinds[name] = (kind, text)
        if kind == "histogram":
            self._bounds[name] = bounds
            self._histograms[name] = {}
        else:
            self._values[name] = {}

    def set(self, name: str, labels: Mapping[str, str], value: float) -> None:
        """Set a gauge (or the start value of a counter)."""
        self._values[name][_key(labels)] = float(value)

    def add(self, name: str, labels: Mapping[str, str], value: float = 1.0) -> None:
        """Raise a counter (or move a gauge)."""
        family = self._values[name]
        key = _key(labels)
        family[key] = family.get(key, 0.0) + value

    def get(self, name: str, labels: Mapping[str, str]) -> float:
        """Return a value; 0.0 when there is no such sample."""
        return self._values[name].get(_key(labels), 0.0)

    def touch(self, name: str, labels: Mapping[str, str]) -> None:
        """Make an empty histogram sample appear."""
        self._histogram(name, labels)

    def observe(self, name: str, labels: Mapping[str, str], value: float, times: int = 1) -> None:
        """Observe a value ``times`` times."""
        self._histogram(name, labels).observe(value, times)

    def render(self) -> str:
        """Return the exposition text; families without a sample are left out."""
        out: list[str] = []
        for name, (kind, text) in self._kinds.items():
            lines = (
                self._histogram_lines(name)
                if kind == "histogram"
                else [f"{name}{_braces(k)} {_number(v)}" for k, v in self._values[name].items()]
            )
            if lines:
                out += [f"# HELP {name} {text}", f"# TYPE {name} {kind}", *lines]
        return "\n".join(out) + "\n"

    def _histogram(self, name: str, labels: Mapping[str, str]) -> _Histogram:
        family = self._histograms[name]
        key = _key(labels)
        if key not in family:
            family[key] = _Histogram(self._bounds[name])
        return family[key]

    def _histogram_lines(self, name: str) -> list[str]:
        out: list[str] = []
        for labels, histogram in self._histograms[name].items():
            out.append(f"{name}_sum{_braces(labels)} {_number(histogram.total)}")
            total = 0.0
            edges = [*(_number(b) for b in histogram.bounds), "+Inf"]
            for edge, count in zip(edges, histogram.counts, strict=True):
                total += count
                with_edge = tuple(sorted((*labels, ("le", edge))))
                out.append(f"{name}_bucket{_braces(with_edge)} {_number(total)}")
            out.append(f"{name}_count{_braces(labels)} {_number(total)}")
        return out


def _key(labels: Mapping[str, str]) -> _Labels:
    return tuple(sorted(labels.items()))


def _braces(labels: _Labels) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{k}="{_escape(v)}"' for k, v in labels) + "}"


def _escape(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _number(value: float) -> str:
    """Format as the official client does: ``1e+06`` from a million on, ``NaN``."""
    if value != value:  # noqa: PLR0124 - NaN is the one value that differs from itself
        return "NaN"
    text = repr(float(value))
    digits = text.find(".")
    if value > 0 and digits > 6 and "e" not in text:
        mantissa = f"{text[0]}.{text[1:digits]}{text[digits + 1 :]}".rstrip("0.")
        return f"{mantissa}e+{digits - 1:02d}"
    return text
