"""The standard streams as a command needs them: there, and not able to break off its work.

A swap that is told to a pipe (``2>&1 | head``), to a full disk or to a terminal that went away must
go on to its end all the same: it has stopped a server. So narration that cannot be written is let
go. What is written to standard output is a result: there a reader that went away ends the command.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

__all__ = ["ForgivingFile", "mend_streams", "silence", "silence_output"]

_STDERR = 2


class ForgivingFile(io.FileIO):
    """A file whose writes never fail: once one did, it and the later ones go nowhere."""

    def write(self, data: ReadableBuffer, /) -> int:
        """Write, or let go."""
        written: int | None
        try:
            written = super().write(data)
        except OSError:
            silence(self.fileno())
            written = None
        # None also comes of a pipe that does not block and whose reader is slow.
        return memoryview(data).nbytes if written is None else written


def silence(descriptor: int) -> None:
    """Send what is written to a file descriptor nowhere from here on."""
    with contextlib.suppress(OSError):
        nowhere = os.open(os.devnull, os.O_RDWR)
        os.dup2(nowhere, descriptor)
        os.close(nowhere)


def silence_output() -> None:
    """Send standard output nowhere: its reader or its room is gone."""
    with contextlib.suppress(OSError, ValueError):  # a stream without a number, in tests
        silence(sys.stdout.fileno())


def mend_streams() -> None:
    """Make sure that there are three standard streams, and that narration cannot fail.

    A stream that was closed (``2>&-``) is opened on nothing. Else the next file that is opened
    would get its number, and ``print`` would put narration on standard output, among the JSON.
    """
    for descriptor in (0, 1, _STDERR):
        try:
            os.fstat(descriptor)
        except OSError:
            with contextlib.suppress(OSError):  # gets the lowest number that is free: this one
                os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
    if sys.stdin is None:
        sys.stdin = open(os.devnull, encoding="utf-8")  # noqa: PTH123, SIM115 - lives as long as we
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115
    # Not a stream that a test or an embedding program has put there. The console keeps the real
    # one: Textual draws on `sys.__stderr__`.
    if sys.stderr is None or sys.stderr is sys.__stderr__:
        real = sys.stderr
        raw = ForgivingFile(_STDERR, "w", closefd=False)
        sys.stderr = io.TextIOWrapper(
            io.BufferedWriter(raw),
            encoding="utf-8" if real is None else real.encoding,
            errors="backslashreplace",
            line_buffering=True,
        )
