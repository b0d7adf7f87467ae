"""The command: exit codes, what goes where, interruption, no secrets."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import os
import pty
import signal
import subprocess
import sys
import time
import types
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from qwen_tui.cli import main
from qwen_tui.services.download import aftermath, sentences
from qwen_tui.services.download.narration import event_lines, plan_lines, result_lines
from qwen_tui.services.download.prepare import parse_rate, prepare
from qwen_tui.services.download.problems import RETRYABLE, from_os
from qwen_tui.services.paths import Paths
from qwen_tui_profiles.errors import UsageError
from qwen_tui_profiles.profile import EngineKind, EngineMode, EngineProfile, ModelRef

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
def test_one_line_and_a_remedy(bench: Bench, argv: list[str], code: int, words: str) -> None:
    done = call(bench, "--yes", "--dest", str(bench.dest), *argv)
    assert done.returncode == code
    assert words in done.stderr
    assert "  → " in done.stderr or code == 2


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
        def as_json(self) -> dict[str, object]:
            return {"verdict": "ok"}

    def verify(path: Path) -> Report:
        asked.append(path)
        return Report()

    monkeypatch.setattr(module, "verify", verify, raising=False)
    assert aftermath.judge(tmp_path) == {"verdict": "ok"}
    assert asked == [tmp_path]


def profile(**model: str) -> EngineProfile:
    return EngineProfile(
        name="p",
        title="p",
        engine=EngineKind.SGLANG,
        mode=EngineMode.SPEED,
        argv=(),
        model=ModelRef(**model),
    )


def paths(tmp_path: Path) -> Paths:
    return Paths(tmp_path / "c", tmp_path / "s", tmp_path / "k")


def test_a_profile_brings_repository_and_folder(tmp_path: Path) -> None:
    request = prepare(
        paths(tmp_path),
        repo=None,
        profile=profile(repo="org/model", path="~/m"),
        environment={},
    )
    assert request.repo == "org/model"
    assert request.loaded_only
    assert request.dest is not None
    assert request.dest.endswith("/m")
    assert not request.dest.startswith("~")


def test_another_repository_does_not_go_into_the_profiles_folder(tmp_path: Path) -> None:
    request = prepare(
        paths(tmp_path),
        repo="org/other",
        profile=profile(repo="org/model", path="~/m"),
        environment={},
    )
    assert request.dest is None


def test_neither_repository_nor_profile(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="No repository"):
        prepare(paths(tmp_path), repo=None, profile=None, environment={})


@pytest.mark.parametrize(
    ("text", "value"), [("20M", 20_000_000), ("500k", 500_000), ("1.5GB/s", 1_500_000_000)]
)
def test_rates(text: str, value: int) -> None:
    assert parse_rate(text) == value


@pytest.mark.parametrize("text", ["", "0", "-1M", "nan", "1e9", "12"])
def test_rates_that_are_none(text: str) -> None:
    with pytest.raises(UsageError):
        parse_rate(text)


def test_every_code_that_can_be_tried_again_has_words() -> None:
    assert RETRYABLE <= sentences.CODES


def test_foreign_text_is_cleaned_and_secrets_are_taken_out() -> None:
    error = sentences.describe(
        "connect", {"host": "\x1b[31mevil\x07", "reason": "http://u:secretpw@h/?token=abcdef"}
    )
    text = str(error.message)
    assert "\x1b" not in text
    assert "secretpw" not in text
    assert "abcdef" not in text


def test_unknown_codes_and_events_do_not_break_the_view() -> None:
    assert "frobnicated" in str(sentences.describe("frobnicated", {}).message)
    assert list(event_lines({"event": "something new"})) == []


def test_a_failed_result_says_what_to_do_for_each_file() -> None:
    fields = {"path": "x", "expected": "a", "found": "b"}
    result = {
        "status": "failed",
        "seconds": 1.0,
        "fetched_bytes": 0,
        "hosts": [],
        "failures": [{"path": "x", "code": "hash_mismatch", "fields": fields}],
    }
    lines = [str(line) for line in result_lines(result, {"files": []})]
    assert lines[0] == "Files that did not come: 1."
    assert any("use another mirror" in line for line in lines)


def test_bytes_from_xets_bridge_are_explained() -> None:
    hosts = [{"host": "cas-bridge.xethub.hf.co", "roles": ["storage"], "bytes": 9, "xet": True}]
    result = {
        "status": "cancelled",
        "seconds": 1.0,
        "fetched_bytes": 9,
        "hosts": hosts,
        "failures": [],
    }
    lines = [str(line) for line in result_lines(result, {"files": []})]
    assert "Bytes came from cas-bridge.xethub.hf.co (9 B); Xet was off." in lines
    assert "Xet's storage sent them over plain HTTP, through its bridge." in lines


@pytest.mark.parametrize(
    ("number", "code"),
    [
        (errno.ENOSPC, "no_space"),
        (errno.EDQUOT, "quota"),
        (errno.EROFS, "read_only"),
        (errno.EACCES, "no_permission"),
        (errno.EIO, "disk_error"),
    ],
)
def test_disk_failures_have_their_own_sentences(number: int, code: str) -> None:
    problem = from_os(OSError(number, os.strerror(number)), "/m/x")
    assert problem.code == code
    assert not problem.retryable
    assert "/m/x" in str(sentences.describe(problem.code, problem.fields).message)


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


def test_the_checkpoint_is_judged_for_the_profiles_launch(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    request = prepare(
        paths(tmp_path),
        repo=None,
        profile=replace(
            profile(repo="org/model"),
            engine=EngineKind.VLLM,
            argv=("--speculative-config", "{}", "--quantization", "modelopt", "--language-only"),
        ),
        environment={},
    )
    asked: list[dict[str, object]] = []
    module = types.ModuleType("qwen_tui_diagnostics.checkpoint")
    monkeypatch.setitem(sys.modules, module.__name__, module)

    class Report:
        def as_json(self) -> dict[str, object]:
            return {"verdict": "ok"}

    def verify(_path: Path, **settings: object) -> Report:
        asked.append(settings)
        return Report()

    monkeypatch.setattr(module, "verify", verify, raising=False)
    plan = {"files": [{"path": MODEL}]}
    assert aftermath.judge(tmp_path, request, plan) == {"verdict": "ok"}
    assert asked == [
        {
            "engine": "vllm",
            "speculative": True,
            "language_only": True,
            "quantization": "modelopt",
        }
    ]


def test_a_choice_without_weights_is_no_checkpoint(tmp_path: Path) -> None:
    document = aftermath.judge(tmp_path, None, {"files": [{"path": "config.json"}]})
    assert document == {"verdict": "unknown", "problem": "no weights were asked for"}


PLAN = {
    "repo": "org/model",
    "revision": "main",
    "commit": "c" * 40,
    "folder": "/m",
    "total_bytes": 50 * 10**9 + 1005,
    "here_bytes": 5,
    "kept_bytes": 400,
    "fetch_bytes": 50 * 10**9 + 601,
    "unknown_sizes": 1,
    "free_bytes": 10**9,
    "free_after_bytes": 10**9 - 50 * 10**9 - 601,
    "too_large": ["big.safetensors"],
    "left_out": [],
    "leftovers": {"count": 0, "bytes": 0},
    "eta_s": None,
    "probes": [],
    "files": [
        {"path": "here.json", "size": 5, "state": "here", "have_bytes": 5},
        {"path": "part.safetensors", "size": 1000, "state": "part", "have_bytes": 400},
        {"path": "big.safetensors", "size": 50 * 10**9 + 1, "state": "missing", "have_bytes": 0},
        {"path": "odd.bin", "size": None, "state": "missing", "have_bytes": 0},
    ],
}


def test_the_plan_says_what_is_known_and_what_is_not() -> None:
    lines = [str(line) for line in plan_lines(PLAN)]
    assert "       50.0 GB  big.safetensors  (to fetch)" in lines
    assert "        1.0 kB  part.safetensors  (400 B of it here)" in lines
    assert "           5 B  here.json  (here, verified)" in lines
    assert "             —  odd.bin  (to fetch)" in lines
    assert "  without a size in the listing: 1; they come on top of these figures" in lines
    assert "  over 50 GB, not to be had with Xet off: big.safetensors" in lines
    assert "  free now: 1.0 GB, 49.0 GB too little" in lines
    assert "  time: —, no download from this endpoint was measured yet" in lines


def test_a_repository_of_many_files_does_not_flood_the_screen() -> None:
    many = [
        {"path": f"{n:03}", "size": 1000 - n, "state": "missing", "have_bytes": 0}
        for n in range(200)
    ]
    lines = [str(line) for line in plan_lines({**PLAN, "files": many})]
    assert len(lines) < 32
    # 801 … 980, the sizes of the files 020 to 199.
    assert (
        f"      {sum(range(801, 981)) / 1000:.1f} kB  180 smaller files (180 of them to fetch)"
        in lines
    )


@pytest.mark.parametrize(
    ("unproven", "fetched", "line"),
    [
        ([], 10**9, "Complete: /m, 4 of 4 hashes proven (1.0 GB in 2.0 s, 500.0 MB/s)."),
        (["a"], 10**9, "Complete: /m, 3 of 4 hashes proven (1.0 GB in 2.0 s, 500.0 MB/s)."),
        ([], 0, "Complete: /m, 4 of 4 hashes proven; nothing had to be fetched."),
    ],
)
def test_what_is_called_proven(unproven: list[str], fetched: int, line: str) -> None:
    result = {
        "status": "complete",
        "seconds": 2.0,
        "fetched_bytes": fetched,
        "folder": "/m",
        "hosts": [],
        "failures": [],
        "unproven": unproven,
        "verify": {"verdict": "ok"},
    }
    lines = [str(line) for line in result_lines(result, PLAN)]
    assert lines[0] == line
    assert any("gave no hash" in x for x in lines) == bool(unproven)


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


@pytest.mark.parametrize("revision", ["../x", "a/../b", "-x", "", "a\nb"])
def test_revisions_that_are_none(tmp_path: Path, revision: str) -> None:
    with pytest.raises(UsageError):
        prepare(paths(tmp_path), repo="o/m", profile=None, environment={}, revision=revision)


def test_ordinary_revisions(tmp_path: Path) -> None:
    for revision in ("main", "v1.0", "refs/pr/1", "c" * 40, "feature/x-y_z"):
        request = prepare(
            paths(tmp_path), repo="o/m", profile=None, environment={}, revision=revision
        )
        assert request.revision == revision
