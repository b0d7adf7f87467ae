"""``qwen-tui attach URL``: watch a server that qwen-tui did not start."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from qwen_tui.cli.server_text import print_json, say, server_json
from qwen_tui_profiles.errors import UsageError
from qwen_tui_profiles.text import t, tr

if TYPE_CHECKING:
    import argparse

    from qwen_tui.services.snapshots import ServerSnapshot
    from qwen_tui.services.supervisor import ServerSupervisor

SCHEMA = "qwen-tui.attach/1"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("url", metavar="URL", nargs="?", help=tr(t("http://127.0.0.1:30000")))
    parser.add_argument("--forget", action="store_true", help=tr(t("watch it no longer")))
    parser.add_argument("--json", action="store_true", help=tr(t("print one JSON document")))


def run(args: argparse.Namespace) -> int:
    """Attach, or let go."""
    from qwen_tui.services.paths import Paths
    from qwen_tui.services.supervisor import ServerSupervisor

    if (args.url is None) is not args.forget:
        raise UsageError(
            t("Either an address or --forget was expected."),
            t("qwen-tui attach http://127.0.0.1:30000"),
        )
    snapshot = asyncio.run(_act(ServerSupervisor(Paths.default()), args.url))
    if args.json:
        print_json({"schema": SCHEMA, **server_json(snapshot)})
    elif args.forget:
        say(t("No longer watched; the server goes on."))
    else:
        say(
            t(
                "Watching {url} ({engine}); it generated a token: {ready}. "
                "It is never stopped or swapped from here.",
                url=snapshot.url or "—",
                engine=snapshot.engine or t("engine not recognised"),
                ready=t("yes") if snapshot.ready else t("no"),
            )
        )
    return 0


async def _act(supervisor: ServerSupervisor, url: str | None) -> ServerSnapshot:
    return await (supervisor.forget() if url is None else supervisor.attach(url))
