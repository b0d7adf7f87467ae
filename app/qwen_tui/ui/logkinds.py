"""Kinds of lines in an engine's log: for colour, for the filter, and for what is left out."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from qwen_tui_profiles.text import Text, t

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["KINDS", "LineKind", "kind_of", "without_date"]

_POLL = re.compile(r'"GET /(?:metrics|server_info|get_server_info|v1/models|v1/loads|health)[ ?]')
_ACCESS = re.compile(r'"(?:GET|POST|PUT|DELETE|OPTIONS|HEAD) /')
_ERROR = re.compile(r"\b(?:ERROR|CRITICAL|FATAL|Traceback|Exception|\w+Error:)|\berror\b")
_WARNING = re.compile(r"\bWARN(?:ING)?\b|\b[wW]arning:")
_DATE = re.compile(
    r"^\[\d{4}-\d\d-\d\d (\d\d:\d\d:\d\d)(?:[.,]\d+)?([^\]]*)\] |^(?:INFO|WARNING|ERROR) \d\d-\d\d "
)


@dataclass(frozen=True, slots=True)
class LineKind:
    """One kind: how it is told and how it is shown."""

    id: str
    title: Text
    style: str
    tells: Callable[[str], bool]


KINDS: tuple[LineKind, ...] = (
    LineKind("poll", t("polls"), "$foreground-muted", lambda s: _POLL.search(s) is not None),
    LineKind("access", t("requests"), "$foreground-muted", lambda s: _ACCESS.search(s) is not None),
    LineKind(
        "batch",
        t("batches"),
        "",
        lambda s: "Prefill batch" in s or "Decode batch" in s or "Engine 000:" in s,
    ),
    LineKind("error", t("errors"), "$error", lambda s: _ERROR.search(s) is not None),
    LineKind("warning", t("warnings"), "$warning", lambda s: _WARNING.search(s) is not None),
    LineKind("other", t("boot and other"), "", lambda _: True),
)
"""The first that tells wins."""


@lru_cache(maxsize=256)  # each line is asked for when it comes and again when it moves
def kind_of(line: str) -> LineKind:
    """Return the kind of a line."""
    return next(kind for kind in KINDS if kind.tells(line))


def without_date(line: str) -> str:
    """Return an engine's line with the time of day alone: the date costs eleven columns a line."""
    match = _DATE.match(line)
    if match is None:
        return line
    clock = "" if match[1] is None else f"{match[1]}{match[2]} "
    return clock + line[match.end() :]
