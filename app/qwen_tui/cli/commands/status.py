"""``qwen-tui status``: what runs, what it was asked for and got, and how it does now."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

from qwen_tui.cli.server_text import asked_got_lines, positive_seconds, print_json, say
from qwen_tui.services.state import ENDED, ServerState
from qwen_tui.services.words import STATE_HEADS, phase_words
from qwen_tui_profiles.text import t, tr

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from qwen_tui.services.snapshots import LiveSnapshot, ServerSnapshot
    from qwen_tui.services.status import Status
    from qwen_tui_profiles.text import Text


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("--json", action="store_true", help=tr(t("print one JSON document")))
    parser.add_argument(
        "--sample",
        type=positive_seconds,
        default=0.0,
        metavar="SECONDS",
        help=tr(t("look twice, so far apart, to give rates as well")),
    )
    parser.add_argument(
        "--acknowledge",
        action="store_true",
        help=tr(t("note that you have seen how the last server ended; later looks are brief")),
    )


def run(args: argparse.Namespace) -> int:
    """Look once and print it."""
    from qwen_tui.services.paths import Paths
    from qwen_tui.services.status import read_status
    from qwen_tui.services.supervisor import ServerSupervisor

    supervisor = ServerSupervisor(Paths.default())
    status = asyncio.run(read_status(supervisor, sample_s=args.sample))
    if args.acknowledge:
        if status.server.state in ENDED:
            asyncio.run(supervisor.acknowledge())
        else:
            say(t("Nothing to acknowledge: it has not ended."))
    if args.json:
        print_json(status.as_json())
    else:
        for line in _lines(status):
            print(tr(line))
    return 1 if status.server.state is ServerState.FATAL else 0


def _lines(status: Status) -> Iterator[Text | str]:
    server = status.server
    yield t(
        "{state}   {profile}   {engine}   {url}",
        state=STATE_HEADS[server.state],
        profile=server.profile or "—",
        engine=" ".join(filter(None, (server.engine, server.engine_version))) or "—",
        url=server.url or "—",
    )
    if server.simulated:
        yield t("simulated engine: no model, no GPU")
    if server.acknowledged and server.state in ENDED:
        # Seen already: one line, and where to read it again.
        yield t("how it ended was acknowledged; qwen-tui history and qwen-tui logs keep it")
        return
    if server.message is not None:
        yield server.message
    if server.pid is not None and server.started is not None:
        yield t(
            "pid {pid}, up {seconds:,.0f} s, phase {phase}, first token generated: {ready}",
            pid=server.pid,
            seconds=max(time.time() - server.started, 0),
            phase=phase_words(server.phase) if server.phase is not None else "—",
            ready=_first_token(server),
        )
    document = status.as_json()
    limits = document["limits"]
    if server.pid is not None or server.attached:
        line = t(
            "usable context {context} tokens, requests at once: {requests}",
            context=_count(limits["context_usable"]),
            requests=_count(limits["max_running_requests"]),
        )
        replicas = (document["facts"] or {}).get("dp_replicas")
        yield line if replicas is None else t("{line} in {n} replicas", line=line, n=replicas)
    if server.state is not ServerState.STOPPED:
        yield from _prediction_lines(document)
        yield from asked_got_lines(server.report)
    if status.live is not None:
        yield from _live_lines(status.live)
    fatal = None if server.report is None else server.report.fatal
    if server.state is ServerState.FATAL:
        remedy = server.remedy if fatal is None else fatal.remedy
        if remedy is not None:
            yield t("  → {remedy}", remedy=remedy)
        yield t("seen? qwen-tui status --acknowledge")
    if server.log_path is not None:
        yield t("log {path}", path=str(server.log_path))


def _first_token(server: ServerSnapshot) -> Text | str:
    """Return whether it generated a token: a snapshot knows while it boots and while it serves."""
    if server.ready:
        return t("yes")
    return t("no") if server.state is ServerState.STARTING else "—"


def _prediction_lines(document: dict[str, Any]) -> Iterator[Text]:
    """Yield what was predicted beside what was measured; nothing when neither is known."""
    predicted = document["prediction"]["kv_tokens"]
    measured = (document["facts"] or {}).get("kv_tokens")
    error = document["prediction"]["error_pct"]
    if predicted is None and measured is None:
        return
    line = t(
        "KV pool {measured} tokens, predicted {predicted}",
        measured=_count(measured),
        predicted=_count(predicted),
    )
    yield line if error is None else t("{line} ({error:+.2f} %)", line=line, error=error)


def _live_lines(live: LiveSnapshot) -> Iterator[Text]:
    if live.error is not None:
        yield live.error
        return
    yield t(
        "running {running}, waiting {queue}, KV {kv}, state slots {slots}",
        running=_count(live.running),
        queue=_count(live.queue),
        kv=_share(live.kv_used),
        slots=_share(live.mamba_used),
    )
    if live.bound_by is not None:
        yield t("bound by {what}", what=live.bound_by)


def _count(value: int | None) -> str:
    return "—" if value is None else f"{value:,}"


def _share(value: float | None) -> str:
    return "—" if value is None else f"{value:.0%}"
