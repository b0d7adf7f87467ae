"""The fault matrix: faults that meet a stop, with real processes (``pytest -m slow``)."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING

import pytest

from qwen_tui.services.state import ALIVE, ServerState
from qwen_tui.services.stopping import StopHow
from qwen_tui.services.supervisor import ServerSupervisor
from qwen_tui_profiles.errors import LaunchError
from support.faults import (
    MARK,
    Fault,
    PortThief,
    ask,
    assert_dead,
    boot_of,
    boss,
    kill,
    up,
)
from support.supervise import demo_profile, free_port, processes_of, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

    from qwen_tui.services.paths import Paths
    from qwen_tui.services.stopping import StopProgress, StopResult

slow = pytest.mark.slow


async def stop(
    paths: Paths, act: Callable[[StopProgress], None], timeout_s: float = 10
) -> StopResult:
    result = await boss(paths).stop(timeout_s=timeout_s, on_change=act)
    assert not processes_of(paths)
    assert (await boss(paths).snapshot()).state is ServerState.STOPPED
    return result


@slow
@pytest.mark.parametrize("fault", ["oom-load", "crash-load"])
async def test_stop_of_a_dying_boot(paths: Paths, fault: str) -> None:
    """The log announces the death; the stop comes before the end."""
    started = await boss(paths).start(
        demo_profile("faulty", port=free_port(), flags=("--demo-fault", fault))
    )
    assert started.log_path is not None
    log = started.log_path
    assert wait_until(lambda: b"hit an exception" in log.read_bytes())
    result = await boss(paths).stop(timeout_s=10)
    assert result.how in {StopHow.DIED, StopHow.ALREADY_GONE}
    assert not processes_of(paths)
    cause = {"oom-load": "cuda_oom", "crash-load": "module_missing"}[fault]
    assert boot_of(paths, "faulty").cause == cause


@slow
async def test_stop_after_a_robbery(paths: Paths) -> None:
    """A stranger has the port after the stop: it is left alone, and said."""
    thief = PortThief(free_port())
    supervisor = ServerSupervisor(paths, spawner=thief)
    await supervisor.start(demo_profile("robbed", port=thief.port, flags=MARK))
    assert (await supervisor.wait_ready()).state is ServerState.FATAL
    assert (await boss(paths).stop()).how is StopHow.ALREADY_GONE
    await assert_dead(paths, Fault("port", (), "port_in_use"))
    assert thief.socket.fileno() >= 0
    thief.socket.close()


@slow
async def test_stop_of_a_dying_server(paths: Paths) -> None:
    flags = ("--demo-fault", "slot-exhaustion", "--demo-fault-after", "2")
    ready = await up(paths, *flags, "--demo-crash-seconds", "3")
    assert ready.log_path is not None
    log = ready.log_path
    load = threading.Thread(target=ask, args=(ready.url or "",))
    load.start()
    assert wait_until(lambda: b"hit an exception" in log.read_bytes())
    result = await stop(paths, lambda _: None)
    load.join()
    assert result.how is StopHow.DIED
    assert boot_of(paths, "faulty").cause == "mamba_slots_exhausted"


@slow
@pytest.mark.parametrize("victim", ["main", "scheduler"])
async def test_killed_during_the_stop(paths: Paths, victim: str) -> None:
    assert (await up(paths, "--demo-child", "--demo-fault", "slow-drain")).ready
    killed = False

    def act(progress: StopProgress) -> None:
        nonlocal killed
        if not killed and progress.requests_left:
            killed = True
            kill(paths, victim)

    result = await stop(paths, act)
    assert killed
    assert (result.how, result.requests_left) == (StopHow.DIED, 1)
    assert "1 requests were lost" in str(result.text)
    # After TERM the log reader takes the end of the children as part of the stop.
    assert (boot_of(paths, "faulty").how, boot_of(paths, "faulty").cause) == ("died", None)


@slow
async def test_two_stops_at_once(paths: Paths) -> None:
    """One acts; the other says so, and there is one ending."""
    assert (await up(paths, "--demo-fault", "slow-drain")).ready
    first = asyncio.create_task(boss(paths).stop(timeout_s=1.5))
    await asyncio.sleep(0.3)
    assert (await boss(paths).snapshot()).state is ServerState.STOPPING
    with pytest.raises(LaunchError, match="at work on the server"):
        await boss(paths).stop(timeout_s=1)
    assert (await first).how is StopHow.KILLED
    assert (await boss(paths).snapshot()).state not in ALIVE
    assert not processes_of(paths)
