"""kill -9 of the console at every step: afterwards one true state, no orphan, nothing lost."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from qwen_tui.services.front import FrontService
from qwen_tui.services.ports import accepts
from qwen_tui.services.runs import RunStore
from qwen_tui.services.state import ALIVE, ServerState
from qwen_tui.services.stopping import StopHow
from support.supervise import fake_profile, fake_supervisor, free_port, processes_of, wait_until

if TYPE_CHECKING:
    from qwen_tui.services.paths import Paths

DRIVER = Path(__file__).parents[1] / "support" / "swap_driver.py"


def drive(paths: Paths, verb: str, port: int, kill_at: str, *flags: str) -> None:
    root = paths.state.parent
    done = subprocess.run(
        [sys.executable, str(DRIVER), str(root), verb, str(port), kill_at, *flags],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr


async def assert_one_true_state(paths: Paths) -> ServerState:
    """State, processes and log agree, and the server can be brought down cleanly."""
    supervisor = fake_supervisor(paths)
    state = (await supervisor.snapshot()).state
    assert len(processes_of(paths)) == (1 if state in ALIVE else 0)
    for run in RunStore(paths).ids():
        record = RunStore(paths).load(run)
        assert record is not None
        if record.pid is not None:
            assert (paths.runs / run / "engine.log").exists()
    return state


@pytest.mark.parametrize("kill_at", ["before-fork", "after-fork", "start"])
async def test_up(paths: Paths, kill_at: str) -> None:
    drive(paths, "up", free_port(), kill_at)
    state = await assert_one_true_state(paths)
    if kill_at == "before-fork":
        assert state is ServerState.EXITED
        # A new launch is not blocked by what was broken off.
        supervisor = fake_supervisor(paths)
        await supervisor.start(fake_profile(port=free_port()))
    supervisor = fake_supervisor(paths)
    assert (await supervisor.wait_ready()).ready
    assert (await supervisor.stop()).how is StopHow.DRAINED
    assert not processes_of(paths)


@pytest.mark.parametrize(
    ("kill_at", "profile"),
    [
        ("validate", None),
        ("drain", "fake-speed"),
        ("stop", None),
        ("memory", None),
        ("before-fork", None),
        ("after-fork", "fake-context"),
        ("start", None),
        ("first_token", "fake-context"),
        ("read_back", "fake-context"),
        ("done", "fake-context"),
    ],
)
async def test_swap(paths: Paths, kill_at: str, profile: str | None) -> None:
    port = free_port()
    supervisor = fake_supervisor(paths)
    await supervisor.start(fake_profile("fake-speed", port=port))
    assert (await supervisor.wait_ready()).ready
    drive(paths, "swap", port, kill_at)

    state = await assert_settled(paths)
    later = fake_supervisor(paths)
    if state in ALIVE:
        ready = await later.wait_ready()
        assert ready.ready
        assert profile in {None, ready.profile}
    else:
        # Killed while nothing ran: it is said, with what to type.
        assert profile is None
        message = str((await later.snapshot()).message)
        assert "from fake-speed to fake-context was broken off" in message
        assert "qwen-tui up fake-speed" in message
        await later.start(fake_profile("fake-speed", port=port))
        assert (await later.wait_ready()).ready
        assert "broken off" not in str((await later.snapshot()).message)
    assert (await fake_supervisor(paths).stop()).how is StopHow.DRAINED
    assert not processes_of(paths)


async def assert_settled(paths: Paths) -> ServerState:
    """Wait for a stop that was under way, then check that there is one true state."""

    def settled() -> bool:
        record = RunStore(paths).latest()
        return record is None or record.stop_asked is None or not processes_of(paths)

    assert wait_until(settled)
    return await assert_one_true_state(paths)


async def test_killed_on_the_way_back(paths: Paths) -> None:
    port = free_port()
    supervisor = fake_supervisor(paths)
    await supervisor.start(fake_profile("fake-speed", port=port))
    assert (await supervisor.wait_ready()).ready
    drive(paths, "swap", port, "roll_back", "--fault", "dies-silently")
    state = await assert_settled(paths)
    assert state in {ServerState.FATAL, ServerState.STARTING}
    if state is ServerState.FATAL:
        assert "qwen-tui up fake-speed" in str((await fake_supervisor(paths).snapshot()).message)


@pytest.mark.parametrize(
    ("kill_at", "flags"), [("draining", ()), ("killing", ("--fault", "ignores-term"))]
)
async def test_down(paths: Paths, kill_at: str, flags: tuple[str, ...]) -> None:
    """The signal was sent: it ends, or whoever stops next ends it."""
    port = free_port()
    supervisor = fake_supervisor(paths)
    await supervisor.start(fake_profile("fake-speed", port=port, flags=flags))
    assert (await supervisor.wait_ready()).ready
    drive(paths, "down", port, kill_at)
    if flags:
        assert (await fake_supervisor(paths).snapshot()).state is ServerState.STOPPING
        assert (await fake_supervisor(paths).stop(timeout_s=0.5)).how is StopHow.KILLED
    assert await assert_settled(paths) is ServerState.STOPPED
    assert not processes_of(paths)


async def test_front(paths: Paths) -> None:
    """Killed between the fork of the front and its record: it records itself."""
    port = free_port()
    drive(paths, "front", port, "after-fork")
    service = FrontService(paths)
    assert wait_until(lambda: service.find() is not None)
    found = service.find()
    assert found is not None
    assert wait_until(lambda: accepts("127.0.0.1", port))
    # Whoever asks for it again gets this one; the end of the server ends it.
    assert await service.start(port) == found
    await fake_supervisor(paths).stop()
    assert service.find() is None
    assert not accepts("127.0.0.1", port)
