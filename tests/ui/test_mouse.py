"""Cards by mouse: a click on a key in their border presses it, a click on a place goes there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qwen_tui.ui.screens.cards import ConfirmCard
from qwen_tui.ui.screens.details import PlacesCard
from qwen_tui.ui.screens.editor import EditProfile
from qwen_tui.ui.screens.picker import PickProbe
from qwen_tui.ui.screens.probe import ProbeCard
from support.console_pilot import opened, settled, shown
from support.fake_console import FakeConsole, running

if TYPE_CHECKING:
    from textual.pilot import Pilot

URL = "http://127.0.0.1:30000"


async def click(pilot: Pilot[None], text: str) -> None:
    """Click on a text where it stands lowest on the screen."""
    lines = shown(pilot).splitlines()
    row = max(number for number, line in enumerate(lines) if text in line)
    await pilot.click(offset=(lines[row].index(text) + 1, row))


async def test_a_probe_without_a_keyboard() -> None:
    fake = FakeConsole(running())
    async with opened(fake) as pilot:
        await click(pilot, "p Probe")
        await settled(pilot, lambda: isinstance(pilot.app.screen, PickProbe))
        await click(pilot, "Esc Back")
        await settled(pilot, lambda: pilot.app.screen.id == "home")
        await click(pilot, "p Probe")
        await settled(pilot, lambda: isinstance(pilot.app.screen, PickProbe))
        await click(pilot, "Enter Send")
        await settled(pilot, lambda: isinstance(pilot.app.screen, ProbeCard))
        await click(pilot, "r Again")
        await settled(pilot, lambda: len(fake.calls) == 2)
    assert fake.calls == [f"probe prose {URL}"] * 2


async def test_a_stop_without_a_keyboard() -> None:
    fake = FakeConsole(running())
    async with opened(fake) as pilot:
        await click(pilot, "x Stop")
        await settled(pilot, lambda: isinstance(pilot.app.screen, ConfirmCard))
        await click(pilot, "Enter Stop it")
        await settled(pilot, lambda: "stop" in fake.calls)


async def test_a_click_goes_to_a_place() -> None:
    async with opened(FakeConsole()) as pilot:
        await click(pilot, "m Places")
        await settled(pilot, lambda: isinstance(pilot.app.screen, PlacesCard))
        await click(pilot, "Read, change and compare profiles.")
        await settled(pilot, lambda: pilot.app.screen.id == "profiles")
        await pilot.press("e")
        await settled(pilot, lambda: isinstance(pilot.app.screen, EditProfile))
        await click(pilot, "Esc Back")
        await settled(pilot, lambda: pilot.app.screen.id == "profiles")
