"""Numbers as the console writes them: grouped, with their unit, and a dash when unknown."""

from __future__ import annotations

from qwen_tui.ui.glyphs import glyphs

__all__ = [
    "clock",
    "count",
    "decimal",
    "duration",
    "gib",
    "latency",
    "plain",
    "seconds",
    "share",
    "value",
]

GIB = 1024**3


def plain(text: object | None) -> str:
    """Return ``text``, or the dash for unknown."""
    return glyphs().unknown if text is None else str(text)


def count(number: float | None) -> str:
    """Return a whole number with thousands separators."""
    return glyphs().unknown if number is None else f"{number:,.0f}"


def decimal(number: float | None, digits: int = 2) -> str:
    """Return a number with a fixed count of decimals."""
    return glyphs().unknown if number is None else f"{number:,.{digits}f}"


def share(part: float | None) -> str:
    """Return a share of 0 to 1 as per cent."""
    return glyphs().unknown if part is None else f"{part * 100:.0f} %"


def latency(milliseconds: float | None) -> str:
    """Return a latency with three digits: ``8.4 ms``, ``430 ms``, ``1.20 s``."""
    if milliseconds is None:
        return glyphs().unknown
    if milliseconds < 10:
        return f"{milliseconds:.1f} ms"
    if milliseconds < 1000:
        return f"{milliseconds:.0f} ms"
    return (
        f"{milliseconds / 1000:.2f} s" if milliseconds < 10_000 else f"{milliseconds / 1000:.1f} s"
    )


def seconds(amount: float | None) -> str:
    """Return a short duration: ``0.4 s``, ``12 s``, ``3 min 05 s``."""
    if amount is None:
        return glyphs().unknown
    if amount < 10:
        return f"{amount:.1f} s"
    if amount < 120:
        return f"{amount:.0f} s"
    minutes, rest = divmod(round(amount), 60)
    return f"{minutes} min {rest:02d} s"


def duration(amount: float | None) -> str:
    """Return an uptime as ``0:14:07``, with days in front where there are any."""
    if amount is None:
        return glyphs().unknown
    total = max(0, int(amount))
    days, rest = divmod(total, 86_400)
    hours, rest = divmod(rest, 3600)
    minutes, left = divmod(rest, 60)
    text = f"{hours}:{minutes:02d}:{left:02d}"
    return f"{days} d {text}" if days else text


def clock(unix: float | None) -> str:
    """Return the local time of day of a Unix time."""
    if unix is None:
        return glyphs().unknown
    import time

    return time.strftime("%H:%M:%S", time.localtime(unix))


def gib(size_bytes: float | None, digits: int = 1) -> str:
    """Return a size in GiB, without the unit."""
    return glyphs().unknown if size_bytes is None else f"{size_bytes / GIB:.{digits}f}"


def value(asked: object | None) -> str:
    """Return a flag's value as a person writes it."""
    if asked is None:
        return glyphs().unknown
    if isinstance(asked, bool):
        return "on" if asked else "off"
    if isinstance(asked, int):
        return f"{asked:,}"
    if isinstance(asked, float):
        return f"{asked:,.4g}" if abs(asked) < 1000 else f"{asked:,.0f}"
    return str(asked)
