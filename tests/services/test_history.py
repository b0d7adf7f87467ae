from __future__ import annotations

import json
import sqlite3
import stat
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from qwen_tui.services.history import VERSION, Durations, History, SwapRow
from qwen_tui.services.records import Ending, RunRecord
from qwen_tui.services.state import ServerState
from qwen_tui.services.supervisor import ServerSupervisor
from qwen_tui_diagnostics.enginelog.report import LogReport
from qwen_tui_profiles.findings import Clamp
from qwen_tui_profiles.text import set_language, t, tr
from support.fake_reader import FakeReader
from support.supervise import FakeEngineSpawner, fake_profile, free_port

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from qwen_tui.services.paths import Paths

RECORD = RunRecord(
    id="000001-x",
    kind="process",
    profile="speed",
    engine="sglang",
    url="http://127.0.0.1:30000",
    host="127.0.0.1",
    port=30000,
    created=1000.0,
    created_boot_s=0.0,
    boot="b",
    launcher=None,
    asked=("--port", "30000", "--max-running-requests", "4"),
    prediction={"kv_tokens": 134_203},
    phases=({"phase": "load_weights", "started": 1.0, "seconds": 40.0},),
)
CLAMP = Clamp("--max-running-requests", 4, 2, t("mamba"), t("8 slots"), None, None)
REPORT = LogReport("sglang", "0.5.23", True, "ready", {"kv_tokens": 134_016}, (CLAMP,))


@pytest.fixture
def history(tmp_path: Path) -> History:
    return History(tmp_path / "history.sqlite3", clock=lambda: 5.0)


def boot(number: int, ready_s: float | None, load_s: float = 40.0) -> RunRecord:
    created = 1000.0 * number
    return replace(
        RECORD,
        id=f"{number:06d}-x",
        created=created,
        ready_at=None if ready_s is None else created + ready_s,
        phases=({"phase": "load_weights", "started": 1.0, "seconds": load_s},),
    )


def test_a_boot_is_one_row_that_grows(history: History) -> None:
    assert history.note_boot(replace(RECORD, ready_at=1060.0), REPORT)
    ended = replace(
        RECORD,
        ready_at=1060.0,
        state=ServerState.FATAL,
        ending=Ending(2000.0, 1, "died", "OOM.", None, {"class": "cuda_oom"}),
    )
    assert history.note_boot(ended, REPORT)
    (row,) = history.boots()
    assert (row.run, row.ready_s, row.state, row.cause) == ("000001-x", 60.0, "fatal", "cuda_oom")
    assert row.clamps[0]["got"] == 2
    document = row.as_json()
    # 100 × (134,203 − 134,016) ÷ 134,016
    assert document["prediction_error_pct"] == pytest.approx(0.1395, abs=1e-3)
    assert stat.S_IMODE(history.path.stat().st_mode) == 0o600


def test_durations_come_from_boots_that_became_ready(history: History) -> None:
    for record in (boot(1, 50, 30), boot(2, 90, 80), boot(3, 70, 40), boot(4, None, 600)):
        history.note_boot(record, None)
    assert history.ready_seconds("speed") == Durations(70.0, 90.0, 3)
    assert history.phase_seconds("speed") == {"load_weights": Durations(40.0, 80.0, 3)}
    assert history.ready_seconds("other") is None
    assert [r.run for r in history.boots(limit=2)] == ["000004-x", "000003-x"]


def test_a_boot_is_found_by_number(history: History) -> None:
    history.note_boot(boot(1, 50), None)
    history.note_boot(boot(12, 50), None)
    found = history.boot("12")
    assert found is not None
    assert found.run == "000012-x"
    assert history.boot("000012") == found
    assert history.boot("0000") is None  # ambiguous
    assert history.boot("7") is None


def test_swaps(history: History) -> None:
    for seconds, outcome in ((30.0, "swapped"), (50.0, "swapped"), (500.0, "rolled back")):
        row = SwapRow(1.0, "speed", "context", outcome, t("…"), seconds, seconds - 5, None, 3, 0)
        assert history.note_swap(row)
    assert history.down_seconds("context") == Durations(35.0, 45.0, 2)
    assert history.down_seconds("speed") is None
    assert [s.outcome for s in history.swaps()] == ["rolled back", "swapped", "swapped"]


def test_equal_conditions_have_equal_prints(history: History) -> None:
    history.note_boot(boot(1, 50), None)
    elsewhere = replace(boot(2, 50), asked=("--port", "31000", "--max-running-requests", "4"))
    history.note_boot(elsewhere, None)
    history.note_boot(replace(boot(3, 50), asked=("--max-running-requests", "5")), None)
    third, second, first = history.boots()
    assert second.prints == first.prints
    assert third.prints["flags"] != first.prints["flags"]
    assert third.prints["model"] == first.prints["model"]


@pytest.mark.parametrize(
    "damage", [b"", b"not a database" * 100, b"SQLite format 3\0" + b"\xff" * 99]
)
def test_a_damaged_file_is_set_aside_and_never_raises(history: History, damage: bytes) -> None:
    history.path.write_bytes(damage)
    assert history.note_boot(boot(1, 50), None)
    assert len(history.boots()) == 1
    kept = list(history.path.parent.glob("*.corrupt-*"))
    assert [p.read_bytes() for p in kept] == ([damage] if damage else [])


def test_damage_in_the_middle_never_raises(history: History) -> None:
    for number in range(1, 200):
        history.note_boot(boot(number, 50), REPORT)
    data = bytearray(history.path.read_bytes())
    data[4096:] = b"\xa5" * (len(data) - 4096)
    history.path.write_bytes(bytes(data))
    history.boots()
    history.note_boot(boot(500, 50), None)


def test_a_locked_file_does_not_hold_up_a_launch(history: History) -> None:
    history.note_boot(boot(1, 50), None)
    with sqlite3.connect(history.path) as other:
        other.execute("BEGIN EXCLUSIVE")
        assert not history.note_boot(boot(2, 50), None)
        assert "locked" in str(history.problem)
    other.close()
    assert history.note_boot(boot(2, 50), None)
    assert history.problem is None


def test_a_newer_file_is_left_alone(history: History) -> None:
    history.note_boot(boot(1, 50), None)
    with sqlite3.connect(history.path) as other:
        other.execute(f"PRAGMA user_version = {VERSION + 1}")
    other.close()
    assert history.boots() == ()
    assert not history.note_boot(boot(2, 50), None)
    assert "newer version" in str(history.problem)


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    history = History(tmp_path / "missing" / "history.sqlite3")
    assert not history.note_boot(boot(1, 50), None)
    assert history.boots() == ()


@pytest.fixture
def chinese() -> Iterator[None]:
    assert set_language("zh_CN")
    yield
    set_language("en")


ENDED = t("The engine ended with exit code {code}, {where}.", code=7, where=t("during the boot"))


def test_what_was_said_is_told_in_the_language_of_the_reader(
    history: History, chinese: None
) -> None:
    ending = Ending.of(1100.0, 7, "died", ENDED)
    record = replace(RECORD, state=ServerState.FATAL, ending=ending)
    assert history.note_boot(record, None)
    assert history.note_swap(SwapRow(1.0, "a", "b", "failed", ENDED, 5.0, None, None, None, None))
    (boot_row,) = history.boots()
    (swap_row,) = history.swaps()
    for row in (boot_row, swap_row):
        assert row.message is not None
        assert tr(row.message) == tr(ENDED) != str(ENDED)
        assert row.as_json()["message"] == str(ENDED)
        assert "message_parts" not in row.as_json()
        json.dumps(row.as_json())


def test_a_file_from_before_the_parts_is_read_and_written(history: History) -> None:
    history.note_boot(replace(RECORD, ready_at=1060.0), REPORT)
    history.note_swap(SwapRow(1.0, "a", "b", "failed", ENDED, 5.0, None, None, None, None))
    with closing(sqlite3.connect(history.path)) as database:
        for table in ("boots", "swaps"):
            database.execute(f"ALTER TABLE {table} DROP COLUMN message_parts")
        database.commit()
    (row,) = history.swaps()
    assert str(row.message) == str(ENDED)
    assert len(history.boots()) == 1
    assert history.note_swap(SwapRow(2.0, "b", "a", "failed", ENDED, 5.0, None, None, None, None))
    assert [str(s.message) for s in history.swaps()] == [str(ENDED)] * 2
    with closing(sqlite3.connect(history.path)) as database:
        assert database.execute("PRAGMA user_version").fetchone() == (VERSION,)
        # As a program without the column writes.
        database.execute("INSERT INTO swaps (started, target, outcome, message, seconds)"
                         " VALUES (3, 'b', 'swapped', 'Done.', 1)")  # fmt: skip
        database.commit()
    assert str(history.swaps()[0].message) == "Done."


async def test_a_clock_that_is_set_during_a_boot_spoils_no_duration(paths: Paths) -> None:
    """A later boot's estimate is the median of these."""
    now = 1_000_000.0
    supervisor = ServerSupervisor(
        paths, spawner=FakeEngineSpawner(), make_reader=FakeReader, clock=lambda: now
    )
    await supervisor.start(fake_profile(port=free_port()))
    now -= 86_400.0
    assert (await supervisor.wait_ready()).ready
    (row,) = supervisor.history.boots()
    assert row.ready_s is not None
    assert 0 < row.ready_s < 20
