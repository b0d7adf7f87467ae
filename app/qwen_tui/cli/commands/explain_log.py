"""``qwen-tui explain-log``: what was asked, what was got, where the memory went, why it died."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from qwen_tui_profiles.errors import InputError, UsageError
from qwen_tui_profiles.text import t, tr

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from qwen_tui_diagnostics.enginelog import LogReader, LogReport

_CHUNK_BYTES = 1 << 20
_POLL_S = 0.3
_UNREAD_SHOWN = 200

_OK, _FAILED, _NOTHING = 0, 1, 2


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("file", metavar="FILE", help=tr(t("an engine log, or - for stdin")))
    parser.add_argument("--json", action="store_true", help=tr(t("one JSON document")))
    parser.add_argument(
        "--boot", type=int, metavar="N", help=tr(t("this boot of the log (default: the last)"))
    )
    parser.add_argument("--boots", action="store_true", help=tr(t("one line for each boot")))
    parser.add_argument(
        "--unread",
        action="store_true",
        help=tr(t("print the engine lines that were not recognised (secrets taken out)")),
    )
    parser.add_argument(
        "-f", "--follow", action="store_true", help=tr(t("go on while the file grows"))
    )


def run(args: argparse.Namespace) -> int:
    """Read the log and print what it says."""
    from qwen_tui_diagnostics.enginelog import LogReader

    if args.boot is not None and args.boot < 1:
        raise UsageError(t("--boot is {boot}; 1 or more was expected.", boot=args.boot))
    reader = LogReader(boot=args.boot)
    if args.follow:
        if args.file == "-" or args.json:
            raise UsageError(
                t("--follow reads a file and prints text."),
                t("For a pipe leave --follow out; for JSON of a running server: qwen-tui watch"),
            )
        return _follow(Path(args.file), reader)
    with _open(args.file) as source:
        while data := source.read(_CHUNK_BYTES):
            reader.feed(data)
    reader.finish()
    report = _chosen(reader, args.boot)
    if args.unread and not args.json:
        for _, line in report.unread[:_UNREAD_SHOWN]:
            print(line)
    elif args.boots:
        _print_boots(reader, as_json=args.json)
    elif args.json:
        document = _document(reader, report)
        if args.unread:
            document["unread"] = [{"line": n, "text": text} for n, text in report.unread]
        print(json.dumps(document, ensure_ascii=False, indent=1))
    else:
        _print_text(reader, report)
    return _code(report)


def _open(name: str) -> BinaryIO:
    if name == "-":
        return sys.stdin.buffer
    try:
        return Path(name).open("rb")
    except OSError as error:
        raise InputError(
            t("{file} cannot be read: {reason}.", file=name, reason=error.strerror or str(error)),
            t("Give the path of an engine log, or - to read a pipe."),
        ) from error


def _chosen(reader: LogReader, boot: int | None) -> LogReport:
    try:
        return reader.report(boot)
    except KeyError as error:
        raise InputError(
            t("The log holds {count} boots; there is no report of boot {boot}.",
              count=reader.boots, boot=boot or 0),
            t("--boots lists those that can be shown."),
        ) from error  # fmt: skip


def _document(reader: LogReader, report: LogReport) -> dict[str, Any]:
    document: dict[str, Any] = report.as_json()
    document["boots"] = reader.boots
    document["replaced_characters"] = reader.replaced
    return document


def _print_boots(reader: LogReader, *, as_json: bool) -> None:
    from qwen_tui_diagnostics.enginelog.text import boots_table

    if as_json:
        rows = [
            {
                "boot": r.boot,
                "first_line": r.first_line,
                "engine": r.engine,
                "ready": r.ready,
                "phase": r.phase,
                "fatal": None if r.fatal is None else r.fatal.kind,
            }
            for r in reader.reports()
        ]
        print(json.dumps({"schema": "qwen-tui.log-boots/1", "boots": rows}, indent=1))
        return
    for line in boots_table(reader.reports()):
        print(line)


def _print_text(reader: LogReader, report: LogReport) -> None:
    from qwen_tui_diagnostics.enginelog.text import report_lines

    if reader.boots > 1:
        print(
            tr(
                t(
                    "The log holds {count} boots; this is boot {boot} (--boots lists them).",
                    count=reader.boots,
                    boot=report.boot,
                )
            )
        )
    for line in report_lines(report):
        print(line)
    if reader.replaced:
        print(
            tr(t("{count} broken characters were replaced.", count=reader.replaced)),
            file=sys.stderr,
        )


def _code(report: LogReport) -> int:
    if report.subject != "engine":
        return _NOTHING
    return _FAILED if report.fatal is not None else _OK


# --- follow ---------------------------------------------------------------------------------


def _follow(path: Path, reader: LogReader) -> int:
    """Tell what changes while the log grows, over restarts and deaths, until Ctrl-C."""
    from qwen_tui_diagnostics.enginelog.text import report_lines, verdict_line

    shown: tuple[object, ...] = ()
    try:
        for grown in _growing(path):
            reader.feed(grown)
            report = reader.report()
            state = (report.boot, report.phase, report.ready, report.fatal is not None,
                     len(report.clamps))  # fmt: skip
            if report.subject == "engine" and state != shown:
                shown = state
                print(tr(verdict_line(report)), flush=True)
                for clamp in report.clamps:
                    print(f"  {clamp.arg}: {clamp.asked} → {clamp.got}", flush=True)
    except KeyboardInterrupt:
        reader.finish()
        print()
        for line in report_lines(reader.report()):
            print(line)
    return _code(reader.report())


def _growing(path: Path) -> Iterator[bytes]:
    """Yield what is appended; begin again when the file is replaced or cut."""
    file = _open(str(path))
    try:
        while True:
            while data := file.read(_CHUNK_BYTES):
                yield data
            here = os.fstat(file.fileno())
            fresh = _replacement(path, here)
            if fresh is not None:
                # Rotated: what was written before the rename is still to come from the old file.
                while data := file.read(_CHUNK_BYTES):
                    yield data
                file.close()
                file = fresh
            elif here.st_size < file.tell():
                file.seek(0)  # truncated in place
            else:
                time.sleep(_POLL_S)
                continue
            yield b"\n"  # the last line of the old contents is complete
    finally:
        file.close()


def _replacement(path: Path, here: os.stat_result) -> BinaryIO | None:
    """Open the file that stands at ``path`` now, if it is another one."""
    try:
        status = path.stat()
        if (status.st_dev, status.st_ino) == (here.st_dev, here.st_ino):
            return None
        return path.open("rb")
    except OSError:
        return None  # moved away, and the new one is not there yet
