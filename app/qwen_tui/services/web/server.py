"""The web server of ``qwen-tui web``: textual-serve's routes behind our guard."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import signal
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import aiohttp_jinja2
from aiohttp import WSCloseCode, web
from textual_serve.server import Server, to_int

from qwen_tui.services.web.guard import KEY, NONCE, Guard
from qwen_tui.services.web.session import TabSession
from qwen_tui_profiles.errors import InputError
from qwen_tui_profiles.text import language, t, tr

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["CONSOLE", "MAX_TABS", "ConsoleServer", "serve"]

CONSOLE = (sys.executable, "-m", "qwen_tui")
"""What each tab runs: the console of this very installation."""
PAGE = Path(__file__).with_name("page")
"""Our page: textual-serve's loads a font from the internet and takes keys only after a click."""
MAX_TABS = 8
"""Each tab is a process of 60 MB."""
PING_S = 15.0
_SIZE = range(1, 1001)
"""Columns or rows that a tab may ask for."""


class ConsoleServer(Server):
    """Serves the console, one process a tab; the first to take the console's lock may act."""

    def __init__(self, host: str, port: int, argv: tuple[str, ...] = CONSOLE) -> None:
        super().__init__("qwen-tui", host=host, port=port, templates_path=PAGE)
        self.guard = Guard(port)
        self._argv = argv
        self._tabs: set[web.WebSocketResponse] = set()

    @property
    def url(self) -> str:
        """Address to open, with the key."""
        return f"http://{_shown(self.host)}:{self.port}/?{KEY}={self.guard.key}"

    async def make_app(self) -> web.Application:
        """Return textual-serve's application behind the guard."""
        app = await self._make_app()
        app.middlewares.append(self.guard.middleware)
        return app

    async def on_startup(self, app: web.Application) -> None:
        """Print nothing: the command says where the console is."""

    async def on_shutdown(self, app: web.Application) -> None:
        """Close the tabs, so that their consoles leave before the server does."""
        for tab in tuple(self._tabs):
            await tab.close(code=WSCloseCode.GOING_AWAY, message=b"qwen-tui web ended")

    @aiohttp_jinja2.template("app_index.html")
    async def handle_index(self, request: web.Request) -> dict[str, Any]:
        """Fill the page with addresses of the host that was asked: a tunnel has another port."""
        return {
            "font_size": min(max(to_int(request.query.get("fontsize", "16"), 16), 4), 64),
            "socket_url": f"ws://{request.host}/ws",
            "nonce": request[NONCE],
            "words": {
                "lang": language().replace("_", "-"),
                "opening": tr(t("Opening the console…")),
                "closed": tr(t("This console has ended; a running server goes on.")),
                "again": tr(t("Open it again")),
            },
        }

    async def handle_websocket(self, request: web.Request) -> web.WebSocketResponse:
        """Run a console for a tab until either of the two ends."""
        if len(self._tabs) >= MAX_TABS:
            raise web.HTTPServiceUnavailable(
                text=tr(t("{limit} tabs are open already; close one.", limit=MAX_TABS))
            )
        tab = web.WebSocketResponse(heartbeat=PING_S)
        self._tabs.add(tab)
        try:
            await tab.prepare(request)
            await self._run_tab(request, tab)
        finally:
            self._tabs.discard(tab)
        return tab

    async def _run_tab(self, request: web.Request, tab: web.WebSocketResponse) -> None:
        session = TabSession(
            self._argv,
            write_bytes=tab.send_bytes,
            write_str=tab.send_str,
            close=tab.close,
            download_manager=self.download_manager,
        )
        try:
            await session.start(_size(request, "width", 80), _size(request, "height", 24))
            with contextlib.suppress(ConnectionError):
                await self._process_messages(tab, session)
        finally:
            await asyncio.shield(session.stop())


async def serve(host: str, port: int, say: Callable[[ConsoleServer], None]) -> None:
    """Serve until SIGINT, SIGTERM or SIGHUP; then close the tabs and wait for their consoles.

    Args:
        host: A loopback address.
        port: TCP port; 0 takes a free one.
        say: Called once the port answers.

    Raises:
        InputError: the port cannot be used.
    """
    listening = _listen(host, port)
    server = ConsoleServer(host, listening.getsockname()[1])
    runner = web.AppRunner(await server.make_app(), access_log=None)
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, ended.set)
    try:
        await runner.setup()
        await web.SockSite(runner, listening).start()
        say(server)
        await ended.wait()
    finally:
        await runner.cleanup()
        listening.close()


def _listen(host: str, port: int) -> socket.socket:
    address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    listening = socket.socket(address[0], address[1])
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address[4])
    except OSError as error:
        listening.close()
        if error.errno != errno.EADDRINUSE:
            raise InputError(
                t(
                    "Cannot listen on {host}:{port} ({reason}).",
                    host=host,
                    port=port,
                    reason=error.strerror or type(error).__name__,
                ),
                t("Choose another port with --port, or --port 0 for a free one."),
            ) from error
        raise InputError(
            t("Port {port} of {host} is taken.", port=port, host=host),
            t("Choose another port with --port, or --port 0 for a free one."),
        ) from error
    return listening


def _size(request: web.Request, name: str, default: int) -> int:
    asked = to_int(request.query.get(name, ""), default)
    return asked if asked in _SIZE else default


def _shown(host: str) -> str:
    return f"[{host}]" if ":" in host else host
