"""The command line: a table of commands, each a module that is imported only when it is used."""

from __future__ import annotations

import argparse
import errno
import importlib
import os
import sys
from typing import TYPE_CHECKING, Protocol, cast

from qwen_tui import __version__
from qwen_tui.cli.registry import COMMANDS
from qwen_tui.cli.streams import mend_streams, silence_output
from qwen_tui_profiles.errors import QwenTuiError
from qwen_tui_profiles.text import language, set_language, t, tr

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["EXIT_FAILED", "EXIT_INTERRUPTED", "EXIT_OK", "EXIT_USAGE", "main"]

EXIT_OK = 0
EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130
EXIT_NO_READER = 141
"""Standard output went away before the command was done (128 + SIGPIPE, as of any other program).
Not 0: a doctor that was cut short has not found the machine in order."""
_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


class Command(Protocol):
    """What a module in ``qwen_tui.cli.commands`` provides."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the command's arguments."""
        ...

    def run(self, args: argparse.Namespace) -> int:
        """Do it and return the exit code (design §3)."""
        ...


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code; the console when no command is named."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    mend_streams()
    try:
        _choose_language()
        return _dispatch(arguments)
    except QwenTuiError as error:
        print_error(error)
        return error.exit_code
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # The reader went away (`| head`): silence, and no complaint from the interpreter's exit.
        silence_output()
        return EXIT_NO_READER
    except Exception as error:  # noqa: BLE001 - the last edge: a file and a sentence, no traceback
        if isinstance(error, OSError) and error.errno in _NO_ROOM:
            silence_output()
            print_error(_no_room(error))
            return EXIT_FAILED
        from qwen_tui.services.crash import as_user_error

        print_error(as_user_error(error, version=__version__))
        return EXIT_FAILED


def print_error(error: QwenTuiError) -> None:
    """Print an error of ours on stderr: what was observed, then what to do."""
    print(f"qwen-tui: {tr(error.message)}", file=sys.stderr)
    if error.remedy is not None:
        print(f"  → {tr(error.remedy)}", file=sys.stderr)


def _no_room(error: OSError) -> QwenTuiError:
    """Return what is said of a full disk: where the output goes, or under our own folders."""
    from qwen_tui.services.paths import Paths

    return QwenTuiError(
        t("A file or the output cannot be written: {reason}.", reason=error.strerror or ""),
        t(
            "Make room where the output goes and in {path}, then repeat the command.",
            path=str(error.filename or Paths.default().state),
        ),
    )


def _choose_language() -> None:
    """Speak the user's language from here on, the help included."""
    from qwen_tui.services.language import preferred_language, remembered_language
    from qwen_tui.services.paths import Paths

    tag = preferred_language(os.environ, lambda: remembered_language(Paths.default()))
    if tag != language() and set_language(tag) and tag != "en":
        from qwen_tui.cli.argparse_words import speak

        speak()


def _dispatch(arguments: list[str]) -> int:
    parser = _parser(arguments)
    args = parser.parse_args(arguments)
    name = cast("str | None", args.command)
    module = _load("console" if name is None else name)
    code = module.run(args)
    sys.stdout.flush()
    return code


def _parser(arguments: Sequence[str]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="qwen-tui",
        description=tr(
            t(
                "Control panel and doctor for Qwen3.8 on your own GPU. "
                "Without a command it opens the console."
            )
        ),
    )
    parser.add_argument(
        "--version",
        action="version",
        version=f"qwen-tui {__version__}",
        help=tr(t("show program's version number and exit")),
    )
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    # Only the command that is named gets its module imported and its arguments declared.
    named = next((a for a in arguments if not a.startswith("-")), None)
    if named is None:
        _load("console").add_arguments(parser)
    for name, (_, summary) in COMMANDS.items():
        sub = commands.add_parser(name, help=tr(summary), description=tr(summary))
        if name == named:
            _load(name).add_arguments(sub)
    return parser


def _load(name: str) -> Command:
    module_name = "console" if name == "console" else COMMANDS[name][0]
    return cast("Command", importlib.import_module(f"qwen_tui.cli.commands.{module_name}"))
