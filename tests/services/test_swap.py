"""The swap with real child processes: there, back again, and every way in which it can fail."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import socket
from typing import TYPE_CHECKING

import pytest

from qwen_tui.services.runs import RunStore
from qwen_tui.services.state import ServerState
from qwen_tui.services.swap import SwapOptions, SwapOutcome, SwapStep, SwapStepName
from qwen_tui_profiles.errors import LaunchError
from support.supervise import fake_profile, fake_supervisor, free_port, processes_of

if TYPE_CHECKING:
    from qwen_tui.services.paths import Paths
    from qwen_tui.services.supervisor import ServerSupervisor


@pytest.fixture
async def running(paths: Paths) -> ServerSupervisor:
    """A server that runs as ``fake-speed``."""
    supervisor = fake_supervisor(paths)
    await supervisor.start(fake_profile("fake-speed", port=free_port()))
    assert (await supervisor.wait_ready()).ready
    return supervisor


def port_of(supervisor: ServerSupervisor) -> int:
    assert supervisor.record is not None
    return supervisor.record.port


async def swap(supervisor: ServerSupervisor, *flags: str, port: int = 0) -> list[SwapStep]:
    target = fake_profile("fake-context", port=port or port_of(supervisor), flags=flags)
    return [step async for step in supervisor.swap(target, SwapOptions(stop_s=5))]


async def test_swap_goes_through_its_states(paths: Paths, running: ServerSupervisor) -> None:
    old = (await running.snapshot()).pid
    steps = await swap(running)
    assert list(dict.fromkeys(s.name for s in steps)) == [
        SwapStepName.VALIDATE,
        SwapStepName.STOP,
        SwapStepName.MEMORY,
        SwapStepName.START,
        SwapStepName.FIRST_TOKEN,
        SwapStepName.READ_BACK,
        SwapStepName.DONE,
    ]
    assert steps[-1].outcome is SwapOutcome.SWAPPED
    assert [s.outcome for s in steps[:-1]] == [None] * (len(steps) - 1)
    now = await fake_supervisor(paths).snapshot()
    assert (now.state, now.profile, now.ready) == (ServerState.RUNNING, "fake-context", True)
    assert now.pid != old
    assert len(processes_of(paths)) == 1


@pytest.mark.parametrize("fault", ["oom-at-load", "oom-at-first-token", "dies-silently"])
async def test_a_failed_target_rolls_back(
    paths: Paths, running: ServerSupervisor, fault: str
) -> None:
    steps = await swap(running, "--fault", fault)
    assert steps[-1].outcome is SwapOutcome.ROLLED_BACK
    assert steps[-1].failed
    cause = "exit code 3" if fault == "dies-silently" else "ran out of memory"
    assert cause in str(steps[-1].text)
    assert "fake-speed serves again" in str(steps[-1].text)
    now = await fake_supervisor(paths).snapshot()
    assert (now.state, now.profile, now.ready) == (ServerState.RUNNING, "fake-speed", True)
    assert len(processes_of(paths)) == 1


async def test_a_target_that_cannot_be_launched_touches_nothing(
    paths: Paths, running: ServerSupervisor
) -> None:
    before = await running.snapshot()
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        steps = await swap(running, port=holder.getsockname()[1])
    assert steps[-1].outcome is SwapOutcome.CANCELLED
    assert steps[-1].failed
    assert "taken" in str(steps[-1].text)
    now = await running.snapshot(ask=True)
    assert (now.state, now.pid) == (ServerState.RUNNING, before.pid)


async def test_a_full_disk_stops_the_swap_and_not_the_server(
    paths: Paths, running: ServerSupervisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seen on a full tmpfs: the old server was stopped, and neither could be started."""
    before = await running.snapshot()

    def full(handle: int, offset: int, length: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr("os.posix_fallocate", full)
        steps = await swap(running)
    assert (steps[-1].outcome, steps[-1].failed) == (SwapOutcome.CANCELLED, True)
    assert "No space left on device. Make room there" in str(steps[-1].text)
    assert not [step for step in steps if step.name is SwapStepName.STOP]
    now = await running.snapshot(ask=True)
    assert (now.state, now.pid) == (ServerState.RUNNING, before.pid)
    assert not list(RunStore(paths).folder.glob(".room-*"))
    assert (await swap(running))[-1].outcome is SwapOutcome.SWAPPED


async def test_when_going_back_fails_too_it_says_what_to_type(
    paths: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    supervisor = fake_supervisor(paths)
    # The first boot works, every later one dies: the fault is switched on in the environment.
    await supervisor.start(fake_profile("fake-speed", port=free_port()))
    assert (await supervisor.wait_ready()).ready
    monkeypatch.setenv("FAKE_ENGINE_FAULT", "dies-silently")
    steps = await swap(supervisor)
    assert steps[-1].outcome is SwapOutcome.FAILED
    assert "qwen-tui up fake-speed" in str(steps[-1].text)
    now = await fake_supervisor(paths).snapshot()
    assert now.state is ServerState.FATAL
    assert not processes_of(paths)


async def test_cancel_during_the_start_goes_back(paths: Paths, running: ServerSupervisor) -> None:
    target = fake_profile("fake-context", port=port_of(running), flags=("--load-s", "30"))
    outcome, asked = None, False
    async with running.swapping(target) as swapping:
        async for step in swapping.steps():
            if step.name is SwapStepName.START and not asked:
                asked = swapping.cancel()
            if step.name is SwapStepName.ROLL_BACK:
                assert not swapping.cancel()
            outcome = step.outcome
    assert outcome is SwapOutcome.ROLLED_BACK
    now = await fake_supervisor(paths).snapshot()
    assert (now.state, now.profile) == (ServerState.RUNNING, "fake-speed")
    assert len(processes_of(paths)) == 1


async def test_nobody_else_acts_during_a_swap(paths: Paths, running: ServerSupervisor) -> None:
    target = fake_profile("fake-context", port=port_of(running), flags=("--load-s", "3"))
    async with running.swapping(target) as swapping:
        steps = swapping.steps()
        async for step in steps:
            if step.name is SwapStepName.START:
                break
        with pytest.raises(LaunchError, match="swapping to fake-context"):
            await fake_supervisor(paths).stop()
        assert swapping.cancel()
        rest = [step async for step in steps]
    assert rest[-1].outcome is SwapOutcome.ROLLED_BACK


async def test_leaving_a_swap_early_loses_no_server(
    paths: Paths, running: ServerSupervisor
) -> None:
    target = fake_profile("fake-context", port=port_of(running), flags=("--load-s", "0.5"))
    async with running.swapping(target) as swapping:
        steps = swapping.steps()
        async for step in steps:
            if step.name is SwapStepName.START and step.snapshot is not None:
                break
        await steps.aclose()
    other = fake_supervisor(paths)
    assert (await other.snapshot()).state is ServerState.STARTING
    async with asyncio.timeout(10):
        now = await other.wait_ready()
    assert (now.profile, now.ready) == ("fake-context", True)


@pytest.mark.parametrize("cancels", [1, 3])
async def test_leaving_during_the_stop_still_starts_the_target(paths: Paths, cancels: int) -> None:
    """A lost ssh must not be the end of a good server."""
    port = free_port()
    slow = fake_profile("fake-speed", port=port, flags=("--drain-s", "1"))
    supervisor = fake_supervisor(paths)
    await supervisor.start(slow)
    assert (await supervisor.wait_ready()).ready
    stopping = asyncio.Event()

    async def watch() -> None:
        async with (
            supervisor.swapping(fake_profile("fake-context", port=port)) as swapping,
            contextlib.aclosing(swapping.steps()) as steps,
        ):
            async for step in steps:
                if step.name is SwapStepName.STOP:
                    stopping.set()

    watching = asyncio.create_task(watch())
    await stopping.wait()
    for _ in range(cancels):
        watching.cancel()
        await asyncio.sleep(0.05)
    await asyncio.wait({watching})
    assert watching.cancelled()
    async with asyncio.timeout(10):
        now = await fake_supervisor(paths).wait_ready()
    assert (now.profile, now.ready) == ("fake-context", True)


async def test_swap_from_nothing_is_a_start(paths: Paths) -> None:
    supervisor = fake_supervisor(paths)
    steps = await swap(supervisor, port=free_port())
    assert steps[-1].outcome is SwapOutcome.SWAPPED
    assert SwapStepName.STOP not in {s.name for s in steps}
    assert [r.split("-")[0] for r in RunStore(paths).ids()] == ["000001"]


async def test_the_stop_cannot_be_taken_back(paths: Paths) -> None:
    supervisor = fake_supervisor(paths)
    await supervisor.start(fake_profile(port=free_port(), flags=("--drain-s", "0.6")))
    assert (await supervisor.wait_ready()).ready
    target = fake_profile("fake-context", port=port_of(supervisor))
    refused = False
    async with supervisor.swapping(target) as swapping:
        async for step in swapping.steps():
            if step.name is SwapStepName.STOP and "Draining" in str(step.text):
                refused = refused or not swapping.cancel()
    assert refused
    assert step.outcome is SwapOutcome.SWAPPED


async def test_a_drain_does_not_take_unknown_for_none(paths: Paths) -> None:
    """A server that does not tell its requests is given the time that was granted."""
    supervisor = fake_supervisor(paths)
    await supervisor.start(fake_profile(port=free_port()))
    assert (await supervisor.wait_ready()).ready
    target = fake_profile("fake-context", port=port_of(supervisor))
    seen = [step async for step in supervisor.swap(target, SwapOptions(drain_s=1.5))]
    drained = [step for step in seen if step.name is SwapStepName.DRAIN]
    assert "does not tell how many requests run" in str(drained[-1].text)
    stop = next(step for step in seen if step.name is SwapStepName.STOP)
    assert stop.seconds - drained[0].seconds >= 1.4
    assert seen[-1].outcome is SwapOutcome.SWAPPED
