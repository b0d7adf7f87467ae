"""What state is the server in? One pure function over the record and what was observed now."""

from __future__ import annotations

import signal
from dataclasses import dataclass
from typing import TYPE_CHECKING

from qwen_tui.services.runs import Ending
from qwen_tui.services.state import ServerState
from qwen_tui_profiles.text import t

if TYPE_CHECKING:
    from qwen_tui.services.runs import RunRecord
    from qwen_tui_diagnostics.enginelog import LogReport
    from qwen_tui_profiles.text import Text

__all__ = ["Observed", "Verdict", "judge"]

_S = ServerState
_RUNTIME_REFUSED = 125
"""Exit code of ``docker run`` and ``podman run`` when the runtime itself failed."""
_SIGNALLED = 128
"""They add this to the number of the signal that ended the container's main process."""


@dataclass(frozen=True, slots=True)
class Observed:
    """What the machine says now about one run."""

    at: float
    """Unix time."""
    alive: bool
    """Whether the main process runs (for attached servers: unused)."""
    same_boot: bool = True
    launching: bool = False
    """The process that launches it still works on it."""
    exit_code: int | None = None
    report: LogReport | None = None
    answers: bool | None = None
    """Whether it answers HTTP; ``None`` = not asked."""
    last_line: str | None = None
    """Last line of its output, cleaned; ``None`` = none, or it lives."""
    log_disk_free_bytes: int | None = None
    """Room left where its log is; ``None`` = not known, or it lives."""


_FULL_BYTES = 256 * 1024
"""Less than a log line and a record need; file systems keep a few blocks even when full."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The state, and the ending when the run has just ended."""

    state: ServerState
    message: Text | None = None
    ending: Ending | None = None


def judge(record: RunRecord, seen: Observed) -> Verdict:
    """Derive the state of a run."""
    if not record.open:
        return Verdict(record.state, _recorded(record))
    if record.kind == "attach":
        if seen.answers is False:
            return Verdict(_S.UNREACHABLE, t("{url} does not answer.", url=record.url))
        return Verdict(_S.RUNNING)
    if not seen.same_boot:
        return _end(_S.EXITED, seen, "rebooted", t("The machine was restarted since the launch."))
    if record.main is None:
        if seen.launching:
            return Verdict(_S.STARTING)
        return _end(
            _S.EXITED,
            seen,
            "gone",
            t("The launch was broken off before the engine was started; nothing runs."),
        )
    if seen.alive:
        return _living(record, seen)
    return _dead(record, seen)


def _living(record: RunRecord, seen: Observed) -> Verdict:
    if record.stop_asked is not None:
        return Verdict(
            _S.STOPPING,
            t("A stop was asked for {seconds:.0f} s ago.", seconds=seen.at - record.stop_asked),
        )
    if record.ready_at is None:
        return Verdict(_S.STARTING)
    if seen.answers is False:
        return Verdict(
            _S.UNREACHABLE,
            t(
                "Process {pid} runs, but {url} does not answer.",
                pid=record.pid,
                url=record.url,
            ),
        )
    fatal = None if seen.report is None else seen.report.fatal
    if fatal is not None:
        # SGLang takes seconds from the exception to its end. Whether it ends is for it to show.
        return Verdict(_S.RUNNING, t("Its log announces its death: {cause}", cause=fatal.summary))
    return Verdict(_S.RUNNING)


def _dead(record: RunRecord, seen: Observed) -> Verdict:
    code = seen.exit_code
    if record.stop_asked is not None:
        # Any exit code: SGLang up to 0.5.19 kills itself with SIGKILL at the end of a good stop.
        return _end(_S.STOPPED, seen, "ended", t("Stopped, as asked."))
    fatal = None if seen.report is None else seen.report.fatal
    if fatal is not None:
        return _end(_S.FATAL, seen, "died", fatal.summary, fatal.remedy)
    phase = None if seen.report is None else seen.report.phase
    if phase == "stopping" or (code == 0 and record.ready_at is not None):
        return _end(
            _S.EXITED, seen, "exited", t("The engine ended by itself or by someone else's signal.")
        )
    return _end(_S.FATAL, seen, "died", *_wordless(record, seen, phase))


def _wordless(record: RunRecord, seen: Observed, phase: str | None) -> tuple[Text, Text | None]:
    """Words for a death that the log does not explain."""
    code = seen.exit_code
    if record.kind == "container" and code == _RUNTIME_REFUSED:
        return (
            t("The container runtime refused to start it: {line}", line=seen.last_line or "—"),
            t("Check the image, the options and the daemon: qwen-tui logs."),
        )
    if code is not None and record.kind == "container" and code > _SIGNALLED:
        code = _SIGNALLED - code  # what Popen would have said without the runtime in between
    where = t("while serving") if record.ready_at is not None else t("during the boot")
    if phase is not None and record.ready_at is None:
        where = t("during the boot (phase {phase})", phase=phase)
    free = seen.log_disk_free_bytes
    if free is not None and free < _FULL_BYTES:
        return (
            t("The disk of its log is full, so the log ends early; it died {where}.", where=where),
            t("Make room on that disk, then launch it again."),
        )
    oom = t("If the kernel killed it for lack of memory, `dmesg -T | grep -i oom` shows it.")
    log = t("Read the end of its log: qwen-tui logs.")
    if code is None:
        return t("The engine is gone, {where}, and its log does not say why.", where=where), oom
    if code == -signal.SIGKILL:
        return t("The engine was killed (SIGKILL) from outside, {where}.", where=where), oom
    if code < 0:
        name = signal.Signals(-code).name if -code in set(signal.Signals) else str(-code)
        return t("The engine ended by signal {name}, {where}.", name=name, where=where), log
    if seen.last_line is None:
        return t("The engine ended with exit code {code}, {where}.", code=code, where=where), log
    return (
        t(
            "The engine ended with exit code {code}, {where}; its last line: {line}",
            code=code,
            where=where,
            line=seen.last_line,
        ),
        log,
    )


def _end(
    state: ServerState, seen: Observed, how: str, message: Text, remedy: Text | None = None
) -> Verdict:
    fatal = None if seen.report is None else seen.report.fatal
    ending = Ending.of(
        at=seen.at,
        exit_code=seen.exit_code,
        how=how,
        message=message,
        remedy=remedy,
        cause=None if fatal is None or state is not _S.FATAL else fatal.as_json(),
    )
    return Verdict(state, message, ending)


def _recorded(record: RunRecord) -> Text | None:
    return None if record.ending is None else record.ending.told
