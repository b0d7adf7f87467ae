"""One tab: a console process of its own, started without a shell and certainly ended."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

from textual_serve.app_service import AppService

if TYPE_CHECKING:
    from asyncio.subprocess import Process
    from collections.abc import Awaitable, Callable, Sequence

    from textual_serve.download_manager import DownloadManager

__all__ = ["TabSession"]

QUIT_S = 5.0
"""How long a console may take to leave after its tab was closed."""


class TabSession(AppService):
    """The console process behind one tab."""

    def __init__(
        self,
        argv: Sequence[str],
        *,
        write_bytes: Callable[[bytes], Awaitable[None]],
        write_str: Callable[[str], Awaitable[None]],
        close: Callable[[], Awaitable[object]],
        download_manager: DownloadManager,
    ) -> None:
        async def close_tab() -> None:
            await close()

        super().__init__(
            "",
            write_bytes=write_bytes,
            write_str=write_str,
            close=close_tab,
            download_manager=download_manager,
        )
        self._argv = tuple(argv)

    async def _open_app_process(self, width: int = 80, height: int = 24) -> Process:
        """Start the console; textual-serve would hand a command line to a shell."""
        self._process = await asyncio.create_subprocess_exec(
            *self._argv,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=self._build_environment(width=width, height=height),
        )
        self._stdin = self._process.stdin
        return self._process

    async def stop(self) -> None:
        """Ask the console to leave; end it if it does not."""
        process = self._process
        try:
            async with asyncio.timeout(QUIT_S):
                await super().stop()
        except TimeoutError:
            self._task = None
        if process is None:
            return
        if self._stdin is not None:
            self._stdin.close()
        try:
            async with asyncio.timeout(QUIT_S):
                await process.wait()
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
