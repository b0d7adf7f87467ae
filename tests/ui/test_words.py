"""The console's tables agree with what the services send."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

import pytest

from qwen_tui.services.snapshots import ServerSnapshot
from qwen_tui.services.state import ServerState
from qwen_tui.services.words import STATE_HEADS
from qwen_tui.ui.app_commands import APP
from qwen_tui.ui.glyphs import ASCII, UNICODE, Glyphs
from qwen_tui.ui.places import PLACES
from qwen_tui.ui.screens.home import STAGES
from qwen_tui.ui.state import View
from qwen_tui.ui.widgets.asked_got import _facts
from qwen_tui.ui.words import PHASES, STYLES
from qwen_tui_diagnostics.enginelog.report import PHASES as BOOT_ORDER
from qwen_tui_diagnostics.enginelog.report import LogReport

if TYPE_CHECKING:
    from qwen_tui.ui.commands import Command


def test_every_phase_has_a_word_in_boot_order() -> None:
    assert tuple(PHASES) == BOOT_ORDER


def test_every_state_has_a_word_a_glyph_and_a_stage() -> None:
    assert set(STYLES) == set(ServerState)
    assert set(STAGES) == set(ServerState)
    assert set(STATE_HEADS) == set(ServerState)
    words = [str(word) for word in STATE_HEADS.values()]
    assert len(set(words)) == len(words)


def every_command() -> list[Command]:
    found = list(APP)
    for row in PLACES:
        module = import_module(f"qwen_tui.ui.screens.{row.module}")
        found += getattr(module, row.screen).COMMANDS_HERE
    return list({id(c): c for c in found}.values())


def test_ids_are_unique() -> None:
    ids = [c.id for c in every_command()]
    assert len(set(ids)) == len(ids)


def test_places_have_keys_of_their_own() -> None:
    assert len({row.key for row in PLACES}) == len(PLACES)
    for row in PLACES:
        module = import_module(f"qwen_tui.ui.screens.{row.module}")
        assert row.id == getattr(module, row.screen).ID
        assert str(getattr(module, row.screen).ABOUT)


def test_no_place_takes_a_key_that_works_everywhere() -> None:
    """``f``, ``e`` and the like may mean something else per place; server keys never may."""
    everywhere = {key for c in APP for key in c.keys.split(",")}
    for row in PLACES:
        module = import_module(f"qwen_tui.ui.screens.{row.module}")
        for command in getattr(module, row.screen).COMMANDS_HERE:
            assert not everywhere & set(command.keys.split(",")), command.id


def test_ascii_is_ascii() -> None:
    for name in Glyphs.__slots__:
        assert getattr(ASCII, name).isascii(), name
        assert len(getattr(UNICODE, name)) == len(getattr(ASCII, name)) or name == "part"


def test_every_command_explains_itself() -> None:
    for command in every_command():
        assert str(command.help).endswith(".")


@pytest.mark.parametrize(
    ("least", "together", "said"),
    [
        (2, 4, "requests at once: 2 in each of 2 replicas, 4 in all"),
        (2, 5, "requests at once: 5 in 2 replicas, 2 in the smallest"),
    ],
)
def test_replicas_that_are_unlike_are_not_said_to_be_alike(
    least: int, together: int, said: str
) -> None:
    facts = {
        "max_running_requests_effective": least,
        "max_running_requests_all": together,
        "dp_replicas": 2,
    }
    report = LogReport("sglang", "0.5.23", ready=True, phase="serving", facts=facts)
    view = View(server=ServerSnapshot(ServerState.RUNNING, report=report))
    assert [part.plain for part in _facts(view)] == [said]
