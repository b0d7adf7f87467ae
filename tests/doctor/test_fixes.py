"""Repairs of the doctor on a real disk: made, said, and never more than was planned."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qwen_tui.services.doctor_fixes import delete_cache, repair
from qwen_tui.services.paths import Paths
from qwen_tui_diagnostics.fixes import Fixes
from qwen_tui_profiles.loader import load_profiles

if TYPE_CHECKING:
    from pathlib import Path


def fixes(*folders: str, port: int | None = None, profile: str | None = None) -> Fixes:
    return Fixes(folders, (("HF_HUB_OFFLINE", "1"),), port, profile, (), ())


def test_a_folder_is_made_for_its_owner_alone(tmp_path: Path) -> None:
    wanted = tmp_path / "a" / "models"
    done = repair(fixes(str(wanted)), Paths(tmp_path, tmp_path, tmp_path))
    assert wanted.stat().st_mode & 0o777 == 0o700
    assert [str(line) for line in done.done] == [f"created {wanted}"]
    assert done.profile is None


def test_a_folder_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = repair(fixes(str(tmp_path / "file" / "x")), Paths(tmp_path, tmp_path, tmp_path))
    assert done.done == ()
    assert "Not a directory" in str(done.failed[0])


def test_the_profile_stays_and_a_copy_has_the_change(tmp_path: Path) -> None:
    paths = Paths(tmp_path / "config", tmp_path / "state", tmp_path / "cache")
    first = repair(fixes(port=31_001, profile="demo-speed"), paths)
    again = repair(fixes(port=31_002, profile="demo-speed-fixed"), paths)
    assert first.profile == again.profile == "demo-speed-fixed"
    profiles = load_profiles(paths.profiles)
    assert profiles.get("demo-speed").port != 31_002
    assert profiles.get("demo-speed-fixed").port == 31_002
    assert profiles.get("demo-speed-fixed").env["HF_HUB_OFFLINE"] == "1"


def test_of_a_linked_cache_only_the_link_goes(tmp_path: Path) -> None:
    real = tmp_path / "real"
    real.mkdir()
    (tmp_path / "link").symlink_to(real)
    assert delete_cache(str(tmp_path / "link")).done
    assert real.is_dir()
    assert delete_cache(str(real)).done
    assert not real.exists()
    assert "No such file" in str(delete_cache(str(real)).failed[0])
