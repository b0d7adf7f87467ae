from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import psutil
import pytest

from qwen_tui.services.process import (
    RUN_VARIABLE,
    ExitWatch,
    ProcessId,
    SystemKiller,
    alive,
    family_of,
    find_run,
    identify,
    seconds_since_boot,
    session_members,
    wait_gone,
)
from support.supervise import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Start = Callable[..., subprocess.Popen[bytes]]

SLEEP = "import time; time.sleep(600)"
FORK = f"""
import subprocess, sys
child = subprocess.Popen([sys.executable, "-S", "-c", "{SLEEP}"])
print(child.pid, flush=True)
child.wait()
"""


@pytest.fixture
def start() -> Iterator[Start]:
    """Start Python code in a session of its own; killed with its group at the end."""
    started: list[subprocess.Popen[bytes]] = []

    def begin(code: str = SLEEP, **env: str) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            [sys.executable, "-S", "-c", code],
            stdout=subprocess.PIPE,
            start_new_session=True,
            env={**os.environ, **env},
        )
        started.append(process)
        return process

    yield begin
    for process in started:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def identity(process: subprocess.Popen[bytes]) -> ProcessId:
    found = identify(process.pid)
    assert found is not None
    return found


def grandchild(process: subprocess.Popen[bytes]) -> ProcessId:
    assert process.stdout is not None
    found = identify(int(process.stdout.readline()))
    assert found is not None
    return found


def test_create_time_agrees_with_psutil() -> None:
    us = identify(os.getpid())
    assert us is not None
    expected = psutil.Process().create_time() - psutil.boot_time()
    # boot_time() is whole seconds in /proc/stat.
    assert us.create_time == pytest.approx(expected, abs=1.1)
    assert us.create_time < seconds_since_boot()


def test_a_pid_with_another_create_time_is_not_alive(start: Start) -> None:
    process = identity(start())
    assert alive(process)
    assert not alive(ProcessId(process.pid, process.create_time + 0.01))


def test_a_zombie_is_dead_but_still_has_its_identity(start: Start) -> None:
    process = start("pass")
    assert wait_until(lambda: psutil.Process(process.pid).status() == psutil.STATUS_ZOMBIE)
    assert identify(process.pid) is None
    assert identify(process.pid, even_dead=True) is not None


def test_family_and_session(start: Start) -> None:
    process = start(FORK)
    child = grandchild(process)
    main = identity(process)
    assert family_of(main) == {main, child}
    assert session_members(process.pid, 0.0) == {main, child}
    assert session_members(process.pid, seconds_since_boot() + 60) == frozenset()
    assert family_of(ProcessId(main.pid, main.create_time - 1)) == frozenset()


def test_find_run_goes_by_the_environment(start: Start) -> None:
    begin = seconds_since_boot()
    process = start(FORK, **{RUN_VARIABLE: "run-1"})
    other = start(SLEEP, **{RUN_VARIABLE: "run-10"})
    child = grandchild(process)
    # A process that execs at this moment has no environment yet.
    assert wait_until(lambda: find_run("run-1", begin) == (identity(process), child))
    assert find_run("run-1", begin + 60) == ()
    assert find_run("run-10", 0.0) == (identity(other),)
    assert find_run("run", 0.0) == ()


def test_signals_reach_only_the_identity(start: Start) -> None:
    process = start()
    main = identity(process)
    killer = SystemKiller()
    assert not killer.signal(ProcessId(main.pid, main.create_time + 5), signal.SIGKILL)
    assert process.poll() is None
    assert killer.signal(main, signal.SIGKILL)
    assert process.wait(5) == -signal.SIGKILL
    assert not killer.signal(main, signal.SIGKILL)


def test_a_group_is_killed_only_with_proof(start: Start) -> None:
    process = start(FORK)
    child = grandchild(process)
    main = identity(process)
    stranger = identity(start())
    killer = SystemKiller()
    assert not killer.kill_group(process.pid, [])
    assert not killer.kill_group(process.pid, [stranger])
    assert not killer.kill_group(process.pid, [ProcessId(main.pid, main.create_time + 1)])
    us = identify(os.getpid())
    assert us is not None
    assert not killer.kill_group(os.getpgrp(), [us])
    assert process.poll() is None
    assert killer.kill_group(process.pid, [child])
    assert process.wait(5) == -signal.SIGKILL
    assert alive(stranger)


@pytest.mark.parametrize("with_pidfd", [True, False])
async def test_exit_is_seen(
    start: Start, monkeypatch: pytest.MonkeyPatch, with_pidfd: bool
) -> None:
    if not with_pidfd:
        monkeypatch.delattr(os, "pidfd_open")
    process = start()
    with ExitWatch(identity(process), poll_s=0.05) as watch:
        assert not await watch.wait(0.01)
        asyncio.get_running_loop().call_later(0.05, process.kill)
        began = time.monotonic()
        assert await watch.wait(5)
        assert time.monotonic() - began < 1


async def test_exit_of_a_process_that_is_gone(start: Start) -> None:
    process = start("pass")
    main = identify(process.pid, even_dead=True)
    process.wait(5)
    assert main is not None
    with ExitWatch(main) as watch:
        assert await watch.wait(0)


async def test_wait_gone_returns_who_stays(start: Start) -> None:
    stays, goes = start(), start("import time; time.sleep(0.1)")
    both = {identity(stays), identity(goes)}
    assert await wait_gone(both, 0.0) == both
    assert await wait_gone(both, 0.5) == {identity(stays)}
