"""The doctor's table: every check as a row, in the order of the report."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qwen_tui_diagnostics.checks import cuda, disk, driver, engine, gpu, hub, model, net, system
from qwen_tui_diagnostics.groups import GROUPS

if TYPE_CHECKING:
    from qwen_tui_diagnostics.check import Check

__all__ = ["CHECKS", "GROUPS", "check_called"]

CHECKS: tuple[Check, ...] = (
    *driver.CHECKS,
    *gpu.CHECKS,
    *cuda.CHECKS,
    *system.CHECKS,
    *disk.CHECKS,
    *model.CHECKS,
    *engine.CHECKS,
    *net.CHECKS,
    *hub.CHECKS,
)


def check_called(check_id: str) -> Check | None:
    """Return the check of this id, or ``None``."""
    return next((check for check in CHECKS if check.id == check_id), None)
