"""``qwen-tui swap [PROFILE]``: from speed to context and back, or to any profile."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from typing import TYPE_CHECKING

from qwen_tui.cli.server_text import (
    clamps_json,
    positive_seconds,
    print_json,
    say,
    say_asked_got,
    server_json,
)
from qwen_tui_profiles.errors import LaunchError, UsageError
from qwen_tui_profiles.text import t, tr

if TYPE_CHECKING:
    import argparse

    from qwen_tui.services.supervisor import ServerSupervisor
    from qwen_tui.services.swap import Swap, SwapStep
    from qwen_tui_profiles.loader import ProfileSet
    from qwen_tui_profiles.profile import EngineProfile

SCHEMA = "qwen-tui.swap/1"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "profile",
        metavar="PROFILE",
        nargs="?",
        help=tr(t("the profile to swap to; without it: the other side of the running pair")),
    )
    parser.add_argument("-y", "--yes", action="store_true", help=tr(t("do not ask")))
    parser.add_argument(
        "--drain-timeout",
        type=positive_seconds,
        default=0.0,
        metavar="SECONDS",
        help=tr(t("first wait so long for running requests to finish")),
    )
    parser.add_argument(
        "--stop-timeout",
        type=positive_seconds,
        default=60.0,
        metavar="SECONDS",
        help=tr(t("how long the stop may take before the server is killed (default 60)")),
    )
    parser.add_argument(
        "--force",
        metavar="REASON",
        help=tr(t("swap although a check failed; the reason is kept with the run")),
    )
    parser.add_argument("--json", action="store_true", help=tr(t("print one JSON document")))


def run(args: argparse.Namespace) -> int:
    """Swap, and say how it went."""
    from qwen_tui.services.paths import Paths
    from qwen_tui.services.supervisor import ServerSupervisor
    from qwen_tui_profiles.loader import load_profiles

    paths = Paths.default()
    supervisor = ServerSupervisor(paths)
    last = asyncio.run(_swap(supervisor, load_profiles(paths.profiles), args))
    if last is None:
        say(t("Nothing was changed."))
        return 1
    if args.json:
        now = last.snapshot
        print_json(
            {
                "schema": SCHEMA,
                "outcome": None if last.outcome is None else last.outcome.value,
                "message": str(last.text),
                "seconds": round(last.seconds, 2),
                "server": None if now is None else server_json(now),
                "asked_got": None if now is None else clamps_json(now.report),
            }
        )
    return 1 if last.failed or last.outcome is None else 0


async def _swap(
    supervisor: ServerSupervisor, profiles: ProfileSet, args: argparse.Namespace
) -> SwapStep | None:
    from qwen_tui.services.swap import SwapOptions

    now = await supervisor.snapshot()
    target = _target(profiles, args.profile, now.profile if now.pid is not None else None)
    if not args.yes and not _confirmed(now.profile, target):
        return None
    options = SwapOptions(force=args.force, drain_s=args.drain_timeout, stop_s=args.stop_timeout)
    last: SwapStep | None = None
    async with supervisor.swapping(target, options) as swap:
        _cancel_on_interrupt(swap)
        async for step in swap.steps():
            last = step
            say(t("{seconds:6.1f} s  {text}", seconds=step.seconds, text=step.text))
    if last is not None and last.snapshot is not None:
        say_asked_got(last.snapshot.report)
    return last


def _target(profiles: ProfileSet, name: str | None, running: str | None) -> EngineProfile:
    if name is not None:
        return profiles.get(name)
    if running is None:
        raise LaunchError(
            t("Nothing runs, so there is no pair to swap in."),
            t("Launch a profile (qwen-tui up PROFILE), or name one: qwen-tui swap PROFILE"),
        )
    pair = profiles.get(running).pair
    if pair is None:
        raise UsageError(
            t("{profile} has no other side to swap to.", profile=running),
            t("Name a profile (qwen-tui swap PROFILE), or set `pair` in the profile."),
        )
    return profiles.get(pair)


def _confirmed(running: str | None, target: EngineProfile) -> bool:
    say(
        t(
            "Swap from {running} to {target}: the server stops, its prefix cache is lost.",
            running=running or "—",
            target=target.name,
        )
    )
    if not sys.stdin.isatty():
        raise UsageError(
            t("A swap must be confirmed, and there is no terminal to ask on."),
            t("Add --yes."),
        )
    print(tr(t("Go on? [y/N] ")), end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in {"y", "yes"}


def _cancel_on_interrupt(swap: Swap) -> None:
    """Let Ctrl-C take the swap back where that is possible; a second one leaves at once."""
    loop = asyncio.get_running_loop()

    def interrupted() -> None:
        loop.remove_signal_handler(signal.SIGINT)
        if swap.cancel():
            say(t("Cancelling; press Ctrl-C again to leave at once."))
        else:
            say(t("The stop is under way and cannot be taken back; Ctrl-C again leaves."))

    with contextlib.suppress(NotImplementedError):
        loop.add_signal_handler(signal.SIGINT, interrupted)
