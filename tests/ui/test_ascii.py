"""ASCII alone: every place and card, whatever sentences and Textual's own widgets bring along."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, cast

import pytest

from qwen_tui.ui.glyphs import UNICODE, use_glyphs
from qwen_tui.ui.places import PLACES
from qwen_tui.ui.plain_ascii import plain_ascii
from support.console_pilot import opened, settled, shown
from support.fake_console import FakeConsole, running

if TYPE_CHECKING:
    from collections.abc import Iterator

    from textual.pilot import Pilot

    from qwen_tui.ui.app import ConsoleApp


@pytest.fixture(autouse=True)
def _marks() -> Iterator[None]:
    """Give the process its marks back."""
    yield
    use_glyphs(UNICODE)


def glyphs_on(pilot: Pilot[None]) -> str:
    """Return what is neither ASCII nor a letter (of a foreign name) on the screen."""
    return "".join(sorted({c for c in shown(pilot) if not c.isascii() and not c.isalpha()}))


def test_one_cell_stands_for_one_cell_and_names_stay() -> None:
    assert plain_ascii("╭─ Asked → got ─╮ 71 °C …") == "+- Asked > got -+ 71  C ."
    assert plain_ascii("通义千问-27B — ok") == "通义千问-27B - ok"


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_every_place_and_its_cards_are_ascii(size: tuple[int, int]) -> None:
    fake = FakeConsole(running())
    fake.fake_fleet.addresses = ("http://10.0.0.2:30000",)
    async with opened(fake, size) as pilot:
        assert glyphs_on(pilot)
        cast("ConsoleApp", pilot.app).choose_marks(ascii_asked=False, term="linux")
        for row in PLACES:
            await pilot.press(row.key)
            await settled(pilot, lambda place=row.id: pilot.app.screen.id == place)  # type: ignore[misc]
            assert glyphs_on(pilot) == "", row.id
        await pilot.press("1")
        await settled(pilot, lambda: pilot.app.screen.id == "home")
        for key in ("question_mark", "m", "ctrl+p", "p", "s", "x", "g", "w"):
            await pilot.press(key)
            await settled(pilot, lambda: pilot.app.screen.id != "home")
            assert glyphs_on(pilot) == "", key
            await pilot.press("escape")
            await settled(pilot, lambda: pilot.app.screen.id == "home")


@pytest.mark.parametrize(
    ("asked", "term", "setting", "ascii_only"),
    [
        (False, "xterm", None, False),
        (False, "linux", None, True),
        (False, "linux", "unicode", False),  # a font of the user's own
        (False, "xterm", "ascii", True),
        (True, "xterm", "unicode", True),  # what is asked on the command line wins
    ],
)
async def test_who_decides_on_the_marks(
    asked: bool, term: str, setting: str | None, ascii_only: bool
) -> None:
    fake = FakeConsole(running())
    async with opened(fake) as pilot:
        app = cast("ConsoleApp", pilot.app)
        app.choose_marks(ascii_asked=asked, term=term)
        app.apply_settings(replace(fake.chosen, marks=setting))
        await pilot.pause()
        assert (glyphs_on(pilot) == "") is ascii_only
