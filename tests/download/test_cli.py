"""The command: exit codes, what goes where, interruption, no secrets."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import pty
import signal
import subprocess
import sys
import time
import types
from typing import TYPE_CHECKING

import pytest

from qwen_tui.cli import main
from qwen_tui.services.download import aftermath

if TYPE_CHECKING:
    from pathlib import Path

    from support.download_bench import Bench

MODEL = "model.safetensors"
TOKEN = "hf_0123456789abcdef"


def command(bench: Bench, *argv: str) -> list[str]:
    code = "import sys; from qwen_tui.cli import main; sys.exit(main())"
    return [sys.executable, "-c", code, "download", bench.hub.repo, *argv]


def environment(bench: Bench) -> dict[str, str]:
    return bench.environment(
        HF_ENDPOINT=bench.hub.endpoint, HF_TOKEN=TOKEN, QWEN_TUI_HOME=str(bench.home / "q")
    )


def call(bench: Bench, *argv: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        command(bench, *argv),
        env=environment(bench),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert TOKEN not in done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done


def test_json_lines(bench: Bench) -> None:
    done = call(bench, "--dest", str(bench.dest), "--yes", "--json")
    events = [json.loads(line) for line in done.stdout.splitlines()]
    verify = events[-1]["verify"]
    # The hub's weights are random bytes: where a verifier is installed, it says so.
    assert done.returncode == (1 if verify and verify["verdict"] == "error" else 0), done.stderr
    assert all(next(iter(e)) == "schema" for e in events)
    assert {e["schema"] for e in events} == {"qwen-tui.download/1"}
    assert [e["event"] for e in events][:2] == ["ready", "plan"]
    assert events[-1]["status"] == "complete"
    assert "verify" in events[-1]
    assert bench.whole()


def test_without_a_terminal_and_without_yes_nothing_is_fetched(bench: Bench) -> None:
    done = call(bench, "--dest", str(bench.dest))
    assert done.returncode == 2
    assert "--yes" in done.stderr
    assert bench.hub.ranges("model.safetensors") == []
    assert not (bench.dest / "config.json").exists()


def test_dry_run(bench: Bench) -> None:
    done = call(bench, "--dest", str(bench.dest), "--dry-run")
    assert done.returncode == 0
    assert "to fetch" in done.stderr
    assert not (bench.dest / "config.json").exists()


@pytest.mark.parametrize(
    ("argv", "code", "words"),
    [
        (["--limit-rate", "fast"], 2, "no speed limit"),
        (["--workers", "0"], 2, "--workers"),
        (["--endpoint", "hub"], 2, "no address"),
        (["--for", "no-such"], 2, "no profile called"),
        (["--revision", "v9"], 1, "not the revision"),
        (["--include", "*.nothing"], 1, "None of the"),
    ],
)
def test_one_line_and_a_remedy(
    bench: Bench,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    argv: list[str],
    code: int,
    words: str,
) -> None:
    for name, value in environment(bench).items():
        monkeypatch.setenv(name, value)
    command_line = ["download", bench.hub.repo, "--yes", "--dest", str(bench.dest), *argv]
    assert main(command_line) == code
    said = capsys.readouterr().err
    assert words in said
    assert "  → " in said or code == 2
    assert TOKEN not in said


def test_ctrl_c_stops_cleanly_and_the_next_run_goes_on(bench: Bench) -> None:
    bench.hub.files["model.safetensors"] = os.urandom(8 << 20)
    bench.hub.rate_bytes_s = 4e6
    argv = command(bench, "--dest", str(bench.dest), "--yes")
    process = subprocess.Popen(
        argv,
        env=environment(bench),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    part = bench.dest / ".cache/qwen-tui/incoming/model.safetensors.incomplete"
    until = time.monotonic() + 20
    while not (part.exists() and part.stat().st_size > 1_000_000):
        assert time.monotonic() < until
        time.sleep(0.02)
    # As a terminal does: to the whole foreground group. The worker is in a session of its own.
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=20)
    assert process.returncode == 130, err
    assert "Stopped" in out
    bench.hub.rate_bytes_s = None
    done = call(bench, "--dest", str(bench.dest), "--yes")
    assert done.returncode == (1 if "verify: error" in done.stdout else 0)
    assert "goes on from" in done.stderr
    assert bench.whole()


def test_bars_and_a_question_on_a_terminal(bench: Bench) -> None:
    bench.hub.rate_bytes_s = 4e5
    pid, terminal = pty.fork()
    if pid == 0:  # pragma: no cover - the other process
        os.execvpe(
            sys.executable,
            command(bench, "--dest", str(bench.dest)),
            {**environment(bench), "TERM": "xterm-256color", "COLUMNS": "100"},
        )
    output = b""
    answered = False
    while True:
        try:
            data = os.read(terminal, 4096)
        except OSError:
            break
        if not data:
            break
        output += data
        if not answered and b"Fetch?" in output:
            os.write(terminal, b"y\n")
            answered = True
    os.close(terminal)
    _, status = os.waitpid(pid, 0)
    text = output.decode()
    assert os.waitstatus_to_exitcode(status) == (1 if "verify: error" in text else 0), text
    assert answered
    assert "━" in text
    assert "2 of 2 hashes proven" in text
    assert "no verifier." in text or "verify:" in text


FINDING = {"severity": "error", "rule": "F07", "title": "The file is cut off."}


@pytest.mark.parametrize(
    ("document", "code", "line"),
    [
        ({"verdict": "ok", "findings": []}, 0, "verify: ok"),
        ({"verdict": "warn", "findings": []}, 0, "verify: warn"),
        ({"verdict": "error", "findings": [FINDING]}, 1, "  error F07: The file is cut off."),
        ({"verdict": "unknown", "problem": "no config.json"}, 0, "  no config.json"),
        (None, 0, "The checkpoint was not judged: this installation has no verifier."),
    ],
)
def test_the_verdict_is_part_of_the_result(
    bench: Bench,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    document: dict[str, object] | None,
    code: int,
    line: str,
) -> None:
    for name, value in environment(bench).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(aftermath, "judge", lambda *_: document)
    argv = ["download", bench.hub.repo, "--dest", str(bench.dest), "--yes"]
    assert main(argv) == code
    assert line in capsys.readouterr().out.splitlines()


def test_the_verifier_is_asked_with_the_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    module = types.ModuleType("qwen_tui_diagnostics.checkpoint")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    assert aftermath.judge(tmp_path) is None
    asked: list[Path] = []

    class Report:
        findings = ()

        def as_json(self) -> dict[str, object]:
            return {"verdict": "ok"}

    def verify(path: Path) -> Report:
        asked.append(path)
        return Report()

    monkeypatch.setattr(module, "verify", verify, raising=False)
    assert aftermath.judge(tmp_path) == {"verdict": "ok", "findings": []}
    assert asked == [tmp_path]


def test_ctrl_c_at_the_question_ends_it_at_once(bench: Bench) -> None:
    pid, terminal = pty.fork()
    if pid == 0:  # pragma: no cover - the other process
        os.execvpe(sys.executable, command(bench, "--dest", str(bench.dest)), environment(bench))
    output = b""
    asked = 0.0
    with contextlib.suppress(OSError):
        while data := os.read(terminal, 4096):
            output += data
            if not asked and b"Fetch?" in output:
                asked = time.monotonic()
                os.write(terminal, b"\x03")
    os.close(terminal)
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 130, output.decode()
    assert time.monotonic() - asked < 8
    assert not bench.dest.exists()


def test_json_lines_end_with_the_error(bench: Bench) -> None:
    bench.hub.gated = True
    done = call(bench, "--dest", str(bench.dest), "--yes", "--json")
    assert done.returncode == 1
    last = json.loads(done.stdout.splitlines()[-1])
    assert next(iter(last)) == "schema"
    assert (last["event"], last["code"]) == ("error", "gated")
    assert "gated" in last["message"]
    assert "Accept its terms" in last["remedy"]


def test_time_at_the_question_is_not_transfer_time(bench: Bench) -> None:
    async def slow_reader() -> float:
        async with bench.session(bench.environment()) as session:
            async for event in session.events():
                if event["event"] == "plan":
                    await asyncio.sleep(1.2)
                    session.start()
                if event["event"] == "result":
                    return float(event["seconds"])
        raise AssertionError

    assert asyncio.run(slow_reader()) < 1.0
