"""``qwen-tui lint``: what is known to go wrong with a launch command, before it is launched."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

from qwen_tui_profiles.errors import UsageError
from qwen_tui_profiles.text import t, tr

if TYPE_CHECKING:
    import argparse

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare where the command comes from and what it is judged for."""
    from qwen_tui.cli.trailing import take_trailing

    parser.add_argument("name", nargs="?", metavar="PROFILE", help=tr(t("profile to lint")))
    parser.add_argument("--profile", metavar="NAME", help=tr(t("the same, as an option")))
    parser.add_argument(
        "--file",
        metavar="FILE",
        help=tr(t("lint a shell script, systemd unit or compose file (- = standard input)")),
    )
    parser.add_argument(
        "--engine",
        metavar="ENGINE==VERSION",
        help=tr(t("judge for this release: sglang==0.5.17 (default: the one found, or newest)")),
    )
    parser.add_argument(
        "--model", metavar="DIR", help=tr(t("checkpoint folder; config.json alone is enough"))
    )
    parser.add_argument("--card", metavar="NAME", help=tr(t("judge for this card: sm120, gb10, …")))
    parser.add_argument("--list-rules", action="store_true", help=tr(t("list every rule")))
    parser.add_argument("--json", action="store_true", help=tr(t("one JSON document")))
    parser.add_argument(
        "--strict", action="store_true", help=tr(t("warnings count as failures, too"))
    )
    parser.epilog = tr(
        t(
            "The command follows behind --. It may be split by the shell or quoted as one text, "
            "with line continuations, variables in front, docker run, sglang serve or vllm serve."
        )
    )
    take_trailing(parser, "words")


def run(args: argparse.Namespace) -> int:
    """Lint and return 0, or 1 when there is an error (with ``--strict`` also a warning)."""
    from qwen_tui.cli.lint_text import judgement_document, judgement_lines, rules_lines
    from qwen_tui.services.linting import LintOptions, lint
    from qwen_tui.services.paths import Paths
    from qwen_tui_profiles.findings import Severity
    from qwen_tui_profiles.loader import load_profiles

    if args.list_rules:
        for line in rules_lines():
            print(line)
        return 0
    paths = Paths.default()
    if args.name is not None and args.profile is not None and args.name != args.profile:
        raise UsageError(
            t("Two profiles are named: {one} and {other}.", one=args.name, other=args.profile),
            t("Name one of them."),
        )
    name = args.profile or args.name
    if name is not None and (args.words or args.file is not None):
        raise UsageError(
            t("A profile and a command are given."),
            t("Lint one of them at a time."),
        )
    profile = None if name is None else load_profiles(paths.profiles).get(name)
    words = args.words
    file = args.file
    if file == "-":
        words, file = (sys.stdin.read(),), None
    judgement = lint(
        LintOptions(
            words=words,
            file=file,
            profile=profile,
            engine=args.engine,
            model=args.model,
            card=args.card,
        ),
        paths,
    )
    if args.json:
        print(json.dumps(judgement_document(judgement), indent=2, ensure_ascii=False))
    else:
        reasons = {} if profile is None else profile.ignore_reasons
        for line in judgement_lines(judgement, reasons):
            print(line)
    severities = {finding.severity for finding in judgement.findings}
    failed = Severity.ERROR in severities or (args.strict and Severity.WARN in severities)
    return 1 if failed else 0
