"""The console's tables agree with what the services send."""

from __future__ import annotations

from qwen_tui.services.state import ServerState
from qwen_tui.ui.commands import EVERY, Command
from qwen_tui.ui.glyphs import ASCII, UNICODE, Glyphs
from qwen_tui.ui.screens.home import STAGES
from qwen_tui.ui.words import PHASES, STATES
from qwen_tui_diagnostics.enginelog.report import PHASES as BOOT_ORDER


def test_every_phase_has_a_word_in_boot_order() -> None:
    assert tuple(PHASES) == BOOT_ORDER


def test_every_state_has_a_word_a_glyph_and_a_stage() -> None:
    assert set(STATES) == set(ServerState)
    assert set(STAGES) == set(ServerState)
    words = [str(word) for word, _ in STATES.values()]
    assert len(set(words)) == len(words)


def test_ids_and_actions_are_unique() -> None:
    assert len({c.id for c in EVERY}) == len(EVERY)


def test_ascii_is_ascii() -> None:
    for name in Glyphs.__slots__:
        assert getattr(ASCII, name).isascii(), name
        assert len(getattr(UNICODE, name)) == len(getattr(ASCII, name)) or name == "part"


def test_every_command_explains_itself() -> None:
    for command in EVERY:
        assert isinstance(command, Command)
        assert str(command.help).endswith(".")
