"""The main job on a real SGLang: up, read, watch, probe, swap and back, survive, stop."""

from __future__ import annotations

import json
import os
import pty
import signal
import socket
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

import psutil
import pytest

from real_engine.conftest import RealEngine, processes_of

pytestmark = [pytest.mark.sglang, pytest.mark.timeout(1500)]

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results" / "real_engine_main_job.json"
SMALL, LARGE = 4096, 8192
PROMPT = "The doctor looked at the server and said: " * 12


def _get(url: str) -> Any:
    with urllib.request.urlopen(url, timeout=30) as reply:
        return json.loads(reply.read())


def _chat(port: int, text: str) -> dict[str, Any]:
    body = {
        "model": "tiny-gpt2",
        "messages": [{"role": "user", "content": text}],
        "max_tokens": 8,
        "temperature": 0,
    }
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/v1/chat/completions",
        data=json.dumps(body).encode(),
        headers={"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=60) as reply:
        return dict(json.loads(reply.read())["usage"])


def _up(engine: RealEngine, name: str) -> float:
    started = time.monotonic()
    done = engine.cli("up", name)
    assert done.returncode == 0, done.stderr
    return round(time.monotonic() - started, 1)


def _console_killed_in_the_middle(engine: RealEngine) -> None:
    """Open the console on a terminal of its own, wait for its first screen, and kill -9 it."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ.update(engine.environment, TERM="xterm-256color", COLUMNS="80", LINES="24")
        os.execv(sys.executable, [sys.executable, "-m", "qwen_tui"])
    try:
        seen = b""
        deadline = time.monotonic() + 30
        while b"speed-cpu" not in seen and time.monotonic() < deadline:
            seen += os.read(terminal, 65536)
        assert b"speed-cpu" in seen, seen[-2000:]
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(terminal)


def test_main_job(real_engine: RealEngine) -> None:
    engine = real_engine
    note = engine.observed
    engine.write_profile("speed-cpu", tokens=SMALL, mode="speed", pair="context-cpu")
    engine.write_profile("context-cpu", tokens=LARGE, mode="context", pair="speed-cpu")

    # A port that is taken is refused before the engine is even started.
    with socket.socket() as squatter:
        squatter.bind(("127.0.0.1", engine.port))
        squatter.listen()
        began = time.monotonic()
        refused = engine.cli("up", "speed-cpu", timeout_s=60)
        assert refused.returncode == 1
        assert str(engine.port) in refused.stderr
        assert processes_of(engine.home) == []
        note["taken_port"] = {
            "seconds": round(time.monotonic() - began, 2),
            "said": refused.stderr.strip().splitlines()[0],
        }
    assert engine.status()["state"] == "stopped"

    # Up, and the boot read to its end with the right facts.
    note["up_seconds"] = _up(engine, "speed-cpu")
    status = engine.status()
    assert (status["state"], status["ready"], status["profile"]) == ("running", True, "speed-cpu")
    server = _get(f"http://127.0.0.1:{engine.port}/server_info")
    assert server["max_total_num_tokens"] == SMALL
    facts = _boot_facts(engine, status)
    assert status["engine_version"] == server["version"]
    assert facts["engine_version"] in {None, server["version"]}  # this log need not state it
    assert facts["facts"]["kv_tokens"] == server["max_total_num_tokens"]
    assert facts["facts"]["context_len"] == server["context_length"] == 4096
    assert facts["facts"]["max_running_requests_effective"] == 4
    assert facts["facts"]["max_running_requests_asked"] == 4
    assert facts["fatal"] is None
    note["facts"] = facts["facts"]
    note["timeline"] = facts["timeline"]
    assert status["limits"]["context_usable"] in {
        server["max_req_input_len"],
        min(server["context_length"], SMALL),
    }
    assert (
        status["limits"]["max_running_requests"]
        == server["internal_states"][0]["effective_max_running_requests_per_dp"]
        == 4
    )

    # Three chats that show cached tokens, one probe.
    usages = [_chat(engine.port, PROMPT) for _ in range(3)]
    cached = [(u.get("prompt_tokens_details") or {}).get("cached_tokens", 0) for u in usages]
    assert cached[0] == 0
    assert cached[1] == cached[2] > 0.8 * usages[0]["prompt_tokens"]
    note["chats"] = {"prompt_tokens": [u["prompt_tokens"] for u in usages], "cached": cached}
    probe = json.loads(engine.cli("probe", "--json", timeout_s=120).stdout)
    assert probe["error"] is None
    assert 0 < probe["ttft_ms"] < 30_000
    assert probe["tokens"] > 0
    note["probe"] = probe

    # A killed console finds its server again; quitting or dying never takes the server along.
    pid = status["pid"]
    _console_killed_in_the_middle(engine)
    assert psutil.pid_exists(pid)
    assert engine.status()["pid"] == pid
    assert engine.status()["state"] == "running"

    # Swap to the other profile of the pair, and back.
    for target, tokens in (("context-cpu", LARGE), ("speed-cpu", SMALL)):
        began = time.monotonic()
        swapped = engine.cli("swap", "--yes")
        assert swapped.returncode == 0, swapped.stderr
        status = engine.status()
        assert (status["profile"], status["ready"]) == (target, True)
        server = _get(f"http://127.0.0.1:{engine.port}/server_info")
        assert server["max_total_num_tokens"] == tokens
        note[f"swap_to_{target}_seconds"] = round(time.monotonic() - began, 1)
        assert not psutil.pid_exists(pid)
        pid = status["pid"]

    # Down is clean: the port is free and nothing of the engine is left.
    began = time.monotonic()
    down = engine.cli("down", timeout_s=120)
    assert down.returncode == 0, down.stderr
    note["down"] = {
        "seconds": round(time.monotonic() - began, 1),
        "said": down.stderr.strip().splitlines()[-1:] + down.stdout.strip().splitlines()[-1:],
    }
    assert engine.status()["state"] == "stopped"
    with socket.socket() as check:
        check.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        check.bind(("127.0.0.1", engine.port))
    assert processes_of(engine.home) == []
    _write_summary(note, server["version"])


def _boot_facts(engine: RealEngine, status: dict[str, Any]) -> dict[str, Any]:
    logs = sorted((engine.home / "state" / "runs").rglob("*.log"), key=lambda p: p.stat().st_mtime)
    assert logs, status
    done = engine.cli("explain-log", str(logs[-1]), "--json", timeout_s=60)
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


def _write_summary(note: dict[str, Any], version: str) -> None:
    from support.machine import machine_facts

    document = {"what": f"main job on a real SGLang {version} (CPU)", **machine_facts(), **note}
    text = json.dumps(document, indent=1, default=str) + "\n"
    RESULTS.write_text(text.replace(str(Path.home()), "~"), encoding="utf-8")
