"""up, down, status, logs and swap as a user types them, on the simulated engine."""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import time
import urllib.request
from typing import TYPE_CHECKING

import pytest

from qwen_tui.services.ports import accepts
from qwen_tui.services.process import identify
from support.home import Home
from support.supervise import free_port, kill_all, processes_of, wait_until

if TYPE_CHECKING:
    from pathlib import Path


def test_the_life_of_a_server(home: Home) -> None:
    assert home.json("status")["state"] == "stopped"

    code, out, err = home.run("up", "quick")
    assert (code, out) == (0, "")
    assert "simulated engine" in err
    assert "one token was generated" in err
    # SGLang's clamp: 8 slots at 4 a request.
    assert "--max-running-requests: asked 4, got 2" in err

    status = home.json("status")
    assert status["schema"] == "qwen-tui.status/1"
    assert (status["state"], status["ready"], status["profile"]) == ("running", True, "quick")
    assert (status["engine"], status["url"]) == ("demo", f"http://127.0.0.1:{home.port}")
    assert status["limits"]["max_running_requests"] == 2
    clamp = next(c for c in status["asked_got"] if c["arg"] == "--max-running-requests")
    assert (clamp["asked"], clamp["got"]) == (4, 2)
    assert status["live"]["running"] == 0
    assert status["live"]["ttfo_ms"] is None
    # The simulated engine does its own arithmetic; the plan came before the launch.
    assert abs(status["prediction"]["error_pct"]) < 0.5
    assert identify(status["pid"]) is not None
    out = home.run("status")[1]
    measured, predicted = status["facts"]["kv_tokens"], status["prediction"]["kv_tokens"]
    assert f"KV pool {measured:,} tokens, predicted {predicted:,} (" in out

    code, out, err = home.run("logs", "-n", "400")
    assert code == 0
    assert "The server is fired up and ready to roll!" in out

    code, _, err = home.run("up", "long")
    assert code == 1
    assert f"pid {status['pid']}" in err

    card = home.json("swap", "--dry-run")
    assert (card["before"], card["target"], card["in_flight"]) == ("quick", "long", 0)
    assert card["changes"] == []
    assert card["limits"]["kv_tokens"] == measured
    assert home.json("status")["pid"] == status["pid"]

    swapped = home.json("swap", "--yes")
    assert (swapped["outcome"], swapped["server"]["profile"]) == ("swapped", "long")
    assert swapped["server"]["ready"]

    boots = home.json("history")["boots"]
    assert [(b["profile"], b["state"]) for b in boots] == [
        ("long", "running"),
        ("quick", "stopped"),
    ]
    assert boots[0]["ready_s"] > 0
    assert home.json("history", "1", "2")["differences"][-1]["what"] == "ready_s"
    (swap,) = home.json("history", "--swaps")["swaps"]
    assert (swap["before"], swap["target"], swap["lost"]) == ("quick", "long", 0)

    down = home.json("down")
    assert (down["how"], down["killed"], down["port_free"]) == ("drained", [], True)
    assert home.json("status")["state"] == "stopped"
    assert not processes_of(home.paths)


def test_a_boot_that_dies_says_why(home: Home) -> None:
    home.write("quick", "speed", "long", more='demo-fault = "oom-load"')
    up = home.json("up", "quick", code=1)
    assert (up["state"], up["ready"]) == ("fatal", False)
    assert up["fatal"]["class"] == "cuda_oom"
    status = home.json("status", code=1)
    assert status["fatal"]["class"] == "cuda_oom"
    code, _, err = home.run("up", "quick")
    assert code == 1
    assert "Not ready" in err
    assert not processes_of(home.paths)


def test_ctrl_c_takes_a_swap_back(home: Home) -> None:
    assert home.run("up", "quick")[0] == 0
    home.write("long", "context", "quick", load=8.0)
    swap = home.start("swap", "--yes")
    assert swap.stderr is not None
    for line in swap.stderr:
        if "loading weights" in line:
            break
    swap.send_signal(signal.SIGINT)
    _, err = swap.communicate(timeout=30)
    # Whoever scripts `swap && next` must not take this for a swap.
    assert swap.returncode == 130
    assert "quick serves again" in err
    status = home.json("status")
    assert (status["profile"], status["ready"]) == ("quick", True)


def test_how_it_died_is_shown_until_it_was_acknowledged(home: Home) -> None:
    assert home.run("up", "quick")[0] == 0
    code, out, err = home.run("status", "--acknowledge")
    assert (code, "Nothing to acknowledge" in err) == (0, True)
    pid = home.json("status")["pid"]
    os.kill(pid, signal.SIGKILL)
    assert wait_until(lambda: identify(pid) is None)
    for _ in range(2):
        code, out, _ = home.run("status")
        assert code == 1
        assert "its log does not say why" in out
        assert "dmesg" in out  # the remedy
    assert home.run("status", "--acknowledge")[0] == 1
    code, out, _ = home.run("status")
    # The state stays what it is; only the words are put away.
    assert (code, "does not say why" in out, "acknowledged" in out) == (1, False, True)
    status = home.json("status", code=1)
    assert (status["state"], status["acknowledged"]) == ("fatal", True)
    # A new server is a new story.
    assert home.run("up", "quick")[0] == 0
    assert home.json("status")["acknowledged"] is False


def test_folders_are_private(home: Home) -> None:
    before = os.umask(0o022)
    try:
        assert home.run("up", "quick")[0] == 0
    finally:
        os.umask(before)
    state = home.paths.state
    entries = [state, *state.rglob("*"), *(p for p in [home.paths.cache] if p.exists())]
    # The lock of a run and the log are made elsewhere than the records: look at all of them.
    assert len([p for p in entries if p.is_file()]) > 3
    assert [p for p in entries if p.stat().st_mode & 0o077] == []


def test_a_death_at_the_first_token_is_a_failed_boot(home: Home) -> None:
    home.write("quick", "speed", "long", more='demo-fault = "oom-first-token"\ndemo-token-ms = 150')
    up = home.json("up", "quick", code=1)
    assert (up["state"], up["ready"]) == ("fatal", False)
    assert up["fatal"]["class"] == "cuda_oom"
    assert not processes_of(home.paths)


def test_interrupting_up_leaves_the_server_running(home: Home) -> None:
    home.write("quick", "speed", "long", load=3.0)
    process = home.start("up", "quick")
    assert process.stderr is not None
    assert "pid" in process.stderr.readline()
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=10)
    assert process.returncode == 130
    assert "the server goes on" in err
    status = home.json("status")
    assert status["state"] == "starting"
    # Nobody follows the boot; whoever asks next completes it.
    assert wait_until(lambda: home.json("status")["ready"], 15)


def test_a_killed_up_loses_nothing(home: Home) -> None:
    home.write("quick", "speed", "long", load=1.0)
    process = home.start("up", "quick")
    assert process.stderr is not None
    process.stderr.readline()
    process.kill()
    process.communicate()
    assert wait_until(lambda: home.json("status")["ready"], 15)
    assert home.json("down")["how"] == "drained"


def test_logs_follow(home: Home) -> None:
    home.write("quick", "speed", "long", load=1.0)
    launcher = home.start("up", "quick")
    assert wait_until(lambda: home.run("logs", "--path")[0] == 0)
    follower = home.start("logs", "-f", "-n", "0")
    assert follower.stdout is not None
    try:
        end = time.monotonic() + 20
        for line in follower.stdout:
            if "fired up" in line:
                break
            assert time.monotonic() < end
    finally:
        follower.send_signal(signal.SIGINT)
        follower.communicate(timeout=10)
        launcher.communicate(timeout=10)
    assert follower.returncode == 130


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["up", "no-such-profile"], 2, "no-such-profile"),
        (["up", "quick", "--python", "/nowhere/python"], 2, "its own"),
        (["up", "27b-int4-speed", "--python", "/nowhere/python"], 1, "/nowhere/python"),
        (["down", "--timeout", "0"], 2, "--timeout"),
        (["down", "--timeout", "soon"], 2, "--timeout"),
        (["logs"], 2, "no engine log"),
        (["logs", "-n", "-3"], 2, "--lines"),
        (["swap"], 1, "Nothing runs"),
        (["swap", "quick"], 2, "--yes"),
        (["status", "--bogus"], 2, "--bogus"),
    ],
)
def test_bad_input_is_one_line_and_starts_nothing(
    home: Home, arguments: list[str], code: int, words: str
) -> None:
    returned, out, err = home.run(*arguments)
    assert (returned, out) == (code, "")
    assert words in err
    assert not home.paths.runs.exists() or not list(home.paths.runs.iterdir())


def test_a_taken_port_is_refused_before_the_boot(home: Home) -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", home.port))
        holder.listen()
        code, _, err = home.run("up", "quick")
    assert code == 1
    assert f"Port {home.port} on 127.0.0.1 is taken by" in err
    assert f"pid {os.getpid()}" in err


def test_a_missing_model_folder_is_refused(home: Home) -> None:
    (home.paths.profiles / "real.toml").write_text(
        'title = "x"\nengine = "sglang"\nmode = "speed"\n'
        f'[launch]\ninterpreter = "{sys.executable}"\n[model]\npath = "/nowhere/model"\n'
    )
    code, _, err = home.run("up", "real")
    assert code in {1, 2}
    assert "/nowhere/model" in err or "has no sglang" in err


def test_a_state_folder_that_cannot_be_written(home: Home) -> None:
    home.paths.state.write_text("not a folder")
    code, _, err = home.run("up", "quick")
    assert code == 2
    assert str(home.paths.state) in err
    home.paths.state.unlink()


def test_a_port_given_at_the_launch_stays_over_a_swap(home: Home) -> None:
    port = free_port()
    code, _, err = home.run("up", "quick", "--port", str(port))
    assert code == 0, err
    assert home.json("swap", "--yes")["server"]["url"] == f"http://127.0.0.1:{port}"


def test_a_server_that_ended_is_not_asked_behind_its_back(home: Home) -> None:
    """Whoever listens at its port by now must get neither its key nor its requests."""
    assert home.run("up", "quick")[0] == 0
    assert home.run("down")[0] == 0
    for command in (("watch", "--count", "1"), ("probe",)):
        code, out, err = home.run(*command)
        assert (code, out) == (2, "")
        assert f"127.0.0.1:{home.port} does not run any more" in err


def test_attach_watches_and_lets_go(home: Home, tmp_path: Path) -> None:
    other = Home(tmp_path / "other")
    try:
        assert home.run("up", "quick")[0] == 0
        url = f"http://127.0.0.1:{home.port}"
        attached = other.json("attach", url)
        assert (attached["state"], attached["engine"], attached["pid"]) == (
            "running",
            "sglang",
            None,
        )
        status = other.json("status")
        assert (status["attached"], status["ready"]) == (True, True)
        assert status["live"]["running"] == 0
        code, _, err = other.run("down")
        assert code == 1
        assert "only watched" in err
        other.json("attach", "--forget")
        assert other.json("status")["state"] == "stopped"
        assert home.json("status")["ready"]
    finally:
        kill_all(other.paths)


def test_a_front_keeps_one_address(home: Home) -> None:
    front = free_port()
    code, _, err = home.run("up", "quick", "--front", str(front))
    assert code == 0, err
    shown = home.json("status")["front"]
    assert (shown["url"], shown["held_now"]) == (f"http://127.0.0.1:{front}", 0)
    with urllib.request.urlopen(f"http://127.0.0.1:{front}/v1/models", timeout=5) as answer:
        usable = home.json("status")["limits"]["context_usable"]
        assert int(answer.headers["x-qwen-tui-usable-context"]) == usable
        model = json.loads(answer.read())["data"][0]
    assert (model["max_model_len"], model["declared_max_model_len"]) == (usable, 159_776)
    home.json("down")
    assert not accepts("127.0.0.1", front)


def test_a_launch_that_is_refused_leaves_no_front(home: Home) -> None:
    front = free_port()
    home.write("quick", "speed", "long", more='demo-fault = "oom-load"')
    assert home.run("up", "quick", "--front", str(front))[0] == 1
    assert home.json("status", code=1)["front"] is None


def test_the_way_to_the_other_side_outlives_the_profile(home: Home) -> None:
    assert home.run("up", "quick")[0] == 0
    (home.paths.profiles / "quick.toml").unlink()
    code, _, err = home.run("swap", "--yes")
    assert code == 0, err
    assert home.json("status")["profile"] == "long"
