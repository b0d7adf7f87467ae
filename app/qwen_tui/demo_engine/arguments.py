"""SGLang's command line and the engine's own flags, parsed as argparse in SGLang parses them.

``data/flags.json`` lists every flag of SGLang 0.5.23 (destination, kind, spellings, choices,
arity), read from the released package's parser; ``data/server_args.json`` holds the resolved fields
in the order of a recorded ``server_args=`` line, with the values that belonged to the recording
machine replaced by those of a single NVIDIA card.
"""

from __future__ import annotations

import argparse
import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, cast

from qwen_tui.demo_engine.faults import FAULTS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["DemoOptions", "ParsedCommand", "parse_command", "server_args_template"]

DATA = Path(__file__).with_name("data")
DEFAULT_MODEL = "demo/Qwen3.8-27B-simulated"
"""Model path when none is given; SGLang itself insists on one."""

_SIZES = {
    "k": 10**3,
    "M": 10**6,
    "G": 10**9,
    "T": 10**12,
    "Ki": 2**10,
    "Mi": 2**20,
    "Gi": 2**30,
    "Ti": 2**40,
}


@dataclass(frozen=True, slots=True)
class DemoOptions:
    """The simulation's own flags."""

    load_seconds: float = 2.0
    """Time from the start to the bound port."""
    token_ms: float | None = None
    """Time of one decode forward (it yields one token, or one accept length with speculation).
    ``None`` = 13.5 ms, or 21 ms with speculation."""
    prefill_tok_s: float = 9000.0
    """Prefill speed in tokens a second; 0 = instant."""
    free_gib: float = 30.790
    """Free memory of the simulated card before the weights, in GiB."""
    fault: str | None = None
    """A key of :data:`qwen_tui.demo_engine.faults.FAULTS`."""
    fault_after: int = 1
    """Run-time faults strike at this generation request (1 = the first after the warm-up)."""
    drain_poll_seconds: float = 5.0
    """Poll interval of the drain after SIGTERM."""
    crash_seconds: float = 5.0
    """Pause before the crash diagnostics."""
    health_seconds: float = 1.0
    """Least duration of one ``/health`` call."""
    child: bool = False
    """Start a child process in the place of the scheduler."""
    seed: int = 0
    """Seed of the made-up text and accept lengths."""


@dataclass(frozen=True, slots=True)
class ParsedCommand:
    """A parsed command line: what was typed, and the simulation's options."""

    argv: tuple[str, ...]
    given: dict[str, Any] = field(default_factory=dict)
    """SGLang destinations that were given, with their values."""
    demo: DemoOptions = field(default_factory=DemoOptions)

    def get(self, name: str, default: Any = None) -> Any:
        """Return a given value, or ``default``."""
        value = self.given.get(name)
        return default if value is None else value


def server_args_template() -> dict[str, Any]:
    """Return a fresh copy of the resolved argument fields, in SGLang's order."""
    text = (DATA / "server_args.json").read_text("utf-8")
    return cast("dict[str, Any]", json.loads(text))


def parse_command(argv: Sequence[str]) -> ParsedCommand:
    """Parse a command line.

    Raises:
        SystemExit: code 2 with argparse's message on stderr, as SGLang ends on a bad flag.
    """
    parser = argparse.ArgumentParser(
        prog="qwen_tui.demo_engine",
        description="Simulated SGLang: takes SGLang's flags, needs no GPU.",
        argument_default=argparse.SUPPRESS,
    )
    _add_sglang(parser)
    _add_demo(parser)
    values = vars(parser.parse_args(list(argv)))
    demo = {k.removeprefix("demo_"): v for k, v in values.items() if k.startswith("demo_")}
    given = {k: v for k, v in values.items() if not k.startswith("demo_")}
    if "config" in given:
        parser.error("argument --config: the simulated engine reads no configuration file")
    given.setdefault("model_path", DEFAULT_MODEL)
    return ParsedCommand(argv=tuple(argv), given=given, demo=DemoOptions(**demo))


def _add_sglang(parser: argparse.ArgumentParser) -> None:
    text = (DATA / "flags.json").read_text("utf-8")
    rows: list[tuple[str, str, list[str], list[Any] | None, str | None]] = json.loads(text)
    for dest, kind, flags, choices, nargs in rows:
        if kind == "flag":
            parser.add_argument(*flags, dest=dest, action="store_true")
        elif kind == "bool":
            parser.add_argument(*flags, dest=dest, action=argparse.BooleanOptionalAction)
        elif kind == "const":
            parser.add_argument(*flags, dest=dest, choices=choices)
        elif nargs is not None:
            parser.add_argument(*flags, dest=dest, type=_CONVERT[kind], nargs=nargs)
        else:
            parser.add_argument(*flags, dest=dest, type=_CONVERT[kind], choices=choices)


def _add_demo(parser: argparse.ArgumentParser) -> None:
    own = parser.add_argument_group("simulation")
    own.add_argument("--demo-load-seconds", type=_not_negative)
    own.add_argument("--demo-token-ms", type=_not_negative)
    own.add_argument("--demo-prefill-tok-s", type=_not_negative)
    own.add_argument("--demo-free-gib", type=_not_negative)
    own.add_argument("--demo-fault", choices=sorted(FAULTS))
    own.add_argument("--demo-fault-after", type=int)
    own.add_argument("--demo-drain-poll-seconds", type=_not_negative)
    own.add_argument("--demo-crash-seconds", type=_not_negative)
    own.add_argument("--demo-health-seconds", type=_not_negative)
    own.add_argument("--demo-child", action="store_true")
    own.add_argument("--demo-seed", type=int)


def _size(value: str) -> int:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(Ki|Mi|Gi|Ti|k|M|G|T)", value.strip())
    if match is None:
        return int(value)
    number, suffix = match.groups()
    if suffix.endswith("i"):
        return int(number) * _SIZES[suffix]
    return round(float(number) * _SIZES[suffix])


def _not_negative(value: str) -> float:
    number = float(value)
    if not 0 <= number < float("inf"):
        _refuse(value)
    return number


def _refuse(value: str) -> NoReturn:
    message = f"expected a number of at least 0, got {value}"
    raise argparse.ArgumentTypeError(message)


_CONVERT: dict[str, Callable[[str], Any]] = {
    "str": str,
    "int": int,
    "float": float,
    "json": json.loads,
    "size": _size,
}
