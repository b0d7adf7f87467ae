"""The console's download screen over the real job and the fake hub."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

import pytest
from textual.app import App

from qwen_tui.services.download.job import DownloadJob, DownloadPhase, DownloadSnapshot
from qwen_tui.services.paths import Paths
from qwen_tui.ui.screens.download import DownloadScreen
from qwen_tui.ui.transfer import Transfer

if TYPE_CHECKING:
    from collections.abc import Callable

    from textual.pilot import Pilot

    from support.download_bench import Bench


class Host(App[None]):
    """An app with nothing but the screen."""

    def __init__(self, job: DownloadJob) -> None:
        super().__init__()
        self.job = job
        self.ended: list[DownloadSnapshot | None] = []

    def on_mount(self) -> None:
        transfer = Transfer(self.job)
        self.run_worker(transfer.run(), exit_on_error=False)
        self.push_screen(DownloadScreen(transfer), self.ended.append)


def job_of(bench: Bench) -> DownloadJob:
    root = bench.home / "q"
    paths = Paths(root / "config", root / "state", root / "cache")
    return DownloadJob(bench.request(), paths, environment=bench.environment())


async def until(pilot: Pilot[None], told: Callable[[], bool]) -> None:
    for _ in range(400):
        if told():
            return
        await asyncio.sleep(0.02)
        await pilot.pause()
    raise AssertionError(phase_of(pilot))


def screen_of(pilot: Pilot[None]) -> DownloadScreen:
    screen = pilot.app.screen
    assert isinstance(screen, DownloadScreen)
    return screen


def phase_of(pilot: Pilot[None]) -> DownloadPhase:
    return screen_of(pilot).snapshot.phase


def shown(pilot: Pilot[None]) -> str:
    lines = []
    for name in ("#head", "#files", "#note-text", "#keys"):
        lines.append(str(pilot.app.screen.query_one(name).render()))
    return "\n".join(lines)


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_agree_watch_and_leave(bench: Bench, size: tuple[int, int]) -> None:
    app = Host(job_of(bench))
    async with app.run_test(size=size) as pilot:
        await until(pilot, lambda: phase_of(pilot) is DownloadPhase.ASKING)
        assert "org/model" in shown(pilot)
        assert "Enter Fetch" in shown(pilot)
        assert bench.hub.ranges("model.safetensors") == []
        await pilot.press("enter")
        await until(pilot, lambda: phase_of(pilot).over)
        assert phase_of(pilot) is DownloadPhase.COMPLETE
        assert "2 of 2 hashes proven" in " ".join(shown(pilot).split())
        await pilot.press("escape")
    assert bench.whole()
    assert app.ended[0] is not None
    assert app.ended[0].phase is DownloadPhase.COMPLETE


async def test_pause_resume_and_stop(bench: Bench) -> None:
    bench.hub.files["model.safetensors"] = os.urandom(16 << 20)
    bench.hub.rate_bytes_s = 3e6
    app = Host(job_of(bench))
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: phase_of(pilot) is DownloadPhase.ASKING)
        await pilot.press("enter")
        await until(pilot, lambda: phase_of(pilot) is DownloadPhase.RUNNING)
        await until(pilot, lambda: "model.safetensors" in shown(pilot))
        await pilot.press("space")
        await until(pilot, lambda: phase_of(pilot) is DownloadPhase.PAUSED)
        assert "Space Go on" in shown(pilot)
        await pilot.press("space")
        await until(pilot, lambda: phase_of(pilot) is DownloadPhase.RUNNING)
        await pilot.press("x")
        await until(pilot, lambda: phase_of(pilot) is DownloadPhase.CANCELLED)
        assert "The same command goes on from there" in " ".join(shown(pilot).split())
    part = bench.dest / ".cache/qwen-tui/incoming/model.safetensors.incomplete"
    assert part.stat().st_size > 0


async def test_a_refusal_is_shown_with_its_remedy(bench: Bench) -> None:
    bench.hub.gated = True
    async with Host(job_of(bench)).run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: phase_of(pilot) is DownloadPhase.FAILED)
        text = " ".join(shown(pilot).split())
        assert "gated" in text
        assert "Accept its terms" in text


async def test_escape_drops_a_plan_that_was_not_agreed_to(bench: Bench) -> None:
    app = Host(job_of(bench))
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: phase_of(pilot) is DownloadPhase.ASKING)
        await pilot.press("escape")
        await until(pilot, lambda: bool(app.ended))
    assert not (bench.dest / "config.json").exists()
