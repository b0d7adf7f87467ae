"""``qwen-tui history``: earlier boots and swaps; one in detail; two side by side."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING, Any

from qwen_tui.cli.server_text import print_json
from qwen_tui.services.words import boot_state, phase_words, swap_outcome
from qwen_tui_profiles.errors import InputError, UsageError
from qwen_tui_profiles.text import joined, t, tr
from qwen_tui_profiles.wrapping import columns, padded

if TYPE_CHECKING:
    import argparse

    from qwen_tui.services.boot_compare import BootLine
    from qwen_tui.services.history import BootRow, History, SwapRow
    from qwen_tui_profiles.text import Text

SCHEMA = "qwen-tui.history/1"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "runs",
        metavar="RUN",
        nargs="*",
        help=tr(t("number of a run to show; two numbers are compared")),
    )
    parser.add_argument("--profile", metavar="NAME", help=tr(t("only boots of this profile")))
    parser.add_argument("--swaps", action="store_true", help=tr(t("list swaps instead of boots")))
    parser.add_argument(
        "-n", "--limit", type=int, default=20, metavar="N", help=tr(t("how many (default 20)"))
    )
    parser.add_argument("--json", action="store_true", help=tr(t("print one JSON document")))


def run(args: argparse.Namespace) -> int:
    """List, show or compare."""
    from qwen_tui.services.history import History
    from qwen_tui.services.history_mend import mend_history
    from qwen_tui.services.paths import Paths

    if len(args.runs) > 2 or args.limit < 1 or (args.runs and args.swaps):
        raise UsageError(
            t("Give no run, one run, or two runs to compare."), t("qwen-tui history 12 14")
        )
    paths = Paths.default()
    history = History(paths.state / "history.sqlite3")
    mend_history(history, paths)
    if args.runs:
        return _show([_boot(history, name) for name in args.runs], as_json=args.json)
    if args.swaps:
        return _list_swaps(history, args)
    boots = history.boots(profile=args.profile, limit=args.limit)
    _require_usable(history)
    if args.json:
        print_json({"schema": SCHEMA, "boots": [b.as_json() for b in boots]})
        return 0
    for boot in boots:
        print(tr(_boot_line(boot)))
    if not boots:
        print(tr(t("No boot has been recorded yet.")))
    return 0


def _list_swaps(history: History, args: argparse.Namespace) -> int:
    swaps = history.swaps(limit=args.limit)
    _require_usable(history)
    if args.json:
        print_json({"schema": SCHEMA, "swaps": [s.as_json() for s in swaps]})
        return 0
    for swap in swaps:
        print(tr(_swap_line(swap)))
    if not swaps:
        print(tr(t("No swap has been recorded yet.")))
    return 0


def _show(boots: list[BootRow], *, as_json: bool) -> int:
    if as_json:
        document: dict[str, Any] = {"schema": SCHEMA, "boots": [b.as_json() for b in boots]}
        if len(boots) == 2:
            document["differences"] = [
                {"what": line.what, "before": line.before, "after": line.after}
                for line in _differences(*boots)
            ]
        print_json(document)
        return 0
    if len(boots) == 2:
        return _compare(*boots)
    boot = boots[0]
    print(tr(_boot_line(boot)))
    words = [tr(phase_words(str(span.get("phase")))) for span in boot.phases]
    width = max((columns(word) for word in words), default=0)
    for word, span in zip(words, boot.phases, strict=True):
        seconds = _s(span.get("seconds"))
        print(tr(t("  {phase} {seconds} s", phase=padded(word, width), seconds=seconds)))
    for clamp in boot.clamps:
        print(
            tr(
                t(
                    "  ! {arg}: asked {asked}, got {got}",
                    arg=clamp.get("arg"),
                    asked=_n(clamp.get("asked")),
                    got=_n(clamp.get("got")),
                )
            )
        )
    for name, value in boot.facts.items():
        print(f"  {name} = {_n(value)}")
    error = boot.as_json()["prediction_error_pct"]
    if error is not None:
        print(
            tr(
                t(
                    "  KV pool predicted {predicted} tokens, {error:+.2f} % off",
                    predicted=_n(boot.predicted_kv_tokens),
                    error=error,
                )
            )
        )
    if boot.message is not None:
        print(f"  {tr(boot.message)}")
    return 0


def _compare(before: BootRow, after: BootRow) -> int:
    from qwen_tui.services.boot_compare import conditions

    print(tr(_boot_line(before)))
    print(tr(_boot_line(after)))
    same, changed = conditions(before, after)
    print(
        tr(
            t(
                "same: {same}; different: {changed}",
                same=joined(same) or "—",
                changed=joined(changed) or "—",
            )
        )
    )
    for line in _differences(before, after):
        print(f"  {line.what}: {_n(line.before)} → {_n(line.after)}")
    return 0


def _differences(before: BootRow, after: BootRow) -> list[BootLine]:
    """Return what differs: flags, facts, prediction, seconds."""
    from qwen_tui.services.boot_compare import compare_boots

    return [line for line in compare_boots(before, after) if line.differs]


def _boot(history: History, name: str) -> BootRow:
    boot = history.boot(name)
    if boot is None:
        _require_usable(history)
        raise InputError(
            t("There is no run {name} in the history (or several begin like that).", name=name),
            t("List them: qwen-tui history"),
        )
    return boot


def _require_usable(history: History) -> None:
    if history.problem is not None:
        raise InputError(history.problem, t("Its file is {path}.", path=str(history.path)))


def _boot_line(boot: BootRow) -> Text:
    state = boot_state(boot.state)
    how = state if boot.cause is None else t("{state} ({cause})", state=state, cause=boot.cause)
    return t(
        "{number:>6}  {when}  {profile:<22} {engine:<14} ready {ready} s  KV {kv}  {how}",
        number=boot.run.split("-")[0].lstrip("0") or "0",
        when=_when(boot.started),
        profile=boot.profile,
        engine=" ".join(filter(None, (boot.engine, boot.engine_version))),
        ready=_s(boot.ready_s),
        kv=_n(boot.kv_tokens),
        how=how,
    )


def _swap_line(swap: SwapRow) -> Text:
    return t(
        "{when}  {before} → {target}  {outcome}  {seconds} s, {down} s without service "
        "(before: {predicted} s)  held {held}, lost {lost}",
        when=_when(swap.started),
        before=swap.before or "—",
        target=swap.target,
        outcome=swap_outcome(swap.outcome),
        seconds=_s(swap.seconds),
        down=_s(swap.down_s),
        predicted=_s(swap.predicted_s),
        held=_n(swap.held),
        lost=_n(swap.lost),
    )


def _when(unix: float) -> str:
    return datetime.datetime.fromtimestamp(unix).astimezone().strftime("%Y-%m-%d %H:%M")


def _s(seconds: float | None) -> str:
    return "—" if seconds is None else f"{seconds:.1f}"


def _n(value: object) -> str:
    if value is None:
        return "—"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
