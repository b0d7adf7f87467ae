"""Writes into the history what could not be written when it happened.

A history that was locked by another program, damaged, or on a full disk stops no launch and no
stop, so it may have missed one. The run records know: they are written apart from it.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from qwen_tui.services.bootlog import BootLog
from qwen_tui.services.runs import KEPT_RUNS, RunStore
from qwen_tui.services.state import ENDED
from qwen_tui_profiles.errors import ConfigError

if TYPE_CHECKING:
    from qwen_tui.services.history import History
    from qwen_tui.services.paths import Paths
    from qwen_tui.services.records import RunRecord

__all__ = ["mend_history"]

_LOG_BYTES = 4 << 20
"""Of each log that is read again; a boot prints 60 to 150 KB."""


def mend_history(history: History, paths: Paths) -> int:
    """Write the boots that ended and of which the history does not say so; returns how many.

    Cheap when there is nothing to mend: the kept records are read and no log is. Raises nothing:
    a folder that cannot be read mends nothing.
    """
    known = {row.run: row.state for row in history.boots(limit=4 * KEPT_RUNS)}
    if history.problem is not None:
        return 0
    store = RunStore(paths)
    mended = 0
    try:
        runs = store.ids()
    except ConfigError:
        return 0
    for run in runs:
        if known.get(run) in ENDED:
            continue
        record = store.load(run)
        if record is None or record.open or not record.profile or record.kind == "attach":
            continue
        if not _write(history, record):
            break
        mended += 1
    return mended


def _write(history: History, record: RunRecord) -> bool:
    report = None
    if record.log_path is not None:
        log = BootLog(Path(record.log_path), record.asked, archived_lines=record.archived_lines)
        log.advance(_LOG_BYTES)
        report = log.report
    return history.note_boot(record, report)
