"""What the screens look like, cell by cell: frozen clock, scripted world. Reviewed like code."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from qwen_tui.services.settings import Settings
from qwen_tui.ui.app import ConsoleApp
from qwen_tui.ui.glyphs import UNICODE
from qwen_tui.ui.places import PLACES
from qwen_tui.ui.themes import THEME_NAMES
from qwen_tui_profiles.text import set_language
from support.console_pilot import settled, view_of
from support.fake_console import NO_GPU, NOW, ONE_GPU, FakeConsole, died, live, running, starting
from support.fake_desks import FROZEN_PLAN
from support.fake_probes import GATEWAY
from support.fake_repairs import ALL

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from textual.pilot import Pilot

    from qwen_tui.services.console import GpuView
    from qwen_tui.services.snapshots import ServerSnapshot
    from qwen_tui.ui.places import PlaceRow

    SnapCompare = Callable[..., bool]

LINES = tuple(
    f"[2026-11-29 13:02:{n:02d}] Decode batch, #running-req: 2, accept len: 3.{n}"
    for n in range(30)
)
SCENES: dict[str, tuple[ServerSnapshot | None, GpuView]] = {
    "stopped": (None, NO_GPU),
    "starting": (starting(), ONE_GPU),
    "running": (running(), ONE_GPU),
    "demo": (running("demo-speed"), NO_GPU),
    "died": (died(), ONE_GPU),
}


def compare(
    snap_compare: SnapCompare, fake: FakeConsole, size: tuple[int, int], *keys: str
) -> bool:
    fake.fake_plans.frozen = FROZEN_PLAN
    app = ConsoleApp(fake, clock=lambda: NOW, paced=False)

    async def ready(pilot: Pilot[None]) -> None:
        await settled(pilot, lambda: view_of(pilot).selected is not None)
        await settled(pilot, lambda: view_of(pilot).log_total == fake.line_count)
        await settled(pilot, lambda: len(app.view.series.of("running")) >= fake.expected_lives)
        await settled(pilot, lambda: app.theme == (fake.chosen.theme or app.theme))
        await pilot.pause(0.2)
        for key in keys:
            await pilot.press(key)
            await pilot.pause(0.3)

    return snap_compare(app, terminal_size=size, run_before=ready)


@pytest.mark.parametrize("size", [(80, 24), (120, 40)], ids=lambda s: f"{s[0]}x{s[1]}")
@pytest.mark.parametrize("scene", SCENES)
def test_home(snap_compare: SnapCompare, scene: str, size: tuple[int, int]) -> None:
    server, gpu = SCENES[scene]
    lines = () if server is None else LINES
    fake = FakeConsole(server, lines=lines, gpu=gpu)
    assert compare(snap_compare, fake, size)


def test_home_at_200x60(snap_compare: SnapCompare) -> None:
    assert compare(snap_compare, FakeConsole(running(), lines=LINES), (200, 60))


def test_swap_card(snap_compare: SnapCompare) -> None:
    assert compare(snap_compare, FakeConsole(running(), lines=LINES), (80, 24), "s")


@pytest.mark.parametrize("size", [(80, 24), (120, 40)], ids=lambda s: f"{s[0]}x{s[1]}")
def test_doctor(snap_compare: SnapCompare, size: tuple[int, int]) -> None:
    assert compare(snap_compare, FakeConsole(gpu=NO_GPU), size, "d")


SIZES = [(80, 24), (120, 40)]


@pytest.mark.parametrize("size", SIZES, ids=lambda s: f"{s[0]}x{s[1]}")
@pytest.mark.parametrize(
    "place", [row for row in PLACES if row.id not in {"home", "doctor"}], ids=lambda r: r.id
)
def test_place(snap_compare: SnapCompare, place: PlaceRow, size: tuple[int, int]) -> None:
    # Enter judges the checkpoint, so that the snapshot has findings.
    keys = (place.key, "enter") if place.id == "models" else (place.key,)
    fake = FakeConsole(running(), lines=LINES)
    fake.fake_fleet.addresses = ("http://10.0.0.2:30000", "http://10.0.0.3:30000")
    fake.fake_fleet.say("http://10.0.0.2:30000", replace(live(), running=7, queue=3))
    assert compare(snap_compare, fake, size, *keys)


CARDS = {
    "probe": ("p", "down", "enter"),
    "kinds": ("p",),
    "boundary": ("p", "end", "enter"),
    "boots": ("8", "down", "down", "c", "down", "c"),
    "repairs": ("d", "F"),
    "server": ("9", "down", "enter"),
}


@pytest.mark.parametrize("keys", CARDS.values(), ids=CARDS)
def test_card(snap_compare: SnapCompare, keys: tuple[str, ...]) -> None:
    fake = FakeConsole(running(), lines=LINES)
    fake.fake_probes.gateway = GATEWAY
    fake.fake_repairs.planned = ALL
    fake.fake_fleet.addresses = ("http://10.0.0.2:30000",)
    fake.fake_fleet.say("http://10.0.0.2:30000", replace(live(), running=7, queue=3))
    assert compare(snap_compare, fake, (80, 24), *keys)


@pytest.mark.parametrize("theme", THEME_NAMES)
def test_theme(snap_compare: SnapCompare, theme: str) -> None:
    fake = FakeConsole(running(), lines=LINES)
    fake.chosen = Settings(theme=theme)
    assert compare(snap_compare, fake, (80, 24))


def test_ascii(snap_compare: SnapCompare, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("qwen_tui.ui.glyphs._InUse.current", UNICODE)
    fake = FakeConsole(running(), lines=LINES)
    fake.chosen = Settings(marks="ascii")
    assert compare(snap_compare, fake, (80, 24))


def test_without_colour(snap_compare: SnapCompare, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    assert compare(snap_compare, FakeConsole(running(), lines=LINES), (80, 24))


@pytest.fixture
def chinese() -> Iterator[None]:
    set_language("zh_CN")
    yield
    set_language("en")


@pytest.mark.parametrize("key", ["1", "5"], ids=["home", "plan"])
@pytest.mark.usefixtures("chinese")
def test_in_chinese(snap_compare: SnapCompare, key: str) -> None:
    fake = FakeConsole(running(), lines=LINES)
    fake.chosen = Settings(language="zh_CN")
    assert compare(snap_compare, fake, (80, 24), key)
