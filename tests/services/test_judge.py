"""The judgement as a table: record and observation in, state and words out."""

from __future__ import annotations

import signal
from dataclasses import replace
from typing import Any

import pytest

from qwen_tui.services.judge import Observed, judge
from qwen_tui.services.runs import RunRecord
from qwen_tui.services.state import ServerState
from qwen_tui_diagnostics.enginelog.report import Fatal, LogReport
from qwen_tui_profiles.text import t

S = ServerState
RECORD = RunRecord(
    id="000001-x",
    kind="process",
    profile="p",
    engine="sglang",
    url="http://127.0.0.1:30000",
    host="127.0.0.1",
    port=30000,
    created=0.0,
    created_boot_s=0.0,
    boot="b",
    launcher=None,
    pid=10,
    create_time=1.0,
)
READY: dict[str, Any] = {"state": S.RUNNING, "ready_at": 5.0}
OOM = LogReport("sglang", None, False, "load_weights", fatal=Fatal("cuda_oom", t("OOM."), None, ()))
STOPPING = LogReport("sglang", None, True, "stopping")


@pytest.mark.parametrize(
    ("record", "seen", "state"),
    [
        ({}, {"alive": True}, S.STARTING),
        (READY, {"alive": True}, S.RUNNING),
        (READY, {"alive": True, "answers": True}, S.RUNNING),
        (READY, {"alive": True, "answers": False}, S.UNREACHABLE),
        ({"stop_asked": 9.0}, {"alive": True}, S.STOPPING),
        ({**READY, "stop_asked": 9.0}, {"alive": True, "answers": False}, S.STOPPING),
        # Each exit code is "stopped" when a stop was asked for: SGLang <= 0.5.19 ends with -9.
        *(
            ({**READY, "stop_asked": 9.0}, {"alive": False, "exit_code": c}, S.STOPPED)
            for c in (0, -9, -15, None)
        ),
        ({**READY, "stop_asked": 9.0}, {"alive": False, "report": OOM}, S.STOPPED),
        (READY, {"alive": False, "exit_code": 0}, S.EXITED),
        (READY, {"alive": False, "report": STOPPING, "exit_code": -9}, S.EXITED),
        (READY, {"alive": False, "exit_code": -9}, S.FATAL),
        (READY, {"alive": False, "exit_code": None}, S.FATAL),
        (READY, {"alive": False, "report": OOM, "exit_code": 0}, S.FATAL),
        # Ending before it was ready is a failure, whatever the code.
        ({}, {"alive": False, "exit_code": 0}, S.FATAL),
        ({}, {"alive": False, "exit_code": 2}, S.FATAL),
        ({}, {"alive": False, "same_boot": False}, S.EXITED),
        ({"pid": None}, {"alive": False, "launching": True}, S.STARTING),
        ({"pid": None}, {"alive": False, "launching": False}, S.EXITED),
        ({"kind": "attach"}, {"alive": False, "answers": True}, S.RUNNING),
        ({"kind": "attach"}, {"alive": False, "answers": False}, S.UNREACHABLE),
        ({"state": S.FATAL}, {"alive": True}, S.FATAL),
    ],
)
def test_state(record: dict[str, Any], seen: dict[str, Any], state: ServerState) -> None:
    verdict = judge(replace(RECORD, **record), Observed(at=10.0, **seen))
    assert verdict.state is state
    ended = state in {S.STOPPED, S.EXITED, S.FATAL} and record.get("state") is not S.FATAL
    assert (verdict.ending is not None) is ended


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (None, "does not say why"),
        (-signal.SIGKILL, "SIGKILL"),
        (-signal.SIGSEGV, "SIGSEGV"),
        (1, "exit code 1"),
        (-200, "200"),
    ],
)
def test_a_wordless_death_says_what_is_known(code: int | None, words: str) -> None:
    verdict = judge(replace(RECORD, **READY), Observed(at=10.0, alive=False, exit_code=code))
    assert words in str(verdict.message)
    assert "while serving" in str(verdict.message)
    assert verdict.ending is not None
    assert verdict.ending.remedy


def test_the_cause_in_the_log_is_kept() -> None:
    verdict = judge(RECORD, Observed(at=10.0, alive=False, report=OOM, exit_code=1))
    assert verdict.ending is not None
    assert verdict.ending.cause is not None
    assert verdict.ending.cause["class"] == "cuda_oom"
    assert verdict.ending.message == "OOM."


@pytest.mark.parametrize(
    ("free_bytes", "full"), [(0, True), (4096, True), (1 << 30, False), (None, False)]
)
def test_a_full_disk_is_named(free_bytes: int | None, full: bool) -> None:
    seen = Observed(at=9.0, alive=False, exit_code=1, log_disk_free_bytes=free_bytes)
    verdict = judge(replace(RECORD), seen)
    assert verdict.state is S.FATAL
    assert verdict.ending is not None
    assert ("disk of its log is full" in str(verdict.message)) is full
    assert ("Make room" in str(verdict.ending.remedy)) is full
    # A cause that the log gives wins over a guess from the disk.
    told = judge(RECORD, replace(seen, report=OOM))
    assert str(told.message) == "OOM."
