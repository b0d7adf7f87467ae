"""A home folder, profiles of fake engines, and the promise that no process outlives its test."""

from __future__ import annotations

import os
import signal
import socket
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from qwen_tui.services.front import FrontService
from qwen_tui.services.process import ProcessId, alive, find_run
from qwen_tui.services.runs import RunStore
from qwen_tui.services.spawner import SystemSpawner
from qwen_tui.services.supervisor import ServerSupervisor
from qwen_tui_profiles.profile import EngineKind, EngineMode, EngineProfile
from support.fake_reader import FakeReader

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from qwen_tui.services.paths import Paths
    from qwen_tui.services.spawner import Child

FAKE_ENGINE = Path(__file__).with_name("fake_engine.py")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def fake_profile(
    name: str = "fake-speed", *, port: int, flags: Sequence[str] = (), pair: str | None = None
) -> EngineProfile:
    return EngineProfile(
        name=name,
        title="A fake engine",
        engine=EngineKind.DEMO,
        mode=EngineMode.SPEED,
        argv=tuple(flags),
        port=port,
        pair=pair,
        needs_gpu=False,
    )


def demo_profile(
    name: str = "demo-quick", *, port: int, flags: Sequence[str] = ()
) -> EngineProfile:
    """The simulated engine with no delays."""
    quick = "--demo-load-seconds 0 --demo-drain-poll-seconds 0.05 --demo-crash-seconds 0.2"
    return fake_profile(
        name,
        port=port,
        flags=(*quick.split(), "--enable-metrics", "--demo-prefill-tok-s", "0", *flags),
    )


class FakeEngineSpawner:
    """Starts the fake engine where the demo engine was meant."""

    def spawn(
        self, argv: Sequence[str], env: Mapping[str, str], *, folder: Path, log: Path
    ) -> Child:
        assert list(argv[1:3]) == ["-m", "qwen_tui.demo_engine"]
        command = [sys.executable, "-S", str(FAKE_ENGINE), *argv[3:]]
        return SystemSpawner().spawn(command, env, folder=folder, log=log)


def fake_supervisor(paths: Paths) -> ServerSupervisor:
    return ServerSupervisor(paths, spawner=FakeEngineSpawner(), make_reader=FakeReader)


def processes_of(paths: Paths) -> set[ProcessId]:
    """Whatever still runs of any run of this home."""
    store = RunStore(paths)
    found: set[ProcessId] = set()
    for run in store.ids():
        record = store.load(run)
        if record is not None:
            found |= {p for p in record.relatives if alive(p)}
        found |= set(find_run(run, 0.0))
    return found


def kill_all(paths: Paths) -> None:
    front = FrontService(paths).find()
    for process in {*processes_of(paths), *([front.process] if front else [])}:
        if alive(process):
            os.kill(process.pid, signal.SIGKILL)


def wait_until(condition, seconds: float = 10.0) -> bool:  # type: ignore[no-untyped-def]
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.02)
    return False
