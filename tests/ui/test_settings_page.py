"""docs/settings.md names every command whose key can be moved; its example is read as written."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

from qwen_tui.services.paths import Paths
from qwen_tui.services.settings import load_settings
from qwen_tui.ui.app_commands import APP
from qwen_tui.ui.places import PLACES
from qwen_tui.ui.themes import THEME_NAMES

PAGE = (Path(__file__).parents[2] / "docs" / "settings.md").read_text()


def test_every_command_is_named_and_no_other() -> None:
    ids = {command.id for command in APP}
    for row in PLACES:
        screen = getattr(import_module(f"qwen_tui.ui.screens.{row.module}"), row.screen)
        ids |= {command.id for command in screen.COMMANDS_HERE}
    assert set(re.findall(r"`([a-z_.]+)`", PAGE.split("A key is moved")[1])) == ids


def test_the_example_is_read_as_written(tmp_path: Path) -> None:
    paths = Paths(tmp_path, tmp_path, tmp_path)
    paths.settings.write_text(PAGE.split("```toml")[1].split("```")[0])
    read = load_settings(paths)
    assert read.problem is None
    assert read.theme in THEME_NAMES
    assert read.keys["server.start"] == "f5"
    assert read.gateway == "http://127.0.0.1:4000"
    assert read.gateway_key_env == "LITELLM_KEY"
    assert read.fleet == ("http://10.0.0.2:30000", "http://10.0.0.3:30000")
    assert all(name in PAGE for name in THEME_NAMES)
