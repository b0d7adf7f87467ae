"""A console that is meant to be killed: launches, stops or swaps with fake engines, step by step.

Prints one word a step; kills itself with SIGKILL where it is told to. Usage:
``python swap_driver.py HOME up|down|swap|front PORT KILL_AT [FLAGS…]``.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).parents[1]))

from qwen_tui.services.front import FrontService
from qwen_tui.services.paths import Paths
from qwen_tui.services.spawner import SystemSpawner
from qwen_tui.services.supervisor import ServerSupervisor
from qwen_tui.services.swap import SwapOptions
from support.fake_reader import FakeReader
from support.supervise import FakeEngineSpawner, fake_profile

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from qwen_tui.services.spawner import Child


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class DeadlySpawner(FakeEngineSpawner):
    """Kills this process right before or right after the fork."""

    def __init__(self, kill_at: str) -> None:
        self.kill_at = kill_at

    def spawn(
        self, argv: Sequence[str], env: Mapping[str, str], *, folder: Path, log: Path
    ) -> Child:
        if self.kill_at == "before-fork":
            die()
        child = super().spawn(argv, env, folder=folder, log=log)
        if self.kill_at == "after-fork":
            die()
        return child


class DeadlyFrontSpawner(SystemSpawner):
    """Kills this process right after the fork of a front."""

    def spawn(
        self, argv: Sequence[str], env: Mapping[str, str], *, folder: Path, log: Path
    ) -> Child:
        super().spawn(argv, env, folder=folder, log=log)
        die()
        raise AssertionError


async def main(home: str, verb: str, port: str, kill_at: str, *flags: str) -> None:
    root = Path(home)
    paths = Paths(root / "config", root / "state", root / "cache")
    supervisor = ServerSupervisor(paths, spawner=DeadlySpawner(kill_at), make_reader=FakeReader)
    if verb == "up":
        await supervisor.start(fake_profile("fake-speed", port=int(port), flags=flags))
        if kill_at == "start":
            die()
        await supervisor.wait_ready()
        return
    if verb == "front":
        await FrontService(paths, spawner=DeadlyFrontSpawner()).start(int(port))
    if verb == "down":
        await supervisor.stop(
            timeout_s=1.0, on_change=lambda now: die() if now.step == kill_at else None
        )
        return
    target = fake_profile("fake-context", port=int(port), flags=flags)
    options = SwapOptions(drain_s=1.0 if kill_at == "drain" else 0.0)
    async for step in supervisor.swap(target, options):
        print(step.name, flush=True)
        if step.name == kill_at:
            die()


asyncio.run(main(*sys.argv[1:]))
