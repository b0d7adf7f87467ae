"""Folders of ours are private, also those that had to be made above the one that was asked for."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

import pytest

from qwen_tui.services.paths import Paths
from qwen_tui_profiles.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("umask", [0o022, 0o000, 0o077])
def test_every_folder_that_is_made_is_private(tmp_path: Path, umask: int) -> None:
    root = tmp_path / "home" / "qwen-tui"
    paths = Paths(root / "config", root / "state", root / "cache")
    before = os.umask(umask)
    try:
        assert paths.make(paths.profiles) == paths.profiles
    finally:
        os.umask(before)
    made = [tmp_path / "home", root, paths.config, paths.profiles]
    assert [stat.S_IMODE(p.stat().st_mode) for p in made] == [0o700] * 4


def test_what_was_there_before_is_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir(mode=0o755)
    (tmp_path / "shared").chmod(0o755)
    paths = Paths(tmp_path, tmp_path / "shared" / "state", tmp_path)
    paths.make(paths.runs)
    paths.make(paths.runs)
    assert stat.S_IMODE((tmp_path / "shared").stat().st_mode) == 0o755


def test_a_file_in_the_way_is_said(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("")
    paths = Paths(tmp_path, tmp_path / "state", tmp_path)
    with pytest.raises(ConfigError, match="runs"):
        paths.make(paths.runs)
