"""Run records: what was launched, as which process, and how it went. One folder per run.

``state/runs/<id>/`` holds

- ``launch.json``: the record as it was *before* the process was started; never written again,
- ``run.json``: the same record as it is now, replaced atomically,
- ``engine.log``: everything that the engine printed.

The id of the run is also in the environment of the process. So neither a console that is killed
between fork and record nor a damaged ``run.json`` can lose a server: it is found again by that
value (see :meth:`RunStore.load`). All files are 0600, folders 0700; secrets never enter a record.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import itertools
import json
import os
import secrets
import shutil
import time
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from qwen_tui.services.lock import holder_of, open_lock, sign, try_lock
from qwen_tui.services.lost_runs import LostRuns
from qwen_tui.services.paths import write_private
from qwen_tui.services.process import (
    ProcessId,
    boot_id,
    find_run,
    identify,
    seconds_since_boot,
)
from qwen_tui.services.records import Ending, RunRecord
from qwen_tui.services.state import IllegalStepError, ServerState
from qwen_tui_profiles.errors import ConfigError, LaunchError
from qwen_tui_profiles.foreign import redact_argv
from qwen_tui_profiles.text import t

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from qwen_tui.services.paths import Paths
    from qwen_tui_profiles.text import Text

__all__ = ["Ending", "RunRecord", "RunStore"]

SCHEMA = "qwen-tui.run/1"
KEPT_RUNS = 30
"""Records and logs kept; the history keeps more."""
ROOM_BYTES = 2 * 1024 * 1024
"""Records and boot logs of two runs, the next one and the way back (a boot prints 60 to 150 KB)."""
_NO_FALLOCATE = frozenset({errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL})
LEASE_WAIT_S = 2.0
"""How long to wait for somebody else's short piece of work."""


class RunStore:
    """Reads and writes run records, and lends the right to act on the server."""

    def __init__(self, paths: Paths) -> None:
        self._paths = paths
        self._unsaved: dict[str, RunRecord] = {}
        """What this process knows and could not write: a full disk must not make it forget."""
        self._lost = LostRuns(paths.runs)

    @property
    def folder(self) -> Path:
        """The folder of all runs."""
        return self._paths.runs

    @contextlib.asynccontextmanager
    async def lease(self, purpose: Text, *, wait_s: float | None = None) -> AsyncIterator[None]:
        """Hold the right to change what runs. One process at a time; the kernel frees it.

        Raises:
            LaunchError: another process of ours holds it.
            ConfigError: the state folder cannot be written.
        """
        folder = self._paths.make(self._paths.state)
        try:
            handle = open_lock(folder / "control.lock")
        except OSError as error:
            raise _unwritable(folder, error) from error
        try:
            end = time.monotonic() + (LEASE_WAIT_S if wait_s is None else wait_s)
            while not try_lock(handle):
                if time.monotonic() >= end:
                    raise LaunchError(
                        t(
                            "Another qwen-tui is at work on the server ({holder}).",
                            holder=holder_of(handle),
                        ),
                        t("Wait until it is done, or end it there."),
                    )
                await asyncio.sleep(0.05)
            with contextlib.suppress(OSError):  # a full disk: only the name of the holder is lost
                sign(handle, purpose)
            yield
        finally:
            os.close(handle)

    def busy(self) -> bool:
        """Tell whether somebody holds the right to act now."""
        try:
            handle = os.open(self._paths.state / "control.lock", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return False
        try:
            return not try_lock(handle)
        finally:
            os.close(handle)

    def discard(self, record: RunRecord) -> None:
        """Remove a run that never started."""
        shutil.rmtree(self.folder / record.id, ignore_errors=True)

    def new_id(self) -> str:
        """Return an id for the next run: sorts after all others, whatever the clock says."""
        last = max((int(i.split("-")[0]) for i in self.ids()), default=0)
        stamp = time.strftime("%Y%m%dT%H%M%S", time.gmtime())
        return f"{last + 1:06d}-{stamp}-{secrets.token_hex(3)}"

    def ids(self) -> list[str]:
        """Return the ids of all runs, oldest first.

        With those whose folder was deleted while their server runs: it still works there.
        """
        try:
            names = set(os.listdir(self.folder))  # noqa: PTH208 - names are all that is needed
        except FileNotFoundError:
            names = set()
        except OSError as error:
            raise _unwritable(self.folder, error) from error
        return sorted(n for n in self._lost.beside(names) if n.split("-")[0].isdigit())

    def begin(self, record: RunRecord, *, log: bool = True) -> RunRecord:
        """Write the intent of a launch. Nothing is started when this fails.

        Args:
            record: The run as it is before anything is started.
            log: Whether it will write a log into its folder.

        Raises:
            ConfigError: the record cannot be written (read-only folder, full disk).
        """
        folder = self._paths.make(self._paths.make(self.folder) / record.id)
        if log:
            record = replace(record, log_path=str(folder / "engine.log"))
        data = _dump(record)
        try:
            write_private(folder / "launch.json", data)
            write_private(folder / "run.json", data)
        except OSError as error:
            shutil.rmtree(folder, ignore_errors=True)
            raise _unwritable(folder, error) from error
        return record

    def require_room(self) -> None:
        """Make sure that runs can be written, before something is stopped for their sake.

        A swap on a full disk would else end a good server, and could start neither the new one nor
        the old one again.

        Raises:
            ConfigError: there is no room, or the folder cannot be written.
        """
        folder = self._paths.make(self.folder)
        probe = folder / f".room-{secrets.token_hex(4)}"
        try:
            handle = os.open(probe, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)
            try:
                os.posix_fallocate(handle, 0, ROOM_BYTES)
            finally:
                os.close(handle)
                probe.unlink(missing_ok=True)
        except OSError as error:
            if error.errno not in _NO_FALLOCATE:
                raise _unwritable(folder, error) from error

    def save(self, record: RunRecord) -> bool:
        """Replace the record on disk; False when it cannot be written.

        A server must not be lost or killed because the disk is full, so this never raises: the
        intent is on disk and the process carries the id of its run.
        """
        try:
            write_private(self.folder / record.id / "run.json", _dump(record))
        except OSError:
            self._unsaved[record.id] = record
            return False
        self._unsaved.pop(record.id, None)
        return True

    def update(self, record: RunRecord, change: Callable[[RunRecord], RunRecord]) -> RunRecord:
        """Apply a change to the newest version of a record and save it.

        Two processes of ours may note things at the same moment (readiness here, a stop there);
        the lock of the run makes each of them see what the other wrote. A change that is no longer
        legal (a late "ready" of a server that is being stopped) is dropped.
        """
        with self._run_lock(record.id):
            # An unreadable record (disk full at the last save) must not undo what we know.
            current = self.load(record.id) or record
            try:
                changed = change(current)
            except IllegalStepError:
                return current
            if changed != current or record.id in self._unsaved:
                self.save(changed)
            return changed

    @contextlib.contextmanager
    def _run_lock(self, run: str) -> Iterator[None]:
        try:
            handle = os.open(
                self.folder / run / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600
            )
        except OSError:
            yield  # unwritable: then nothing can be lost by writing at the same time either
            return
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)

    def load(self, run: str) -> RunRecord | None:
        """Read one run; ``None`` when nothing of it can be read and nothing of it runs.

        A record without a process (its launcher died between fork and record, or ``run.json`` is
        damaged) is completed with the process that carries the id of the run, if there is one.
        """
        if run in self._unsaved:
            return self._unsaved[run]
        folder = self.folder / run
        record = _parse(folder / "run.json") or _parse(folder / "launch.json") or _rebuild(folder)
        if record is not None and record.kind != "attach" and record.main is None and record.open:
            record = _find_process(record)
        return record

    def prune(self, keep: int = KEPT_RUNS) -> None:
        """Remove the oldest runs beyond ``keep``; never one that has not ended."""
        for run in self.ids()[:-keep]:
            record = self.load(run)
            if record is None or not record.open:
                shutil.rmtree(self.folder / run, ignore_errors=True)

    def latest(self) -> RunRecord | None:
        """Return the newest readable run; ``None`` when nothing was ever launched."""
        for run in reversed(self.ids()):
            record = self.load(run)
            if record is not None:
                return record
        return None

    def previous(self, before: str) -> RunRecord | None:
        """Return the newest run older than ``before`` that once became ready."""
        for run in reversed(self.ids()):
            record = self.load(run) if run < before else None
            if record is not None and record.ready_at is not None:
                return record
        return None

    def modified(self, run: str) -> tuple[int, int] | None:
        """Return a cheap token that changes whenever the record does."""
        if run in self._unsaved:
            return (0, id(self._unsaved[run]))
        try:
            found = (self.folder / run / "run.json").stat()
        except OSError:
            return None
        return (found.st_mtime_ns, found.st_ino)


def _rebuild(folder: Path) -> RunRecord | None:
    """Make a record from a process that carries the run's id, when both files are damaged."""
    for process in find_run(folder.name, 0.0):
        with contextlib.suppress(OSError, ValueError):
            if os.getsid(process.pid) != process.pid:
                continue
            raw = Path(f"/proc/{process.pid}/cmdline").read_bytes().split(b"\0")
            argv = redact_argv([item.decode("utf-8", "replace") for item in raw if item])
            flags = dict(itertools.pairwise(argv))
            host, port = flags.get("--host", "127.0.0.1"), int(flags["--port"])
            module = flags.get("-m", "")
            log = folder / "engine.log"
            if not log.exists():  # deleted; what the engine writes to can still be read
                log = Path(f"/proc/{process.pid}/fd/1")
            return RunRecord(
                id=folder.name,
                kind="process",
                profile="",
                engine=next((e for e in ("vllm", "sglang") if module.startswith(e)), "demo"),
                simulated=module.startswith("qwen_tui"),
                url=f"http://{host}:{port}",
                host=host,
                port=port,
                created=time.time() - (seconds_since_boot() - process.create_time),
                created_boot_s=process.create_time,
                boot=boot_id(),
                launcher=None,
                argv=argv,
                pid=process.pid,
                create_time=process.create_time,
                session=process.pid,
                log_path=str(log),
            )
    return None


def _find_process(record: RunRecord) -> RunRecord:
    if record.launcher is not None and identify(record.launcher[0]) == ProcessId(*record.launcher):
        return record  # its launcher is still between fork and record
    found = find_run(record.id, record.created_boot_s)
    # The engine leads the session that was made for it; its children only inherited the value.
    for process in found:
        with contextlib.suppress(OSError):
            if os.getsid(process.pid) == process.pid:
                return replace(
                    record,
                    pid=process.pid,
                    create_time=process.create_time,
                    session=process.pid,
                ).with_family(frozenset(found))
    return record.with_family(frozenset(found))


def _dump(record: RunRecord) -> bytes:
    return json.dumps({"schema": SCHEMA, **asdict(record)}, indent=1).encode()


def _parse(path: Path) -> RunRecord | None:
    try:
        raw = json.loads(path.read_bytes())
        if not isinstance(raw, dict) or raw.get("schema") != SCHEMA:
            return None
        known = {f.name for f in fields(RunRecord)}
        values: dict[str, Any] = {k: v for k, v in raw.items() if k in known}
        for name in ("argv", "asked", "warnings", "warning_parts", "phases"):
            values[name] = tuple(values.get(name, ()))
        values["family"] = tuple((int(p), float(c)) for p, c in values.get("family", ()))
        values["state"] = ServerState(values["state"])
        if values.get("launcher") is not None:
            pid, created = values["launcher"]
            values["launcher"] = (int(pid), float(created))
        if values.get("ending") is not None:
            values["ending"] = _ending(cast("dict[str, Any]", values["ending"]))
        return RunRecord(**values)
    except (OSError, ValueError, TypeError, KeyError):
        return None


def _ending(raw: dict[str, Any]) -> Ending:
    known = {f.name for f in fields(Ending)}
    return Ending(**{name: value for name, value in raw.items() if name in known})


def _unwritable(folder: Path, error: OSError) -> ConfigError:
    return ConfigError(
        t(
            "The state folder {path} cannot be used: {reason}.",
            path=str(folder),
            reason=error.strerror or type(error).__name__,
        ),
        t("Make room there, or make it readable and writable for this user."),
    )
