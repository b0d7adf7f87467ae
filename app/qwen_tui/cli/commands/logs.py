"""``qwen-tui logs``: the engine's log, cleaned of control codes and secrets."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

from qwen_tui.cli.server_text import say
from qwen_tui_profiles.errors import InputError, UsageError
from qwen_tui_profiles.text import t, tr

if TYPE_CHECKING:
    import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "-f", "--follow", action="store_true", help=tr(t("go on with what is appended"))
    )
    parser.add_argument(
        "-n",
        "--lines",
        type=int,
        default=50,
        metavar="N",
        help=tr(t("how many of the last lines (default 50)")),
    )
    parser.add_argument("--path", action="store_true", help=tr(t("print where the log is")))


def run(args: argparse.Namespace) -> int:
    """Print the log of the newest run."""
    from qwen_tui.services.logtail import last_lines
    from qwen_tui.services.paths import Paths
    from qwen_tui.services.runs import RunStore

    if args.lines < 0:
        raise UsageError(t("--lines is {count}; 0 or more was expected.", count=args.lines))
    record = RunStore(Paths.default()).latest()
    if record is None or record.log_path is None:
        raise InputError(
            t("There is no engine log: qwen-tui has launched no server yet."),
            t("Launch one: qwen-tui up PROFILE"),
        )
    path = Path(record.log_path)
    if args.path:
        print(path)
        return 0
    try:
        lines = last_lines(path, args.lines)
    except OSError as error:
        raise InputError(
            t(
                "The log {path} cannot be read: {reason}.",
                path=str(path),
                reason=error.strerror or "",
            )
        ) from error
    for line in lines:
        print(line)
    if args.follow:
        asyncio.run(_follow(path))
    return 0


async def _follow(path: Path) -> None:
    from qwen_tui.services.logtail import LogTail

    async for batch in LogTail(path, backlog_bytes=0).batches():
        if batch.dropped:
            say(t("… {count:,} lines left out", count=batch.dropped))
        for line in batch.lines:
            print(line)
        print(end="", flush=True)
