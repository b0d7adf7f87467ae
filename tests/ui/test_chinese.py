"""The console in Chinese: where lines break, and what Textual would say in English."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual.content import Content

from qwen_tui.ui import messages
from qwen_tui.ui.cells import wrapped
from qwen_tui_profiles.text import set_language, t, tr
from qwen_tui_profiles.wrapping import breaks
from support.console_pilot import opened, settled, shown, view_of, words
from support.fake_console import FakeConsole, running

if TYPE_CHECKING:
    from collections.abc import Iterator

CLOSING = "，。、；：？！）》」』】”’…"
OPENING = "（《「『【“‘"
MIXED = st.text(alphabet="字词句abc -/" + CLOSING + OPENING, max_size=120)


@pytest.fixture
def chinese(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("QWEN_TUI_LANG", "zh_CN")
    assert set_language("zh_CN")
    yield
    set_language("en")


@given(MIXED, st.integers(8, 60))
def test_a_broken_text_is_whole_and_no_line_too_wide(text: str, width: int) -> None:
    lines = wrapped(text, width)
    assert "".join("".join(line.plain for line in lines).split()) == "".join(text.split())
    assert all(line.cell_length <= width for line in lines)


@pytest.mark.parametrize("width", range(10, 44))
def test_no_line_begins_with_a_closing_mark_or_ends_with_an_opening_one(width: int) -> None:
    text = (
        "引擎先完成它们，最多 60 s（随后被结束）。前缀缓存将丢失；下次启动要重新加载：《模型》，"
        "参数 --max-running-requests（4 → 2），“状态槽”、KV 池……"
    )
    for line in wrapped(text, width):
        assert line.plain[0] not in CLOSING
        assert line.plain[-1] not in OPENING


def test_styles_stay_with_their_text() -> None:
    lines = wrapped(Content.assemble(("状态槽", "bold"), "不够，请求等待"), 8)
    assert [line.plain for line in lines] == ["状态槽不", "够，请求", "等待"]
    assert [len(line.spans) for line in lines] == [1, 0, 0]


def test_a_word_wider_than_a_line_is_cut_where_the_line_ends() -> None:
    assert breaks("在/models/a-very-long-name里", 10) == [1, 11, 21]
    assert breaks("only narrow words", 5) is None


async def test_cards_are_broken_by_the_same_rule(chinese: None) -> None:
    async with opened(FakeConsole(running()), (64, 24)) as pilot:
        for keys in (("question_mark",), ("escape", "q"), ("escape", "x")):
            await pilot.press(*keys)
            await settled(pilot, lambda: len(pilot.app.screen_stack) > 1)
            box = [
                row.group(1).strip()
                for row in re.finditer(r"│{1,2} (.*?) +[▁-█ ]*│{1,2}$", shown(pilot), re.MULTILINE)
            ]
            assert box
            assert not [row for row in box if row and row[0] in CLOSING]


async def test_the_palette_speaks_chinese(chinese: None) -> None:
    async with opened(FakeConsole(running()), (120, 40)) as pilot:
        await pilot.press("ctrl+p")
        await settled(pilot, lambda: tr(t("Search for commands…")) in shown(pilot))
        assert "Search" not in shown(pilot)
        await pilot.press("q", "x", "z", "w")
        await settled(pilot, lambda: tr(t("No matches found")) in shown(pilot))
        await pilot.press("enter", "escape")
        await pilot.pause()
        assert pilot.app.is_running


async def test_help_keeps_every_key_apart_from_its_label() -> None:
    async with opened(FakeConsole(running()), (120, 60)) as pilot:
        await pilot.press("question_mark")
        await settled(pilot, lambda: "Space" in shown(pilot))
        assert "Space Pause" in words(pilot)


async def test_the_footer_behind_a_card_follows_the_right_to_act() -> None:
    fake = FakeConsole(running())
    fake.rights = [(False, 4711)]
    async with opened(fake) as pilot:
        await settled(pilot, lambda: not view_of(pilot).controls)
        await pilot.press("question_mark")
        await settled(pilot, lambda: len(pilot.app.screen_stack) > 1)
        assert "x Stop" not in shown(pilot).splitlines()[-1]
        pilot.app.post_message(messages.ControlChanged(controls=True, holder=None))
        await settled(pilot, lambda: "x Stop" in shown(pilot).splitlines()[-1])
        assert len(pilot.app.screen_stack) > 1
