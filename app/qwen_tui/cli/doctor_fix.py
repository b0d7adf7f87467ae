"""``doctor --fix``: does what is reversible, local and unprivileged, and prints the rest."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from qwen_tui.services.doctor_fixes import Repaired, delete_cache, repair
from qwen_tui_diagnostics.fixes import plan_fixes
from qwen_tui_profiles.text import t, tr

if TYPE_CHECKING:
    from qwen_tui.services.paths import Paths
    from qwen_tui_diagnostics.fixes import Fixes
    from qwen_tui_diagnostics.result import Report

__all__ = ["apply_fixes"]


def apply_fixes(report: Report, paths: Paths, *, dry_run: bool) -> None:
    """Do, or with ``dry_run`` only say, what can be done; print what is left for the user."""
    fixes = plan_fixes(report)
    print()
    if fixes.empty:
        print(tr(t("--fix: there is nothing that can be repaired without you")))
    for line in fixes.lines():
        print(f"  {tr(t('would') if dry_run else t('will'))} {tr(line)}")
    if not dry_run:
        repaired = repair(fixes, paths)
        _tell(repaired)
        if repaired.profile is not None:
            print(f"    qwen-tui doctor --profile {repaired.profile}")
        _caches(fixes)
    if fixes.by_hand:
        print(tr(t("for you to run:")))
        for name, commands in fixes.by_hand:
            print(f"  # {name}")
            for command in commands:
                print(f"  {command}")


def _tell(repaired: Repaired) -> None:
    for line in repaired.done:
        print(f"  {tr(line)}")
    for line in repaired.failed:
        print(f"  {tr(line)}", file=sys.stderr)


def _caches(fixes: Fixes) -> None:
    """Delete kernel caches of other versions, each only after it was shown and agreed to."""
    for name in fixes.jit_caches:
        if not sys.stdin.isatty():
            print(f"  {tr(t('kept {path}: there is nobody to ask', path=name))}")
            continue
        answer = input(f"  {tr(t('delete {path}? [y/N]', path=name))} ")
        if answer.strip().lower() in {"y", "yes"}:
            _tell(delete_cache(name))
