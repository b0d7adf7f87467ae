"""What the history missed while it was locked or damaged comes back from the run records."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

from qwen_tui.services.history import History
from qwen_tui.services.history_mend import mend_history
from qwen_tui.services.runs import RunStore
from support.faults import boss, up
from support.home import Home

if TYPE_CHECKING:
    from pathlib import Path

    from qwen_tui.services.paths import Paths


def states(history: History) -> list[tuple[str, str | None]]:
    return [(row.state, row.how) for row in history.boots()]


async def test_an_ending_that_met_a_locked_history(paths: Paths) -> None:
    assert (await up(paths)).ready
    history = History(paths.state / "history.sqlite3")
    (before,) = history.boots()
    with closing(sqlite3.connect(history.path)) as other:
        other.execute("BEGIN EXCLUSIVE")
        await boss(paths).stop()
    assert states(history) == [("running", None)]
    assert mend_history(history, paths) == 1
    (row,) = history.boots()
    record = RunStore(paths).latest()
    assert record is not None
    assert record.ending is not None
    assert (row.state, row.how, row.ended) == ("stopped", "drained", record.ending.at)
    # What the boot gave is read from its log again.
    assert row.facts["kv_tokens"] == before.facts["kv_tokens"]
    assert (row.phases, row.ready_s, row.clamps) == (before.phases, before.ready_s, before.clamps)
    assert mend_history(history, paths) == 0


async def test_a_history_that_was_damaged(paths: Paths) -> None:
    history = History(paths.state / "history.sqlite3")
    ended = await up(paths, "--demo-fault", "oom-load")
    assert not ended.ready
    (before,) = history.boots()
    assert (await up(paths)).ready
    history.path.write_bytes(b"no database " * 1000)
    assert history.boots() == ()
    assert mend_history(history, paths) == 1
    # The one that runs is written at its end, as ever.
    (row,) = history.boots()
    assert (row.run, row.cause, row.message) == (before.run, "cuda_oom", before.message)
    await boss(paths).stop()
    assert [state for state, _ in states(history)] == ["stopped", "fatal"]


def test_the_command_mends(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.write("quick", "speed", "long", more='demo-fault = "oom-load"')
    assert home.run("up", "quick")[0] == 1
    (home.paths.state / "history.sqlite3").unlink()
    (boot,) = home.json("history")["boots"]
    assert (boot["profile"], boot["state"], boot["cause"]) == ("quick", "fatal", "cuda_oom")
