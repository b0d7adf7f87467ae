"""Moments as JSON documents spell them."""

from __future__ import annotations

import datetime

__all__ = ["instant"]


def instant(unix: float | None) -> str | None:
    """Return a Unix time as UTC ISO 8601 with seconds."""
    if unix is None:
        return None
    moment = datetime.datetime.fromtimestamp(unix, datetime.UTC)
    return moment.isoformat(timespec="seconds").replace("+00:00", "Z")
