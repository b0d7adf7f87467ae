"""``qwen-tui profiles``: what can be launched, with which flags, and why these."""

from __future__ import annotations

import json
import re
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from qwen_tui_profiles.text import t, tr

if TYPE_CHECKING:
    import argparse

    from qwen_tui.services.paths import Paths
    from qwen_tui_profiles.errors import QwenTuiError
    from qwen_tui_profiles.loader import ProfileSet
    from qwen_tui_profiles.profile import EngineProfile

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the actions."""
    from qwen_tui.cli.trailing import take_trailing

    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    listing = actions.add_parser("list", help=tr(t("every profile, one a line")))
    showing = actions.add_parser("show", help=tr(t("one profile with the origin of each value")))
    showing.add_argument("name", metavar="NAME", help=tr(t("profile name")))
    showing.add_argument(
        "--argv", action="store_true", help=tr(t("print only the command that would be launched"))
    )
    diff = actions.add_parser("diff", help=tr(t("what differs between two, and what follows")))
    diff.add_argument("before", metavar="A")
    diff.add_argument("after", metavar="B")
    new = actions.add_parser("new", help=tr(t("make a profile of your own from another")))
    new.add_argument("name", metavar="NAME")
    new.add_argument(
        "--from", dest="base", metavar="PROFILE", default="27b-int4-speed",
        help=tr(t("profile to start from (default 27b-int4-speed)")),
    )  # fmt: skip
    edit = actions.add_parser("edit", help=tr(t("change a profile: in your editor, or key by key")))
    edit.add_argument("name", metavar="NAME")
    edit.add_argument(
        "--unset", action="append", default=[], metavar="KEY", help=tr(t("remove a key"))
    )
    for action in (new, edit):
        action.add_argument(
            "--set", action="append", default=[], dest="settings", metavar="KEY=VALUE",
            help=tr(t("set a key: args.mem-fraction-static=0.90, model.path=/m/x, port=30001")),
        )  # fmt: skip
    importing = actions.add_parser(
        "import", help=tr(t("make a profile of a script, systemd unit, compose file or command"))
    )
    importing.add_argument(
        "file", nargs="?", metavar="FILE", help=tr(t("file to read; - = standard input"))
    )
    importing.add_argument("--name", metavar="NAME", help=tr(t("name of the new profile")))
    importing.add_argument(
        "--print", action="store_true", dest="only_print", help=tr(t("print it, write nothing"))
    )
    importing.epilog = tr(t("Instead of FILE the command itself may follow behind --."))
    take_trailing(importing, "words")
    for action in (listing, showing, diff, new, edit, importing):
        action.add_argument("--json", action="store_true", help=tr(t("one JSON document")))


def run(args: argparse.Namespace) -> int:
    """Do what the action says; a broken user file is reported and stops nothing."""
    from qwen_tui.services.paths import Paths
    from qwen_tui_profiles.loader import load_profiles

    paths = Paths.default()
    profiles = load_profiles(paths.profiles)
    for problem in profiles.problems:
        _note(problem)
    return {
        "list": _list,
        "show": _show,
        "diff": _diff,
        "new": _new,
        "edit": _edit,
        "import": _import,
    }[args.action](profiles, args, paths)


def _list(profiles: ProfileSet, args: argparse.Namespace, _: Paths) -> int:
    from qwen_tui.cli.profile_views import list_document, list_lines

    if args.json:
        _print_json(list_document(profiles))
    else:
        for line in list_lines(profiles):
            print(line)
    return 0


def _show(profiles: ProfileSet, args: argparse.Namespace, paths: Paths) -> int:
    from qwen_tui.cli.profile_views import show_document, show_lines, spec_of
    from qwen_tui.services.linting import LintOptions, lint

    profile = profiles.get(args.name)
    spec, engine, problem = spec_of(profile, paths)
    if args.argv:
        for name, value in spec.env.items():
            print(f"{name}={shlex.quote(value)} \\")
        print(shlex.join(spec.argv))
    else:
        judged = lint(LintOptions(profile=profile), paths)
        if args.json:
            _print_json(show_document(profile, spec, engine, judged))
        else:
            for line in show_lines(profile, spec, engine, judged):
                print(line)
    if problem is not None:
        _note(problem)
    return 0


def _diff(profiles: ProfileSet, args: argparse.Namespace, _: Paths) -> int:
    from qwen_tui.cli.profile_diff import diff_document, diff_lines
    from qwen_tui_profiles.compare import compare

    before, after = profiles.get(args.before), profiles.get(args.after)
    comparison = compare(before, after)
    if args.json:
        _print_json(diff_document(before, after, comparison))
    else:
        for line in diff_lines(before, after, comparison):
            print(line)
    return 0


def _new(_: ProfileSet, args: argparse.Namespace, paths: Paths) -> int:
    from qwen_tui.services.profile_files import new_profile, parse_changes

    profile = new_profile(paths, args.name, args.base, parse_changes(args.settings, ()))
    return _written(profile, args)


def _edit(profiles: ProfileSet, args: argparse.Namespace, paths: Paths) -> int:
    from qwen_tui.services.profile_files import change_profile, edit_profile, parse_changes
    from qwen_tui_profiles.loader import load_profiles

    if args.settings or args.unset:
        changes = parse_changes(args.settings, args.unset)
        return _written(change_profile(paths, args.name, changes), args)
    path = edit_profile(paths, args.name)
    after = load_profiles(paths.profiles)
    known = {str(problem) for problem in profiles.problems}
    for problem in after.problems:
        if str(problem) not in known or getattr(problem, "path", None) == str(path):
            raise problem
    return _written(after.get(args.name), args)


def _import(_: ProfileSet, args: argparse.Namespace, paths: Paths) -> int:
    from qwen_tui.services.profile_files import import_profile, imported_text
    from qwen_tui_profiles.cmdline import parse_file, parse_text, parse_words
    from qwen_tui_profiles.cmdline.to_profile import import_command
    from qwen_tui_profiles.errors import UsageError

    if args.words:
        command, origin = parse_words(args.words), "a command line"
    elif args.file == "-":
        command, origin = parse_text(sys.stdin.read()), "standard input"
    elif args.file:
        command, origin = parse_file(Path(args.file).expanduser()), Path(args.file).name
    else:
        raise UsageError(
            t("There is nothing to import."),
            t("Name a file, or write the command behind --."),
        )
    found = import_command(command)
    name = args.name or _name_of(args.file, found.model_path or found.model_repo)
    for note in found.notes:
        print(f"qwen-tui: {tr(note)}", file=sys.stderr)
    if args.only_print:
        print(imported_text(found, name, origin), end="")
        return 0
    return _written(import_profile(paths, name, found, origin), args)


def _written(profile: EngineProfile, args: argparse.Namespace) -> int:
    """Say where the profile is and what the rules say about it."""
    from qwen_tui.cli.lint_text import finding_lines
    from qwen_tui_profiles.findings import Severity
    from qwen_tui_profiles.rules import judge_profile

    judgement = judge_profile(profile)
    if args.json:
        _print_json(
            {
                "schema": "qwen-tui.profile-written/1",
                "name": profile.name,
                "path": profile.origin.path,
                "findings": [finding.as_json() for finding in judgement.findings],
            }
        )
        return 0
    print(tr(t("{name} is in {path}", name=profile.name, path=profile.origin.path)))
    for finding in judgement.findings:
        if finding.severity is not Severity.INFO:
            for line in finding_lines(finding):
                print(line)
    return 0


def _name_of(file: str | None, model: str | None) -> str:
    source = Path(file).stem if file and file != "-" else Path(model or "imported").name
    name = re.sub(r"[^a-z0-9._-]+", "-", source.lower()).strip("-._")
    return name[:64] or "imported"


def _print_json(document: object) -> None:
    print(json.dumps(document, indent=2, ensure_ascii=False))


def _note(problem: QwenTuiError) -> None:
    print(f"qwen-tui: {tr(problem.message)}", file=sys.stderr)
    if problem.remedy is not None:
        print(f"  → {tr(problem.remedy)}", file=sys.stderr)
