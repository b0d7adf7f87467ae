"""Faults of boots and of running servers, played by the simulated engine or by the system."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import urllib.request
from dataclasses import dataclass
from typing import TYPE_CHECKING

import psutil
import pytest

from qwen_tui.services.process import identify
from qwen_tui.services.runs import RunStore
from qwen_tui.services.spawner import SystemSpawner
from qwen_tui.services.state import ServerState
from qwen_tui.services.supervisor import ServerSupervisor
from support.supervise import demo_profile, free_port, processes_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from qwen_tui.services.history import BootRow
    from qwen_tui.services.paths import Paths
    from qwen_tui.services.snapshots import ServerSnapshot
    from qwen_tui.services.spawner import Child

SLOW = ("--demo-token-ms", "150")
MARK = ("--demo-seed", "1")
"""Marks the launch that one of the spawners below spoils."""


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


async def assert_serves(paths: Paths, profile: str) -> None:
    """Exactly this profile serves, and nothing else of ours runs."""
    now = await boss(paths).snapshot(ask=True)
    assert (now.state, now.profile, now.ready) == (ServerState.RUNNING, profile, True)
    main = identify(now.pid or 0)
    assert main is not None
    assert {p for p in processes_of(paths) if os.getsid(p.pid) == p.pid} == {main}
    assert {os.getsid(p.pid) for p in processes_of(paths)} == {main.pid}


def assert_log_is_whole(now: ServerSnapshot) -> None:
    assert now.log_path is not None
    assert now.log_path.stat().st_size > 0


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


def boot_of(paths: Paths, profile: str) -> BootRow:
    return boss(paths).history.boots(profile=profile)[0]


def kill(paths: Paths, victim: str) -> None:
    record = RunStore(paths).latest()
    assert record is not None
    main = psutil.Process(record.pid)
    (main if victim == "main" else main.children()[0]).kill()


class PortThief(SystemSpawner):
    """Takes the port between our check and the engine's bind."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.socket = socket.socket()

    def spawn(
        self, argv: Sequence[str], env: Mapping[str, str], *, folder: Path, log: Path
    ) -> Child:
        if MARK[0] in argv:
            # As a server does it; else the connections that just ended would keep it out.
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self.socket.bind(("127.0.0.1", self.port))
            self.socket.listen()
        elif self.socket.fileno() >= 0:
            self.socket.close()
        return super().spawn(argv, env, folder=folder, log=log)


class FullDiskSpawner(SystemSpawner):
    """The log of the marked launch is on a full disk."""

    def spawn(
        self, argv: Sequence[str], env: Mapping[str, str], *, folder: Path, log: Path
    ) -> Child:
        if MARK[0] in argv:
            log.symlink_to("/dev/full")
        return super().spawn(argv, env, folder=folder, log=log)


class MissingProgram(SystemSpawner):
    """The interpreter of the marked launch vanished between the check and the exec."""

    def spawn(
        self, argv: Sequence[str], env: Mapping[str, str], *, folder: Path, log: Path
    ) -> Child:
        if MARK[0] in argv:
            argv = ["/nowhere/python", *argv[1:]]
        return super().spawn(argv, env, folder=folder, log=log)


@contextlib.contextmanager
def read_only(folder: Path) -> Iterator[None]:
    """Make a folder read-only as the kernel sees it, for root too.

    Root ignores permission bits, so for it the folder is mounted over itself.
    """
    if os.geteuid() != 0:
        held = [p for p in (folder, *folder.rglob("*")) if p.is_dir()]
        for one in held:
            one.chmod(0o500)
        try:
            yield
        finally:
            for one in held:
                one.chmod(0o700)
        return
    mount, umount = shutil.which("mount"), shutil.which("umount")
    if mount is None or umount is None or not _call(mount, "--bind", str(folder), str(folder)):
        pytest.skip("root, and mounting is not allowed here: nothing can be made read-only")
    try:
        assert _call(mount, "-o", "remount,bind,ro", str(folder))
        yield
    finally:
        # Lazily: the engine's log, opened before, may still be in use under the mount.
        assert _call(umount, "-l", str(folder))


@contextlib.contextmanager
def small_disk(folder: Path, size: str) -> Iterator[None]:
    """Give a folder a disk of its own of this size (root only)."""
    mount, umount = shutil.which("mount"), shutil.which("umount")
    folder.mkdir(parents=True)
    if (
        mount is None
        or umount is None
        or not _call(mount, "-t", "tmpfs", "-o", f"size={size},mode=0700", "tmpfs", str(folder))
    ):
        pytest.skip("mounting is not allowed here")
    try:
        yield
    finally:
        assert _call(umount, "-l", str(folder))


def _call(*argv: str) -> bool:
    return subprocess.run(argv, capture_output=True, check=False).returncode == 0
