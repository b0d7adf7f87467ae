"""What the doctor judges, from the command line, the profiles, the settings and our own server."""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qwen_tui.services.doctor import doctor_context
from qwen_tui.services.settings import load_settings
from qwen_tui_diagnostics.context import Target
from qwen_tui_profiles.errors import ProfileError, UsageError
from qwen_tui_profiles.loader import load_profiles
from qwen_tui_profiles.text import t

if TYPE_CHECKING:
    import argparse

    from qwen_tui.services.paths import Paths
    from qwen_tui_diagnostics.context import Context

__all__ = ["build_context", "bundle_target", "check_arguments"]


def check_arguments(args: argparse.Namespace) -> None:
    """Refuse combinations that would not do what they say.

    Raises:
        UsageError: the combination makes no sense.
    """
    if args.dry_run and not args.fix:
        raise UsageError(t("--dry-run says what --fix would do."), t("Give both, or neither."))
    if args.bundle is not None:
        for name, value in (("--fix", args.fix), ("--raw", args.raw), ("--bench", args.bench)):
            if value and value != "off":
                raise UsageError(
                    t("{flag} is about this machine, --from about another.", flag=name),
                    t("Give only one of them."),
                )
    if args.fix and (args.json or args.report):
        raise UsageError(
            t("--fix talks to you, --json and --report talk to a program."),
            t("Give only one of them."),
        )
    if args.raw is not None and Path(args.raw).exists():
        raise UsageError(
            t("{path} is already there.", path=args.raw), t("Name a file that is not there yet.")
        )
    if args.raw is not None and not Path(args.raw).absolute().parent.is_dir():
        raise UsageError(
            t("There is no folder for {path}.", path=args.raw), t("Make it first, or name another.")
        )


def build_context(args: argparse.Namespace, paths: Paths) -> Context:
    """Return what is to be judged on this machine.

    Raises:
        ProfileError: the profile named does not exist or is broken.
    """
    settings = load_settings(paths)
    target = _target(args.profile or settings.last_profile, args, paths)
    return doctor_context(
        paths,
        target,
        terminal=_terminal(),
        bench=args.bench,
        raw=args.raw is not None,
        cuda_probe=args.cuda_probe,
        ask_engine=args.ask_engine,
    )


def bundle_target(args: argparse.Namespace, recorded: Target) -> Target:
    """Return the target of a bundle, with what the command line changes."""
    from qwen_tui.services.paths import Paths

    if args.profile is None:
        return _changed(recorded, args)
    return _target(args.profile, args, Paths.default())


def _target(name: str | None, args: argparse.Namespace, paths: Paths) -> Target:
    target = Target()
    if name is not None:
        try:
            target = Target.from_profile(load_profiles(paths.profiles).get(name))
        except ProfileError:
            # A remembered profile that is gone must not keep the doctor from looking.
            if args.profile is not None:
                raise
    return _changed(target, args)


def _changed(target: Target, args: argparse.Namespace) -> Target:
    changes: dict[str, Any] = {"online": args.online or target.online}
    for name, value in (("host", args.host), ("port", args.port), ("interpreter", args.python)):
        if value is not None:
            changes[name] = value
    if args.model is not None:
        changes["model_path"] = str(Path(args.model).expanduser().absolute())
    return replace(target, **changes)


def _terminal() -> dict[str, Any]:
    size = shutil.get_terminal_size(fallback=(0, 0))
    facts: dict[str, Any] = {
        "stdout_tty": sys.stdout.isatty(),
        "columns": size.columns,
        "lines": size.lines,
        "encoding": sys.stdout.encoding,
    }
    if os.environ.get("TERM"):
        facts["term"] = os.environ["TERM"]
    return facts
