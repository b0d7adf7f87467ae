"""The rest of the fault matrix, with real processes: ``pytest -m slow tests/services``.

``test_fault_table.py`` has the table of all cells.
"""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import psutil
import pytest

from qwen_tui.services.process import identify
from qwen_tui.services.readiness import HttpSmoke, Smoke
from qwen_tui.services.runs import RunStore
from qwen_tui.services.state import ServerState
from qwen_tui.services.stopping import StopHow
from qwen_tui.services.supervisor import ServerSupervisor
from qwen_tui.services.swap import SwapOptions, SwapOutcome, SwapStep, SwapStepName
from qwen_tui.services.watchdog import BootWatch
from qwen_tui_profiles.text import t
from support.faults import (
    BOOT_FAULTS,
    MARK,
    Fault,
    FullDiskSpawner,
    PortThief,
    ask,
    assert_dead,
    assert_serves,
    boot_of,
    boss,
    kill,
    small_disk,
    up,
)
from support.supervise import demo_profile, free_port, processes_of, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from qwen_tui.services.paths import Paths
    from qwen_tui.services.snapshots import ServerSnapshot

slow = pytest.mark.slow


# --- up ---------------------------------------------------------------------------------------


@slow
async def test_hang_is_told(paths: Paths, monkeypatch: pytest.MonkeyPatch) -> None:
    """Silence without progress is said, and nothing is killed for it."""
    monkeypatch.setattr("qwen_tui.services.control.BootWatch", partial(BootWatch, least_s=1.0))
    supervisor = boss(paths)
    await supervisor.start(
        demo_profile("hanging", port=free_port(), flags=("--demo-fault", "hang-load"))
    )
    said: list[ServerSnapshot] = []
    following = asyncio.create_task(supervisor.wait_ready(said.append))
    try:
        for _ in range(200):
            await asyncio.sleep(0.1)
            if any("Stuck in load_weights" in str(s.message) for s in said):
                break
        assert any("Stuck in load_weights" in str(s.message) for s in said)
        assert not following.done()
    finally:
        following.cancel()
    assert (await boss(paths).snapshot()).state is ServerState.STARTING
    assert (await boss(paths).stop(timeout_s=2)).how is StopHow.BOOT_BROKEN_OFF


class NeverGenerates(HttpSmoke):
    """Answers as a server whose port is open and whose model does not work."""

    async def smoke(self, url: str, *, engine: str, api_key: str | None, timeout_s: float) -> Smoke:
        return Smoke(ok=False, seconds=0.0, starting=False, error=t("HTTP 500"))


@slow
async def test_failed_boot_that_ignores_term(paths: Paths, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("qwen_tui.services.control._FAILED_BOOT_STOP_S", 0.5)
    monkeypatch.setattr("qwen_tui.services.boot._DYING_S", 0.5)
    supervisor = ServerSupervisor(paths, http=NeverGenerates())
    flags = ("--demo-fault", "ignore-term", "--demo-child")
    await supervisor.start(demo_profile("faulty", port=free_port(), flags=flags))
    assert (await supervisor.wait_ready()).state is ServerState.FATAL
    await assert_dead(paths, Fault("no token", (), None, "failed its first requests"))


@slow
async def test_main_killed_at_load(paths: Paths) -> None:
    supervisor = boss(paths)
    started = await supervisor.start(
        demo_profile("faulty", port=free_port(), flags=("--demo-fault", "hang-load"))
    )
    assert started.log_path is not None
    log = started.log_path
    assert wait_until(lambda: b"Load weight begin" in log.read_bytes())
    os.kill(started.pid or 0, signal.SIGKILL)
    # We are the parent here, so the signal is known.
    assert (await supervisor.wait_ready()).state is ServerState.FATAL
    await assert_dead(paths, Fault("main killed", (), None, "SIGKILL"))


@slow
async def test_disk_fills_up(paths: Paths, tmp_path: Path) -> None:
    """A real full disk while it serves: it goes on, is seen, is stopped, and may start again."""
    small = replace(paths, state=tmp_path / "small")
    with small_disk(small.state, "2m"):
        port = free_port()
        assert (await up(small, port=port)).ready
        filler = small.state / "filler"
        with filler.open("wb", buffering=0) as file:
            try:
                while True:
                    file.write(b"x" * 4096)
            except OSError:
                pass
        await assert_serves(small, "faulty")
        result = await boss(small).stop(timeout_s=10)
        assert result.how is StopHow.DRAINED
        assert not processes_of(small)
        filler.unlink(missing_ok=True)
        after = await boss(small).snapshot()
        assert after.state in {ServerState.STOPPED, ServerState.EXITED}
        assert (await up(small, port=port)).ready
        assert (await boss(small).stop()).how is StopHow.DRAINED


@slow
async def test_disk_fills_up_at_load(paths: Paths, tmp_path: Path) -> None:
    """The log of a boot meets a full disk: the engine dies of it, and the disk is named."""
    small = replace(paths, state=tmp_path / "small")
    with small_disk(small.state, "96k"):
        (small.state / "filler").write_bytes(b"x" * 76 * 1024)
        assert (await up(small)).state is ServerState.FATAL
        for _ in range(2):  # the record could not be written either: each look finds the same
            now = await boss(small).snapshot()
            assert now.state is ServerState.FATAL
            assert "disk of its log is full" in str(now.message)
        assert not processes_of(small)
        assert (await boss(small).stop()).how is StopHow.ALREADY_GONE


# --- swap -------------------------------------------------------------------------------------


async def swap(
    supervisor: ServerSupervisor,
    port: int,
    *flags: str,
    act: Callable[[SwapStep], None] | None = None,
) -> list[SwapStep]:
    target = demo_profile("target", port=port, flags=flags)
    steps = []
    async for step in supervisor.swap(target, SwapOptions(stop_s=10)):
        steps.append(step)
        if act is not None:
            act(step)
    return steps


@slow
@pytest.mark.parametrize("fault", BOOT_FAULTS[1::2], ids=lambda f: f.name)
async def test_swap_other_boot_faults(paths: Paths, fault: Fault) -> None:
    port = free_port()
    assert (await up(paths, port=port)).ready
    steps = await swap(boss(paths), port, *fault.flags)
    assert steps[-1].outcome is SwapOutcome.ROLLED_BACK
    await assert_serves(paths, "faulty")
    failed = boot_of(paths, "target")
    assert (failed.state, failed.cause) == ("fatal", fault.cause)


@slow
async def test_swap_to_a_hang_is_cancelled(paths: Paths) -> None:
    port = free_port()
    assert (await up(paths, port=port)).ready
    target = demo_profile("target", port=port, flags=("--demo-fault", "hang-load"))
    steps = []
    async with boss(paths).swapping(target, SwapOptions(stop_s=2)) as swapping:
        async for step in swapping.steps():
            steps.append(step)
            if step.name is SwapStepName.START and step.snapshot is not None:
                swapping.cancel()
    assert steps[-1].outcome is SwapOutcome.ROLLED_BACK
    assert "Cancelled" in str(steps[-1].text)
    await assert_serves(paths, "faulty")
    assert (boot_of(paths, "target").state, boot_of(paths, "target").how) == (
        "stopped",
        "boot broken off",
    )


@slow
async def test_swap_robbed_of_its_port(paths: Paths) -> None:
    thief = PortThief(free_port())
    supervisor = ServerSupervisor(paths, spawner=thief)
    assert (await up(paths, port=thief.port)).ready
    steps = await swap(supervisor, thief.port, *MARK)
    # The thief still has it when the way back is tried: nothing can serve there, and it is said.
    assert steps[-1].outcome is SwapOutcome.FAILED
    assert "qwen-tui up faulty" in str(steps[-1].text)
    assert boot_of(paths, "target").cause == "port_in_use"
    assert not processes_of(paths)
    thief.socket.close()
    assert (await up(paths, port=thief.port)).ready
    await assert_serves(paths, "faulty")


@slow
async def test_swap_from_a_dying_server(paths: Paths) -> None:
    port = free_port()
    flags = ("--demo-fault", "slot-exhaustion", "--demo-fault-after", "2")
    ready = await up(paths, *flags, "--demo-crash-seconds", "3", port=port)
    assert ready.ready
    load = threading.Thread(target=ask, args=(ready.url or "",))
    load.start()
    assert ready.log_path is not None
    log = ready.log_path
    assert wait_until(lambda: b"hit an exception" in log.read_bytes())
    steps = await swap(boss(paths), port)
    load.join()
    assert steps[-1].outcome is SwapOutcome.SWAPPED
    await assert_serves(paths, "target")
    assert boot_of(paths, "faulty").cause == "mamba_slots_exhausted"


@slow
async def test_death_under_load_after_a_swap(paths: Paths) -> None:
    port = free_port()
    assert (await up(paths, port=port)).ready
    flags = ("--demo-fault", "slot-exhaustion", "--demo-fault-after", "2")
    steps = await swap(boss(paths), port, *flags)
    assert steps[-1].outcome is SwapOutcome.SWAPPED
    now = await boss(paths).snapshot()
    ask(now.url or "")
    assert wait_until(lambda: identify(now.pid or 0) is None)
    # The swap was over: there is no way back by itself, and the cause is named.
    await assert_dead(paths, Fault("slots", (), "mamba_slots_exhausted"))


@slow
@pytest.mark.parametrize("victim", ["main", "scheduler"])
async def test_swap_whose_target_is_killed(paths: Paths, victim: str) -> None:
    port = free_port()
    assert (await up(paths, port=port)).ready
    killed = False

    def act(step: SwapStep) -> None:
        nonlocal killed
        if not killed and step.name is SwapStepName.START and step.snapshot is not None:
            record = RunStore(paths).latest()
            assert record is not None
            pid = record.pid
            assert victim == "main" or wait_until(lambda: psutil.Process(pid).children())
            killed = True
            kill(paths, victim)

    steps = await swap(boss(paths), port, "--demo-child", "--demo-load-seconds", "4", act=act)
    assert killed
    assert steps[-1].outcome is SwapOutcome.ROLLED_BACK
    await assert_serves(paths, "faulty")
    failed = boot_of(paths, "target")
    assert failed.state == "fatal"
    assert failed.cause == ("killed" if victim == "scheduler" else None)
    assert victim == "scheduler" or "SIGKILL" in str(failed.message)


@slow
@pytest.mark.parametrize("victim", ["main", "scheduler"])
async def test_swap_whose_old_server_is_killed(paths: Paths, victim: str) -> None:
    port = free_port()
    flags = ("--demo-child", "--demo-fault", "slow-drain")
    assert (await up(paths, *flags, port=port)).ready
    killed = False

    def act(step: SwapStep) -> None:
        nonlocal killed
        if not killed and step.name is SwapStepName.STOP and "1 requests left" in str(step.text):
            killed = True
            kill(paths, victim)

    steps = await swap(boss(paths), port, act=act)
    assert killed
    assert steps[-1].outcome is SwapOutcome.SWAPPED
    await assert_serves(paths, "target")
    old = boot_of(paths, "faulty")
    assert (old.state, old.how) == ("stopped", "died")
    assert boss(paths).history.swaps()[0].lost == 1


@slow
async def test_swap_with_a_full_disk(paths: Paths) -> None:
    port = free_port()
    assert (await up(paths, port=port)).ready
    supervisor = ServerSupervisor(paths, spawner=FullDiskSpawner())
    steps = await swap(supervisor, port, *MARK)
    swapped = steps[-1].outcome is SwapOutcome.SWAPPED
    assert swapped or steps[-1].outcome is SwapOutcome.ROLLED_BACK
    await assert_serves(paths, "target" if swapped else "faulty")
