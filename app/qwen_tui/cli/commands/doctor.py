"""``qwen-tui doctor``: everything that can stop a launch, before it costs a boot."""

from __future__ import annotations

import argparse
import sys
import time
from typing import TYPE_CHECKING

from qwen_tui_profiles.text import t, tr

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qwen_tui_diagnostics.context import Context
    from qwen_tui_diagnostics.result import Report
    from qwen_tui_diagnostics.runner import Run

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    target = parser.add_argument_group(tr(t("what is judged")))
    target.add_argument("--profile", metavar="NAME", help=tr(t("profile to judge for")))
    target.add_argument("--model", metavar="DIR", help=tr(t("folder instead of the profile's")))
    target.add_argument("--python", metavar="PATH", help=tr(t("interpreter that holds the engine")))
    target.add_argument("--host", help=tr(t("address instead of the profile's")))
    target.add_argument("--port", type=_port, help=tr(t("port instead of the profile's")))
    target.add_argument(
        "--from", dest="bundle", metavar="BUNDLE", help=tr(t("judge a bundle, not this machine"))
    )
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
        "--bench",
        choices=("off", "quick", "full"),
        default="off",
        help=tr(t("measure the disk: quick takes 2 s, full 8 s (twice that with fio)")),
    )
    checks.add_argument(
        "--cuda-probe",
        action="store_true",
        help=tr(t("import torch in the engine's interpreter and compute on the GPU (seconds)")),
    )
    checks.add_argument(
        "--ask-engine",
        action="store_true",
        help=tr(t("let the engine's own parser read the command line (up to 20 s)")),
    )
    checks.add_argument(
        "--online", action="store_true", help=tr(t("ask the Hub although nothing is to download"))
    )
    checks.add_argument(
        "--timeout", type=_seconds, metavar="S", help=tr(t("limit for each collector, in seconds"))
    )
    output = parser.add_argument_group(tr(t("output")))
    form = output.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help=tr(t("one JSON document on stdout")))
    form.add_argument(
        "--report", action="store_true", help=tr(t("markdown to paste into an issue, redacted"))
    )
    output.add_argument(
        "--raw", metavar="BUNDLE", help=tr(t("also write facts and raw tool outputs to a file"))
    )
    output.add_argument("--strict", action="store_true", help=tr(t("exit 1 on a warning too")))
    output.add_argument("-v", "--verbose", action="store_true", help=tr(t("every line")))
    fixing = parser.add_argument_group(tr(t("repairs")))
    fixing.add_argument(
        "--fix",
        action="store_true",
        help=tr(t("do what is reversible, local and unprivileged; print the rest")),
    )
    fixing.add_argument(
        "--dry-run", action="store_true", help=tr(t("with --fix: only say what would be done"))
    )


def run(args: argparse.Namespace) -> int:
    """Judge the launch and return the exit code."""
    from qwen_tui.cli.doctor_context import build_context, check_arguments
    from qwen_tui.services.paths import Paths
    from qwen_tui_diagnostics.runner import select

    if args.list_checks:
        return _list_checks(args)
    if args.explain is not None:
        return _explain(args.explain)
    check_arguments(args)
    select(args.only, args.skip)
    paths = Paths.default()
    if args.bundle is not None:
        return _show(args, _judge_bundle(args))
    context = build_context(args, paths)
    import asyncio

    report = asyncio.run(_judge_here(args, context))
    code = _show(args, report)
    if args.fix:
        from qwen_tui.cli.doctor_fix import apply_fixes

        apply_fixes(report, paths, dry_run=args.dry_run)
    return code


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


async def _judge_here(args: argparse.Namespace, context: Context) -> Report:
    from qwen_tui import __version__
    from qwen_tui_diagnostics.context import describe
    from qwen_tui_diagnostics.report import header, own_server, with_explanations
    from qwen_tui_diagnostics.result import Report
    from qwen_tui_diagnostics.runner import Run, select

    started, began = time.time(), time.perf_counter()
    if not args.json and not args.report:
        print(header(__version__, context.target.profile, started), flush=True)
        if context.target.simulated:
            print(tr(t("simulated engine: it shows the product and measures nothing")))
        own = own_server(describe(context.target))
        if own is not None:
            print(tr(own), flush=True)
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
    if args.raw is not None:
        _write_bundle(args.raw, run, started)
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


def _judge_bundle(args: argparse.Namespace) -> Report:
    from pathlib import Path

    from qwen_tui import __version__
    from qwen_tui.cli.doctor_context import bundle_target
    from qwen_tui_diagnostics.bundle import read_bundle
    from qwen_tui_diagnostics.context import Context, describe
    from qwen_tui_diagnostics.report import header, with_explanations
    from qwen_tui_diagnostics.result import Report
    from qwen_tui_diagnostics.runner import Run, select

    began = time.perf_counter()
    bundle = read_bundle(Path(args.bundle))
    target = bundle_target(args, bundle.target)
    run = Run(Context(target=target), select(args.only, args.skip))
    run.tree, run.absent = bundle.facts, bundle.absent
    if not args.json and not args.report:
        print(header(__version__, target.profile, bundle.started))
    results = run.judge_all()
    order = {check.id: index for index, check in enumerate(run.checks)}
    results.sort(key=lambda result: order[result.id])
    return Report(
        results=with_explanations(results),
        started=bundle.started,
        duration_ms=(time.perf_counter() - began) * 1000,
        version=__version__,
        target=describe(target),
        facts=run.tree,
        absent={path: absence.as_json() for path, absence in run.absent.items()},
        simulated=target.simulated,
    )


def _write_bundle(name: str, run: Run, started: float) -> None:
    from pathlib import Path

    from qwen_tui import __version__
    from qwen_tui.services.paths import write_private
    from qwen_tui_diagnostics.bundle import dump_bundle
    from qwen_tui_diagnostics.privacy import Identity
    from qwen_tui_profiles.errors import ConfigError

    path = Path(name)
    data = dump_bundle(
        version=__version__,
        started=started,
        target=run.context.target,
        facts=run.tree,
        absent=run.absent,
        raw=run.raw,
        identity=Identity.here(),
    )
    try:
        write_private(path, data)
    except OSError as error:
        raise ConfigError(
            t("Cannot write {path}: {reason}.", path=name, reason=error.strerror or "error"),
            t("Choose a folder that you may write to."),
        ) from error
    print(tr(t("bundle written to {path}", path=name)), file=sys.stderr)


def _show(args: argparse.Namespace, report: Report) -> int:
    from qwen_tui_diagnostics.privacy import Identity
    from qwen_tui_diagnostics.report import dump_json, text_lines

    if args.json:
        print(dump_json(report, Identity.here()))
    elif args.report:
        from qwen_tui_diagnostics.report_markdown import markdown

        print(_printable(markdown(report, Identity.here())), end="")
    else:
        for line in text_lines(report, verbose=args.verbose):
            print(_printable(line))
    return report.exit_code(strict=args.strict)


def _printable(text: str) -> str:
    """Return what the terminal's encoding has; the report has to survive a C locale."""
    encoding = sys.stdout.encoding or "ascii"
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        plain = text.translate({ord("→"): "->", ord("…"): "...", ord("≥"): ">=", ord("×"): "x"})
        return plain.encode(encoding, "replace").decode(encoding)
    return text


def _list_checks(args: argparse.Namespace) -> int:
    from qwen_tui_diagnostics.runner import select

    for check in select(args.only, args.skip):
        print(_printable(f"{check.id:<24}{tr(check.title)}"))
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
    print(tr(t("{what}: {reason}", what=check.id, reason=check.title)))
    print(tr(check.why))
    lines: list[tuple[str, Sequence[str]]] = [
        (tr(t("reads")), (*check.sources, *check.uses)),
        (tr(t("explained by")), check.explained_by),
        (tr(t("evidence")), check.evidence),
    ]
    for title, items in lines:
        if items:
            print(tr(t("{what}: {reason}", what=title, reason=", ".join(items))))
    return 0
