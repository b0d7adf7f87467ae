"""``qwen-tui down``: stop the server and say honestly how it ended."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from qwen_tui.cli.server_text import positive_seconds, print_json, say
from qwen_tui_profiles.text import t, tr

if TYPE_CHECKING:
    import argparse

    from qwen_tui.services.stopping import StopProgress, StopResult

SCHEMA = "qwen-tui.down/1"
_EVERY_S = 2.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "--timeout",
        type=positive_seconds,
        default=60.0,
        metavar="SECONDS",
        help=tr(t("how long it may finish its requests before it is killed (default 60)")),
    )
    parser.add_argument("--json", action="store_true", help=tr(t("print one JSON document")))


def run(args: argparse.Namespace) -> int:
    """Stop it."""
    from qwen_tui.services.paths import Paths
    from qwen_tui.services.supervisor import ServerSupervisor

    supervisor = ServerSupervisor(Paths.default())
    try:
        result = asyncio.run(supervisor.stop(timeout_s=args.timeout, on_change=_Teller()))
    except KeyboardInterrupt:
        say(
            t(
                "Interrupted: the server has its signal and ends when its requests are done. "
                "To wait for it again, or to kill it after a limit: qwen-tui down"
            )
        )
        return 130
    if args.json:
        print_json({"schema": SCHEMA, **result.as_json()})
    else:
        _tell(result)
    return 0


class _Teller:
    """Tells a stop: each new step at once, a running one every two seconds."""

    def __init__(self) -> None:
        self._step = ""
        self._said = 0.0

    def __call__(self, progress: StopProgress) -> None:
        now = time.monotonic()
        if progress.step != self._step or now - self._said >= _EVERY_S:
            self._step = progress.step
            self._said = now
            say(progress.text)


def _tell(result: StopResult) -> None:
    say(result.text)
    if result.exit_code is not None:
        say(
            t(
                "{seconds:.1f} s, exit code {code}",
                seconds=result.seconds,
                code=result.exit_code,
            )
        )
