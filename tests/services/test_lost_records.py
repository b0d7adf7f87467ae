"""A server whose records, profile or engine were deleted while it runs: found, told, kept."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from qwen_tui.services.lost_runs import LostRuns
from qwen_tui.services.process import identify, working_in
from qwen_tui.services.runs import RunStore
from qwen_tui.services.state import ServerState
from qwen_tui.services.stopping import StopHow
from qwen_tui.services.swap import SwapOptions, SwapOutcome
from qwen_tui_profiles.errors import LaunchError
from support.faults import assert_serves, boss, up
from support.supervise import demo_profile, free_port, wait_until

if TYPE_CHECKING:
    from pathlib import Path

    from qwen_tui.services.paths import Paths


@pytest.mark.parametrize("lost", ["the state folder", "the run"])
async def test_a_server_outlives_its_records(paths: Paths, lost: str) -> None:
    ready = await up(paths)
    pid = ready.pid or 0
    # The store forgets nothing here: every look below is another process's first look.
    shutil.rmtree(paths.state if lost == "the state folder" else next(paths.runs.iterdir()))
    now = await boss(paths).settle()
    assert (now.state, now.pid, now.url) == (ServerState.RUNNING, pid, ready.url)
    assert now.ready
    assert "records were deleted" in str(now.message)
    # Its log has no name any more, and what it says is known all the same.
    assert now.report is not None
    assert ready.report is not None
    assert now.report.facts["kv_tokens"] == ready.report.facts["kv_tokens"]

    with pytest.raises(LaunchError, match=str(pid)):
        await boss(paths).start(demo_profile("second", port=free_port()))
    target = demo_profile("target", port=free_port())
    steps = [step async for step in boss(paths).swap(target)]
    assert steps[-1].outcome is SwapOutcome.CANCELLED
    assert identify(pid) is not None

    result = await boss(paths).stop()
    assert result.how is StopHow.DRAINED
    assert identify(pid) is None
    assert (await boss(paths).snapshot()).state is ServerState.STOPPED
    # A launch afterwards is recorded as ever.
    assert (await up(paths)).ready
    await assert_serves(paths, "faulty")


def test_a_shell_in_the_folder_of_a_run_is_no_server(paths: Paths) -> None:
    folder = paths.make(paths.runs / "000001-x")
    shell = subprocess.Popen(
        [sys.executable, "-S", "-c", "input()"],
        stdin=subprocess.PIPE,
        cwd=folder,
        start_new_session=True,
    )
    try:
        assert wait_until(lambda: working_in(paths.runs) == {"000001-x"})
        folder.rmdir()
        assert working_in(paths.runs) == {"000001-x"}
        assert RunStore(paths).latest() is None
    finally:
        shell.communicate(b"\n")
    assert not working_in(paths.runs)


def test_all_of_proc_is_read_only_when_a_run_may_be_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a desktop with 500 processes each reading takes 10 ms; the console asks for ever."""
    looks: list[Path] = []
    lost = {"000002-y"}

    def look(folder: Path) -> frozenset[str]:
        looks.append(folder)
        return frozenset(lost)

    def settle() -> None:
        os.utime(tmp_path, (time.time() - 60 - len(looks),) * 2)

    monkeypatch.setattr("qwen_tui.services.lost_runs.working_in", look)
    monkeypatch.setattr("qwen_tui.services.lost_runs._EVERY_S", -1.0)
    names = {"000001-x", "000002-y"}
    settle()
    runs = LostRuns(tmp_path)
    for _ in range(3):
        assert runs.beside(names) == names
    assert len(looks) == 1, "nothing came or went"
    settle()  # the folder of 000002 was deleted
    for count in (2, 3):
        assert runs.beside({"000001-x"}) == names
        assert len(looks) == count, "what is lost may end at any time"
    lost.clear()
    assert runs.beside({"000001-x"}) == {"000001-x"}
    runs.beside({"000001-x"})
    assert len(looks) == 4
    os.utime(tmp_path)  # changed within the tick: it may change again unseen
    for count in (5, 6):
        runs.beside({"000001-x"})
        assert len(looks) == count
    tmp_path.rmdir()
    lost.add("000001-x")
    assert runs.beside(set()) == {"000001-x"}


async def test_no_swap_without_a_way_back(paths: Paths, tmp_path: Path) -> None:
    """What runs cannot be started again: the swap touches nothing, unless it is forced."""
    port = free_port()
    ready = await up(paths, port=port)
    record = RunStore(paths).latest()
    assert record is not None
    snapshot = {**record.snapshot, "engine": "sglang"}
    snapshot["launch"] = {"kind": "PythonLaunch", "interpreter": str(tmp_path / "gone")}
    assert RunStore(paths).save(replace(record, snapshot=snapshot))
    target = demo_profile("target", port=port)
    steps = [step async for step in boss(paths).swap(target)]
    assert (steps[-1].outcome, steps[-1].failed) == (SwapOutcome.CANCELLED, True)
    said = str(steps[-1].text)
    assert "could not be started again if target failed" in said
    assert "qwen-tui down, then qwen-tui up target" in said
    assert identify(ready.pid or 0) is not None
    forced = [step async for step in boss(paths).swap(target, SwapOptions(force="I know"))]
    assert forced[-1].outcome is SwapOutcome.SWAPPED
    await assert_serves(paths, "target")


async def test_one_look_does_not_call_a_stopped_process_serving(paths: Paths) -> None:
    ready = await up(paths)
    pid = ready.pid or 0
    os.kill(pid, signal.SIGSTOP)
    try:
        began = time.monotonic()
        now = await boss(paths).settle()
        assert time.monotonic() - began < 8
        assert (now.state, now.ready) == (ServerState.UNREACHABLE, False)
    finally:
        os.kill(pid, signal.SIGCONT)
    assert (await boss(paths).settle()).ready
