"""A real headless Chromium, driven through its DevTools protocol.

The console is drawn on a canvas, so the page holds no text to read. What a tab shows is taken from
the frames that its WebSocket received, through a terminal emulator; that it is drawn, from a
picture of the page.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import shutil
from typing import TYPE_CHECKING, Any

import aiohttp
import pyte
import pytest

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

__all__ = ["CHROMIUM", "Browser", "Tab", "browser"]

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--window-size=1280,800",
    "--remote-debugging-port=0",
)
ENTER = {"key": "Enter", "code": "Enter", "windowsVirtualKeyCode": 13, "text": "\r"}


class Tab:
    """One page and the screen that its console paints."""

    def __init__(self, owner: Browser, session: str, target: str) -> None:
        self._owner = owner
        self._session = session
        self.target = target
        self.screen = pyte.Screen(400, 120)
        self._stream = pyte.ByteStream(self.screen)
        self.failed: list[str] = []
        self.requested: list[str] = []

    @property
    def text(self) -> str:
        """What stands on the console's screen."""
        return "\n".join(line.rstrip() for line in self.screen.display).rstrip()

    def event(self, method: str, params: dict[str, Any]) -> None:
        """Take what Chromium reports."""
        if method == "Network.webSocketFrameReceived":
            frame = params["response"]
            if frame["opcode"] == 2:
                # pyte does not know the private modes that Textual asks for with "$p".
                with contextlib.suppress(TypeError):
                    self._stream.feed(base64.b64decode(frame["payloadData"]))
        elif method == "Network.requestWillBeSent":
            self.requested.append(params["request"]["url"])
        elif method == "Network.loadingFailed":
            self.failed.append(params.get("blockedReason") or params["errorText"])

    async def send(self, method: str, **params: object) -> dict[str, Any]:
        """Ask Chromium something about this page."""
        return await self._owner.send(method, self._session, **params)

    async def press(self, key: str) -> None:
        """Press and release a key, as if this tab were in front."""
        await self.send("Page.bringToFront")
        what = ENTER if key == "enter" else {"key": key, "text": key}
        await self.send("Input.dispatchKeyEvent", type="keyDown", **what)
        what = {name: value for name, value in what.items() if name != "text"}
        await self.send("Input.dispatchKeyEvent", type="keyUp", **what)

    async def evaluate(self, expression: str) -> Any:
        """Return the value of a JavaScript expression."""
        answer = await self.send("Runtime.evaluate", expression=expression, returnByValue=True)
        return answer["result"].get("value")

    async def picture(self) -> bytes:
        """Return the page as PNG."""
        answer = await self.send("Page.captureScreenshot", format="png")
        return base64.b64decode(answer["data"])

    async def wait(self, true: Callable[[str], bool] | str, limit_s: float = 20.0) -> str:
        """Wait until the console shows a text (or a predicate holds)."""
        end = asyncio.get_running_loop().time() + limit_s
        while asyncio.get_running_loop().time() < end:
            text = self.text
            if (true in text) if isinstance(true, str) else true(text):
                return text
            await asyncio.sleep(0.05)
        pytest.fail(f"never shown: {true!r}\n{self.text}\n{self.failed}")

    async def close(self) -> None:
        """Close the tab as its user would."""
        await self._owner.send("Target.closeTarget", targetId=self.target)


class Browser:
    """A running Chromium."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._asked: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._tabs: dict[str, Tab] = {}
        self._reader = asyncio.create_task(self._read())

    async def open(self, url: str) -> Tab:
        """Open a tab."""
        made = await self.send("Target.createTarget", url="about:blank")
        target = made["targetId"]
        joined = await self.send("Target.attachToTarget", targetId=target, flatten=True)
        tab = Tab(self, joined["sessionId"], target)
        self._tabs[joined["sessionId"]] = tab
        await tab.send("Network.enable")
        await tab.send("Page.enable")
        await tab.send("Page.navigate", url=url)
        return tab

    async def send(
        self, method: str, session: str | None = None, **params: object
    ) -> dict[str, Any]:
        """Ask Chromium something and return its answer."""
        number = len(self._asked) + 1
        self._asked[number] = asyncio.get_running_loop().create_future()
        message: dict[str, object] = {"id": number, "method": method, "params": params}
        if session is not None:
            message["sessionId"] = session
        await self._socket.send_json(message)
        answer = await asyncio.wait_for(self._asked[number], 20)
        assert "error" not in answer, answer
        result: dict[str, Any] = answer["result"]
        return result

    async def _read(self) -> None:
        async for frame in self._socket:
            message = frame.json()
            if "id" in message:
                self._asked[message["id"]].set_result(message)
            elif message.get("sessionId") in self._tabs:
                self._tabs[message["sessionId"]].event(message["method"], message["params"])

    async def end(self) -> None:
        """Stop listening."""
        self._reader.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._reader


@contextlib.asynccontextmanager
async def browser(profile: Path) -> AsyncIterator[Browser]:
    """Run Chromium with a profile of its own."""
    assert CHROMIUM is not None
    process = await asyncio.create_subprocess_exec(
        CHROMIUM,
        *FLAGS,
        f"--user-data-dir={profile}",
        "about:blank",
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        address = await _address(profile / "DevToolsActivePort")
        async with (
            aiohttp.ClientSession() as http,
            http.ws_connect(address, max_msg_size=0) as socket,
        ):
            running = Browser(socket)
            try:
                yield running
                with contextlib.suppress(AssertionError, TimeoutError, ConnectionError):
                    await running.send("Browser.close")
            finally:
                await running.end()
    finally:
        try:
            await asyncio.wait_for(process.wait(), 10)
        except TimeoutError:
            process.kill()
            await process.wait()


async def _address(file: Path) -> str:
    for _ in range(400):
        with contextlib.suppress(FileNotFoundError, ValueError):
            port, path = (await asyncio.to_thread(file.read_text)).split()
            return f"ws://127.0.0.1:{port}{path}"
        await asyncio.sleep(0.05)
    pytest.fail("Chromium did not say where its DevTools listen")
