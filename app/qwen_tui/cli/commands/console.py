"""``qwen-tui`` without a command: the console."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import sys
from typing import TYPE_CHECKING

from qwen_tui_profiles.errors import UsageError
from qwen_tui_profiles.text import t, tr

if TYPE_CHECKING:
    import argparse

_M_ARENA_MAX = -8
"""glibc's malloc.h."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the bare command."""
    parser.add_argument(
        "--ascii", action="store_true", help=tr(t("console: draw without box and block glyphs"))
    )
    parser.add_argument(
        "--read-only",
        action="store_true",
        help=tr(t("console: watch only, start and stop nothing")),
    )


def run(args: argparse.Namespace) -> int:
    """Open the console; the server goes on when it closes.

    Raises:
        UsageError: standard output or input is not a terminal.
    """
    if not in_browser():
        require_terminal()
    use_one_heap()
    from qwen_tui.services.console_real import RealConsole
    from qwen_tui.services.paths import Paths
    from qwen_tui.ui.app import ConsoleApp

    # What is loaded by the first paint stays for good. A full garbage collection would look at all
    # of it again and again, and hold the loop for 60 ms each time.
    app = ConsoleApp(
        RealConsole(Paths.default()), read_only=args.read_only, after_first_paint=gc.freeze
    )
    term = "" if in_browser() else os.environ.get("TERM", "")
    app.choose_marks(ascii_asked=args.ascii, term=term)
    app.run()
    if app.crash is not None:
        raise app.crash
    return app.return_code or 0


def use_one_heap() -> None:
    """Keep glibc from giving every thread a heap of its own: 2 MB less in memory (measured)."""
    with contextlib.suppress(OSError, AttributeError):  # not glibc: nothing to set
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 1)


def in_browser() -> bool:
    """Tell whether ``qwen-tui web`` draws this console: its pipes are no terminal."""
    return os.environ.get("TEXTUAL_DRIVER", "").endswith(":WebDriver")


def require_terminal() -> None:
    """Refuse to paint into a pipe or a file, or onto a terminal that cannot be painted."""
    for stream, name in ((sys.stdout, t("standard output")), (sys.stdin, t("standard input"))):
        if not stream.isatty():
            raise UsageError(
                t("The console needs a terminal, and {stream} is not one.", stream=name),
                t("Use a command instead, for example: qwen-tui status"),
            )
    if os.environ.get("TERM", "") in {"", "dumb"}:
        raise UsageError(
            t(
                "The terminal says TERM={term}; the console cannot draw there.",
                term=os.environ.get("TERM") or "(not set)",
            ),
            t("Set TERM to what your terminal is (xterm-256color), or use qwen-tui status."),
        )
