"""What a second of a busy server costs: lines that changed, one paint, and nothing kept for it."""

from __future__ import annotations

import asyncio
import gc
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from textual.content import Content
from textual.geometry import Offset
from textual.scrollbar import ScrollBarRender
from textual.selection import Selection
from textual.strip import Strip

from qwen_tui.services.console import LogChunk
from qwen_tui.services.snapshots import ServerSnapshot, ServerState
from qwen_tui.ui.app import ConsoleApp
from qwen_tui.ui.places import PLACES
from qwen_tui.ui.screens.boot import TimelinePanel
from qwen_tui.ui.widgets.boot import BootPanel
from qwen_tui.ui.widgets.live import LivePanel
from qwen_tui.ui.widgets.log import LogView, cut
from qwen_tui.ui.widgets.painted import changed_runs
from qwen_tui.ui.widgets.thumb import thumb_eighths
from support.console_pilot import opened, settled, shown, view_of
from support.fake_console import NOW, FakeConsole, running

if TYPE_CHECKING:
    from rich.segment import Segments
    from textual.geometry import Region

WORDS = st.text(st.characters(codec="utf-8", exclude_categories=("C", "M", "Z")), max_size=40)


@given(WORDS, st.integers(0, 60), st.integers(1, 60))
def test_a_cut_line_fills_its_room_and_holds_what_lies_in_it(
    line: str, start: int, width: int
) -> None:
    got = cut(line, start, width)
    assert cell_len(got) == width
    at = 0
    whole = []
    for character in line:
        cells = cell_len(character)
        if start <= at and at + cells <= start + width:
            whole.append(character)
        at += cells
    assert [c for c in got if c != " "] == whole


def test_half_of_a_wide_character_is_a_blank() -> None:
    assert cut("模型a", 1, 3) == " 型"
    assert cut("模型a", 0, 3) == "模 "
    assert cut("模型a", 2, 5) == "型a  "


@given(
    st.integers(1, 60),
    st.integers(1, 6000),
    st.integers(1, 60),
    st.floats(0, 1, allow_nan=False),
)
def test_the_thumb_is_where_textual_draws_it(
    cells: int, rows: int, window: int, share: float
) -> None:
    at = max(0, rows - window) * share
    start, end = thumb_eighths(cells, rows, window, at)
    drawn: Segments = ScrollBarRender.render_bar(
        cells, rows, window if window < rows else 0, at, vertical=True
    )
    grab = [
        index
        for index, segment in enumerate(drawn.segments)
        if segment.style is not None and segment.style.meta.get("@mouse.down") == "grab"
    ]
    if rows <= window or rows == cells:
        assert not grab
        return
    # A cell belongs to the thumb when the thumb touches it; its edges may be blank eighths.
    assert grab[0] in {start // 8, start // 8 + 1}
    assert grab[-1] in {(end - 1) // 8, (end - 1) // 8 - 1}


def test_only_rows_that_differ_are_named() -> None:
    before = [Content("a"), Content("b"), Content("c"), Content("d")]
    now = [Content("a"), Content("B"), Content.styled("c", "bold"), Content("d"), Content("e")]
    assert list(changed_runs(before, now)) == [(1, 2), (4, 1)]
    assert list(changed_runs(now, before)) == [(1, 2), (4, 1)]
    assert list(changed_runs(now, now)) == []


async def test_a_line_that_stays_is_not_painted_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened(FakeConsole(running()), (120, 40)) as pilot:
        panel = pilot.app.screen.query_one(LivePanel)
        painted: list[str] = []
        paint = panel.paint

        def note(content: Content, width: int | None = None) -> Strip:
            painted.append(content.plain)
            return paint(content, width)

        monkeypatch.setattr(panel, "paint", note)
        asked: list[tuple[Region, ...]] = []
        refresh = panel.refresh

        def ask(*regions: Region, **options: bool) -> LivePanel:
            asked.append(regions)
            return refresh(*regions, **options)

        monkeypatch.setattr(panel, "refresh", ask)
        view = view_of(pilot)
        assert view.live is not None
        app = pilot.app
        assert isinstance(app, ConsoleApp)
        app.change(live=replace(view.live, queue=7))
        await pilot.pause()
        assert asked
        assert all(asked), "the panel was painted whole"
        rows = {row for regions in asked for r in regions for row in range(r.y, r.bottom)}
        assert len(rows) < panel.content_size.height
        assert any("7 waiting" in line for line in painted)
        assert "7 waiting" in shown(pilot)


async def test_the_facts_of_a_second_are_one_change_of_view() -> None:
    fake = FakeConsole(running(), lines=("first",))
    app = ConsoleApp(fake, clock=lambda: NOW)
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot, lambda: app.view.live is not None and app.view.log_total == 1)
        views = [app.view]
        app.watch(app, "view", lambda view: views.append(view), init=False)  # noqa: PLW0108 - Textual asks for a function
        for n in range(5):
            fake.chunks.put_nowait(LogChunk((f"line {n}",)))
            await asyncio.sleep(0.02)
        assert app.log_buffer.total == 6
        await settled(pilot, lambda: app.view.log_total == 6)
        assert len([v for v in views if v.log_total > 1]) == 1


async def test_an_end_of_the_server_does_not_wait() -> None:
    fake = FakeConsole(running())
    app = ConsoleApp(fake, clock=lambda: NOW)
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot, lambda: app.view.live is not None)
        fake.chunks.put_nowait(LogChunk(("last words",)))
        await asyncio.sleep(0.05)
        fake.states.put_nowait(ServerSnapshot(ServerState.STOPPED))
        for _ in range(30):
            if app.view.server.state is ServerState.STOPPED:
                break
            await asyncio.sleep(0.01)
        assert app.view.server.state is ServerState.STOPPED
        assert app.view.log_total == app.log_buffer.total, "what waited came along"


@pytest.mark.parametrize("place", ["1", "7"])
async def test_what_is_selected_in_a_log_is_marked_there(place: str) -> None:
    fake = FakeConsole(running(), lines=tuple(f"line {n}" for n in range(10)))
    async with opened(fake, (120, 40)) as pilot:
        await pilot.press(place)
        await pilot.pause()
        view = pilot.app.screen.query_one(LogView)
        await settled(pilot, lambda: len(view.rows) == 10)
        # Row 2 from its fourth character to row 3's second.
        chosen = Selection.from_offsets(Offset(3, 2), Offset(2, 3))
        pilot.app.screen.selections = {view: chosen}
        await pilot.pause()
        styled = {y: [(s.text, s.style) for s in view.render_line(y)] for y in (1, 2, 3, 4)}
        assert "".join(text for text, _ in styled[2]).rstrip() == "line 2"
        assert [text for text, _ in styled[2]][:2] == ["lin", "e 2"]
        assert [text for text, _ in styled[3]][:2] == ["li", "ne 3"]
        assert next(text for text, _ in styled[1]).startswith("line 1")
        assert view.get_selection(chosen) == ("e 2\nli", "\n")


async def test_the_mouse_finds_its_place_in_a_line() -> None:
    fake = FakeConsole(running(), lines=("abcdefgh",))
    async with opened(fake, (120, 40)) as pilot:
        view = pilot.app.screen.query_one(LogView)
        await settled(pilot, lambda: len(view.rows) == 1)
        left, top = view.content_region.offset
        widget, offset = pilot.app.screen.get_widget_and_offset_at(left + 5, top)
        assert widget is view
        assert offset == Offset(5, 0)
        panel = pilot.app.screen.query_one(LivePanel)
        left, top = panel.content_region.offset
        widget, offset = pilot.app.screen.get_widget_and_offset_at(left + 12, top + 1)
        assert widget is panel
        assert offset == Offset(12, 1)


async def test_a_place_that_nobody_sees_keeps_no_painted_line() -> None:
    """Textual keeps every line with its caches: the nine places were six megabytes."""

    def painted() -> int:
        gc.collect()
        return sum(isinstance(thing, Strip) for thing in gc.get_objects())

    async with opened(FakeConsole(running()), (120, 40)) as pilot:
        await pilot.pause()
        at_first = painted()
        for row in PLACES[1:]:
            await pilot.press(row.key)
            await settled(pilot, lambda place=row.id: pilot.app.screen.id == place)  # type: ignore[misc]
        there = painted()
        await pilot.press("1")
        await settled(pilot, lambda: pilot.app.screen.id == "home")
        assert painted() < at_first + 1000, (at_first, there, painted())


@pytest.mark.parametrize(("key", "panel"), [("1", BootPanel), ("6", TimelinePanel)])
async def test_a_boot_ticks_with_the_beat_of_everything_else(
    key: str, panel: type[BootPanel | TimelinePanel]
) -> None:
    """No timer of a panel's own: it ticks only where it is seen."""
    fake = FakeConsole(replace(running(), state=ServerState.STARTING, ready=False))
    ticks: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(panel, "tick", lambda self: ticks.append(self.screen.id))
        app = ConsoleApp(fake, clock=lambda: NOW, paced=False)
        async with app.run_test() as pilot:
            await settled(pilot, lambda: app.view.server_known)
            await pilot.press(key)
            before = len(ticks)
            app.beat()
            assert len(ticks) == before + 1
            await pilot.press("8")
            await settled(pilot, lambda: app.screen.id == "history")
            before = len(ticks)
            app.beat()
            assert len(ticks) == before
