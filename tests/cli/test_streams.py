"""Nobody to tell it to: pipes without a reader, full disks, closed streams, lost terminals."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from support.home import Home


@pytest.mark.parametrize("narration", ["no reader", "full disk", "closed"])
def test_a_swap_goes_on_when_nobody_can_be_told(home: Home, narration: str) -> None:
    assert home.run("up", "quick")[0] == 0
    before = home.json("status")["pid"]
    if narration == "no reader":
        reader, writer = os.pipe()
        os.close(reader)
        stderr: int | None = writer
    else:
        stderr = os.open("/dev/full", os.O_WRONLY) if narration == "full disk" else None
    command = [sys.executable, "-m", "qwen_tui", "swap", "--yes", "--json"]
    if stderr is None:
        command = ["/bin/sh", "-c", 'exec "$@" 2>&-', "sh", *command]
    done = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=stderr,
        env={**os.environ, "QWEN_TUI_HOME": str(home.root)},
        timeout=40,
        check=False,
    )
    if stderr is not None:
        os.close(stderr)
    # One document, whatever became of the narration, and the other side serves.
    assert json.loads(done.stdout)["outcome"] == "swapped"
    assert done.returncode == 0
    status = home.json("status")
    assert (status["state"], status["profile"], status["ready"]) == ("running", "long", True)
    assert status["pid"] != before


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGTERM])
def test_a_swap_is_not_left_after_its_stop(home: Home, number: signal.Signals) -> None:
    assert home.run("up", "quick")[0] == 0
    swap = home.start("swap", "--yes")
    assert swap.stderr is not None
    assert any("Stopping: " in line for line in swap.stderr)
    swap.send_signal(number)
    _, said = swap.communicate(timeout=40)
    assert swap.returncode == 0, said
    status = home.json("status")
    assert (status["state"], status["profile"], status["ready"]) == ("running", "long", True)


def test_a_closed_standard_input_or_output_is_no_error(home: Home) -> None:
    command = (sys.executable, "-m", "qwen_tui")
    for closed, arguments, code, said in (
        ("<&-", ("swap", "quick"), 2, "no terminal to ask on"),
        (">&-", ("status",), 0, ""),
        (">/dev/full", ("status",), 1, "No space left"),
    ):
        done = subprocess.run(
            ["/bin/sh", "-c", f'exec "$@" {closed}', "sh", *command, *arguments],
            capture_output=True,
            text=True,
            env={**os.environ, "QWEN_TUI_HOME": str(home.root)},
            timeout=30,
            check=False,
        )
        assert done.returncode == code, done.stderr
        assert "An error of qwen-tui itself" not in done.stderr
        assert said in done.stderr
