"""Another language is spoken on every place, at once or when it is shown, and nothing is lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from qwen_tui.ui.places import PLACES
from qwen_tui_profiles.text import set_language, tr
from support.console_pilot import opened, settled, shown
from support.fake_console import NO_GPU, FakeConsole, running

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def english_again() -> Iterator[None]:
    yield
    set_language("en")


async def test_results_knobs_and_filters_outlive_a_change_of_language() -> None:
    lines = ("Decode batch, #running-req: 2", "ERROR something broke")
    async with opened(FakeConsole(gpu=NO_GPU, lines=lines), (120, 40)) as pilot:
        await pilot.press("5")
        await settled(pilot, lambda: "It fits." in shown(pilot))
        await pilot.press("down", "down", "right")
        await settled(pilot, lambda: "state slots            9" in shown(pilot))
        await pilot.press("2")
        await settled(pilot, lambda: "✗ FAIL" in shown(pilot))
        await pilot.press("ctrl+l")
        await settled(pilot, lambda: "体检" in shown(pilot))
        assert "✗ FAIL" in shown(pilot)
        assert "sudo apt install nvidia-driver-580-open" in shown(pilot)
        await pilot.press("5")
        await settled(pilot, lambda: "旋钮" in shown(pilot))
        await settled(pilot, lambda: "It fits." not in shown(pilot))
        assert " 9 " in shown(pilot)


async def test_every_place_follows_the_language() -> None:
    fake = FakeConsole(running(), lines=("ERROR something broke",))
    async with opened(fake, (120, 40)) as pilot:
        for row in PLACES:
            await pilot.press(row.key)
            await settled(pilot, lambda place=row.id: pilot.app.screen.id == place)  # type: ignore[misc]
        await pilot.press("ctrl+l")
        await pilot.pause()
        tabs = "  ".join(f"{row.key} {tr(row.title)}" for row in PLACES)
        assert "Home" not in tabs
        for row in PLACES:
            await pilot.press(row.key)
            await settled(pilot, lambda: tabs in shown(pilot))
