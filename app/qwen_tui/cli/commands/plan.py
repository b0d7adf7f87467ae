"""``qwen-tui plan``: what a launch will get, before it costs a boot."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from qwen_tui_profiles.errors import UsageError
from qwen_tui_profiles.text import t, tr

if TYPE_CHECKING:
    import argparse

    from qwen_tui_profiles.plan.result import Plan

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what to plan and what is known about the machine."""
    from qwen_tui.cli.trailing import take_trailing

    parser.add_argument("name", nargs="?", metavar="PROFILE", help=tr(t("profile to plan")))
    parser.add_argument("--profile", metavar="NAME", help=tr(t("the same, as an option")))
    parser.add_argument(
        "--model", metavar="DIR", help=tr(t("checkpoint folder; config.json alone is enough"))
    )
    parser.add_argument(
        "--engine", metavar="ENGINE==VERSION", help=tr(t("plan for this release: sglang==0.5.17"))
    )
    parser.add_argument(
        "--free-gib",
        type=float,
        metavar="GIB",
        help=tr(t("free memory as the engine prints it at Load weight begin")),
    )
    parser.add_argument(
        "--total-gib", type=float, metavar="GIB", help=tr(t("total memory of the card"))
    )
    parser.add_argument(
        "--weights-gib",
        type=float,
        metavar="GIB",
        help=tr(t("mem usage of the target in an earlier boot")),
    )
    parser.add_argument(
        "--draft-gib",
        type=float,
        metavar="GIB",
        help=tr(t("mem usage of the draft in an earlier boot")),
    )
    parser.add_argument(
        "--kv-memory-gib",
        type=float,
        metavar="GIB",
        help=tr(t("vLLM: Available KV cache memory of an earlier boot")),
    )
    parser.add_argument(
        "--want-context",
        type=int,
        metavar="TOKENS",
        help=tr(t("solve backwards: tokens that one request should have")),
    )
    parser.add_argument(
        "--want-requests",
        type=int,
        metavar="N",
        help=tr(t("solve backwards: requests that should run at once")),
    )
    parser.add_argument(
        "--gpu",
        type=int,
        metavar="INDEX",
        help=tr(t("GPU to plan on (default: the profile's, else 0)")),
    )
    parser.add_argument("--json", action="store_true", help=tr(t("one JSON document")))
    parser.add_argument(
        "--strict", action="store_true", help=tr(t("warnings count as failures, too"))
    )
    parser.epilog = tr(t("Engine arguments may follow behind --; they win over the profile's."))
    take_trailing(parser, "engine_args")


def run(args: argparse.Namespace) -> int:
    """Plan and print; 0 fits (or the wish can be had), 1 does not, 2 cannot be judged."""
    from qwen_tui.services.paths import Paths
    from qwen_tui.services.planning import PlanOptions, make_plan
    from qwen_tui_profiles.loader import load_profiles

    paths = Paths.default()
    if args.name is not None and args.profile is not None and args.name != args.profile:
        raise UsageError(
            t("Two profiles are named: {one} and {other}.", one=args.name, other=args.profile),
            t("Name one of them."),
        )
    name = args.profile or args.name
    profile = None if name is None else load_profiles(paths.profiles).get(name)
    if profile is None and not args.engine_args and args.model is None:
        raise UsageError(
            t("Nothing to plan: no profile, no model and no engine arguments."),
            t("Try qwen-tui plan 27b-nvfp4-speed, or qwen-tui plan --model DIR -- ENGINE ARGS."),
        )
    options = PlanOptions(
        args=args.engine_args,
        engine=args.engine,
        model=args.model,
        free_gib=args.free_gib,
        total_gib=args.total_gib,
        weights_gib=args.weights_gib,
        draft_gib=args.draft_gib,
        kv_memory_gib=args.kv_memory_gib,
        want_context=args.want_context,
        want_requests=args.want_requests,
        gpu_index=args.gpu,
    )
    plan = make_plan(options, profile, paths)
    if args.json:
        print(json.dumps(plan.as_json(), indent=2, ensure_ascii=False))
    else:
        from qwen_tui.cli.plan_text import plan_lines

        for line in plan_lines(plan):
            print(line)
    return _exit_code(plan, strict=args.strict)


def _exit_code(plan: Plan, *, strict: bool) -> int:
    if plan.wanted is not None:
        return 0 if plan.wanted.reached else 1
    if plan.fits is None:
        return 2
    severities = {finding.severity.value for finding in plan.findings}
    if not plan.fits or "error" in severities or (strict and "warn" in severities):
        return 1
    return 0
