"""Every fault × {up, swap, down}, with real processes and the real log reader.

Afterwards there is exactly one true state, no orphan, the whole log, and the right cause.
"""

from __future__ import annotations

import os
import signal
import socket
import urllib.request
from dataclasses import dataclass
from typing import TYPE_CHECKING

import psutil
import pytest

from qwen_tui.services.process import identify
from qwen_tui.services.runs import RunStore
from qwen_tui.services.spawner import SystemSpawner
from qwen_tui.services.state import ALIVE, ServerState
from qwen_tui.services.stopping import StopHow
from qwen_tui.services.supervisor import ServerSupervisor
from qwen_tui.services.swap import SwapOptions, SwapOutcome
from qwen_tui_profiles.errors import ConfigError, LaunchError
from support.supervise import demo_profile, free_port, processes_of, wait_until

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from qwen_tui.services.paths import Paths
    from qwen_tui.services.snapshots import ServerSnapshot
    from qwen_tui.services.spawner import Child

SLOW = ("--demo-token-ms", "150")


@dataclass(frozen=True)
class Fault:
    """A fault of a boot."""

    name: str
    flags: tuple[str, ...]
    cause: str | None
    """Class of the cause in the log; ``None`` = the log does not tell."""
    words: str = ""


BOOT_FAULTS = [
    Fault("dies at load", ("--demo-fault", "exit-load"), None, "exit code"),
    Fault("module missing", ("--demo-fault", "crash-load"), "module_missing"),
    Fault("OOM at load", ("--demo-fault", "oom-load"), "cuda_oom"),
    Fault("no weights", ("--demo-fault", "missing-weights"), "missing_weights"),
    Fault("bad flag", ("--no-such-flag", "1"), "bad_argument"),
    Fault("dies at first token", ("--demo-fault", "oom-first-token", *SLOW), "cuda_oom"),
]
RUN_FAULTS = [
    Fault("slot exhaustion", ("--demo-fault", "slot-exhaustion"), "mamba_slots_exhausted"),
    Fault("crash", ("--demo-fault", "crash-running"), "scheduler_crash"),
]


def boss(paths: Paths) -> ServerSupervisor:
    return ServerSupervisor(paths)


async def up(paths: Paths, *flags: str, port: int = 0) -> ServerSnapshot:
    supervisor = boss(paths)
    await supervisor.start(demo_profile("faulty", port=port or free_port(), flags=flags))
    return await supervisor.wait_ready()


async def assert_dead(paths: Paths, fault: Fault) -> None:
    """The state, its cause and the log, as a process sees them that had no part in it."""
    now = await boss(paths).snapshot()
    assert now.state is ServerState.FATAL
    assert not now.ready
    assert not processes_of(paths)
    record = RunStore(paths).latest()
    assert record is not None
    assert record.ending is not None
    cause = None if record.ending.cause is None else record.ending.cause["class"]
    assert (cause, fault.words in str(now.message)) == (fault.cause, True)
    assert_log_is_whole(now)
    history = boss(paths).history.boots(limit=1)
    assert (history[0].run, history[0].state, history[0].cause) == (record.id, "fatal", cause)


def assert_log_is_whole(now: ServerSnapshot) -> None:
    assert now.log_path is not None
    assert now.log_path.stat().st_size > 0


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


def ask(url: str) -> None:
    request = urllib.request.Request(
        f"{url}/generate",
        data=b'{"text": "1 2 3", "sampling_params": {"max_new_tokens": 64}}',
        headers={"Content-Type": "application/json"},
    )
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            answer.read()
    except OSError:
        pass


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


class PortThief(SystemSpawner):
    """Takes the port between our check and the engine's bind."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.socket = socket.socket()

    def spawn(
        self, argv: Sequence[str], env: Mapping[str, str], *, folder: Path, log: Path
    ) -> Child:
        if "--demo-seed" in argv:  # marks the launch that is robbed
            self.socket.bind(("127.0.0.1", self.port))
            self.socket.listen()
        elif self.socket.fileno() >= 0:
            self.socket.close()
        return super().spawn(argv, env, folder=folder, log=log)


async def test_port_taken_in_between(paths: Paths) -> None:
    thief = PortThief(free_port())
    supervisor = ServerSupervisor(paths, spawner=thief)
    robbed = demo_profile("robbed", port=thief.port, flags=("--demo-seed", "1"))
    await supervisor.start(robbed)
    try:
        assert (await supervisor.wait_ready()).state is ServerState.FATAL
        await assert_dead(paths, Fault("port", (), "port_in_use"))
    finally:
        thief.socket.close()


class FullDiskSpawner(SystemSpawner):
    """The log is on a full disk."""

    def spawn(
        self, argv: Sequence[str], env: Mapping[str, str], *, folder: Path, log: Path
    ) -> Child:
        log.symlink_to("/dev/full")
        return super().spawn(argv, env, folder=folder, log=log)


async def test_disk_full_for_the_log(paths: Paths) -> None:
    supervisor = ServerSupervisor(paths, spawner=FullDiskSpawner())
    await supervisor.start(demo_profile(port=free_port()))
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


class MissingProgram(SystemSpawner):
    """The interpreter vanished between the check and the exec."""

    def spawn(
        self, argv: Sequence[str], env: Mapping[str, str], *, folder: Path, log: Path
    ) -> Child:
        if "--demo-seed" in argv:
            argv = ["/nowhere/python", *argv[1:]]
        return super().spawn(argv, env, folder=folder, log=log)


async def test_spawn_fails(paths: Paths) -> None:
    supervisor = ServerSupervisor(paths, spawner=MissingProgram())
    with pytest.raises(LaunchError, match="/nowhere/python"):
        await supervisor.start(demo_profile(port=free_port(), flags=("--demo-seed", "1")))
    assert (await boss(paths).snapshot()).state is ServerState.STOPPED
    assert RunStore(paths).ids() == []


async def test_spawn_fails_in_a_swap(paths: Paths) -> None:
    port = free_port()
    assert (await up(paths, port=port)).ready
    supervisor = ServerSupervisor(paths, spawner=MissingProgram())
    target = demo_profile("target", port=port, flags=("--demo-seed", "1"))
    steps = [step async for step in supervisor.swap(target)]
    assert steps[-1].outcome is SwapOutcome.ROLLED_BACK
    assert "/nowhere/python" in str(steps[-1].text)
    now = await boss(paths).snapshot()
    assert (now.state, now.profile) == (ServerState.RUNNING, "faulty")


@pytest.mark.parametrize("place", ["/proc/qwen-tui", "/dev/null/qwen-tui"])
async def test_state_folder_read_only(paths: Paths, place: str) -> None:
    from dataclasses import replace
    from pathlib import Path

    nowhere = replace(paths, state=Path(place))
    with pytest.raises(ConfigError, match=place):
        await boss(nowhere).start(demo_profile(port=free_port()))
    with pytest.raises(ConfigError, match=place):
        await boss(nowhere).stop()
    assert not processes_of(paths)
