"""Two boots of the past side by side: what differs is marked, what is not can be left out."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType

import pytest

from qwen_tui.services.boot_compare import compare_boots, conditions
from qwen_tui.services.desks import Past
from qwen_tui.ui.screens.boot_compare import CompareCard, compare_lines
from support.console_pilot import opened, settled, shown, words
from support.fake_console import FakeConsole, running
from support.fake_desks import PAST, boot_row

OLD = replace(
    boot_row(0),
    facts=MappingProxyType({"kv_tokens": 134_016, "mamba_slots": 8}),
    prints=MappingProxyType({"engine": "e", "model": "m", "flags": "f1", "machine": "x"}),
)
NEW = replace(
    boot_row(5),
    asked=("--context-length", "159776", "--max-mamba-cache-size", "17"),
    facts=MappingProxyType({"kv_tokens": 112_512, "mamba_slots": 17}),
    predicted_kv_tokens=112_600,
    kv_tokens=112_512,
    prints=MappingProxyType({"engine": "e", "model": "m", "flags": "f2", "machine": "x"}),
)


def test_every_figure_of_either_boot_is_there_and_differences_are_known() -> None:
    found = {(line.section, line.what): line for line in compare_boots(OLD, NEW)}
    assert not found["asked", "--context-length"].differs
    gone = found["asked", "--max-running-requests"]
    assert (gone.before, gone.after, gone.differs) == ("4", None, True)
    assert found["asked", "--max-mamba-cache-size"].after == "17"
    got = found["got", "kv_tokens"]
    assert (got.before, got.after) == (134_016, 112_512)
    predicted = found["predicted", "predicted_kv_tokens"]
    assert (predicted.before, predicted.after) == (134_203, 112_600)
    assert found["phases", "load_weights"].after == 19.0
    assert found["seconds", "ready_s"].before == 25.0


def test_equal_prints_are_equal_conditions() -> None:
    same, different = conditions(OLD, NEW)
    assert [str(name) for name in same] == ["engine", "model", "machine"]
    assert [str(name) for name in different] == ["flags"]


@pytest.mark.parametrize("width", [72, 112])
def test_the_columns_are_straight_and_only_differences_are_marked(width: int) -> None:
    lines = [line.plain for line in compare_lines(OLD, NEW, width, only=False)]
    assert max(len(line) for line in lines) <= width
    (pool,) = [line for line in lines if "mamba_slots" in line]
    assert pool.startswith("▸ ")
    assert pool.index("17") - pool.index("8") == (width - min(36, max(24, width * 2 // 5)) - 2) // 2
    (context,) = [line for line in lines if "--context-length" in line]
    assert context.startswith("  ")
    few = [line.plain for line in compare_lines(OLD, NEW, width, only=True)]
    assert not [line for line in few if "--context-length" in line]


async def test_two_boots_are_marked_and_compared() -> None:
    fake = FakeConsole(running())
    fake.fake_history.the_past = Past((NEW, OLD), PAST.swaps)
    async with opened(fake) as pilot:
        await pilot.press("8")
        await settled(pilot, lambda: "ready in" in shown(pilot))
        await pilot.press("c")
        await settled(pilot, lambda: "c on another boot compares it with" in shown(pilot))
        assert "▸ marked" in shown(pilot)
        await pilot.press("down", "c")  # a swap lies between them
        await pilot.pause()
        assert not isinstance(pilot.app.screen, CompareCard)
        await pilot.press("down", "c")
        await settled(pilot, lambda: isinstance(pilot.app.screen, CompareCard))
        text = words(pilot)
        assert "same: engine, model, machine; different: flags" in text
        assert "▸ --max-running-requests 4 —" in text
        await pilot.press("f")
        await settled(pilot, lambda: "--context-length" not in shown(pilot))
        await pilot.press("escape")
        await settled(pilot, lambda: "c on another boot" not in shown(pilot))
