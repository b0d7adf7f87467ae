"""``qwen-tui doctor``: everything that can stop a launch, before it costs a boot."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import time
from typing import TYPE_CHECKING, Any

from qwen_tui_profiles.text import t, tr

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qwen_tui.services.paths import Paths
    from qwen_tui_diagnostics.context import Context
    from qwen_tui_diagnostics.result import Report

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    target = parser.add_argument_group(tr(t("what is judged")))
    target.add_argument("--profile", metavar="NAME", help=tr(t("profile to judge for")))
    target.add_argument("--model", metavar="DIR", help=tr(t("folder instead of the profile's")))
    target.add_argument("--python", metavar="PATH", help=tr(t("interpreter that holds the engine")))
    target.add_argument("--host", help=tr(t("address instead of the profile's")))
    target.add_argument("--port", type=_port, help=tr(t("port instead of the profile's")))
    checks = parser.add_argument_group(tr(t("which checks")))
    checks.add_argument(
        "--only", action="append", default=[], metavar="GLOB", help=tr(t("only these ids"))
    )
    checks.add_argument(
        "--skip", action="append", default=[], metavar="GLOB", help=tr(t("not these ids"))
    )
    checks.add_argument("--list-checks", action="store_true", help=tr(t("list the ids and end")))
    checks.add_argument("--explain", metavar="ID", help=tr(t("say why a check exists and end")))
    checks.add_argument(
        "--timeout", type=_seconds, metavar="S", help=tr(t("limit for each collector, in seconds"))
    )
    checks.add_argument(
        "--online", action="store_true", help=tr(t("ask the Hub although nothing is to download"))
    )
    output = parser.add_argument_group(tr(t("output")))
    output.add_argument("--json", action="store_true", help=tr(t("one JSON document on stdout")))
    output.add_argument("--strict", action="store_true", help=tr(t("exit 1 on a warning too")))
    output.add_argument("-v", "--verbose", action="store_true", help=tr(t("every line")))


def run(args: argparse.Namespace) -> int:
    """Judge the launch and return the exit code."""
    if args.list_checks:
        return _list_checks(args)
    if args.explain is not None:
        return _explain(args.explain)
    from qwen_tui.services.paths import Paths
    from qwen_tui_diagnostics.runner import select

    paths = Paths.default()
    select(args.only, args.skip)
    context = _context(args, paths)
    import asyncio

    report = asyncio.run(_judge(args, context))
    return _show(args, context, report)


def _port(text: str) -> int:
    if not text.isdecimal() or not 0 < int(text) < 65536:
        raise argparse.ArgumentTypeError(tr(t("a port is a number from 1 to 65535")))
    return int(text)


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value <= 3600:
        raise argparse.ArgumentTypeError(tr(t("a limit is a number of seconds, up to 3600")))
    return value


def _context(args: argparse.Namespace, paths: Paths) -> Context:
    from dataclasses import replace
    from pathlib import Path

    from qwen_tui_diagnostics.context import Context, Target
    from qwen_tui_profiles.loader import load_profiles

    target = Target()
    if args.profile is not None:
        target = Target.from_profile(load_profiles(paths.profiles).get(args.profile))
    changes: dict[str, Any] = {"online": args.online}
    for name, value in (("host", args.host), ("port", args.port), ("interpreter", args.python)):
        if value is not None:
            changes[name] = value
    if args.model is not None:
        changes["model_path"] = str(Path(args.model).expanduser().absolute())
    return Context(
        target=replace(target, **changes),
        state_folder=str(paths.state),
        cache_folder=str(paths.cache),
        terminal=_terminal(),
    )


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


async def _judge(args: argparse.Namespace, context: Context) -> Report:
    from qwen_tui import __version__
    from qwen_tui_diagnostics.context import describe
    from qwen_tui_diagnostics.report import header, with_explanations
    from qwen_tui_diagnostics.result import Report
    from qwen_tui_diagnostics.runner import Run, select

    started, began = time.time(), time.perf_counter()
    if not args.json:
        print(header(__version__, context.target.profile, started), flush=True)
        if context.target.simulated:
            print(tr(t("simulated engine: it shows the product and measures nothing")))
    run = Run(context, select(args.only, args.skip))
    order = {check.id: index for index, check in enumerate(run.checks)}
    narrate = sys.stderr.isatty() and not args.json
    results = []
    async for result in run.results(args.timeout):
        results.append(result)
        if narrate:
            print(f"\r{len(results)}/{len(order)}", end="", file=sys.stderr, flush=True)
    if narrate:
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)
    results.sort(key=lambda result: order[result.id])
    return Report(
        results=with_explanations(results),
        started=started,
        duration_ms=(time.perf_counter() - began) * 1000,
        version=__version__,
        target=describe(context.target),
        facts=run.tree,
        absent={path: absence.as_json() for path, absence in run.absent.items()},
        simulated=context.target.simulated,
    )


def _show(args: argparse.Namespace, context: Context, report: Report) -> int:
    from qwen_tui_diagnostics.report import dump_json, text_lines

    if args.json:
        print(dump_json(report, context.home, os.uname().nodename))
    else:
        for line in text_lines(report, verbose=args.verbose):
            print(line)
    return report.exit_code(strict=args.strict)


def _list_checks(args: argparse.Namespace) -> int:
    from qwen_tui_diagnostics.runner import select

    for check in select(args.only, args.skip):
        print(f"{check.id:<24}{tr(check.title)}")
    return 0


def _explain(check_id: str) -> int:
    from qwen_tui_diagnostics.checks import check_called
    from qwen_tui_profiles.errors import UsageError

    check = check_called(check_id)
    if check is None:
        raise UsageError(
            t("No check is called {name}.", name=repr(check_id)),
            t("`qwen-tui doctor --list-checks` shows them all."),
        )
    print(f"{check.id}: {tr(check.title)}")
    print(tr(check.why))
    lines: list[tuple[str, Sequence[str]]] = [
        (tr(t("reads")), check.sources),
        (tr(t("explained by")), check.explained_by),
        (tr(t("evidence")), check.evidence),
    ]
    for title, items in lines:
        if items:
            print(f"{title}: {', '.join(items)}")
    return 0
