"""Consoles over a scripted world, with a clock that stands still."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, cast

import pytest

from qwen_tui.ui.app import ConsoleApp
from support.fake_console import NOW, FakeConsole

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from textual.pilot import Pilot

    from qwen_tui.ui.state import View


@asynccontextmanager
async def opened(fake: FakeConsole, size: tuple[int, int] = (80, 24)) -> AsyncIterator[Pilot[None]]:
    """Run a console over ``fake`` until every fact that it has given has been shown."""
    app = ConsoleApp(fake, clock=lambda: NOW, paced=False)
    async with app.run_test(size=size) as pilot:
        await settled(pilot, lambda: app.view.server_known and app.view.selected is not None)
        await settled(pilot, lambda: len(app.view.series.of("running")) >= fake.expected_lives)
        yield pilot


async def settled(pilot: Pilot[None], true: Callable[[], bool]) -> None:
    """Wait until ``true()``: a bounded number of turns of the loop, not a length of time."""
    for _ in range(400):
        if true():
            await pilot.pause()
            return
        await pilot.pause(0.01)
    pytest.fail("the console did not come to the expected state")


def shown(pilot: Pilot[None]) -> str:
    """Return what stands on the screen as text."""
    screen = pilot.app.screen
    lines = screen._compositor.render_strips()
    return "\n".join(strip.text.rstrip() for strip in lines)


def words(pilot: Pilot[None]) -> str:
    """Return what stands on the screen as running text: no boxes, no line ends."""
    return " ".join("".join(" " if c in "│┃" else c for c in shown(pilot)).split())


def view_of(pilot: Pilot[None]) -> View:
    """Return what the console knows."""
    return cast("ConsoleApp", pilot.app).view
