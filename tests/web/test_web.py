"""``qwen-tui web`` without a browser: who may come in, what a tab gets, how it ends."""

from __future__ import annotations

import contextlib
import socket
import sys
import time
from typing import TYPE_CHECKING

import aiohttp
import psutil
import pyte
import pytest
from multidict import CIMultiDict

from qwen_tui.cli import main
from qwen_tui.services.web.guard import Guard, is_loopback
from support.web_console import web_console

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "127.8.9.1", "::1", "[::1]", "localhost", "LOCALHOST"]
)
def test_loopback(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize(
    "host", ["0.0.0.0", "::", "192.168.0.4", "example.org", "localhost.example.org", "", "127.1"]
)
def test_not_loopback(host: str) -> None:
    assert not is_loopback(host)


@pytest.mark.parametrize(
    ("headers", "key", "reason"),
    [
        ({"Host": "127.0.0.1:9000"}, "right", None),
        ({"Host": "[::1]:8765"}, "right", None),
        ({"Host": "localhost:8765", "Origin": "http://localhost:8765"}, "right", None),
        ({"Host": "localhost:8765"}, "wrong", "key"),
        ({"Host": "localhost:8765"}, "", "key"),
        ({"Host": "localhost:8765", "Origin": "http://localhost:3000"}, "right", "Another site"),
        ({"Host": "localhost:8765", "Origin": "null"}, "right", "Another site"),
        ({"Host": "localhost:8765", "Origin": "https://example.org"}, "right", "Another site"),
        ({"Host": "rebound.example.org:8765"}, "right", "loopback"),
        ({}, "right", "loopback"),
    ],
)
def test_who_may_come_in(headers: dict[str, str], key: str, reason: str | None) -> None:
    guard = Guard(8765)
    given = guard.key if key == "right" else key
    for query, cookie in (({"key": given}, None), ({}, given)):
        refusal = guard.refusal(CIMultiDict(headers), CIMultiDict(query), cookie)
        assert (refusal is None) if reason is None else (refusal and reason in str(refusal))


def test_keys_differ() -> None:
    assert Guard(1).key != Guard(1).key
    assert len(Guard(1).key) >= 32


def test_the_extra_is_missing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in [name for name in sys.modules if name.startswith("qwen_tui.services.web")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "aiohttp", None)
    assert main(["web"]) == 2
    said = capsys.readouterr().err
    assert "needs aiohttp" in said
    assert 'python -m pip install "qwen-tui[web]"' in said


@pytest.mark.parametrize("host", ["0.0.0.0", "192.0.2.7", "example.org"])
def test_it_listens_on_loopback_alone(host: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["web", "--host", host]) == 2
    said = capsys.readouterr().err
    assert f"not on {host}" in said
    assert "ssh -L 8765:127.0.0.1:8765" in said


def test_no_port(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["web", "--port", "70000"]) == 2
    assert "70000 is no port" in capsys.readouterr().err


def test_a_taken_port(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert main(["web", "--port", str(port)]) == 2
    said = capsys.readouterr()
    assert f"Port {port} of 127.0.0.1 is taken." in said.err
    assert "--port 0" in said.err
    assert not said.out


class Wire:
    """A tab without a browser: the bytes of a WebSocket through a terminal emulator."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self.screen = pyte.Screen(120, 40)
        self._stream = pyte.ByteStream(self.screen)

    async def wait(self, true: Callable[[str], bool]) -> str:
        end = time.monotonic() + 20
        while time.monotonic() < end:
            frame = await self._socket.receive(timeout=20)
            assert frame.type is not aiohttp.WSMsgType.CLOSED, self.screen.display
            if frame.type is aiohttp.WSMsgType.BINARY:
                # pyte does not know the private modes that Textual asks for with "$p".
                with contextlib.suppress(TypeError):
                    self._stream.feed(frame.data)
            text = "\n".join(self.screen.display)
            if true(text):
                return text
        pytest.fail("\n".join(self.screen.display))


async def test_tabs_share_one_right_to_act_and_end_with_the_server(tmp_path: Path) -> None:
    with web_console(tmp_path) as running:
        address = f"{running.origin}/ws?width=120&height=40"
        async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as http:
            async with http.get(f"{running.origin}/") as answer:
                assert answer.status == 403
            with pytest.raises(aiohttp.WSServerHandshakeError, match="403"):
                await http.ws_connect(address)
            async with http.get(running.url) as answer:
                assert answer.status == 200
                assert str(answer.url) == f"{running.origin}/"
                policy = answer.headers["Content-Security-Policy"]
                page = await answer.text()
            assert "default-src 'self'" in policy
            assert "//fonts" not in page
            assert "Opening the console" in page
            with pytest.raises(aiohttp.WSServerHandshakeError, match="403"):
                await http.ws_connect(address, headers={"Origin": "https://example.org"})
            assert running.consoles() == []

            async with http.ws_connect(address) as first:
                acting = Wire(first)
                await acting.wait(lambda text: "demo-speed" in text and "s Start" in text)
                second = await http.ws_connect(address)
                watching = Wire(second)
                shown = await watching.wait(lambda text: "READ-ONLY" in text)
                assert "s Start" not in shown
                (_, left) = consoles = running.consoles()
            await watching.wait(lambda text: "s Start" in text)
            assert running.consoles() == [left]

            code, said = running.end()
            assert code == 0, said
            assert "Traceback" not in said
            assert "closed" in said
            assert not any(psutil.pid_exists(console.pid) for console in consoles)
            await second.close()
