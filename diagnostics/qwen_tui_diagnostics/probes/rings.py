"""May this process make an io_uring of the launch's depth, and if not, who refuses?"""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

from qwen_tui_diagnostics.diskio.uring import setup_errno
from qwen_tui_diagnostics.probes.files import read_text

if TYPE_CHECKING:
    from qwen_tui_diagnostics.context import Context
    from qwen_tui_diagnostics.facts import Gathered

__all__ = ["collect"]

_SMALL_DEPTH = 8


def collect(context: Context, found: Gathered) -> None:
    """Gather ``rings.*``: tried, not computed, because kernels charge the ring differently."""
    depth = context.target.io_depth
    found.put("rings.depth", depth)
    error = setup_errno(depth)
    found.put("rings.errno", error)
    if error:
        found.put("rings.error", errno.errorcode.get(error, str(error)))
        found.put("rings.small_errno", setup_errno(_SMALL_DEPTH))
    for name, path in (
        ("sysctl", "proc/sys/kernel/io_uring_disabled"),
        ("aio_used", "proc/sys/fs/aio-nr"),
        ("aio_limit", "proc/sys/fs/aio-max-nr"),
    ):
        with found.attempt(f"rings.{name}"):
            found.put(f"rings.{name}", int(read_text(context.path(path))))
