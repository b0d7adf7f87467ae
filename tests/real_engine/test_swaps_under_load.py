"""Five swaps of a real SGLang under two streaming clients, through the front: none is lost."""

from __future__ import annotations

import http.client
import json
import threading
from pathlib import Path
from typing import Any

import psutil
import pytest

from real_engine.conftest import RealEngine, free_port, processes_of

pytestmark = [pytest.mark.sglang, pytest.mark.timeout(1500)]

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results" / "real_engine_swaps.json"
KEY = "k-real-engine-1234567"
SWAPS = 5


class Client(threading.Thread):
    """Streams one answer after the other until it is told to end."""

    def __init__(self, port: int, number: int) -> None:
        super().__init__(daemon=True)
        self.port = port
        self.number = number
        self.served = 0
        self.wrong: list[str] = []
        self.longest_s = 0.0
        self.ended = threading.Event()

    def run(self) -> None:
        while not self.ended.wait(0.2):
            try:
                problem = self.ask()
            except (OSError, http.client.HTTPException, ValueError) as error:
                problem = f"{type(error).__name__}: {error}"
            if problem is None:
                self.served += 1
            else:
                self.wrong.append(problem)

    def ask(self) -> str | None:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=300)
        body = {
            "model": "tiny-gpt2",
            "messages": [{"role": "user", "content": f"client {self.number}"}],
            "max_tokens": 16,
            "stream": True,
        }
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {KEY}"}
        try:
            connection.request("POST", "/v1/chat/completions", json.dumps(body), headers)
            answer = connection.getresponse()
            text = answer.read().decode()
        finally:
            connection.close()
        if answer.status != 200:
            return f"{answer.status} {text[:200]}"
        events = [line[6:] for line in text.split("\n") if line.startswith("data: ")]
        if events[-1:] != ["[DONE]"]:
            return f"broke off: {text[-100:]!r}"
        ids = {json.loads(event)["id"] for event in events[:-1]}
        return None if len(ids) == 1 else f"mixed streams: {ids}"


def test_swaps_under_load(real_engine: RealEngine) -> None:
    engine = real_engine
    engine.write_profile("speed-cpu", tokens=4096, mode="speed", pair="context-cpu")
    engine.write_profile("context-cpu", tokens=8192, mode="context", pair="speed-cpu")
    for file in (engine.home / "config" / "profiles").iterdir():
        with file.open("a") as out:
            out.write(f'api-key = "{KEY}"\n')
    front = free_port()
    up = engine.cli("up", "speed-cpu", "--front", str(front))
    assert up.returncode == 0, up.stderr

    # The key reached the engine, and neither a command line nor a record shows it.
    assert not [p.pid for p in processes_of(engine.home) if KEY in " ".join(_argv(p))]
    records = [*(engine.home / "state").rglob("*.json")]
    assert records
    assert not [p for p in records if KEY in p.read_text()]

    clients = [Client(front, number) for number in range(2)]
    for client in clients:
        client.start()
    swaps: list[dict[str, Any]] = []
    for _ in range(SWAPS):
        done = engine.cli("swap", "--yes", "--json", timeout_s=400)
        assert done.returncode == 0, done.stderr
        swaps.append(json.loads(done.stdout))
    for client in clients:
        client.ended.set()
    for client in clients:
        client.join(120)

    assert [s["outcome"] for s in swaps] == ["swapped"] * SWAPS
    assert [s["server"]["profile"] for s in swaps[:2]] == ["context-cpu", "speed-cpu"]
    assert [c.wrong for c in clients] == [[], []]
    assert all(c.served >= SWAPS for c in clients)
    rows = json.loads(engine.cli("history", "--swaps", "--json").stdout)["swaps"]
    assert [row["lost"] for row in rows] == [0] * SWAPS
    RESULTS.write_text(
        json.dumps(
            {
                "what": "5 swaps of SGLang 0.5.23 on two CPU cores under 2 streaming clients",
                "swaps": [
                    {k: row[k] for k in ("target", "seconds", "down_s", "held", "lost")}
                    for row in reversed(rows)
                ],
                "overhead_s": _overheads(engine, rows),
                "requests_served": [c.served for c in clients],
                "requests_failed": [len(c.wrong) for c in clients],
            },
            indent=1,
        )
        + "\n"
    )


def _argv(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def _overheads(engine: RealEngine, rows: list[dict[str, Any]]) -> list[float]:
    """Swap time that is neither the engine's stop nor its start, from the records of the runs."""
    runs = sorted((engine.home / "state" / "runs").iterdir())
    records = [json.loads((run / "run.json").read_text()) for run in runs]
    out = []
    for row, old, new in zip(reversed(rows), records, records[1:], strict=False):
        stop_s = old["ending"]["at"] - old["stop_asked"]
        start_s = new["ready_at"] - new["created"]
        out.append(round(row["seconds"] - stop_s - start_s, 2))
    return out
