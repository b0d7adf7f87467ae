"""An engine's argument list, read against the flags that a version of it knows."""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING

from qwen_tui_profiles.flags.spec import Arity
from qwen_tui_profiles.profile import EngineKind

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from qwen_tui_profiles.flags.spec import FlagSpec, FlagTable

__all__ = ["Arguments", "Option", "Trouble", "TroubleKind", "read_arguments"]


class TroubleKind(StrEnum):
    """What the engine's own parser would complain about."""

    UNKNOWN = "unknown"
    AMBIGUOUS = "ambiguous"
    CHOICE = "choice"
    MISSING_VALUE = "missing-value"
    NUMBER = "number"
    STRAY = "stray"
    """A word that belongs to no flag."""


@dataclass(frozen=True, slots=True)
class Trouble:
    """One complaint."""

    kind: TroubleKind
    name: str
    """The flag as it was written."""
    value: str | None = None
    choices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Option:
    """One flag as it was given."""

    name: str
    """Canonical long name; as written when the flag is not known."""
    spelled: str
    values: tuple[str, ...]
    spec: FlagSpec | None
    negated: bool = False
    """Given as ``--no-…``."""

    @property
    def text(self) -> str:
        """The option as one piece of command line."""
        return " ".join((self.spelled, *self.values))


@dataclass(frozen=True)
class Arguments:
    """Everything that was given, in order."""

    options: tuple[Option, ...]
    positionals: tuple[str, ...] = ()
    troubles: tuple[Trouble, ...] = ()

    @cached_property
    def by_name(self) -> Mapping[str, Option]:
        """Every spelling → the last option of that flag (argparse lets the last one win).

        Which spelling is the canonical one changed between releases, so all of them lead to it.
        """
        out: dict[str, Option] = {}
        for option in self.options:
            for name in option.spec.names if option.spec is not None else (option.name,):
                out[name] = option
        return out

    def given(self, name: str) -> bool:
        """Tell whether a flag was given (and not taken back with ``--no-…``)."""
        option = self.by_name.get(name)
        return option is not None and not option.negated

    def value(self, name: str) -> str | None:
        """Return the first value of a flag; ``None`` when it was not given or takes none."""
        option = self.by_name.get(name)
        return option.values[0] if option is not None and option.values else None


def read_arguments(engine: EngineKind, argv: Sequence[str], table: FlagTable) -> Arguments:
    """Read ``argv`` as the engine's parser would; never raises, troubles are returned."""
    options: list[Option] = []
    positionals: list[str] = []
    troubles: list[Trouble] = []
    index = 0
    while index < len(argv):
        word = argv[index]
        index += 1
        if not _is_flag(word):
            positionals.append(word)
            continue
        name, inline, member = _parts(engine, word)
        spec = table.find(name)
        values: list[str] = [] if inline is None else [inline]
        if inline is None:
            taken = _take(argv, index, spec)
            values += argv[index : index + taken]
            index += taken
        canonical = name if spec is None else spec.name
        if member:
            values = [_with_member(options, canonical, member, values)]
        negated = (
            spec is not None
            and spec.arity is Arity.SWITCH
            and name.startswith("--no-")
            and name not in spec.names
        )
        options.append(Option(canonical, name, tuple(values), spec, negated))
        trouble = _trouble(name, values, spec, table)
        if trouble is not None:
            troubles.append(trouble)
    return Arguments(tuple(options), tuple(positionals), tuple(troubles))


def _with_member(options: list[Option], name: str, member: str, values: list[str]) -> str:
    """Return the JSON so far with one more member; ``--a.b 1 --a.c 2`` build one object."""
    before = next((o for o in reversed(options) if o.name == name and o.values), None)
    try:
        found = json.loads(before.values[0]) if before is not None else {}
    except ValueError:
        found = {}
    document: dict[str, object] = found if isinstance(found, dict) else {}
    target = document
    *path, last = member.split(".")
    for part in path:
        inner = target.setdefault(part, {})
        if not isinstance(inner, dict):
            inner = target[part] = {}
        target = inner
    target[last] = values[0] if values else True
    return json.dumps(document)


def _is_flag(word: str) -> bool:
    return word.startswith("-") and len(word) > 1 and not _is_number(word)


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


def _parts(engine: EngineKind, word: str) -> tuple[str, str | None, str | None]:
    """Split a word into name, inline value and JSON member (vLLM's ``--a.b c``)."""
    name, equals, value = word.partition("=")
    inline = value if equals else None
    member = None
    if engine is EngineKind.VLLM:
        if name.startswith("-O") and len(name) > 2:
            return "--optimization-level", name[2:] or inline, None
        head, dot, tail = name.partition(".")
        if dot:
            name, member = head, tail
        if name.startswith("--"):
            name = "--" + name[2:].replace("_", "-")
        elif name == "-O":
            name = "--optimization-level"
    return name, inline, member


def _take(argv: Sequence[str], index: int, spec: FlagSpec | None) -> int:
    """Count the words after a flag that are its values."""
    if spec is not None and spec.arity in {Arity.NONE, Arity.SWITCH}:
        return 0
    count = 0
    limit = len(argv) if spec is not None and spec.arity is Arity.MANY else index + 1
    while index + count < min(limit, len(argv)) and not _is_flag(argv[index + count]):
        count += 1
    return count


def _trouble(
    name: str, values: Sequence[str], spec: FlagSpec | None, table: FlagTable
) -> Trouble | None:
    if spec is None:
        matches = table.candidates(name) if table.prefixes else ()
        if len(matches) > 1:
            return Trouble(TroubleKind.AMBIGUOUS, name, choices=matches)
        return Trouble(TroubleKind.UNKNOWN, name, choices=table.near(name))
    if not values and spec.arity in {Arity.ONE, Arity.MANY}:
        return Trouble(TroubleKind.MISSING_VALUE, name)
    if spec.number is not None:
        for value in values:
            if "$" not in value and not _is_of(spec.number, value):
                return Trouble(TroubleKind.NUMBER, name, value, (spec.number,))
    if spec.choices is not None:
        for value in values:
            # A value that still holds a shell variable cannot be judged.
            if value not in spec.choices and "$" not in value:
                return Trouble(TroubleKind.CHOICE, name, value, spec.choices)
    return None


def _is_of(number: str, value: str) -> bool:
    """Whether Python's own conversion, which argparse calls, takes the value."""
    try:
        int(value) if number == "int" else float(value)
    except ValueError:
        return False
    return True
