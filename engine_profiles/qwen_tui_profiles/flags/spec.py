"""One command-line flag of an engine, and a set of them that can be asked by any spelling."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["Arity", "FlagSpec", "FlagTable"]


class Arity(StrEnum):
    """How many values follow a flag."""

    NONE = "none"
    ONE = "one"
    OPTIONAL = "optional"
    """None or one."""
    MANY = "many"
    """One or more, up to the next flag."""
    SWITCH = "switch"
    """None; and ``--no-…`` is its opposite."""


@dataclass(frozen=True, slots=True)
class FlagSpec:
    """One flag as one version of an engine declares it."""

    names: tuple[str, ...]
    """Every spelling, the canonical one first."""
    arity: Arity
    choices: tuple[str, ...] | None = None
    """Allowed values; ``None`` = anything, or a list that is made at run time."""
    use: str | None = None
    """What the engine's own notice says to write instead; set for deprecated spellings."""
    refused: str | None = None
    """Why the engine stops when it sees the flag (it is only declared to say so)."""
    number: str | None = None
    """``int`` or ``float`` where the parser takes nothing else; ``None`` = text, or not known."""

    @property
    def name(self) -> str:
        """The canonical spelling."""
        return self.names[0]


@dataclass(frozen=True)
class FlagTable:
    """Every flag of one version."""

    engine: str
    version: str
    flags: tuple[FlagSpec, ...]
    prefixes: bool = True
    """Whether an unambiguous beginning of a name is accepted (argparse's default)."""
    exact: bool = True
    """False when the version itself is not in the data and its nearest neighbour stands for it."""

    @cached_property
    def by_name(self) -> Mapping[str, FlagSpec]:
        """Spelling → flag; ``--no-…`` of a switch included."""
        out: dict[str, FlagSpec] = {}
        for spec in self.flags:
            for name in spec.names:
                out[name] = spec
                if spec.arity is Arity.SWITCH and name.startswith("--"):
                    out.setdefault(f"--no-{name[2:]}", spec)
        return out

    def find(self, name: str) -> FlagSpec | None:
        """Return the flag that the engine would take ``name`` for, abbreviations included."""
        spec = self.by_name.get(name)
        if spec is None and self.prefixes and name.startswith("--") and len(name) > 2:
            matches = self.candidates(name)
            spec = self.by_name[matches[0]] if len(matches) == 1 else None
        return spec

    def candidates(self, name: str) -> tuple[str, ...]:
        """Return the spellings that begin with ``name``; two or more make it ambiguous."""
        if not name.startswith("--"):
            return ()
        return tuple(known for known in self.by_name if known.startswith(name))

    def near(self, name: str) -> tuple[str, ...]:
        """Return up to three flags that look like a misspelt one."""
        return tuple(difflib.get_close_matches(name, self.by_name, n=3, cutoff=0.75))


def canonical_names(specs: Iterable[FlagSpec]) -> frozenset[str]:
    """Return the canonical spellings of ``specs``."""
    return frozenset(spec.name for spec in specs)
