"""The flag tables of the engine releases that were looked at (``data/*.json``).

Made by ``engine_profiles/tools/flag_tables.py`` from the released packages; checked for SGLang
0.5.23 against the flags that its own parser registers.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qwen_tui_profiles.flags.spec import Arity, FlagSpec, FlagTable
from qwen_tui_profiles.profile import EngineKind
from qwen_tui_profiles.versions import Version, in_range

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["DEMO_MODELS", "Period", "flag_table", "history", "known_versions", "newest_version"]

DEMO_MODELS = EngineKind.SGLANG
"""The engine whose command line the simulated one takes."""
DATA = Path(__file__).with_name("data")


@dataclass(frozen=True, slots=True)
class Period:
    """One stretch of releases in which a flag stayed the same."""

    spec: FlagSpec
    since: str
    """First release looked at that has it like this."""
    until: str | None
    """Last one; ``None`` = the newest looked at."""


def known_versions(engine: EngineKind) -> tuple[str, ...]:
    """Return the releases in the data, oldest first."""
    return _versions(_owner(engine))


def newest_version(engine: EngineKind) -> str:
    """Return the newest release that the data and the rules were checked against."""
    return known_versions(engine)[-1]


def flag_table(engine: EngineKind, version: str | None = None) -> FlagTable:
    """Return the flags of one version; ``None`` = the newest known.

    For a version that is not in the data the nearest older one stands in (the oldest for a still
    older one), and ``exact`` says so.
    """
    wanted = version or newest_version(engine)
    return _table(_owner(engine), wanted)


@cache
def history(engine: EngineKind) -> Mapping[str, tuple[Period, ...]]:
    """Return, by every spelling a flag ever had, the periods it existed in, oldest first."""
    out: dict[str, list[Period]] = {}
    for row in _document(_owner(engine))["flags"]:
        period = Period(_spec(row), row["since"], row["until"])
        for name in period.spec.names:
            out.setdefault(name, []).append(period)
            if period.spec.arity is Arity.SWITCH and name.startswith("--"):
                out.setdefault(f"--no-{name[2:]}", []).append(period)
    return {
        name: tuple(sorted(periods, key=lambda p: Version.parse(p.since)))
        for name, periods in out.items()
    }


@cache
def _versions(engine: EngineKind) -> tuple[str, ...]:
    return tuple(_document(engine)["versions"])


@cache
def _table(engine: EngineKind, wanted: str) -> FlagTable:
    document = _document(engine)
    versions = document["versions"]
    have = Version.parse(wanted).base
    older = [v for v in versions if in_range(have, v, None)]
    stand_in = older[-1] if older else versions[0]
    flags = tuple(
        _spec(row) for row in document["flags"] if in_range(stand_in, row["since"], row["until"])
    )
    return FlagTable(engine.value, wanted, flags, exact=stand_in == have)


def _document(engine: EngineKind) -> dict[str, Any]:
    """Read the data; only what is made of it is kept."""
    document: dict[str, Any] = json.loads((DATA / f"{engine.value}.json").read_bytes())
    return document


def _owner(engine: EngineKind) -> EngineKind:
    return DEMO_MODELS if engine is EngineKind.DEMO else engine


def _spec(row: Mapping[str, Any]) -> FlagSpec:
    choices = row.get("choices")
    return FlagSpec(
        tuple(row["names"]),
        Arity(row["arity"]),
        None if choices is None else tuple(choices),
        row.get("use"),
        row.get("refused"),
        row.get("number"),
    )
