"""Columns of a terminal, and lines that end where a reader expects it."""

from __future__ import annotations

import textwrap

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from qwen_tui_profiles.wrapping import columns, padded, wrapped

CHINESE = "状态槽（每个请求 4 个）不够：用 --max-mamba-cache-size 17 启动，或把请求数降到 2。"
MIXED = st.text(st.sampled_from("ab -，。（）状态槽→é"), max_size=80)


@pytest.mark.parametrize("text", ["", "speed", "状态槽", "KV 池", "，。", "→ é …", "e\u0301"])
def test_columns_are_what_a_terminal_shows(text: str) -> None:
    """Rich, which draws the console, is the measure."""
    assert columns(text) == cell_len(text)


@given(MIXED, st.integers(0, 30))
def test_padding_reaches_the_width(text: str, width: int) -> None:
    assert columns(padded(text, width)) == max(columns(text), width)
    assert padded(text, width).startswith(text)


@given(st.text(st.sampled_from("ab -=/.,"), max_size=80), st.integers(12, 40))
def test_narrow_text_is_wrapped_as_ever(text: str, width: int) -> None:
    assert wrapped(text, width, "  → ") == textwrap.wrap(
        text,
        width,
        initial_indent="  → ",
        subsequent_indent="    ",
        break_long_words=False,
        break_on_hyphens=False,
    )


@given(MIXED, st.integers(12, 60))
def test_nothing_is_lost_and_no_line_is_wider_than_it_must_be(text: str, width: int) -> None:
    lines = wrapped(text, width, "> ")
    assert "".join("".join(lines).split()).removeprefix(">") == "".join(text.split())
    for line in lines:
        pieces = line[2:].split()
        assert columns(line) <= width or len(pieces) == 1


def test_a_chinese_sentence() -> None:
    lines = wrapped(CHINESE, 40, "  → ")
    assert max(map(columns, lines)) <= 40
    assert [line[:4] for line in lines] == ["  → "] + ["    "] * (len(lines) - 1)
    assert any("--max-mamba-cache-size" in line for line in lines)
    for line in lines:
        assert line[4] not in "，。：）"
        assert line[-1] != "（"
