"""Faults × {up, swap, down} with real processes and the real log reader: the quick part.

Afterwards there is exactly one true state, no orphan, the whole log, and the right cause. The
other cells are in ``test_fault_matrix_full.py``; ``test_fault_table.py`` has all of them.
"""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import psutil
import pytest

from qwen_tui.services.process import identify
from qwen_tui.services.runs import RunStore
from qwen_tui.services.state import ALIVE, ServerState
from qwen_tui.services.stopping import StopHow
from qwen_tui.services.supervisor import ServerSupervisor
from qwen_tui.services.swap import SwapOptions, SwapOutcome
from qwen_tui_profiles.errors import ConfigError, LaunchError
from qwen_tui_profiles.text import t
from support.faults import (
    BOOT_FAULTS,
    MARK,
    RUN_FAULTS,
    Fault,
    FullDiskSpawner,
    MissingProgram,
    PortThief,
    ask,
    assert_dead,
    assert_serves,
    boss,
    read_only,
    up,
)
from support.supervise import demo_profile, free_port, processes_of, wait_until

if TYPE_CHECKING:
    from pathlib import Path

    from qwen_tui.services.paths import Paths


@pytest.mark.parametrize("fault", BOOT_FAULTS, ids=lambda f: f.name)
async def test_up(paths: Paths, fault: Fault) -> None:
    ended = await up(paths, *fault.flags)
    assert ended.state is ServerState.FATAL
    await assert_dead(paths, fault)
    # And down, after that: nothing to do, and the cause stays.
    assert (await boss(paths).stop()).how is StopHow.ALREADY_GONE
    await assert_dead(paths, fault)


@pytest.mark.parametrize("fault", BOOT_FAULTS[::2] + BOOT_FAULTS[-1:], ids=lambda f: f.name)
async def test_swap(paths: Paths, fault: Fault) -> None:
    port = free_port()
    assert (await up(paths, port=port)).ready
    target = demo_profile("target", port=port, flags=fault.flags)
    steps = [step async for step in boss(paths).swap(target, SwapOptions(stop_s=10))]
    assert steps[-1].outcome is SwapOutcome.ROLLED_BACK
    assert fault.words in str(steps[-1].text)
    now = await boss(paths).snapshot(ask=True)
    assert (now.state, now.profile, now.ready) == (ServerState.RUNNING, "faulty", True)
    assert processes_of(paths) == {identify(now.pid or 0)}
    failed = boss(paths).history.boots(profile="target")[0]
    assert (failed.state, failed.cause) == ("fatal", fault.cause)
    swap = boss(paths).history.swaps()[0]
    assert (swap.before, swap.target, swap.outcome) == ("faulty", "target", "rolled back")


@pytest.mark.parametrize("fault", RUN_FAULTS, ids=lambda f: f.name)
async def test_death_under_load(paths: Paths, fault: Fault) -> None:
    # Request 1 is the smoke; the second one meets the fault.
    ready = await up(paths, *fault.flags, "--demo-fault-after", "2")
    assert ready.ready
    ask(ready.url or "")
    assert wait_until(lambda: identify(ready.pid or 0) is None)
    await assert_dead(paths, fault)
    assert (await boss(paths).stop()).how is StopHow.ALREADY_GONE
    await assert_dead(paths, fault)


async def test_scheduler_killed(paths: Paths) -> None:
    ready = await up(paths, "--demo-child")
    (child,) = psutil.Process(ready.pid).children()
    child.kill()
    assert wait_until(lambda: identify(ready.pid or 0) is None)
    await assert_dead(paths, Fault("scheduler killed", (), "killed"))


async def test_main_killed(paths: Paths) -> None:
    ready = await up(paths, "--demo-child")
    os.kill(ready.pid or 0, signal.SIGKILL)
    assert wait_until(lambda: identify(ready.pid or 0) is None)
    await assert_dead(paths, Fault("main killed", (), None, "does not say why"))


async def test_hang_at_load(paths: Paths) -> None:
    supervisor = boss(paths)
    hanging = demo_profile("hanging", port=free_port(), flags=("--demo-fault", "hang-load"))
    await supervisor.start(hanging)
    assert (await boss(paths).stop(timeout_s=5)).how is StopHow.BOOT_BROKEN_OFF
    assert (await boss(paths).snapshot()).state is ServerState.STOPPED
    assert not processes_of(paths)


async def test_ignores_term(paths: Paths) -> None:
    port = free_port()
    assert (await up(paths, "--demo-fault", "ignore-term", "--demo-child", port=port)).ready
    result = await boss(paths).stop(timeout_s=0.5)
    assert (result.how, result.port_free) == (StopHow.KILLED, True)
    assert (await boss(paths).snapshot()).state is ServerState.STOPPED
    assert not processes_of(paths)


async def test_ignores_term_in_a_swap(paths: Paths) -> None:
    port = free_port()
    assert (await up(paths, "--demo-fault", "ignore-term", port=port)).ready
    target = demo_profile("target", port=port)
    steps = [step async for step in boss(paths).swap(target, SwapOptions(stop_s=0.5))]
    assert steps[-1].outcome is SwapOutcome.SWAPPED
    assert any("Killed" in str(step.text) for step in steps)
    now = await boss(paths).snapshot()
    assert processes_of(paths) == {identify(now.pid or 0)}


async def test_port_taken_in_between(paths: Paths) -> None:
    thief = PortThief(free_port())
    supervisor = ServerSupervisor(paths, spawner=thief)
    robbed = demo_profile("robbed", port=thief.port, flags=MARK)
    await supervisor.start(robbed)
    try:
        assert (await supervisor.wait_ready()).state is ServerState.FATAL
        await assert_dead(paths, Fault("port", (), "port_in_use"))
    finally:
        thief.socket.close()


async def test_disk_full_for_the_log(paths: Paths) -> None:
    supervisor = ServerSupervisor(paths, spawner=FullDiskSpawner())
    await supervisor.start(demo_profile(port=free_port(), flags=MARK))
    ended = await supervisor.wait_ready()
    # Either the engine dies of it or it serves without a log; both are told as they are.
    assert ended.state in {ServerState.FATAL, ServerState.RUNNING}
    assert len(processes_of(paths)) == (1 if ended.state in ALIVE else 0)
    await boss(paths).stop()
    assert not processes_of(paths)


async def test_disk_full_for_the_records(paths: Paths, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path, data: bytes) -> None:
        raise OSError(28, "No space left on device")

    supervisor = boss(paths)
    await supervisor.start(demo_profile(port=free_port()))
    monkeypatch.setattr("qwen_tui.services.runs.write_private", full)
    # The server goes on, and is found by its mark.
    assert (await supervisor.wait_ready()).state in ALIVE
    result = await boss(paths).stop(timeout_s=10)
    assert result.how in {StopHow.DRAINED, StopHow.BOOT_BROKEN_OFF}
    assert not processes_of(paths)
    # A launch is refused: without an intent on disk it could be lost.
    with pytest.raises(ConfigError, match="No space left"):
        await boss(paths).start(demo_profile(port=free_port()))
    assert not processes_of(paths)


async def test_spawn_fails(paths: Paths) -> None:
    supervisor = ServerSupervisor(paths, spawner=MissingProgram())
    with pytest.raises(LaunchError, match="/nowhere/python"):
        await supervisor.start(demo_profile(port=free_port(), flags=MARK))
    assert (await boss(paths).snapshot()).state is ServerState.STOPPED
    assert RunStore(paths).ids() == []


async def test_spawn_fails_in_a_swap(paths: Paths) -> None:
    port = free_port()
    assert (await up(paths, port=port)).ready
    supervisor = ServerSupervisor(paths, spawner=MissingProgram())
    target = demo_profile("target", port=port, flags=MARK)
    steps = [step async for step in supervisor.swap(target)]
    assert steps[-1].outcome is SwapOutcome.ROLLED_BACK
    assert "/nowhere/python" in str(steps[-1].text)
    now = await boss(paths).snapshot()
    assert (now.state, now.profile) == (ServerState.RUNNING, "faulty")


async def test_state_folder_read_only(paths: Paths) -> None:
    paths.make(paths.state)
    with read_only(paths.state):
        assert (await boss(paths).snapshot()).state is ServerState.STOPPED
        with pytest.raises(ConfigError, match=str(paths.state)):
            await boss(paths).start(demo_profile(port=free_port()))
        with pytest.raises(ConfigError, match=str(paths.state)):
            await boss(paths).stop()
    assert not processes_of(paths)


async def test_state_folder_becomes_read_only(paths: Paths) -> None:
    """A swap touches nothing: it could note neither side. Stopping needs no note."""
    port = free_port()
    assert (await up(paths, port=port)).ready
    with read_only(paths.state):
        swap = [step async for step in boss(paths).swap(demo_profile("target", port=port))]
        assert (swap[-1].outcome, swap[-1].failed) == (SwapOutcome.CANCELLED, True)
        assert str(paths.state) in str(swap[-1].text)
        await assert_serves(paths, "faulty")
        store = RunStore(paths)
        async with store.lease(t("testing")):
            with pytest.raises(LaunchError, match="at work"):
                async with RunStore(paths).lease(t("testing"), wait_s=0):
                    pass
        assert (await boss(paths).stop()).how is StopHow.DRAINED
