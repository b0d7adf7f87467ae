"""``qwen-tui profiles``: what can be launched, with which flags, and why these."""

from __future__ import annotations

import json
import shlex
import sys
from typing import TYPE_CHECKING

from qwen_tui_profiles.text import t, tr

if TYPE_CHECKING:
    import argparse

    from qwen_tui.services.paths import Paths
    from qwen_tui_profiles.errors import QwenTuiError
    from qwen_tui_profiles.loader import ProfileSet

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare ``list`` and ``show``."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    listing = actions.add_parser("list", help=tr(t("every profile, one a line")))
    showing = actions.add_parser("show", help=tr(t("one profile with the origin of each value")))
    showing.add_argument("name", metavar="NAME", help=tr(t("profile name")))
    showing.add_argument(
        "--argv", action="store_true", help=tr(t("print only the command that would be launched"))
    )
    for action in (listing, showing):
        action.add_argument("--json", action="store_true", help=tr(t("one JSON document")))


def run(args: argparse.Namespace) -> int:
    """Do what the action says; a broken user file is reported and stops nothing."""
    from qwen_tui.services.paths import Paths
    from qwen_tui_profiles.loader import load_profiles

    paths = Paths.default()
    profiles = load_profiles(paths.profiles)
    _report_problems(profiles)
    if args.action == "list":
        return _list(profiles, as_json=args.json)
    return _show(profiles, args, paths)


def _report_problems(profiles: ProfileSet) -> None:
    for problem in profiles.problems:
        _note(problem)


def _list(profiles: ProfileSet, *, as_json: bool) -> int:
    from qwen_tui.cli.profile_views import list_document, list_lines

    if as_json:
        print(json.dumps(list_document(profiles), indent=2, ensure_ascii=False))
    else:
        for line in list_lines(profiles):
            print(line)
    return 0


def _show(profiles: ProfileSet, args: argparse.Namespace, paths: Paths) -> int:
    from qwen_tui.cli.profile_views import show_document, show_lines, spec_of

    profile = profiles.get(args.name)
    spec, engine, problem = spec_of(profile, paths)
    if args.json:
        document = show_document(profile, spec, engine)
        print(json.dumps(document, indent=2, ensure_ascii=False))
    elif args.argv:
        for name, value in spec.env.items():
            print(f"{name}={shlex.quote(value)} \\")
        print(shlex.join(spec.argv))
    else:
        for line in show_lines(profile, spec, engine):
            print(line)
    if problem is not None:
        _note(problem)
    return 0


def _note(problem: QwenTuiError) -> None:
    print(f"qwen-tui: {tr(problem.message)}", file=sys.stderr)
    if problem.remedy is not None:
        print(f"  → {tr(problem.remedy)}", file=sys.stderr)
