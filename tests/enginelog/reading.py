"""Helpers of the log-reader tests."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from qwen_tui_diagnostics.enginelog import LogReader

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qwen_tui_diagnostics.enginelog import LogReport

DATA = Path(__file__).with_name("data")

__all__ = ["DATA", "adjusted", "clamps", "load", "read", "read_text"]


def load(name: str) -> bytes:
    return (DATA / name).read_bytes()


def read(data: bytes, argv: Sequence[str] | None = None, chunk: int | None = None) -> LogReport:
    reader = LogReader(argv)
    step = chunk or max(len(data), 1)
    for start in range(0, len(data), step):
        reader.feed(data[start : start + step])
    reader.finish()
    return reader.report()


def read_text(text: str, argv: Sequence[str] | None = None) -> LogReport:
    return read(text.encode(), argv)


def clamps(report: LogReport) -> list[tuple[str, Any, Any]]:
    return [(c.arg, c.asked, c.got) for c in report.clamps]


def adjusted(report: LogReport) -> dict[str, tuple[Any, Any]]:
    return {c.arg: (c.asked, c.got) for c in report.adjustments}
