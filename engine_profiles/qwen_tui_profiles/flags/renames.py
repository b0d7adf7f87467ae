"""Flags that changed their name, so that a profile is spelt for the version that is there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from qwen_tui_profiles.profile import EngineKind
from qwen_tui_profiles.versions import in_range

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["RENAMES", "Rename", "respell"]


@dataclass(frozen=True, slots=True)
class Rename:
    """One flag under two names.

    Source: the argument tables of the released packages (``server_args.py`` up to 0.5.19,
    ``arg_groups/fields`` from 0.5.20).
    """

    engine: EngineKind
    old: str
    new: str
    new_since: str
    """First version that knows the new name."""
    old_until: str
    """Last version that accepts the old one (with a notice from :attr:`new_since` on)."""
    old_value: str | None = None
    """Value that the old, valueless flag stood for (``--disable-x`` → ``--x disabled``)."""


_S = EngineKind.SGLANG

RENAMES: tuple[Rename, ...] = (
    Rename(_S, "--mamba-scheduler-strategy", "--mamba-radix-cache-strategy", "0.5.14", "0.5.19"),
    Rename(_S, "--cuda-graph-max-bs", "--cuda-graph-max-bs-decode", "0.5.14", "0.5.19"),
    Rename(_S, "--cuda-graph-bs", "--cuda-graph-bs-decode", "0.5.14", "0.5.19"),
    Rename(
        _S,
        "--disable-piecewise-cuda-graph",
        "--cuda-graph-backend-prefill",
        "0.5.14",
        "0.5.19",
        "disabled",
    ),
    Rename(_S, "--piecewise-cuda-graph-tokens", "--cuda-graph-bs-prefill", "0.5.14", "0.5.19"),
    Rename(
        _S, "--piecewise-cuda-graph-max-tokens", "--cuda-graph-max-bs-prefill", "0.5.14", "0.5.19"
    ),
    Rename(_S, "--enable-gdn-replayssm-spec", "--enable-linear-replayssm-spec", "0.5.17", "0.5.19"),
)


def respell(engine: EngineKind, argv: Sequence[str], version: str | None) -> tuple[str, ...]:
    """Write the flags in the names that ``version`` knows; ``None`` leaves them as they are.

    The simulated engine behaves like one fixed SGLang release, so nothing is changed for it.
    """
    if version is None:
        return tuple(argv)
    out: list[str] = []
    items = list(argv)
    index = 0
    while index < len(items):
        item = items[index]
        index += 1
        name, equals, value = item.partition("=")
        rename = next((r for r in RENAMES if r.engine is engine and name in {r.old, r.new}), None)
        if rename is None:
            out.append(item)
        elif name == rename.old and in_range(version, rename.new_since, None):
            out.append(rename.new + equals + value)
            if rename.old_value is not None:
                out.append(rename.old_value)
        elif name == rename.new and not in_range(version, rename.new_since, None):
            given = value if equals else next(iter(items[index : index + 1]), None)
            if rename.old_value is None:
                out.append(rename.old + equals + value)
            elif given == rename.old_value:
                out.append(rename.old)
                index += 0 if equals else 1
            else:
                out.append(item)
        else:
            out.append(item)
    return tuple(out)
