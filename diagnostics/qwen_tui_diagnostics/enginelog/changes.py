"""Lines that announce a changed value: the shape of a table row."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from qwen_tui_diagnostics.enginelog.grammar import number

if TYPE_CHECKING:
    from qwen_tui_diagnostics.enginelog.lines import LogLine
    from qwen_tui_profiles.findings import Value
    from qwen_tui_profiles.text import Text

__all__ = ["Change", "ChangeKind", "ChangeSeen", "change"]


class ChangeKind(StrEnum):
    """When an announced change is a clamp."""

    ASKED = "asked"
    """The engine prints it only for a value that somebody set, or calls it requested: a clamp."""
    DEFAULT = "default"
    """It replaces the engine's own default: a clamp only if that flag was given."""
    CHOSEN = "chosen"
    """The engine fills in a value that was left open: an adjustment."""
    KEPT = "kept"
    """The value that was asked for stands, and the line says what comes of it: an adjustment."""


@dataclass(frozen=True, slots=True)
class Change:
    """One announced change of one argument."""

    name: str
    engine: str
    needle: str
    pattern: re.Pattern[str]
    """Matched at the start of the message; groups ``asked`` and ``got`` are read from it."""
    arg: str
    """The engine's long flag, or its own word for a value without one."""
    asked: Value
    """Where the text does not state it."""
    got: Value
    """Where the text does not state it."""
    by: Text
    why: Text
    remedy: Text | None
    kind: ChangeKind
    since: str | None
    until: str | None
    args_phase: bool
    """Whether it is printed before the engine shows its arguments."""

    @property
    def start(self) -> re.Pattern[str]:
        """The pattern that must match at the start of the message."""
        return self.pattern

    def read(self, line: LogLine) -> ChangeSeen | None:
        """Return what ``line`` announces, or ``None``."""
        if self.needle not in line.message:
            return None
        match = self.pattern.match(line.message)
        if match is None:
            return None
        groups = match.groupdict()
        asked, got = groups.get("asked"), groups.get("got")
        if line.cut and match.end() == len(line.message) and got is not None:
            return None
        return ChangeSeen(
            change=self,
            asked=number(asked) if asked is not None else self.asked,
            got=number(got) if got is not None else self.got,
            groups={k: number(v) for k, v in groups.items() if v is not None},
            line=line,
        )


@dataclass(frozen=True, slots=True)
class ChangeSeen:
    """A change as one line announced it."""

    change: Change
    asked: Value
    got: Value
    groups: dict[str, Value]
    line: LogLine


def change(
    name: str,
    engine: str,
    needle: str,
    pattern: str | None,
    arg: str,
    by: Text,
    why: Text,
    *,
    asked: Value = None,
    got: Value = None,
    remedy: Text | None = None,
    kind: ChangeKind = ChangeKind.ASKED,
    since: str | None = None,
    until: str | None = None,
    args_phase: bool = False,
) -> Change:
    """Build a row; ``pattern=None`` means that the line starts with the needle itself."""
    return Change(
        name=name,
        engine=engine,
        needle=needle,
        pattern=re.compile(re.escape(needle) if pattern is None else pattern),
        arg=arg,
        asked=asked,
        got=got,
        by=by,
        why=why,
        remedy=remedy,
        kind=kind,
        since=since,
        until=until,
        args_phase=args_phase,
    )
