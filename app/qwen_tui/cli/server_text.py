"""What the commands about the running server share: narration and plain values."""

from __future__ import annotations

import json
import sys
import time
from typing import TYPE_CHECKING, Any

from qwen_tui.services.instants import instant
from qwen_tui.services.words import phase_words
from qwen_tui_profiles.text import t, tr

if TYPE_CHECKING:
    from collections.abc import Iterator

    from qwen_tui.services.snapshots import ServerSnapshot
    from qwen_tui_diagnostics.enginelog.report import LogReport
    from qwen_tui_profiles.text import Text

__all__ = [
    "Narrator",
    "asked_got_lines",
    "clamps_json",
    "port_number",
    "positive_seconds",
    "print_json",
    "say",
    "say_asked_got",
    "server_json",
]

_READY = t("the log says ready; asking for one token")


def say(text: Text | str) -> None:
    """Print one line of narration on stderr."""
    print(tr(text), file=sys.stderr, flush=True)


def print_json(document: dict[str, Any]) -> None:
    """Print the one JSON document of a command on stdout."""
    print(json.dumps(document, indent=1, ensure_ascii=False), flush=True)


def server_json(snapshot: ServerSnapshot) -> dict[str, Any]:
    """Return what the JSON documents of these commands have in common."""
    report = snapshot.report
    fatal = None if report is None else report.fatal
    return {
        "state": snapshot.state.value,
        "phase": snapshot.phase,
        "ready": snapshot.ready,
        "profile": snapshot.profile,
        "engine": snapshot.engine,
        "engine_version": snapshot.engine_version,
        "simulated": snapshot.simulated,
        "pid": snapshot.pid,
        "started": instant(snapshot.started),
        "url": snapshot.url,
        "log": None if snapshot.log_path is None else str(snapshot.log_path),
        "message": None if snapshot.message is None else str(snapshot.message),
        "fatal": None if fatal is None else fatal.as_json(),
    }


class Narrator:
    """Tells a boot on stderr: one line for each phase that begins."""

    def __init__(self, began: float) -> None:
        self._began = began
        self._phase: str | None = None

    def __call__(self, snapshot: ServerSnapshot) -> None:
        """Say what is new."""
        if snapshot.phase is not None and snapshot.phase != self._phase:
            self._phase = snapshot.phase
            say(
                t(
                    "{seconds:6.1f} s  {phase}",
                    seconds=time.monotonic() - self._began,
                    phase=_READY if snapshot.phase == "ready" else phase_words(snapshot.phase),
                )
            )


def say_asked_got(report: LogReport | None) -> None:
    """Say every value that the engine did not take as it was asked, on stderr."""
    for line in asked_got_lines(report):
        say(line)


def asked_got_lines(report: LogReport | None) -> Iterator[Text]:
    """Yield every value that the engine did not take as it was asked, with its cure."""
    for clamp in () if report is None else report.clamps:
        yield t(
            "! {arg}: asked {asked}, got {got} ({why})",
            arg=clamp.arg,
            asked=_value(clamp.asked),
            got=_value(clamp.got),
            why=clamp.why,
        )
        if clamp.remedy is not None:
            yield t("  → {remedy}", remedy=clamp.remedy)


def _value(value: object) -> str:
    if value is None:
        return "—"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def clamps_json(report: LogReport | None) -> list[dict[str, object]] | None:
    """Return asked → got; ``None`` when there is no log to tell."""
    return None if report is None else [clamp.as_json() for clamp in report.clamps]


def port_number(text: str) -> int:
    """Parse a TCP port for argparse."""
    value = int(text)
    if not 0 < value < 65_536:
        raise ValueError(text)
    return value


def positive_seconds(text: str) -> float:
    """Parse a number of seconds for argparse."""
    value = float(text)
    if not 0 < value < 86_400:
        raise ValueError(text)
    return value
