"""What the doctor can repair: reversible, local, unprivileged; each act says what came of it."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from qwen_tui.services.paths import make_private
from qwen_tui.services.profile_files import change_profile, new_profile
from qwen_tui_profiles.errors import QwenTuiError
from qwen_tui_profiles.text import t

if TYPE_CHECKING:
    from qwen_tui.services.paths import Paths
    from qwen_tui_diagnostics.fixes import Fixes
    from qwen_tui_profiles.text import Text

__all__ = ["Repaired", "copy_name", "delete_cache", "repair"]

COPY_SUFFIX = "-fixed"


@dataclass(frozen=True, slots=True)
class Repaired:
    """What was done."""

    done: tuple[Text, ...] = ()
    failed: tuple[Text, ...] = ()
    profile: str | None = None
    """Name of the copy that was written."""


def copy_name(profile: str) -> str:
    """Return what the repaired copy of a profile is called."""
    return profile.removesuffix(COPY_SUFFIX) + COPY_SUFFIX


def repair(fixes: Fixes, paths: Paths) -> Repaired:
    """Create the folders and write the copy of the profile; caches are deleted one by one."""
    done: list[Text] = []
    failed: list[Text] = []
    for name in fixes.folders:
        try:
            make_private(Path(name))
        except OSError as error:
            failed.append(_failure(name, error))
        else:
            done.append(t("created {path}", path=name))
    if fixes.profile is None or not (fixes.env or fixes.port):
        return Repaired(tuple(done), tuple(failed))
    copy = copy_name(fixes.profile)
    try:
        _write_copy(fixes, fixes.profile, copy, paths)
    except QwenTuiError as error:
        failed.append(t("not done: {reason}", reason=error.message))
        return Repaired(tuple(done), tuple(failed))
    done.append(t("wrote the profile {name}", name=copy))
    return Repaired(tuple(done), tuple(failed), copy)


def _write_copy(fixes: Fixes, source: str, copy: str, paths: Paths) -> None:
    """Write port and variables into a copy, so that the profile itself stays as it was."""
    changes: dict[str, str | None] = {f"env.{name}": value for name, value in fixes.env}
    if fixes.port is not None:
        changes["port"] = str(fixes.port)
    if (paths.profiles / f"{copy}.toml").exists():
        change_profile(paths, copy, changes)
    else:
        new_profile(paths, copy, source, changes)


def delete_cache(name: str) -> Repaired:
    """Delete a kernel cache that was shown and agreed to; a link goes, not what it points to."""
    path = Path(name)
    try:
        if path.is_symlink():
            path.unlink()
        else:
            shutil.rmtree(path)
    except OSError as error:
        return Repaired(failed=(_failure(name, error),))
    return Repaired((t("deleted {path}", path=name),))


def _failure(name: str, error: OSError) -> Text:
    reason = error.strerror or type(error).__name__
    return t("not done: {path}: {reason}", path=name, reason=reason)
