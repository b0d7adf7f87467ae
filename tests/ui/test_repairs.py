"""Repairs in the console: the change first, then the deed; root's commands are only copied."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qwen_tui.ui.screens.cards import ConfirmCard, TextCard
from qwen_tui.ui.screens.fixes import FixCard
from support.console_pilot import opened, settled, shown, words
from support.fake_console import NO_GPU, FakeConsole
from support.fake_repairs import ALL

if TYPE_CHECKING:
    import pytest
    from textual.pilot import Pilot


async def repairs(pilot: Pilot[None]) -> None:
    """Open the repairs."""
    await pilot.press("d")
    await settled(pilot, lambda: "F Repair" in shown(pilot))
    await pilot.press("F")
    await settled(pilot, lambda: isinstance(pilot.app.screen, FixCard))


async def test_nothing_is_done_before_each_change_was_shown_and_agreed_to() -> None:
    fake = FakeConsole(gpu=NO_GPU)
    fake.fake_repairs.planned = ALL
    async with opened(fake) as pilot:
        await repairs(pilot)
        text = words(pilot)
        assert "create the folder /models/new" in text
        assert "set port 30001 in a copy of demo-speed" in text
        assert "set HF_HUB_DISABLE_XET=1 in a copy of demo-speed" in text
        assert "delete the kernel cache /home/me/.cache/flashinfer/0.5.0" in text
        assert "sudo apt install nvidia-driver-580-open" in text
        await pilot.press("escape")
        assert fake.calls == ["checks demo-speed"]
        await pilot.press("F")
        await settled(pilot, lambda: isinstance(pilot.app.screen, FixCard))
        await pilot.press("enter")
        await settled(pilot, lambda: "Delete this folder?" in shown(pilot))
        assert fake.calls[1:] == ["repair"]
        await pilot.press("escape")  # the first cache stays
        await settled(pilot, lambda: "flashinfer/0.5.1" in shown(pilot))
        await pilot.press("enter")
        await settled(pilot, lambda: type(pilot.app.screen) is TextCard)
        assert "✓ created /models/new" in words(pilot)
        await pilot.press("escape")
        await settled(pilot, lambda: len(fake.calls) == 4)
    assert fake.calls[1:] == [
        "repair",
        "delete /home/me/.cache/flashinfer/0.5.1",
        "checks demo-speed",
    ]


async def test_a_repaired_profile_can_be_selected_at_once() -> None:
    fake = FakeConsole(gpu=NO_GPU)
    fake.fake_repairs.planned = ALL
    fake.fake_repairs.copy = "demo-context"  # stands for the copy
    async with opened(fake) as pilot:
        await repairs(pilot)
        await pilot.press("enter")
        for _ in ALL.jit_caches:
            await settled(pilot, lambda: "Delete this folder?" in shown(pilot))
            await pilot.press("escape")
        await settled(pilot, lambda: "Enter Select demo-context" in shown(pilot))
        assert isinstance(pilot.app.screen, ConfirmCard)
        await pilot.press("enter")
        await settled(pilot, lambda: "remember last_profile=demo-context" in fake.calls)


async def test_what_needs_root_is_copied_and_never_run(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeConsole(gpu=NO_GPU)
    async with opened(fake) as pilot:
        copied: list[str] = []
        monkeypatch.setattr(pilot.app, "copy_to_clipboard", copied.append)
        await repairs(pilot)
        assert "Nothing can be repaired without you." in words(pilot)
        assert "Enter Do it" not in shown(pilot)
        await pilot.press("enter", "y")
        await settled(pilot, lambda: bool(copied))
    assert copied == ["sudo apt install nvidia-driver-580-open"]
    assert fake.calls == ["checks demo-speed"]
