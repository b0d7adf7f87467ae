"""A download is paused, hidden, brought back and stopped; leaving says what remains of it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from qwen_tui.services.download.job import DownloadPhase, DownloadSnapshot
from qwen_tui.ui.screens.cards import ConfirmCard, LeaveCard
from qwen_tui.ui.screens.download import DownloadScreen
from support.console_pilot import opened, settled, shown, words
from support.fake_console import NO_GPU, FakeConsole, running
from support.fake_models import PLAN, RUNNING, FakeDownload

if TYPE_CHECKING:
    from textual.pilot import Pilot


async def test_a_download_can_be_paused_and_cancelled() -> None:
    fake = FakeConsole(running())
    async with opened(fake) as pilot:
        await pilot.press("3")
        await settled(pilot, lambda: "Qwen3.8-27B-INT4" in shown(pilot))
        await pilot.press("f", "enter")
        await settled(pilot, lambda: isinstance(pilot.app.screen, DownloadScreen))
        job = fake.fake_models.fetched[0]
        await settled(pilot, lambda: "Fetch" in shown(pilot))
        await pilot.press("enter")
        await settled(pilot, lambda: "250.0 MB of 1.0 GB" in shown(pilot))
        await pilot.press("space")
        await settled(pilot, lambda: "Go on" in shown(pilot))
        assert " left" not in shown(pilot)  # nothing moves: no speed, no time left
        assert "running" not in shown(pilot)
        await pilot.press("x")
        await settled(pilot, lambda: "stopped" in shown(pilot))
        await pilot.press("escape")
        await settled(pilot, lambda: pilot.app.screen.id == "models")
    assert job.told == ["agree", "pause", "cancel"]
    assert fake.fake_models.calls[0] == "fetch RedHatAI/Qwen3.8-27B-INT4 for 27b-int4-speed"


async def running_download(pilot: Pilot[None], fake: FakeConsole) -> FakeDownload:
    """Begin a download and come back from its screen."""
    await pilot.press("3")
    await settled(pilot, lambda: "Qwen3.8-27B-INT4" in shown(pilot))
    await pilot.press("f", "enter")
    await settled(pilot, lambda: isinstance(pilot.app.screen, DownloadScreen))
    await settled(pilot, lambda: "Enter Fetch" in shown(pilot))
    await pilot.press("enter")
    await settled(pilot, lambda: "Esc Hide; it goes on" in shown(pilot))
    await pilot.press("escape")
    await settled(pilot, lambda: pilot.app.screen.id == "models")
    return fake.fake_models.fetched[0]


async def test_a_download_goes_on_behind_the_screens_and_comes_back() -> None:
    fake = FakeConsole(running())
    async with opened(fake) as pilot:
        job = await running_download(pilot, fake)
        await settled(pilot, lambda: "D Download 25 %" in shown(pilot))
        assert "f Fetch" not in shown(pilot)  # one at a time
        await pilot.press("1")
        await settled(pilot, lambda: pilot.app.screen.id == "home")
        assert "D Download 25 %" in shown(pilot)
        job.queue.put_nowait(replace(RUNNING, done_bytes=500_000_000))
        await settled(pilot, lambda: "D Download 50 %" in shown(pilot))
        await pilot.press("D")
        await settled(pilot, lambda: "500.0 MB of 1.0 GB" in shown(pilot))
        await pilot.press("x")
        await settled(pilot, lambda: "Esc Back" in shown(pilot))
        await pilot.press("escape")
        await settled(pilot, lambda: pilot.app.screen.id == "home")
        assert "D Download" not in shown(pilot)
    assert job.told == ["agree", "cancel"]


async def test_a_hidden_download_says_its_end_and_its_checkpoint_is_judged() -> None:
    fake = FakeConsole(running())
    async with opened(fake) as pilot:
        job = await running_download(pilot, fake)
        done = DownloadSnapshot(
            DownloadPhase.COMPLETE, PLAN, result={"folder": "/models/Qwen3.8-27B-INT4"}
        )
        job.queue.put_nowait(done)
        await settled(pilot, lambda: "D Download complete" in shown(pilot))
        said = [note.message for note in pilot.app._notifications]
        assert said == ["The download of RedHatAI/Qwen3.8-27B-INT4 is complete."]
        await settled(pilot, lambda: "verify Qwen3.8-27B-INT4" in fake.fake_models.calls)
        await pilot.press("D", "escape")
        await settled(pilot, lambda: "D Download" not in shown(pilot))
        assert "f Fetch" in shown(pilot)


async def test_leaving_stops_a_download_only_after_saying_what_remains() -> None:
    fake = FakeConsole(gpu=NO_GPU)
    async with opened(fake) as pilot:
        job = await running_download(pilot, fake)
        await pilot.press("q")
        await settled(pilot, lambda: isinstance(pilot.app.screen, ConfirmCard))
        text = words(pilot)
        assert "is stopped: 250.0 MB of 1.0 GB are here." in text
        assert "fetching it again goes on from" in text
        await pilot.press("escape")
        assert job.told == ["agree"]
        await pilot.press("q", "enter")
        await settled(pilot, lambda: not pilot.app.is_running or pilot.app.return_code == 0)
    assert job.told == ["agree", "cancel"]


async def test_leaving_a_running_server_names_the_download_too() -> None:
    fake = FakeConsole(running())
    async with opened(fake) as pilot:
        await running_download(pilot, fake)
        await pilot.press("q")
        await settled(pilot, lambda: isinstance(pilot.app.screen, LeaveCard))
        text = words(pilot)
        assert "goes on running at http://127.0.0.1:30000" in text
        assert "is stopped: 250.0 MB of 1.0 GB are here." in text
