"""``qwen-tui download``: plan, agree, fetch, prove."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qwen_tui_profiles.text import t, tr

if TYPE_CHECKING:
    import argparse

    from qwen_tui.cli.download_view import View
    from qwen_tui.services.download import DownloadRequest, DownloadSession
    from qwen_tui.services.paths import Paths

SCHEMA = "qwen-tui.download/1"
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add = parser.add_argument
    add("repo", nargs="?", metavar="REPO", help=tr(t("organisation/name on the Hub")))
    add("--revision", metavar="REV", help=tr(t("branch, tag or commit (main)")))
    add("--dest", metavar="DIR", help=tr(t("folder for the files (the Hub's cache)")))
    add("--endpoint", metavar="URL", help=tr(t("mirror, instead of HF_ENDPOINT")))
    add(
        "--include",
        metavar="GLOB",
        action="append",
        default=[],
        help=tr(t("only paths that match; may be repeated")),
    )
    add(
        "--exclude",
        metavar="GLOB",
        action="append",
        default=[],
        help=tr(t("no paths that match; may be repeated")),
    )
    add(
        "--for",
        dest="profile",
        metavar="PROFILE",
        help=tr(t("leave out weights that this profile does not load")),
    )
    add("--workers", metavar="N", type=int, default=4, help=tr(t("files at a time (4)")))
    add("--limit-rate", metavar="SPEED", help=tr(t("bytes a second in all: 20M, 500k")))
    add("--yes", "-y", action="store_true", help=tr(t("agree to the plan")))
    add("--dry-run", action="store_true", help=tr(t("show the plan and stop")))
    add("--json", action="store_true", help=tr(t("print events as JSON lines")))


def run(args: argparse.Namespace) -> int:
    """Plan, agree, fetch and prove."""
    from qwen_tui.services.download.prepare import prepare
    from qwen_tui.services.paths import Paths

    paths = Paths.default()
    profile = None
    if args.profile is not None:
        from qwen_tui_profiles.loader import load_profiles

        profile = load_profiles(paths.profiles).get(args.profile)
    request = prepare(
        paths,
        repo=args.repo,
        profile=profile,
        environment=os.environ,
        revision=args.revision,
        dest=args.dest,
        endpoint=args.endpoint,
        include=args.include,
        exclude=args.exclude,
        workers=args.workers,
        limit_rate=args.limit_rate,
    )
    return asyncio.run(_Download(args, paths, request).run())


class _Download:
    """One run of the command."""

    def __init__(self, args: argparse.Namespace, paths: Paths, request: DownloadRequest) -> None:
        from qwen_tui.cli.download_view import make_view

        self._args = args
        self._paths = paths
        self._request = request
        self._view: View = make_view(as_json=args.json, schema=SCHEMA)
        self._interrupts = 0
        self._stopped = asyncio.Event()
        self._plan: dict[str, Any] = {}

    async def run(self) -> int:
        from qwen_tui.cli import EXIT_INTERRUPTED, EXIT_OK
        from qwen_tui.services.download import DownloadSession
        from qwen_tui_profiles.errors import DownloadError

        try:
            async with DownloadSession(self._request) as session:
                self._catch_signals(session)
                try:
                    with self._view:
                        result = await self._follow(session)
                finally:
                    # What comes next is short; Ctrl-C may simply end it.
                    self._release_signals()
        except DownloadError as error:
            # Whatever a worker says that was told to stop, it was stopped.
            if self._interrupts:
                return EXIT_INTERRUPTED
            self._view.failed(session.failure or {}, error)
            raise
        if result is None:
            return EXIT_OK if self._args.dry_run else EXIT_INTERRUPTED
        return await self._end(result)

    async def _follow(self, session: DownloadSession) -> dict[str, Any] | None:
        """Show the events; return the result, or None when the plan was not agreed to."""
        result: dict[str, Any] | None = None
        async for event in session.events():
            if event["event"] == "result":
                result = event
                continue
            self._view.show(event)
            if event["event"] == "plan":
                self._plan = event
                if not await self._agreed(session):
                    return None
        return result

    async def _agreed(self, session: DownloadSession) -> bool:
        """Tell the worker to start; False when the user does not want that."""
        if self._args.dry_run:
            return False
        nothing = not any(f["state"] != "here" for f in self._plan["files"])
        if self._args.yes or nothing or await _ask(self._stopped):
            session.start()
            return True
        return False

    async def _end(self, result: dict[str, Any]) -> int:
        from qwen_tui.cli import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_OK
        from qwen_tui.services.download.prepare import remember_speed

        if result["status"] == "complete":
            remember_speed(self._paths, result, self._plan["endpoint"])
            result["verify"] = await asyncio.to_thread(self._judge, Path(result["folder"]))
        self._view.end(result, self._plan)
        if result["status"] == "cancelled":
            return EXIT_INTERRUPTED
        verdict = (result.get("verify") or {}).get("verdict")
        return EXIT_FAILED if result["status"] == "failed" or verdict == "error" else EXIT_OK

    def _catch_signals(self, session: DownloadSession) -> None:
        def interrupt() -> None:
            self._interrupts += 1
            self._stopped.set()
            if self._interrupts == 1:
                self._view.stopping()
                session.cancel()
            else:
                session.kill()

        loop = asyncio.get_running_loop()
        for number in _SIGNALS:
            loop.add_signal_handler(number, interrupt)

    def _release_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in _SIGNALS:
            loop.remove_signal_handler(number)

    def _judge(self, folder: Path) -> dict[str, Any] | None:
        from qwen_tui.services.download.aftermath import judge
        from qwen_tui_profiles.errors import QwenTuiError

        try:
            return judge(folder, self._request, self._plan)
        except QwenTuiError as error:
            return {"verdict": "unknown", "problem": str(error.message)}


async def _ask(stopped: asyncio.Event) -> bool:
    """Ask on the terminal; an interruption is a no.

    Raises:
        UsageError: There is no terminal to ask on.
    """
    from qwen_tui_profiles.errors import UsageError

    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError(
            t("There is no terminal to ask on, and --yes is not given."),
            t("Add --yes to fetch what the plan says, or --dry-run to see it only."),
        )
    print(tr(t("Fetch? [Y/n] ")), end="", file=sys.stderr, flush=True)
    # Not in a thread: a thread that waits for a line cannot be told that nobody will type one.
    loop = asyncio.get_running_loop()
    typed = asyncio.Event()
    descriptor = sys.stdin.fileno()
    loop.add_reader(descriptor, typed.set)
    waits = [asyncio.create_task(event.wait()) for event in (typed, stopped)]
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        loop.remove_reader(descriptor)
        for wait in waits:
            wait.cancel()
    if stopped.is_set():
        return False
    answer = os.read(descriptor, 1024).decode("utf-8", "replace")
    return answer.strip().lower() in {"", "y", "yes", "j"} and answer != ""
