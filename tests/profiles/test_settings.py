from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from qwen_tui.services.paths import Paths
from qwen_tui.services.settings import Settings, change_settings, load_settings, settings_path
from qwen_tui_profiles.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path


def paths_in(folder: Path) -> Paths:
    return Paths(folder / "config", folder / "state", folder / "cache")


def test_nothing_set(tmp_path: Path) -> None:
    assert load_settings(paths_in(tmp_path)) == Settings()


def test_a_change_keeps_comments_and_foreign_keys(tmp_path: Path) -> None:
    paths = paths_in(tmp_path)
    paths.config.mkdir()
    path = settings_path(paths)
    path.write_text('# mine\nlanguage = "zh_CN"  # mandarin\nfuture = 3\n[engine]\n# here\n')
    read = change_settings(paths, last_profile="demo-speed", interpreter="/opt/p")
    assert read == Settings("zh_CN", "demo-speed", "/opt/p")
    text = path.read_text()
    for kept in ("# mine", "# mandarin", "future = 3", "# here"):
        assert kept in text
    assert path.stat().st_mode & 0o777 == 0o600
    assert change_settings(paths, interpreter=None).interpreter is None


def test_a_broken_file_changes_nothing_and_is_not_overwritten(tmp_path: Path) -> None:
    paths = paths_in(tmp_path)
    paths.config.mkdir()
    path = settings_path(paths)
    path.write_text("language = \n")
    read = load_settings(paths)
    assert read.language is None
    assert read.problem is not None
    assert "line 1" in str(read.problem.message)
    with pytest.raises(ConfigError):
        change_settings(paths, language="en")
    assert path.read_text() == "language = \n"


def test_one_bad_value_leaves_the_others(tmp_path: Path) -> None:
    paths = paths_in(tmp_path)
    paths.config.mkdir()
    settings_path(paths).write_text('language = 3\nlast-profile = "x"\n')
    read = load_settings(paths)
    assert read.last_profile == "x"
    assert read.problem is not None
    assert "language" in str(read.problem.message)
