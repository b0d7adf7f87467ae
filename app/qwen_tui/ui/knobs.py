"""The knobs of the plan: one row each, with the flag that it turns and the steps that it takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from qwen_tui_profiles.text import Text, t

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qwen_tui_profiles.profile import EngineProfile

__all__ = ["CARDS_GIB", "KNOBS", "Knob", "changed_args", "joined", "pairs", "read_knobs"]

CARDS_GIB: tuple[float, ...] = (15.6, 23.5, 31.84, 47.5, 79.6, 94.97, 119.7, 139.8)
"""Total memory that common cards report: 16, 24, 32, 48, 80, 96 GB, GB10 and H200."""


@dataclass(frozen=True, slots=True)
class Knob:
    """One knob."""

    id: str
    title: Text
    flags: tuple[str, ...]
    """SGLang's flag, other spellings after it; empty for what is no flag (the card)."""
    values: tuple[str | None, ...]
    """The steps, smallest first; ``None`` = not set."""
    engines: tuple[str, ...] = ("sglang", "demo")
    unit: Text | None = None


def _steps(*numbers: float) -> tuple[str | None, ...]:
    return (None, *(f"{n:g}" for n in numbers))


KNOBS: tuple[Knob, ...] = (
    Knob(
        "context",
        t("context"),
        ("--context-length",),
        (
            None,
            *(
                str(n)
                for n in (8192, 16384, 32768, 49152, 65536, 98304, 131072, 163840, 196608, 262144)
            ),
        ),
        unit=t("tokens"),
    ),
    Knob("requests", t("requests"), ("--max-running-requests",), _steps(*range(1, 17), 24, 32, 48)),
    Knob("slots", t("state slots"), ("--max-mamba-cache-size",), _steps(*range(4, 41), 48, 64, 96)),
    Knob(
        "fraction",
        t("memory share"),
        ("--mem-fraction-static",),
        (None, *(f"{n / 100:.2f}" for n in range(50, 100))),
    ),
    Knob("kv", t("KV type"), ("--kv-cache-dtype",), (None, "fp8_e4m3", "bfloat16")),
    Knob("state", t("state type"), ("--mamba-ssm-dtype",), (None, "bfloat16", "float32")),
    Knob("draft", t("MTP draft"), ("--speculative-algorithm",), (None, "EAGLE", "NEXTN")),
    Knob("steps", t("draft steps"), ("--speculative-num-steps",), _steps(*range(1, 9))),
    Knob("card", t("card"), (), (None, *(f"{gib:g}" for gib in CARDS_GIB)), unit=t("GiB")),
)

DRAFT_FLAGS = (
    "--speculative-algorithm",
    "--speculative-num-steps",
    "--speculative-eagle-topk",
    "--speculative-num-draft-tokens",
    "--speculative-draft-model-path",
)


def read_knobs(profile: EngineProfile) -> dict[str, str | None]:
    """Return where the knobs stand in a profile."""
    out: dict[str, str | None] = {}
    for knob in KNOBS:
        out[knob.id] = _value(profile.argv, knob.flags)
    return out


def _value(argv: Sequence[str], flags: Sequence[str]) -> str | None:
    found: str | None = None
    for at, item in enumerate(argv):
        name, equals, inline = item.partition("=")
        if name in flags:
            following = argv[at + 1] if at + 1 < len(argv) else ""
            found = inline if equals else following if not following.startswith("--") else "on"
    return found


def changed_args(argv: Sequence[str], knobs: dict[str, str | None]) -> tuple[str, ...]:
    """Return the arguments with the knobs turned: changed in place, added at the end, or gone."""
    out = list(argv)
    for knob in KNOBS:
        if knob.flags and _value(argv, knob.flags) != knobs.get(knob.id):
            out = _set(out, knob.flags, knobs.get(knob.id))
    before = {name: _value(argv, _flags_of(name)) for name in ("draft", "steps")}
    if all(before[name] == knobs.get(name) for name in before):
        return tuple(out)
    if knobs.get("draft") is None:
        for flag in DRAFT_FLAGS:
            out = _set(out, (flag,), None)
    else:
        out = _draft_defaults(out, knobs)
    return tuple(out)


def _flags_of(knob: str) -> tuple[str, ...]:
    return next(k.flags for k in KNOBS if k.id == knob)


def _draft_defaults(argv: list[str], knobs: dict[str, str | None]) -> list[str]:
    """Give a draft what it cannot do without; tokens follow the steps as SGLang expects them."""
    steps = knobs.get("steps") or "3"
    argv = _set(argv, ("--speculative-num-steps",), steps)
    if _value(argv, ("--speculative-eagle-topk",)) in {None, "1"} and steps.isdecimal():
        argv = _set(argv, ("--speculative-eagle-topk",), "1")
        argv = _set(argv, ("--speculative-num-draft-tokens",), str(int(steps) + 1))
    return argv


def _set(argv: list[str], flags: Sequence[str], value: str | None) -> list[str]:
    """Replace a flag's value where it stands, append it, or take it out."""
    out: list[str] = []
    placed = value is None
    skip = False
    for item in argv:
        if item.startswith("--"):
            skip = False
            if item.partition("=")[0] in flags:
                skip = True
                if not placed and value is not None:
                    out += [item.partition("=")[0], value]
                    placed = True
                continue
        if not skip:
            out.append(item)
    if not placed and value is not None:
        out += [flags[0], value]
    return out


def pairs(argv: Sequence[str]) -> dict[str, str]:
    """Return flag → value; a flag alone is ``true``. Words before the first flag are left out."""
    out: dict[str, str] = {}
    name: str | None = None
    for item in argv:
        if item.startswith("--"):
            flag, equals, value = item.partition("=")
            name = None if equals else flag
            out[flag] = value if equals else "true"
        elif name is not None:
            out[name] = item if out[name] == "true" else f"{out[name]} {item}"
    return out


def joined(values: dict[str, str]) -> tuple[str, ...]:
    """Return the arguments again; a value with blanks is several words, as it was."""
    out: list[str] = []
    for flag, value in values.items():
        out.append(flag)
        if value != "true":
            out += value.split(" ")
    return tuple(out)
