"""The console's fleet: addresses kept in the settings, figures from real sockets."""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import TYPE_CHECKING

import pytest

from qwen_tui.cli import main
from qwen_tui.services.fleet_desk import RealFleet
from qwen_tui.services.paths import Paths
from qwen_tui.services.settings import load_settings
from qwen_tui_profiles.errors import UsageError
from support.metrics_server import document, serve

if TYPE_CHECKING:
    from pathlib import Path

METRICS = "# TYPE sglang:num_running_reqs gauge\nsglang:num_running_reqs 3.0\n"


def paths_in(folder: Path) -> Paths:
    return Paths(folder / "config", folder / "state", folder / "cache")


async def test_addresses_are_kept_once_without_credentials_beside_other_settings(
    tmp_path: Path,
) -> None:
    paths = paths_in(tmp_path)
    paths.config.mkdir()
    paths.settings.write_text('language = "en"\n# mine\n[console]\ntheme = "qwen-safe"\n')
    desk = RealFleet(paths)
    assert await desk.add("me:secret@10.0.0.2:30000/v1") == "http://10.0.0.2:30000"
    await desk.add("http://10.0.0.2:30000")
    await desk.add("http://10.0.0.3:30000")
    assert await desk.urls() == ("http://10.0.0.2:30000", "http://10.0.0.3:30000")
    await desk.remove("http://10.0.0.2:30000")
    assert await desk.urls() == ("http://10.0.0.3:30000",)
    text = paths.settings.read_text()
    assert "secret" not in text
    assert "# mine" in text
    assert load_settings(paths).theme == "qwen-safe"
    await desk.remove("http://10.0.0.3:30000")
    assert load_settings(paths).fleet == ()


async def test_what_is_no_address_is_refused_and_nothing_written(tmp_path: Path) -> None:
    paths = paths_in(tmp_path)
    with pytest.raises(UsageError):
        await RealFleet(paths).add("ftp://x")
    assert not paths.settings.exists()


async def test_watching_yields_each_server_and_uses_the_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QWEN_TUI_API_KEY", "sesame")
    heard: dict[str, int | None] = {}
    async with serve({"/metrics": document(METRICS)}) as one, serve({}) as two:
        watching = RealFleet(paths_in(tmp_path)).watch((one.url, two.url), 1.0)
        async with contextlib.aclosing(watching), asyncio.timeout(20):
            async for item in watching:
                heard[item.url] = item.snapshot.running
                if len(heard) == 2:
                    break
        assert one.seen[0].headers["authorization"] == "Bearer sesame"
    assert heard == {one.url: 3, two.url: None}


async def test_each_server_is_sent_only_the_key_that_is_meant_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("QWEN_TUI_HOME", str(tmp_path))
    monkeypatch.setenv("QWEN_TUI_API_KEY", "for-all")
    monkeypatch.setenv("BOX_KEY", "for-one")
    async with contextlib.AsyncExitStack() as stack:
        servers = [
            await stack.enter_async_context(serve({"/metrics": document(METRICS)}))
            for _ in range(4)
        ]
        own, none, unset, other = servers
        paths = Paths.default()
        paths.make(paths.config)
        paths.settings.write_text(
            f"[fleet]\nurls = {json.dumps([server.url for server in servers])}\n"
            f'[fleet.key-env]\n"{own.url}/" = "BOX_KEY"\n"{none.url}" = ""\n'
            f'"{unset.url}" = "NOT_SET"\n"no address" = "BOX_KEY"\n"{other.url}" = 3\n'
        )
        expected = {
            own.url: "Bearer for-one",
            none.url: None,
            unset.url: None,
            other.url: "Bearer for-all",
        }
        desk = RealFleet(paths)
        heard: set[str] = set()
        async with contextlib.aclosing(desk.watch(await desk.urls(), 1.0)) as watching:
            async with asyncio.timeout(20):
                async for item in watching:
                    heard.add(item.url)
                    if len(heard) == 4:
                        break
        argv = ["watch", "--fleet", "--json", "--count", "4", "--no-gpu"]
        assert await asyncio.to_thread(main, argv) == 0
        # An address that is given is the same address, with or without a slash.
        urls = [word for server in servers for word in ("--url", f"{server.url}/")]
        one_look = ["--json", "--count", "4", "--no-gpu"]
        assert await asyncio.to_thread(main, ["watch", *urls, *one_look]) == 0
        said = capsys.readouterr().out
        assert await asyncio.to_thread(main, ["watch", "--fleet", *urls, *one_look]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert {json.loads(line)["url"] for line in lines} <= {f"{s.url}/" for s in servers}
        for server in servers:
            sent = {request.headers.get("authorization") for request in server.seen}
            assert sent == {expected[server.url]}
            key = expected[server.url]
            assert await desk.key(server.url) == (key and key.removeprefix("Bearer "))
    assert "for-" not in said + "".join(lines)


async def test_the_command_watches_the_same_fleet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("QWEN_TUI_HOME", str(tmp_path))
    argv = ["watch", "--fleet", "--json", "--count", "1", "--no-gpu"]
    assert await asyncio.to_thread(main, argv) == 2
    assert "[fleet] in config.toml" in capsys.readouterr().err
    async with serve({"/metrics": document(METRICS)}) as server:
        await RealFleet(Paths.default()).add(server.url)
        assert await asyncio.to_thread(main, argv) == 0
        assert json.loads(capsys.readouterr().out)["url"] == server.url


async def test_curl_takes_the_key_from_the_variable_that_holds_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("QWEN_TUI_HOME", str(tmp_path))
    monkeypatch.setenv("QWEN_TUI_API_KEY", "for-all")
    monkeypatch.setenv("BOX_KEY", "for-one")
    models = document(json.dumps({"data": [{"id": "m"}]}), kind="application/json")
    async with serve({"/v1/models": models}) as server:
        paths = Paths.default()
        paths.make(paths.config)
        paths.settings.write_text(f'[fleet.key-env]\n"{server.url}" = "BOX_KEY"\n')
        argv = ["probe", "--url", server.url, "--curl"]
        assert await asyncio.to_thread(main, argv) == 0
    command = capsys.readouterr().out
    assert "${BOX_KEY}" in command
    assert "for-" not in command
    assert {r.headers.get("authorization") for r in server.seen} == {"Bearer for-one"}
