"""``doctor --fix``: does what is reversible, local and unprivileged, and prints the rest."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from qwen_tui.services.profile_files import change_profile, new_profile
from qwen_tui_diagnostics.fixes import plan_fixes
from qwen_tui_profiles.errors import QwenTuiError
from qwen_tui_profiles.text import t, tr

if TYPE_CHECKING:
    from qwen_tui.services.paths import Paths
    from qwen_tui_diagnostics.fixes import Fixes
    from qwen_tui_diagnostics.result import Report

__all__ = ["apply_fixes"]

COPY_SUFFIX = "-fixed"


def apply_fixes(report: Report, paths: Paths, *, dry_run: bool) -> None:
    """Do, or with ``dry_run`` only say, what can be done; print what is left for the user."""
    fixes = plan_fixes(report)
    print()
    if fixes.empty:
        print(tr(t("--fix: there is nothing that can be repaired without you")))
    for line in fixes.lines():
        print(f"  {tr(t('would') if dry_run else t('will'))} {tr(line)}")
    if not dry_run:
        _folders(fixes)
        _profile(fixes, paths)
        _caches(fixes)
    if fixes.by_hand:
        print(tr(t("for you to run:")))
        for name, commands in fixes.by_hand:
            print(f"  # {name}")
            for command in commands:
                print(f"  {command}")


def _folders(fixes: Fixes) -> None:
    for name in fixes.folders:
        try:
            Path(name).mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            _failed(name, error)
        else:
            print(f"  {tr(t('created {path}', path=name))}")


def _profile(fixes: Fixes, paths: Paths) -> None:
    """Write port and variables into a copy, so that the profile itself stays as it was."""
    if fixes.profile is None or not (fixes.env or fixes.port):
        return
    changes: dict[str, str | None] = {f"env.{name}": value for name, value in fixes.env}
    if fixes.port is not None:
        changes["port"] = str(fixes.port)
    copy = fixes.profile.removesuffix(COPY_SUFFIX) + COPY_SUFFIX
    try:
        if (paths.profiles / f"{copy}.toml").exists():
            change_profile(paths, copy, changes)
        else:
            new_profile(paths, copy, fixes.profile, changes)
    except QwenTuiError as error:
        print(f"  {tr(t('not done: {reason}', reason=error.message))}", file=sys.stderr)
    else:
        print(f"  {tr(t('wrote the profile {name}', name=copy))}")
        print(f"    qwen-tui doctor --profile {copy}")


def _caches(fixes: Fixes) -> None:
    """Delete kernel caches of other versions, each only after it was shown and agreed to."""
    for name in fixes.jit_caches:
        if not sys.stdin.isatty():
            print(f"  {tr(t('kept {path}: there is nobody to ask', path=name))}")
            continue
        answer = input(f"  {tr(t('delete {path}? [y/N]', path=name))} ")
        if answer.strip().lower() not in {"y", "yes"}:
            continue
        path = Path(name)
        try:
            if path.is_symlink():
                path.unlink()
            else:
                shutil.rmtree(path)
        except OSError as error:
            _failed(name, error)
        else:
            print(f"  {tr(t('deleted {path}', path=name))}")


def _failed(name: str, error: OSError) -> None:
    reason = error.strerror or type(error).__name__
    line = t("not done: {path}: {reason}", path=name, reason=reason)
    print(f"  {tr(line)}", file=sys.stderr)
