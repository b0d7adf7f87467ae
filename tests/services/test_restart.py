from __future__ import annotations

import asyncio
import os
import signal
from typing import TYPE_CHECKING

import pytest

from qwen_tui.services.restart import DETERMINISTIC, Death, RestartPolicy
from qwen_tui.services.state import ServerState
from qwen_tui.services.swap import SwapStepName
from support.supervise import fake_profile, fake_supervisor, free_port, processes_of

if TYPE_CHECKING:
    from qwen_tui.services.paths import Paths
    from qwen_tui.services.snapshots import ServerSnapshot

POLICY = RestartPolicy(most=3, window_s=100, first_s=5, longest_s=15)


def died(*deaths: tuple[float, str | None]) -> float | None:
    return POLICY.delay_s([Death(at, cause, was_ready=True) for at, cause in deaths])


def test_the_delay_doubles_up_to_its_limit() -> None:
    assert died((0, None)) == 5
    assert died((0, None), (10, None)) == 10
    assert died((0, None), (10, None), (20, None)) == 15


def test_not_more_often_than_allowed_in_the_window() -> None:
    assert died((0, None), (10, None), (20, None), (30, None)) is None
    assert died((0, None), (10, None), (20, None), (300, None)) == 5


@pytest.mark.parametrize("cause", sorted(DETERMINISTIC))
def test_never_on_a_cause_that_comes_back_each_time(cause: str) -> None:
    assert died((0, cause)) is None


def test_never_a_boot_that_was_not_ready() -> None:
    assert POLICY.delay_s([Death(0, None, was_ready=False)]) is None


def test_the_same_named_cause_three_times_is_enough() -> None:
    assert died((0, "scheduler_crash"), (10, "scheduler_crash")) == 10
    assert died((0, "cuda_oom"), (10, "cuda_oom"), (20, "cuda_oom")) is None
    assert died((0, "killed"), (10, "cuda_oom"), (20, "cuda_oom")) == 15


async def test_a_server_that_dies_is_started_again_and_a_stop_ends_it(paths: Paths) -> None:
    supervisor = fake_supervisor(paths)
    profile = fake_profile(port=free_port())
    await supervisor.start(profile)
    first = await supervisor.wait_ready()
    delays: list[float | None] = []

    def died(snapshot: ServerSnapshot, delay_s: float | None) -> None:
        assert snapshot.state is ServerState.FATAL
        delays.append(delay_s)

    keeping = asyncio.create_task(
        supervisor.keep(profile, RestartPolicy(most=1, first_s=0.05), on_death=died)
    )
    await asyncio.sleep(0.1)
    os.kill(first.pid or 0, signal.SIGKILL)
    other = fake_supervisor(paths)
    async with asyncio.timeout(10):
        while not (second := await other.snapshot()).ready or second.pid == first.pid:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    assert delays == [0.05]
    os.kill(second.pid or 0, signal.SIGKILL)
    assert (await keeping).state is ServerState.FATAL
    assert delays == [0.05, None]
    assert not processes_of(paths)


async def test_after_a_swap_what_was_swapped_to_is_started_again(paths: Paths) -> None:
    supervisor = fake_supervisor(paths)
    profile = fake_profile(port=free_port())
    await supervisor.start(profile)
    assert (await supervisor.wait_ready()).ready
    keeping = asyncio.create_task(supervisor.keep(profile, RestartPolicy(most=1, first_s=0.05)))
    await asyncio.sleep(0.1)
    other = fake_supervisor(paths)
    target = fake_profile("fake-context", port=profile.port)
    async for step in other.swap(target):
        if step.name is SwapStepName.MEMORY:
            await asyncio.sleep(0.6)  # it sees that nothing runs between the two
    swapped = await other.snapshot()
    assert (swapped.profile, swapped.ready) == ("fake-context", True)
    assert not keeping.done()
    os.kill(swapped.pid or 0, signal.SIGKILL)
    async with asyncio.timeout(10):
        while not (again := await other.snapshot()).ready or again.pid == swapped.pid:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    assert again.profile == "fake-context"
    await other.stop()
    assert (await keeping).state is ServerState.STOPPED
