"""Every boot and every swap, in one SQLite file: what was asked, what was got, how long it took.

History is a convenience: a file that is locked, corrupt or written by a newer version never stops
a launch. What could not be written or read is said in :attr:`History.problem`.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
import statistics
import time
from typing import TYPE_CHECKING

from qwen_tui.services.history_rows import BootRow, Durations, SwapRow
from qwen_tui.services.machine import fingerprints
from qwen_tui_profiles.text import Text, as_record, from_record, t

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from qwen_tui.services.records import RunRecord
    from qwen_tui_diagnostics.enginelog import LogReport

__all__ = ["BootRow", "Durations", "History", "SwapRow"]

VERSION = 1
_LOCK_WAIT_S = 0.5
_PARTS = "message_parts"
"""Column that was added to both tables without a new version: older programs write around it."""
_SCHEMA = """
CREATE TABLE boots (
    run TEXT PRIMARY KEY,
    started REAL NOT NULL,
    profile TEXT NOT NULL,
    engine TEXT NOT NULL,
    engine_version TEXT,
    engine_print TEXT NOT NULL,
    model_print TEXT NOT NULL,
    flags_print TEXT NOT NULL,
    machine_print TEXT NOT NULL,
    asked TEXT NOT NULL,
    facts TEXT NOT NULL,
    clamps TEXT NOT NULL,
    phases TEXT NOT NULL,
    ready_s REAL,
    first_token_s REAL,
    predicted_kv_tokens INTEGER,
    kv_tokens INTEGER,
    state TEXT NOT NULL,
    how TEXT,
    message TEXT,
    cause TEXT,
    ended REAL
);
CREATE INDEX boots_by_profile ON boots (profile, started);
CREATE TABLE swaps (
    id INTEGER PRIMARY KEY,
    started REAL NOT NULL,
    before TEXT,
    target TEXT NOT NULL,
    outcome TEXT NOT NULL,
    message TEXT NOT NULL,
    seconds REAL NOT NULL,
    down_s REAL,
    predicted_s REAL,
    held INTEGER,
    lost INTEGER
);
"""


class History:
    """The one history file of a state folder."""

    def __init__(self, path: Path, *, clock: Callable[[], float] = time.time) -> None:
        self.path = path
        self.problem: Text | None = None
        """Why the last call could not do its work; ``None`` = it did."""
        self._clock = clock

    def note_boot(self, record: RunRecord, report: LogReport | None) -> bool:
        """Write or rewrite the row of a run; False when it could not be written."""
        if record.kind == "attach":
            return True
        facts = {} if report is None else dict(report.facts)
        live = record.prediction.get("live_free_gib")
        if facts and isinstance(live, int | float):
            # What the boot began with: the next plan learns what the engine takes of it.
            facts["free_before_launch_gib"] = live
        clamps = [] if report is None else [c.as_json() for c in report.clamps]
        phases = list(record.phases)
        if not phases and report is not None:
            phases = [p.as_json() for p in report.timeline]
        ending = record.ending
        cause = None if ending is None or ending.cause is None else ending.cause.get("class")
        prints = fingerprints(record)
        kv_tokens = facts.get("kv_tokens")
        predicted = record.prediction.get("kv_tokens")
        values = {
            "run": record.id,
            "started": record.created,
            "profile": record.profile,
            "engine": record.engine,
            "engine_version": record.engine_version,
            "engine_print": prints["engine"],
            "model_print": prints["model"],
            "flags_print": prints["flags"],
            "machine_print": prints["machine"],
            "asked": json.dumps(record.asked),
            "facts": json.dumps(facts, default=str),
            "clamps": json.dumps(clamps, default=str),
            "phases": json.dumps([dict(p) for p in phases], default=str),
            "ready_s": None if record.ready_at is None else record.ready_at - record.created,
            "first_token_s": record.first_token_s,
            "predicted_kv_tokens": predicted if isinstance(predicted, int) else None,
            "kv_tokens": kv_tokens if isinstance(kv_tokens, int) else None,
            "state": record.state.value,
            "how": None if ending is None else ending.how,
            "message": None if ending is None else ending.message,
            _PARTS: None
            if ending is None or ending.message_parts is None
            else json.dumps(ending.message_parts),
            "cause": cause,
            "ended": None if ending is None else ending.at,
        }
        names = ", ".join(values)
        marks = ", ".join(f":{name}" for name in values)
        with self._open(write=True) as database:
            if database is None:
                return False
            database.execute(f"INSERT OR REPLACE INTO boots ({names}) VALUES ({marks})", values)
        return self.problem is None

    def note_swap(self, row: SwapRow) -> bool:
        """Append a swap; False when it could not be written."""
        with self._open(write=True) as database:
            if database is None:
                return False
            database.execute(
                "INSERT INTO swaps (started, before, target, outcome, message, seconds, down_s,"
                f" predicted_s, held, lost, {_PARTS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    row.started,
                    row.before,
                    row.target,
                    row.outcome,
                    str(row.message),
                    row.seconds,
                    row.down_s,
                    row.predicted_s,
                    row.held,
                    row.lost,
                    json.dumps(as_record(row.message)),
                ),
            )
        return self.problem is None

    def boots(self, *, profile: str | None = None, limit: int = 50) -> tuple[BootRow, ...]:
        """Return boots, newest first."""
        with self._open() as database:
            if database is None:
                return ()
            rows = database.execute(
                "SELECT * FROM boots WHERE :profile IS NULL OR profile = :profile"
                " ORDER BY started DESC, run DESC LIMIT :limit",
                {"profile": profile, "limit": limit},
            ).fetchall()
            return tuple(_boot(row) for row in rows)
        return ()

    def boot(self, run: str) -> BootRow | None:
        """Return the boot of a run, given by its id or an unambiguous beginning or number."""
        with self._open() as database:
            if database is None:
                return None
            pattern = f"{int(run):06d}-" if run.isdigit() else run
            rows = database.execute(
                "SELECT * FROM boots WHERE substr(run, 1, length(?1)) = ?1 LIMIT 2", (pattern,)
            ).fetchall()
            return _boot(rows[0]) if len(rows) == 1 else None
        return None

    def swaps(self, *, limit: int = 50) -> tuple[SwapRow, ...]:
        """Return swaps, newest first."""
        with self._open() as database:
            if database is None:
                return ()
            rows = database.execute(
                "SELECT * FROM swaps ORDER BY started DESC, id DESC LIMIT ?", (limit,)
            ).fetchall()
            return tuple(_swap(row) for row in rows)
        return ()

    def phase_seconds(self, profile: str) -> Mapping[str, Durations]:
        """Return how long each phase of this profile's boots took, of those that became ready."""
        seen: dict[str, list[float]] = {}
        for row in self.boots(profile=profile, limit=20):
            if row.ready_s is None:
                continue
            for span in row.phases:
                seconds = span.get("seconds")
                if isinstance(seconds, int | float):
                    seen.setdefault(str(span.get("phase")), []).append(float(seconds))
        return {phase: _durations(values) for phase, values in seen.items()}

    def ready_seconds(self, profile: str) -> Durations | None:
        """Return how long this profile took from launch to first token; ``None`` = no boot yet."""
        values = [r.ready_s for r in self.boots(profile=profile, limit=20) if r.ready_s is not None]
        return _durations(values) if values else None

    def down_seconds(self, target: str) -> Durations | None:
        """Return how long nothing served in swaps to ``target``; ``None`` = no swap yet."""
        values = [
            s.down_s
            for s in self.swaps(limit=200)
            if s.target == target and s.outcome == "swapped" and s.down_s is not None
        ]
        return _durations(values[:20]) if values else None

    @contextlib.contextmanager
    def _open(self, *, write: bool = False) -> Iterator[sqlite3.Connection | None]:
        """Open the file for one transaction; yields ``None`` when it cannot be used."""
        self.problem = None
        database = self._connect(write=write)
        if database is None:
            yield None
            return
        try:
            with database:
                yield database
        except (sqlite3.Error, ValueError) as error:
            self._failed(error)
        finally:
            database.close()

    def _connect(self, *, write: bool, again: bool = True) -> sqlite3.Connection | None:
        if not write and not self.path.exists():
            return None
        database: sqlite3.Connection | None = None
        try:
            self.path.touch(mode=0o600, exist_ok=True)
            database = sqlite3.connect(self.path, timeout=_LOCK_WAIT_S)
            database.row_factory = sqlite3.Row
            version = database.execute("PRAGMA user_version").fetchone()[0]
            if version > VERSION:
                database.close()
                self.problem = t("The history was written by a newer version of qwen-tui.")
                return None
            if version == 0:
                database.execute("PRAGMA journal_mode = WAL")
                database.executescript(
                    f"BEGIN IMMEDIATE; {_SCHEMA} PRAGMA user_version = {VERSION}; COMMIT;"
                )
            if write:
                _add_parts(database)
        except (sqlite3.Error, OSError) as error:
            if database is not None:
                database.close()
            if again and self._is_corrupt(error) and self._set_aside():
                return self._connect(write=write, again=False)
            if again and "already exists" in str(error):  # another process made the tables
                return self._connect(write=write, again=False)
            self._failed(error)
            return None
        return database

    @staticmethod
    def _is_corrupt(error: Exception) -> bool:
        code = getattr(error, "sqlite_errorcode", None)
        return code in {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}

    def _set_aside(self) -> bool:
        """Keep a corrupt file under another name and begin anew."""
        try:
            self.path.rename(self.path.with_name(f"{self.path.name}.corrupt-{self._clock():.0f}"))
        except OSError:
            return False
        for suffix in ("-wal", "-shm"):
            with contextlib.suppress(OSError):
                self.path.with_name(self.path.name + suffix).unlink()
        return True

    def _failed(self, error: Exception) -> None:
        self.problem = t("The history cannot be used: {reason}.", reason=str(error))


def _add_parts(database: sqlite3.Connection) -> None:
    for table in ("boots", "swaps"):
        if _PARTS in {row["name"] for row in database.execute(f"PRAGMA table_info({table})")}:
            continue
        try:
            database.execute(f"ALTER TABLE {table} ADD COLUMN {_PARTS} TEXT")
        except sqlite3.OperationalError as error:
            if "duplicate column" not in str(error):  # another process added it
                raise


def _boot(row: sqlite3.Row) -> BootRow:
    return BootRow(
        run=row["run"],
        started=row["started"],
        profile=row["profile"],
        engine=row["engine"],
        engine_version=row["engine_version"],
        asked=tuple(json.loads(row["asked"])),
        facts=json.loads(row["facts"]),
        clamps=tuple(json.loads(row["clamps"])),
        phases=tuple(json.loads(row["phases"])),
        ready_s=row["ready_s"],
        first_token_s=row["first_token_s"],
        predicted_kv_tokens=row["predicted_kv_tokens"],
        kv_tokens=row["kv_tokens"],
        state=row["state"],
        how=row["how"],
        message=_sentence(row),
        cause=row["cause"],
        ended=row["ended"],
        prints={name: row[f"{name}_print"] for name in ("engine", "model", "flags", "machine")},
    )


def _swap(row: sqlite3.Row) -> SwapRow:
    return SwapRow(
        started=row["started"],
        before=row["before"],
        target=row["target"],
        outcome=row["outcome"],
        message=_sentence(row) or Text(""),
        seconds=row["seconds"],
        down_s=row["down_s"],
        predicted_s=row["predicted_s"],
        held=row["held"],
        lost=row["lost"],
    )


def _sentence(row: sqlite3.Row) -> Text | None:
    """Return the message of a row; those written before there were parts have only English."""
    if row["message"] is None:
        return None
    stored = row[_PARTS] if _PARTS in row.keys() else None  # noqa: SIM118 - a Row is no mapping
    return from_record(None if stored is None else json.loads(stored), row["message"])


def _durations(values: list[float]) -> Durations:
    return Durations(statistics.median(values), max(values), len(values))
