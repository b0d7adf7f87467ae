"""``qwen-tui explain-log`` as people run it."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest

from enginelog.reading import DATA, load
from qwen_tui.cli import main
from qwen_tui_diagnostics.enginelog.report import PHASES

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

CLASSES = {
    "kv_pool_no_memory", "context_exceeds_kv", "context_too_long", "cuda_oom",
    "mamba_pool_too_small", "mamba_slots_exhausted", "kernel_unsupported", "missing_weights",
    "quantization_unsupported", "bad_argument", "module_missing", "port_in_use",
    "engine_start_failed", "scheduler_crash", "watchdog_timeout", "killed",
}  # fmt: skip
FACTS = {
    "model", "context_len", "kv_tokens", "max_running_requests_effective",
    "max_running_requests_asked", "chunked_prefill_size", "mem_usage_gb", "draft_mem_usage_gb",
    "available_gpu_mem_gb", "mamba_slots", "mamba_slots_per_request", "kv_dtype", "tp_size",
    "mem_fraction_static", "context_len_requested", "available_kv_gib", "max_concurrency",
    "attention_block_size", "num_speculative_tokens", "accept_len_last", "prefix_hit_last",
    "gen_tps_last", "phase_at_failure", "oom_wanted_mib", "oom_free_mib", "smem_required",
    "smem_limit",
}  # fmt: skip


def document(capsys: pytest.CaptureFixture[str], *argv: str) -> dict[str, Any]:
    main(["explain-log", *argv, "--json"])
    out = capsys.readouterr().out
    result: dict[str, Any] = json.loads(out)
    assert next(iter(result)) == "schema"
    return result


@pytest.mark.parametrize("path", sorted(DATA.rglob("*.log")), ids=lambda p: p.name)
def test_json_has_the_shape_of_the_design(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    doc = document(capsys, str(path))
    assert doc["schema"] == "qwen-tui.log/1"
    assert set(doc["facts"]) >= FACTS
    assert doc["engine"] in {"sglang", "vllm"}
    assert doc["phase"] is None or doc["phase"] in PHASES
    for clamp in doc["clamps"] + doc["adjustments"]:
        assert set(clamp) >= {"arg", "asked", "got", "by", "why", "remedy", "evidence"}
        assert set(clamp["evidence"]) == {"line", "text"}
    for span in doc["timeline"]:
        assert set(span) == {"phase", "started", "seconds"}
    if doc["fatal"] is not None:
        assert doc["fatal"]["class"] in CLASSES
        assert doc["fatal"]["evidence"]
    assert isinstance(doc["unread_lines"], int)


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("h200/cg27-lazy-5-1-6.log", 0),
        ("h200/b27-nextn-auto.log", 1),
        ("field/vllm-qwen-mtp-runtime.log", 0),
        ("field/vllm-qwen38-kv-too-small.log", 1),
    ],
)
def test_exit_codes(name: str, code: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain-log", str(DATA / name)]) == code
    assert capsys.readouterr().err == ""


def test_evidence_lines_exist(capsys: pytest.CaptureFixture[str]) -> None:
    lines = load("h200/b27-nextn-auto.log").decode().split("\n")
    doc = document(capsys, str(DATA / "h200/b27-nextn-auto.log"))
    for evidence in doc["fatal"]["evidence"]:
        assert lines[evidence["line"] - 1].rstrip() == evidence["text"]


def test_stdin(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    class Stdin:
        buffer = io.BytesIO(load("h200/tiny-maxtotal.log"))

    monkeypatch.setattr(sys, "stdin", Stdin())
    assert document(capsys, "-")["facts"]["kv_tokens"] == 50000


def test_text_says_what_matters(capsys: pytest.CaptureFixture[str]) -> None:
    main(["explain-log", str(DATA / "h200/tiny-maxtotal.log")])
    out = capsys.readouterr().out
    assert out.startswith("SGLang was stopped on purpose; it was ready before.\n")
    assert "--max-running-requests" in out
    assert "8 → 4" in out
    assert "131,072 → 49,994" in out
    assert "KV pool" in out
    main(["explain-log", str(DATA / "h200/b27-nextn-auto.log")])
    out = capsys.readouterr().out
    assert "module_missing" in out.splitlines()[0]
    assert "62: ModuleNotFoundError: No module named 'deep_gemm'" in out


def test_nothing_recognised(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "x.log"
    log.write_text("hello\nworld\n")
    assert main(["explain-log", str(log)]) == 2
    assert "Nothing in it" in capsys.readouterr().out
    log.write_text("============ Serving Benchmark Result ============\n")
    assert main(["explain-log", str(log)]) == 2
    assert "benchmark client" in capsys.readouterr().out
    log.write_bytes(b"")
    doc = document(capsys, str(log))
    assert (doc["engine"], doc["ready"], doc["fatal"], doc["coverage"]) == (None, False, None, None)


def test_a_file_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain-log", str(tmp_path / "none.log")]) == 2
    assert main(["explain-log", str(tmp_path)]) == 2
    err = capsys.readouterr().err
    assert "none.log cannot be read" in err
    assert "Traceback" not in err


def test_boots(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "loop.log"
    log.write_bytes(load("h200/b27-notenough.log") + load("h200/tiny-hicache.log"))
    assert document(capsys, str(log))["boots"] == 2
    assert document(capsys, str(log))["facts"]["kv_tokens"] == 1599522
    first = document(capsys, str(log), "--boot", "1")
    assert first["fatal"]["class"] == "mamba_pool_too_small"
    main(["explain-log", str(log), "--boots"])
    out = capsys.readouterr().out.splitlines()
    assert [line.split(",")[0] for line in out] == ["boot 1", "boot 2"]
    listing = document(capsys, str(log), "--boots")
    assert [b["fatal"] for b in listing["boots"]] == ["mamba_pool_too_small", None]
    assert main(["explain-log", str(log), "--boot", "7"]) == 2
    assert main(["explain-log", str(log), "--boot", "0"]) == 2


SECRETS = ("sk-very-secret-1234", "adminkey-9876", "hf_abcdefgh12345678", "listed-key-5555",
           "nested-key-7777")  # fmt: skip


def secret_log() -> str:
    return (
        "[2026-11-29 14:00:00] server_args=ServerArgs(model_path='/m', "
        "api_key='sk-very-secret-1234',"
        " admin_api_key='adminkey-9876', max_running_requests=4, context_length=4096)\n"
        "[2026-11-29 14:00:01] a line that nobody knows shows sk-very-secret-1234 and "
        "adminkey-9876\n"
        "[2026-11-29 14:00:01] loading https://user:pass@host/m?token=hf_abcdefgh12345678\n"
        "[2026-11-29 14:00:02] max_running_requests is capped to 2 by the mamba state cache "
        "(max_mamba_cache_size=8, 4 state slots per request) adminkey-9876\n"
        "[2026-11-29 14:00:03] Scheduler hit an exception: Traceback (most recent call last):\n"
        'ValueError: adminkey-9876 hf_abcdefgh12345678 extra=\'{"secret_key": '
        '"nested-key-7777"}\'\n'
        "(APIServer pid=1) INFO 09-01 10:00:00 [x.py:10] non-default args: {'model': '/m', "
        "'api_key': ['listed-key-5555']}\n"
        "(APIServer pid=1) INFO 09-01 10:00:00 [x.py:10] unknown 'api_key': ['listed-key-5555']\n"
    )


@pytest.mark.parametrize("argv", [[], ["--json"], ["--unread"], ["--boots"], ["--boot", "1"]])
def test_secrets_never_come_out(
    argv: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "secret.log"
    log.write_text(secret_log())
    main(["explain-log", str(log), *argv])
    captured = capsys.readouterr()
    assert captured.out
    for secret in (*SECRETS, "user:pass"):
        assert secret not in captured.out + captured.err


def test_unread_lines_are_ready_to_become_fixtures(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "x.log"
    log.write_text("[2026-11-29 14:00:00] Load weight begin. avail mem=1.50 GB\n"
                   "[2026-11-29 14:00:01] A new line of a new release: 7\n")  # fmt: skip
    main(["explain-log", str(log), "--unread"])
    assert capsys.readouterr().out == "[2026-11-29 14:00:01] A new line of a new release: 7\n"
    doc = document(capsys, str(log))
    assert (doc["unread_lines"], doc["coverage"]) == (1, 0.5)
    unread = document(capsys, str(log), "--unread")["unread"]
    assert unread == [{"line": 2, "text": "[2026-11-29 14:00:01] A new line of a new release: 7"}]


# --- follow ---------------------------------------------------------------------------------


def wait_for(read: Callable[[], str], text: str, seconds: float = 20.0) -> str:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if text in (seen := read()):
            return seen
        time.sleep(0.05)
    raise AssertionError(f"{text!r} not in {read()!r}")


def test_follow_survives_rotation_and_truncation(tmp_path: Path) -> None:
    log, out = tmp_path / "engine.log", tmp_path / "out.txt"
    whole = load("h200/cg27-lazy-5-1-6.log")
    cut = whole.index(b"Load weight begin")
    cut = whole.index(b"\n", cut) + 1
    log.write_bytes(whole[:cut])
    with out.open("wb") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", "qwen_tui", "explain-log", "--follow", str(log)],
            stdout=file, stderr=subprocess.STDOUT, env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )  # fmt: skip
        try:
            wait_for(out.read_text, "loading weights")
            with log.open("ab") as file2:
                file2.write(whole[cut:])
            seen = wait_for(out.read_text, "stopped on purpose")
            assert "--max-running-requests: 4 → 2" in seen
            log.rename(tmp_path / "engine.log.1")  # rotation: a new file under the same name
            log.write_bytes(load("h200/b27-notenough.log"))
            wait_for(out.read_text, "died (mamba_pool_too_small)")
            log.write_bytes(load("h200/tiny-ctx-too-long.log"))  # truncated in place
            wait_for(out.read_text, "died (context_too_long)")
        finally:
            process.terminate()
            process.wait(10)


def test_follow_wants_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain-log", "--follow", "-"]) == 2
    assert main(["explain-log", "--follow", str(tmp_path / "none.log")]) == 2
    assert "Traceback" not in capsys.readouterr().err
