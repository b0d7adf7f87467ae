"""A pretend engine's metrics: counters that tests move, written in the exposition format."""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["Exporter"]

Key = tuple[str, tuple[tuple[str, str], ...]]


@dataclass
class Exporter:
    """Holds samples; ``text()`` is a scrape."""

    base: dict[str, str] = field(default_factory=dict)
    values: dict[Key, float] = field(default_factory=dict)

    def key(self, name: str, labels: dict[str, str]) -> Key:
        return name, tuple(sorted({**self.base, **labels}.items()))

    def set(self, name: str, value: float, **labels: str) -> None:
        self.values[self.key(name, labels)] = value

    def add(self, name: str, amount: float, **labels: str) -> None:
        key = self.key(name, labels)
        self.values[key] = self.values.get(key, 0.0) + amount

    def observe(
        self, name: str, seconds: float, bounds: list[float], n: int = 1, **labels: str
    ) -> None:
        for bound in [*bounds, float("inf")]:
            le = "+Inf" if bound == float("inf") else repr(bound)
            self.add(f"{name}_bucket", n if seconds <= bound else 0, **labels, le=le)
        self.add(f"{name}_sum", seconds * n, **labels)
        self.add(f"{name}_count", n, **labels)

    def text(self) -> str:
        lines = []
        for (name, labels), value in self.values.items():
            body = ",".join(f'{k}="{v}"' for k, v in labels)
            lines.append(f"{name}{{{body}}} {value!r}" if body else f"{name} {value!r}")
        return "\n".join(lines) + "\n"
