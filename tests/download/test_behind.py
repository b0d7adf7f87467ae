"""A real transfer behind the console's screens: leaving ends its worker and keeps its bytes."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, cast

import psutil

from qwen_tui.services.download.job import DownloadJob
from qwen_tui.services.paths import Paths
from qwen_tui.ui.screens.download import DownloadScreen
from support.console_pilot import opened, settled, shown, view_of
from support.fake_console import NO_GPU, FakeConsole

if TYPE_CHECKING:
    from qwen_tui.ui.app import ConsoleApp
    from qwen_tui.ui.state import View
    from support.download_bench import Bench


def received(view: View) -> int:
    """Return the bytes that the console knows of."""
    return 0 if view.download is None else view.download.done_bytes or 0


async def test_quitting_ends_the_worker_and_keeps_what_was_received(bench: Bench) -> None:
    bench.hub.files["model.safetensors"] = os.urandom(16 << 20)
    bench.hub.rate_bytes_s = 3e6
    root = bench.home / "q"
    paths = Paths(root / "config", root / "state", root / "cache")
    job = DownloadJob(bench.request(), paths, environment=bench.environment())
    async with opened(FakeConsole(gpu=NO_GPU)) as pilot:
        cast("ConsoleApp", pilot.app).fetch(job)
        await settled(pilot, lambda: isinstance(pilot.app.screen, DownloadScreen))
        await settled(pilot, lambda: "Enter Fetch" in shown(pilot))
        await pilot.press("enter")
        await settled(pilot, lambda: received(view_of(pilot)) > 0)
        await pilot.press("escape")
        await settled(pilot, lambda: "D Download" in shown(pilot))
        session = job._session
        assert session is not None
        worker = psutil.Process(session.pid)
        assert worker.is_running()
        await pilot.press("q")
        await settled(pilot, lambda: "Enter Stop it and quit" in shown(pilot))
        await pilot.press("enter")
        await settled(pilot, lambda: pilot.app.return_code == 0)
    assert not worker.is_running()
    part = bench.dest / ".cache/qwen-tui/incoming/model.safetensors.incomplete"
    assert part.stat().st_size > 0
