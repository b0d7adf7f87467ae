"""What the doctor judges on this machine: a target, the user's settings, and our own server.

The command and the console both build their context here, so both judge the same launch.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from qwen_tui.services.engines import configured_interpreters
from qwen_tui.services.state import ServerState
from qwen_tui_diagnostics.context import Context, Target

if TYPE_CHECKING:
    from collections.abc import Mapping

    from qwen_tui.services.paths import Paths
    from qwen_tui.services.records import RunRecord

__all__ = ["doctor_context"]


def doctor_context(
    paths: Paths, target: Target, *, terminal: Mapping[str, Any], **options: Any
) -> Context:
    """Return the context of a run of the doctor.

    Args:
        paths: Where settings, state and caches are.
        target: The launch that is judged; what runs of ours is filled in here.
        terminal: What standard output is connected to.
        options: Further fields of :class:`~qwen_tui_diagnostics.context.Context`.
    """
    record = _running(paths)
    living = () if record is None else _living(record)
    if record is not None and living:
        target = replace(
            target,
            own_pids=living,
            own_profile=record.profile,
            own_port=record.port if record.state is ServerState.RUNNING else None,
        )
    return Context(
        target=target,
        configured=configured_interpreters(paths),
        state_folder=str(paths.state),
        cache_folder=str(paths.cache),
        terminal=terminal,
        **options,
    )


def _running(paths: Paths) -> RunRecord | None:
    """Return the record of the server that we started, while it is not known to have ended."""
    if not paths.runs.is_dir():
        return None
    from qwen_tui.services.runs import RunStore

    record = RunStore(paths).latest()
    if record is None or not record.open or record.kind == "attach":
        return None
    return record


def _living(record: RunRecord) -> tuple[int, ...]:
    from qwen_tui.services.process import alive

    return tuple(sorted(process.pid for process in record.relatives if alive(process)))
