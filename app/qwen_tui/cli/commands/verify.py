"""``qwen-tui verify``: is this checkpoint what it says it is, and will the engine read it so."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

from qwen_tui_profiles.text import t, tr

if TYPE_CHECKING:
    import argparse

    from qwen_tui.services.verify import HashProgress

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what is judged, and for what."""
    parser.add_argument(
        "path",
        metavar="DIR|REPO",
        help=tr(t("checkpoint folder, or org/name: a repository, read through its headers alone")),
    )
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
    parser.add_argument(
        "--hash",
        action="store_true",
        help=tr(t("compare the content with the hashes that the download recorded")),
    )
    parser.add_argument(
        "--sample",
        action="store_true",
        help=tr(t("read a few kilobytes of every quantized tensor")),
    )
    parser.add_argument(
        "--manifest",
        choices=("write", "check"),
        help=tr(t("write checksums.json into the folder, or compare with it")),
    )
    parser.add_argument(
        "--workers", type=int, metavar="N", help=tr(t("files hashed at the same time"))
    )
    parser.add_argument(
        "--drop-cache",
        action="store_true",
        help=tr(t("keep the page cache clean while hashing (default: leave it warm)")),
    )
    parser.add_argument(
        "--revision", default="main", metavar="REV", help=tr(t("branch, tag or commit of a REPO"))
    )
    parser.add_argument("--endpoint", metavar="URL", help=tr(t("mirror of the Hub for a REPO")))
    parser.add_argument("--json", action="store_true", help=tr(t("one JSON document")))
    parser.add_argument(
        "--strict", action="store_true", help=tr(t("warnings count as failures, too"))
    )


def run(args: argparse.Namespace) -> int:
    """Judge and return 0, 1 on errors (with ``--strict`` on warnings), 2 when not known."""
    from qwen_tui.cli.verify_text import report_lines
    from qwen_tui.services.paths import Paths
    from qwen_tui.services.verify import (
        HashProgress,
        VerifyOptions,
        verify_checkpoint,
        write_manifest,
    )
    from qwen_tui_diagnostics.checkpoint.report import Verdict

    paths = Paths.default()
    progress = HashProgress(_show) if sys.stderr.isatty() else None
    if args.manifest == "write":
        target, count = write_manifest(args.path, paths, progress=progress, workers=args.workers)
        _clear(progress)
        line = tr(t("{path}: {count} files", path=str(target), count=count))
        print(line, file=sys.stderr)
    report = verify_checkpoint(
        VerifyOptions(
            path=args.path,
            engine=args.engine,
            speculative=args.speculative,
            language_only=args.language_only,
            quantization=args.quantization,
            hash=args.hash,
            sample=args.sample,
            manifest=args.manifest == "check",
            workers=args.workers,
            drop_cache=args.drop_cache,
            revision=args.revision,
            endpoint=args.endpoint,
        ),
        paths,
        progress=progress,
    )
    _clear(progress)
    if args.json:
        print(json.dumps(report.as_json(), indent=2, ensure_ascii=False))
    else:
        for line in report_lines(report):
            print(line)
    if report.verdict is Verdict.UNKNOWN:
        return 2
    failed = report.verdict is Verdict.ERROR or (args.strict and report.verdict is Verdict.WARN)
    return 1 if failed else 0


def _show(progress: HashProgress) -> None:
    left = progress.left_s
    line = tr(
        t(
            "hashing {done} of {total} GB, {speed} GB/s, {left} left",
            done=f"{progress.done_bytes / 1e9:.1f}",
            total=f"{progress.total_bytes / 1e9:.1f}",
            speed=f"{progress.bytes_s / 1e9:.2f}",
            left="—" if left is None else f"{left:.0f} s",
        )
    )
    print(f"\r\x1b[K{line}", end="", file=sys.stderr, flush=True)


def _clear(progress: HashProgress | None) -> None:
    if progress is not None and progress.total_bytes:
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)
