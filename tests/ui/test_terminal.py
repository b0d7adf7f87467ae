"""The console in a real terminal, with real processes: the demo engine, signals, pipes, exits."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from qwen_tui.services.paths import Paths
from support.supervise import kill_all
from support.terminal import Terminal, terminal

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def env(tmp_path: Path) -> Iterator[dict[str, str]]:
    """A home of its own, whose demo profiles use a port that nobody has."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    paths = Paths(tmp_path / "config", tmp_path / "state", tmp_path / "cache")
    paths.profiles.mkdir(parents=True)
    (paths.config / "config.toml").write_text('[console]\nguide = "done"\n')
    for name in ("demo-speed", "demo-context"):
        (paths.profiles / f"{name}.toml").write_text(
            f'extends = "{name}"\nport = {port}\n'
            "[args]\ndemo-drain-poll-seconds = 0.05\ndemo-load-seconds = 0.4\n"
        )
    yield {
        **{k: v for k, v in os.environ.items() if k not in {"NO_COLOR", "COLUMNS", "LINES"}},
        "QWEN_TUI_HOME": str(tmp_path),
        "TERM": "xterm-256color",
        "LANG": "C.UTF-8",
    }
    kill_all(paths)


def command(env: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "qwen_tui", *arguments],
        env=env,
        capture_output=True,
        text=True,
        timeout=40,
        stdin=subprocess.DEVNULL,
        check=False,
    )


def test_launch_swap_leave_and_find_it_again(env: dict[str, str]) -> None:
    with terminal(env=env) as console:
        console.wait("demo-speed")
        console.wait("s Start")
        console.press("s")
        console.wait("Boot")
        console.wait("RUNNING")
        console.wait("159,776 →")
        console.press("p")
        console.wait("Send a probe")
        console.press("\r")
        console.wait("Copy as curl")
        console.press("\x1b")
        console.wait(lambda text: "Copy as curl" not in text)
        console.press("s")
        console.wait("Swap demo-speed → demo-context")
        console.press("\r")
        console.wait(lambda text: "demo-context" in text and "RUNNING" in text)
        console.wait("Swap to speed")
        console.press("q")
        console.wait("Leave it running")
        console.press("\r")
        assert console.ended() == 0
        assert console.sane
    status = command(env, "status")
    assert status.returncode == 0, status.stderr
    assert "demo-context" in status.stdout
    with terminal(env=env, columns=120, rows=40) as again:
        text = again.wait("RUNNING")
        assert "demo-context" in text
        again.press("x")
        again.wait("Stop the server?")
        again.press("\r")
        again.wait("STOPPED")
        again.press("q")
        assert again.ended() == 0
        assert again.sane


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_restores_the_terminal(env: dict[str, str], number: signal.Signals) -> None:
    with terminal(env=env) as console:
        console.wait("s Start")
        assert not console.sane
        console.process.send_signal(number)
        assert console.ended() == 0
        assert console.sane
        assert "Traceback" not in console.text


def test_a_killed_console_leaves_the_server_alone(env: dict[str, str]) -> None:
    with terminal(env=env) as console:
        console.wait("s Start")
        console.press("s")
        console.wait("STARTING")
        console.process.kill()
        console.process.wait(5)
    with terminal(env=env) as again:
        again.wait("RUNNING")
        again.wait("of 2 running")


def test_no_terminal_is_one_line_and_exit_2(env: dict[str, str]) -> None:
    done = command(env)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.splitlines() == [
        "qwen-tui: The console needs a terminal, and standard output is not one.",
        "  → Use a command instead, for example: qwen-tui status",
    ]


def test_a_dumb_terminal_is_refused(env: dict[str, str]) -> None:
    with terminal(env={**env, "TERM": "dumb"}) as console:
        console.wait("the console cannot draw there")
        assert console.ended() == 2


def test_no_color_paints_no_colour(env: dict[str, str]) -> None:
    with terminal(env={**env, "NO_COLOR": ""}) as console:
        console.wait("s Start")
        assert _coloured(console) == set()
    with terminal(env=env) as console:
        console.wait("s Start")
        assert _coloured(console)


def _coloured(console: Terminal) -> set[str]:
    """Return the hues on the screen; grey is none."""
    found: set[str] = set()
    for row in console.screen.buffer.values():
        for cell in row.values():
            colour = cell.fg
            if len(colour) == 6 and len({colour[0:2], colour[2:4], colour[4:6]}) > 1:
                found.add(colour)
    return found


def test_a_storm_of_resizes_ends_with_a_whole_screen(env: dict[str, str]) -> None:
    with terminal(env=env) as console:
        console.wait("s Start")
        for columns, rows in [(40, 10), (200, 60), (80, 24), (120, 40), (81, 25), (80, 24)]:
            console.resize(columns, rows)
            console.read(0.05)
        console.wait(lambda text: text.splitlines()[-1].startswith(" s Start"))
        console.press("q")
        assert console.ended() == 0


def test_a_linux_console_gets_its_own_colours_and_no_glyph_that_its_font_lacks(
    env: dict[str, str],
) -> None:
    env = {k: v for k, v in env.items() if k != "COLORTERM"}
    with terminal(env={**env, "TERM": "linux"}) as console:
        console.wait("s Start")
        console.wait(lambda text: "NVIDIA" in text)
        assert console.text.isascii()
        cells = [cell for row in console.screen.buffer.values() for cell in row.values()]
        colours = {colour for cell in cells for colour in (cell.fg, cell.bg)}
        assert len(colours) > 2
        assert not [c for c in colours if re.fullmatch("[0-9a-f]{6}", c)]  # one of sixteen by name
        console.press("q")
        assert console.ended() == 0
        assert console.sane


@pytest.mark.parametrize("term", ["tmux-256color", "screen-256color", "xterm"])
def test_other_terminals_get_a_whole_screen(env: dict[str, str], term: str) -> None:
    with terminal(env={**env, "TERM": term}) as console:
        text = console.wait("s Start")
        assert "Asked → got" in text
        console.press("q")
        assert console.ended() == 0
        assert console.sane


def test_ascii_paints_no_other_character(env: dict[str, str]) -> None:
    with terminal("--ascii", env=env) as console:
        console.wait("s Start")
        text = console.wait(lambda text: "NVIDIA" in text)
        assert text.isascii(), [c for c in text if not c.isascii()]


def test_an_idle_console_writes_little(env: dict[str, str]) -> None:
    """A slow ssh line must do: one kilobyte a second was measured, 3.1 with busy streams."""
    with terminal(env=env) as console:
        console.wait("s Start")
        console.read(1.0)
        before = console.bytes_read
        console.read_for(2.0)
        assert console.bytes_read == before
        console.press("s")
        console.wait("RUNNING")
        console.read_for(3.0)
        before = console.bytes_read
        console.read_for(4.0)
        assert (console.bytes_read - before) / 4 < 4000


def test_suspend_and_resume(env: dict[str, str]) -> None:
    with terminal(env=env) as console:
        console.wait("s Start")
        console.press("\x1a")
        console.read_for(0.5)
        assert console.state == "T"
        assert console.sane
        console.process.send_signal(signal.SIGCONT)
        console.wait("s Start")
        console.press("q")
        assert console.ended() == 0


def test_a_cancelled_swap_goes_back(env: dict[str, str], tmp_path: Path) -> None:
    slow = tmp_path / "config" / "profiles" / "demo-context.toml"
    slow.write_text(slow.read_text().replace("load-seconds = 0.4", "load-seconds = 8"))
    with terminal(env=env) as console:
        console.wait("s Start")
        console.press("s")
        console.wait("Swap to context")
        console.press("s")
        console.wait("Drain first")
        console.press("\r")
        console.wait(lambda text: "demo-context" in text and "STARTING" in text)
        console.press("x")
        console.wait("demo-speed serves again", 40)
        console.wait(lambda text: "demo-speed" in text and "RUNNING" in text)
        console.press("q")
        console.wait("Leave it running")
        console.press("x")
        assert console.ended(30) == 0
        assert console.sane


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGTERM])
def test_a_lost_connection_in_a_swap_leaves_a_server(
    env: dict[str, str], tmp_path: Path, number: signal.Signals
) -> None:
    """It was stopping the old one when the terminal went away: the new one is started all the same.

    A slow drain holds the swap in its stop while the signal comes.
    """
    speed = tmp_path / "config" / "profiles" / "demo-speed.toml"
    speed.write_text(speed.read_text().replace("poll-seconds = 0.05", "poll-seconds = 3"))
    assert command(env, "up", "demo-speed").returncode == 0
    with terminal(env=env) as console:
        console.wait("Swap to context")
        console.press("s")
        console.wait("Drain first")
        console.press("\r")
        console.wait(lambda text: "Stopping" in text)
        os.kill(console.process.pid, number)
        console.ended(30)
    for _ in range(60):
        status = json.loads(command(env, "status", "--json").stdout)
        if status["ready"]:
            break
        time.sleep(0.25)
    assert (status["profile"], status["ready"]) == ("demo-context", True)
