"""``qwen-tui up PROFILE``: launch detached, follow the boot, end when one token was generated."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from qwen_tui.cli.server_text import (
    Narrator,
    clamps_json,
    port_number,
    positive_seconds,
    print_json,
    say,
    say_asked_got,
    server_json,
)
from qwen_tui_profiles.errors import QwenTuiError
from qwen_tui_profiles.text import t, tr

if TYPE_CHECKING:
    import argparse

    from qwen_tui.services.snapshots import ServerSnapshot
    from qwen_tui.services.supervisor import ServerSupervisor
    from qwen_tui_profiles.profile import EngineProfile

SCHEMA = "qwen-tui.up/1"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("profile", metavar="PROFILE", help=tr(t("the profile to launch")))
    parser.add_argument(
        "--python",
        metavar="PATH",
        help=tr(t("the engine's Python interpreter, instead of the profile's")),
    )
    parser.add_argument(
        "--force",
        metavar="REASON",
        help=tr(t("launch although a check failed; the reason is kept with the run")),
    )
    parser.add_argument(
        "--port",
        type=port_number,
        metavar="PORT",
        help=tr(t("port to serve on, instead of the profile's")),
    )
    parser.add_argument(
        "--front",
        type=port_number,
        metavar="PORT",
        help=tr(t("also serve on this port, where requests wait during a swap")),
    )
    parser.add_argument(
        "--front-hold",
        type=positive_seconds,
        default=600.0,
        metavar="SECONDS",
        help=tr(t("how long a request may wait there (default 600)")),
    )
    parser.add_argument(
        "--restart",
        type=int,
        metavar="N",
        help=tr(t("stay, and start it again up to N times when it dies while serving")),
    )
    parser.add_argument("--json", action="store_true", help=tr(t("print one JSON document")))


def run(args: argparse.Namespace) -> int:
    """Launch, follow, and say how it went."""
    from qwen_tui.services.paths import Paths
    from qwen_tui.services.supervisor import ServerSupervisor
    from qwen_tui_profiles.loader import load_profiles

    paths = Paths.default()
    profile = load_profiles(paths.profiles).get(args.profile)
    if args.port is not None:
        profile = replace(profile, port=args.port)
    supervisor = ServerSupervisor(paths)
    began = time.monotonic()
    try:
        snapshot = asyncio.run(_up(supervisor, profile, args, began))
    except KeyboardInterrupt:
        say(
            t(
                "Interrupted: the server goes on. Follow it with `qwen-tui status` and "
                "`qwen-tui logs -f`, end it with `qwen-tui down`."
            )
        )
        return 130
    seconds = time.monotonic() - began
    if args.json:
        print_json(
            {
                "schema": SCHEMA,
                **server_json(snapshot),
                "asked_got": clamps_json(snapshot.report),
                "seconds": round(seconds, 2),
            }
        )
    else:
        _tell(snapshot, seconds)
    if snapshot.ready and args.restart:
        return _keep(supervisor, profile, args.restart)
    return 0 if snapshot.ready else 1


def _keep(supervisor: ServerSupervisor, profile: EngineProfile, most: int) -> int:
    """Stay and start it again when it dies."""
    from qwen_tui.services.restart import RestartPolicy
    from qwen_tui.services.state import ServerState

    def died(snapshot: ServerSnapshot, delay_s: float | None) -> None:
        say(snapshot.message or t("It died."))
        if delay_s is None:
            say(t("It is not started again: the same cause would come back, or it died too often."))
        else:
            say(t("Starting it again in {seconds:.0f} s.", seconds=delay_s))

    say(t("Staying to start it again when it dies; Ctrl-C leaves it running."))
    try:
        last = asyncio.run(supervisor.keep(profile, RestartPolicy(most=most), on_death=died))
    except KeyboardInterrupt:
        return 130
    return 1 if last.state is ServerState.FATAL else 0


async def _up(
    supervisor: ServerSupervisor, profile: EngineProfile, args: argparse.Namespace, began: float
) -> ServerSnapshot:
    ours = args.front is not None and supervisor.front.find() is None
    if args.front is not None:
        # Before the launch, so that clients wait for the boot instead of being refused.
        front = await supervisor.front.start(args.front, hold_s=args.front_hold)
        say(t("Clients may use {url}: requests wait there until it serves.", url=front.url))
    try:
        snapshot = await _boot(supervisor, profile, args, began)
    except QwenTuiError:
        if ours:
            await supervisor.front.stop()
        raise
    if ours and not snapshot.ready:
        await supervisor.front.stop()
    return snapshot


async def _boot(
    supervisor: ServerSupervisor, profile: EngineProfile, args: argparse.Namespace, began: float
) -> ServerSnapshot:
    started = await supervisor.start(profile, interpreter=args.python, force=args.force)
    say(
        t(
            "{profile} on {url}, pid {pid}; log {path}",
            profile=profile.name,
            url=profile.url,
            pid=started.pid or "—",
            path=str(started.log_path),
        )
    )
    record = supervisor.record
    for warning in () if record is None else record.warned:
        say(t("! {warning}", warning=warning))
    predicted = None if record is None else record.prediction.get("kv_tokens")
    if record is not None and predicted is not None:
        say(
            t(
                "Predicted: KV pool {kv:,} tokens ({low:,} to {high:,}).",
                kv=predicted,
                low=record.prediction.get("kv_tokens_low") or predicted,
                high=record.prediction.get("kv_tokens_high") or predicted,
            )
        )
    if started.eta_s is not None:
        say(t("Earlier boots took about {seconds:.0f} s.", seconds=started.eta_s))
    if profile.simulated:
        say(t("This is the simulated engine: no model, no GPU."))
    return await supervisor.wait_ready(Narrator(began))


def _tell(snapshot: ServerSnapshot, seconds: float) -> None:
    from qwen_tui.services.state import ServerState

    if snapshot.ready:
        say_asked_got(snapshot.report)
        say(
            t(
                "Ready after {seconds:.1f} s: one token was generated at {url}",
                seconds=seconds,
                url=snapshot.url,
            )
        )
        return
    say(t("Not ready after {seconds:.1f} s.", seconds=seconds))
    if snapshot.message is not None:
        say(snapshot.message)
    elif snapshot.state in {ServerState.STOPPING, ServerState.STOPPED}:
        say(t("Another command stopped it while it booted. What runs now: qwen-tui status"))
    fatal = None if snapshot.report is None else snapshot.report.fatal
    if fatal is not None:
        # The line that introduces a traceback says nothing by itself.
        for evidence in (e for e in fatal.evidence if not e.text.endswith("call last):")):
            say(t("  line {line}: {text}", line=evidence.line or "—", text=evidence.text[:300]))
        if fatal.remedy is not None:
            say(t("  → {remedy}", remedy=fatal.remedy))
    elif snapshot.remedy is not None:
        say(t("  → {remedy}", remedy=snapshot.remedy))
    say(t("The whole log: {path}", path=str(snapshot.log_path)))
