"""``qwen-tui verify``: is this checkpoint what it says it is, and will the engine read it so."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from qwen_tui_profiles.text import t, tr

if TYPE_CHECKING:
    import argparse

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what is judged, and for what."""
    parser.add_argument("path", metavar="DIR|REPO", help=tr(t("checkpoint folder, or org/name")))
    parser.add_argument(
        "--engine",
        metavar="ENGINE==VERSION",
        help=tr(t("judge for this release: sglang==0.5.17 (default: the newest known)")),
    )
    parser.add_argument(
        "--speculative", action="store_true", help=tr(t("the launch uses the MTP head"))
    )
    parser.add_argument(
        "--language-only", action="store_true", help=tr(t("the launch builds no vision tower"))
    )
    parser.add_argument(
        "--quantization", metavar="METHOD", help=tr(t("the engine's --quantization"))
    )
    parser.add_argument("--json", action="store_true", help=tr(t("one JSON document")))
    parser.add_argument(
        "--strict", action="store_true", help=tr(t("warnings count as failures, too"))
    )


def run(args: argparse.Namespace) -> int:
    """Judge and return 0, 1 on errors (with ``--strict`` on warnings), 2 when not known."""
    from qwen_tui.cli.verify_text import report_lines
    from qwen_tui.services.verify import VerifyOptions, verify_checkpoint
    from qwen_tui_diagnostics.checkpoint.report import Verdict

    report = verify_checkpoint(
        VerifyOptions(
            path=args.path,
            engine=args.engine,
            speculative=args.speculative,
            language_only=args.language_only,
            quantization=args.quantization,
        )
    )
    if args.json:
        print(json.dumps(report.as_json(), indent=2, ensure_ascii=False))
    else:
        for line in report_lines(report):
            print(line)
    if report.verdict is Verdict.UNKNOWN:
        return 2
    failed = report.verdict is Verdict.ERROR or (args.strict and report.verdict is Verdict.WARN)
    return 1 if failed else 0
