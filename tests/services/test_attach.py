from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from qwen_tui.services.ports import accepts
from qwen_tui.services.state import ServerState
from qwen_tui.services.swap import SwapOutcome
from qwen_tui_profiles.errors import EngineError, LaunchError, StopError, UsageError
from support.metrics_server import document, serve
from support.supervise import (
    FAKE_ENGINE,
    fake_profile,
    fake_supervisor,
    free_port,
    wait_until,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from qwen_tui.services.paths import Paths


@pytest.fixture
def stranger() -> Iterator[tuple[int, int]]:
    """An engine that somebody else started: (pid, port)."""
    port = free_port()
    process = subprocess.Popen(
        [sys.executable, "-S", str(FAKE_ENGINE), "--host", "127.0.0.1", "--port", str(port)],
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )
    assert wait_until(lambda: accepts("127.0.0.1", port))
    yield process.pid, port
    process.send_signal(signal.SIGKILL)
    process.wait()


async def test_it_is_watched_and_never_touched(paths: Paths, stranger: tuple[int, int]) -> None:
    pid, port = stranger
    url = f"http://127.0.0.1:{port}"
    snapshot = await fake_supervisor(paths).attach(f"{url}/v1")
    assert (snapshot.state, snapshot.ready, snapshot.attached) == (ServerState.RUNNING, True, True)
    assert (snapshot.url, snapshot.pid, snapshot.log_path) == (url, None, None)

    other = fake_supervisor(paths)
    assert (await other.snapshot(ask=True)).attached
    with pytest.raises(StopError, match="not started by qwen-tui"):
        await other.stop()
    steps = [step async for step in other.swap(fake_profile(port=port))]
    assert steps[-1].outcome is SwapOutcome.CANCELLED
    with pytest.raises(LaunchError, match="already"):
        await other.start(fake_profile(port=free_port()))
    assert accepts("127.0.0.1", port)

    os.kill(pid, signal.SIGKILL)
    assert wait_until(lambda: not accepts("127.0.0.1", port))
    assert (await other.snapshot(ask=True)).state is ServerState.UNREACHABLE
    assert (await other.snapshot()).state is ServerState.UNREACHABLE

    assert (await other.forget()).state is ServerState.STOPPED
    assert (await fake_supervisor(paths).snapshot()).state is ServerState.STOPPED


async def test_an_address_that_does_not_answer_costs_no_watched_server(
    paths: Paths, stranger: tuple[int, int]
) -> None:
    url = f"http://127.0.0.1:{stranger[1]}"
    supervisor = fake_supervisor(paths)
    await supervisor.attach(url)
    with pytest.raises(EngineError, match="does not answer"):
        await supervisor.attach(f"http://127.0.0.1:{free_port()}")
    kept = await fake_supervisor(paths).snapshot()
    assert (kept.url, kept.state, kept.attached) == (url, ServerState.RUNNING, True)
    again = await supervisor.attach(f"http://localhost:{stranger[1]}")
    assert (again.url, again.state) == (f"http://localhost:{stranger[1]}", ServerState.RUNNING)


async def test_nothing_there(paths: Paths) -> None:
    with pytest.raises(EngineError, match="does not answer"):
        await fake_supervisor(paths).attach(f"127.0.0.1:{free_port()}")
    with pytest.raises(UsageError):
        await fake_supervisor(paths).attach("ftp://127.0.0.1")
    assert (await fake_supervisor(paths).snapshot()).state is ServerState.STOPPED


async def test_our_own_server_is_not_lost_to_an_attach(
    paths: Paths, stranger: tuple[int, int]
) -> None:
    supervisor = fake_supervisor(paths)
    await supervisor.start(fake_profile(port=free_port()))
    with pytest.raises(LaunchError, match="already"):
        await fake_supervisor(paths).attach(f"http://127.0.0.1:{stranger[1]}")
    assert (await supervisor.wait_ready()).ready


async def test_it_is_sent_the_key_that_the_settings_name_for_it(
    paths: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QWEN_TUI_API_KEY", "for-all")
    monkeypatch.setenv("BOX_KEY", "for-one")
    routes = {"/metrics": document("vllm:num_requests_running 0\n")}
    async with serve(routes) as one, serve(routes) as none, serve(routes) as other:
        paths.make(paths.config)
        paths.settings.write_text(f'[fleet.key-env]\n"{one.url}" = "BOX_KEY"\n"{none.url}" = ""\n')
        for server, key in ((one, "for-one"), (none, None), (other, "for-all")):
            supervisor = fake_supervisor(paths)
            await supervisor.attach(server.url)
            assert supervisor.api_key() == key
            bearer = None if key is None else f"Bearer {key}"
            sent = {r.headers.get("authorization") for r in server.seen if r.path == "/metrics"}
            assert sent == {bearer}
