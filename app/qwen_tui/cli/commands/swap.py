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

    from qwen_tui.services.snapshots import ServerSnapshot
    from qwen_tui.services.supervisor import ServerSupervisor
    from qwen_tui.services.swap import Swap, SwapStep
    from qwen_tui.services.swapcard import SwapCard
    from qwen_tui_profiles.loader import ProfileSet
    from qwen_tui_profiles.profile import EngineProfile

SCHEMA = "qwen-tui.swap/1"
_EVERY_S = 2.0
_INTERRUPTS = (signal.SIGINT, signal.SIGTERM)
CARD_SCHEMA = "qwen-tui.swap-card/1"


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
        "-n", "--dry-run", action="store_true", help=tr(t("only say what would change"))
    )
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
    interrupt = _Interrupt()
    try:
        last = asyncio.run(_swap(supervisor, load_profiles(paths.profiles), args, interrupt))
    except KeyboardInterrupt:
        say(t("Left in the middle of a swap. What runs now: qwen-tui status"))
        return 130
    if last is None:
        say(t("Nothing was changed."))
        return 0 if args.dry_run else 1
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
    if last.outcome == "swapped":  # a SwapOutcome; its module is heavy
        return 0
    return 130 if interrupt.obeyed else 1


class _Interrupt:
    """Lets Ctrl-C or TERM take a swap back where that is possible; a second one leaves at once.

    A terminal that goes away (HUP: a lost ssh connection) ends nothing: a swap that is left after
    its stop leaves nothing that serves, and nobody is there to see it.
    """

    def __init__(self) -> None:
        self.obeyed = False

    def listen(self, swap: Swap) -> None:
        """Listen from now on; the loop forgets it at its end."""
        loop = asyncio.get_running_loop()

        def interrupted() -> None:
            for number in _INTERRUPTS:
                loop.remove_signal_handler(number)
            self.obeyed = swap.cancel()
            if self.obeyed:
                say(t("Cancelling; press Ctrl-C again to leave at once."))
            else:
                say(t("The stop is under way and cannot be taken back; Ctrl-C again leaves."))

        with contextlib.suppress(NotImplementedError):
            for number in _INTERRUPTS:
                loop.add_signal_handler(number, interrupted)
            loop.add_signal_handler(signal.SIGHUP, lambda: None)


async def _swap(
    supervisor: ServerSupervisor,
    profiles: ProfileSet,
    args: argparse.Namespace,
    interrupt: _Interrupt,
) -> SwapStep | None:
    from qwen_tui.services.swap import SwapOptions

    now = await supervisor.snapshot()
    launched = None if supervisor.record is None else supervisor.record.snapshot.get("pair")
    target = _target(profiles, args.profile, now, launched)
    if args.dry_run or not args.yes:
        card = await supervisor.swap_card(target)
        if args.dry_run and args.json:
            print_json({"schema": CARD_SCHEMA, **card.as_json()})
        else:
            _tell_card(card)
        if args.dry_run or not _confirmed():
            return None
    options = SwapOptions(force=args.force, drain_s=args.drain_timeout, stop_s=args.stop_timeout)
    last: SwapStep | None = None
    async with supervisor.swapping(target, options) as swap:
        interrupt.listen(swap)
        said: SwapStep | None = None
        async for step in swap.steps():
            last = step
            if said is None or _is_news(said, step):
                said = step
                say(t("{seconds:6.1f} s  {text}", seconds=step.seconds, text=step.text))
    if last is not None and last.snapshot is not None:
        say_asked_got(last.snapshot.report)
    return last


def _is_news(said: SwapStep, step: SwapStep) -> bool:
    """Tell whether a step is worth a line: a stop reports twice a second."""
    return (
        step.name is not said.name
        or step.failed
        or step.text.template != said.text.template
        or step.seconds - said.seconds >= _EVERY_S
        or step.snapshot is not None
    )


def _target(
    profiles: ProfileSet, name: str | None, now: ServerSnapshot, launched_pair: str | None
) -> EngineProfile:
    if name is not None:
        return profiles.get(name)
    running = now.profile
    if now.pid is not None and running is None:
        raise LaunchError(
            t("What runs has lost its records, so there is no pair to swap in."),
            t("Stop it (qwen-tui down), then launch a profile (qwen-tui up PROFILE)."),
        )
    if now.pid is None or running is None:
        raise LaunchError(
            t("Nothing runs, so there is no pair to swap in."),
            t("Launch a profile (qwen-tui up PROFILE), or name one: qwen-tui swap PROFILE"),
        )
    # The file may have been removed since; the pair that it was launched with is known.
    pair = profiles.get(running).pair if running in profiles.profiles else launched_pair
    if pair is None:
        raise UsageError(
            t("{profile} has no other side to swap to.", profile=running),
            t("Name a profile (qwen-tui swap PROFILE), or set `pair` in the profile."),
        )
    return profiles.get(pair)


def _confirmed() -> bool:
    if not sys.stdin.isatty():
        raise UsageError(
            t("A swap must be confirmed, and there is no terminal to ask on."),
            t("Add --yes."),
        )
    print(tr(t("Go on? [y/N] ")), end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in {"y", "yes"}


def _tell_card(card: SwapCard) -> None:
    say(t("{before} → {target}", before=card.before or "—", target=card.target))
    for change in card.changes:
        say(
            t(
                "  {key}: {before} → {after}",
                key=change.key,
                before=change.before or "—",
                after=change.after or "—",
            )
        )
        if change.consequence is not None:
            say(t("      {text}", text=change.consequence))
    for name, words in (
        ("context_usable", t("usable context")),
        ("kv_tokens", t("KV pool")),
        ("max_running_requests", t("requests at once")),
    ):
        now, then = card.limits.get(name), card.predicted.get(name)
        last = card.last_limits.get(name)
        if then is not None:
            say(t("  {what}: {now} → {then} (predicted)", what=words, now=_n(now), then=_n(then)))
        elif last is not None:
            say(t("  {what}: {now} → {then} (last boot)", what=words, now=_n(now), then=_n(last)))
    for finding in card.findings:
        if finding.severity.value != "info":
            say(t("  {word}: {title}", word=finding.severity.value, title=finding.title))
    if card.down is not None:
        say(
            t(
                "  about {seconds:.0f} s without service (median of {n} swaps)",
                seconds=card.down.median_s,
                n=card.down.n,
            )
        )
    elif card.boot is not None:
        say(
            t(
                "  its boots took about {seconds:.0f} s; the stop comes on top",
                seconds=card.boot.median_s,
            )
        )
    if card.before is not None:
        say(
            t(
                "  the prefix cache is lost; requests running or waiting now: {count}",
                count=_n(card.in_flight),
            )
        )


def _n(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else "—"
