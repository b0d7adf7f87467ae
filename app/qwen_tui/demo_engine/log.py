"""The engine's log: SGLang's line prefix on stderr, written through at once."""

from __future__ import annotations

import sys
import time

__all__ = ["emit", "emit_raw", "uvicorn_line"]


def emit(message: str) -> None:
    """Write ``[YYYY-mm-dd HH:MM:SS] message``, the prefix of SGLang's logger."""
    emit_raw(f"[{time.strftime('%Y-%m-%d %H:%M:%S')}] {message}\n")


def emit_raw(text: str | bytes) -> None:
    """Write text without a prefix: continuation lines, progress bars, broken bytes."""
    data = text.encode("utf-8", "replace") if isinstance(text, str) else text
    stream = sys.stderr.buffer
    stream.write(data)
    stream.flush()


def uvicorn_line(message: str) -> None:
    """Write a line of the HTTP server (level padded as uvicorn pads it)."""
    emit(f"INFO:     {message}")
