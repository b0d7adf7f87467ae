"""``qwen-tui web``: the console in a browser on this machine."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING

from qwen_tui_profiles.errors import InputError
from qwen_tui_profiles.text import t, tr

if TYPE_CHECKING:
    import argparse

    from qwen_tui.services.web import ConsoleServer

PORT = 8765
HIGHEST_PORT = 65_535
NEEDED = frozenset({"textual_serve", "aiohttp", "aiohttp_jinja2", "jinja2"})
"""Modules that the extra ``[web]`` brings."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument(
        "--port", type=int, default=PORT, help=tr(t("port to listen on; 0 takes a free one"))
    )
    parser.add_argument(
        "--host",
        default="127.0.0.1",
        help=tr(t("loopback address to listen on (127.0.0.1, ::1 or localhost)")),
    )


def run(args: argparse.Namespace) -> int:
    """Serve the console until Ctrl+C; the server of the engine goes on.

    Raises:
        InputError: the extra is not installed, or host or port cannot be used.
    """
    if not 0 <= args.port <= HIGHEST_PORT:
        raise InputError(
            t(
                "{port} is no port: 0 to {highest} was expected.",
                port=args.port,
                highest=HIGHEST_PORT,
            ),
            t("Choose another port with --port, or --port 0 for a free one."),
        )
    try:
        from qwen_tui.services.web import serve
        from qwen_tui.services.web.guard import is_loopback
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in NEEDED:
            raise
        raise InputError(
            t(
                "The console in a browser needs {module}, which is not installed.",
                module=error.name,
            ),
            t('Install it: python -m pip install "qwen-tui[web]"'),
        ) from error
    if not is_loopback(args.host):
        raise InputError(
            t(
                "The console launches and stops servers, so it listens on loopback addresses "
                "alone, not on {host}.",
                host=args.host,
            ),
            t(
                "From another machine: ssh -L {port}:127.0.0.1:{port} THIS_MACHINE, then open the "
                "address there.",
                port=args.port or PORT,
            ),
        )
    asyncio.run(serve(args.host, args.port, _say))
    print(tr(t("The web console is closed; a running server goes on.")), file=sys.stderr)
    return 0


def _say(server: ConsoleServer) -> None:
    print(server.url, flush=True)
    print(
        tr(t("Open this address on this machine. The first tab acts, others watch. Ctrl+C ends.")),
        file=sys.stderr,
        flush=True,
    )
