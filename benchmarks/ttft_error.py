"""How far off is the measured time to first token, per client, at 1 and at 32 streams?

A server with scripted delays in a process of its own (``scripted_server.py``) is the truth:

* ``raw``: asyncio's protocol, a stamp in ``data_received`` and nothing else: this machine's floor;
* ``ours``: the product's probe client;
* ``httpx2``: the same request through an HTTP library;
* ``bench_serving``: ``python -m sglang.bench_serving``, when ``--engine-python`` names an
  interpreter that has it.

Two errors are given: against the scripted delay, and against the server's own stamp of the write
(``delivery``: both processes read the machine's one monotonic clock). Rounds go through all clients
in turn, so that a busy moment of the machine hits all of them.

    python -m benchmarks.ttft_error --engine-python VENV/bin/python --tokenizer FOLDER --out FILE
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.machine import machine_facts

HERE = Path(__file__).resolve().parent
DELAY_MS, GAP_MS, TOKENS = 50.0, 5.0, 64


class Sample(NamedTuple):
    """One request: measured TTFT, and how late the first token was stamped after its write."""

    ttft_ms: float
    delivery_ms: float | None


Pending = Callable[[], Sample]
"""Reads a finished request; called when nothing is measured any more (its CPU time counts)."""


def start_server() -> tuple[subprocess.Popen[str], int]:
    command = [
        sys.executable,
        str(HERE / "scripted_server.py"),
        "--delay-ms",
        str(DELAY_MS),
        "--gap-ms",
        str(GAP_MS),
        "--tokens",
        str(TOKENS),
    ]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return process, int(process.stdout.readline())


BODY = json.dumps(
    {
        "model": "scripted",
        "messages": [{"role": "user", "content": "x"}],
        "stream": True,
        "max_tokens": TOKENS,
    }
).encode()


class _Raw(asyncio.Protocol):
    def __init__(self) -> None:
        self.pieces: list[tuple[float, bytes]] = []
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def data_received(self, data: bytes) -> None:
        self.pieces.append((time.perf_counter(), data))

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.done.done():
            self.done.set_result(None)


async def raw(port: int) -> Pending:
    loop = asyncio.get_running_loop()
    transport, protocol = await loop.create_connection(_Raw, "127.0.0.1", port)
    request = (
        f"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
        f"Content-Length: {len(BODY)}\r\n\r\n"
    ).encode() + BODY
    sent = time.perf_counter()
    transport.write(request)
    await protocol.done

    def read() -> Sample:
        at, data = next((t, d) for t, d in protocol.pieces if b'"content"' in d)
        written = json.loads(data[data.index(b"{") : data.index(b"\n\n")])["sent"]
        return Sample((at - sent) * 1000, (at - written) * 1000)

    return read


async def ours(port: int) -> Pending:
    from qwen_tui.services.live.target import Target
    from qwen_tui.services.probe.reading import read_stream
    from qwen_tui.services.probe.stream import chat_body, record_raw

    target = Target("http", "127.0.0.1", port)
    body = chat_body(
        "scripted", [{"role": "user", "content": "x"}], max_tokens=TOKENS, sglang=False
    )
    recorded = await record_raw(target, body)

    def read() -> Sample:
        recording = recorded.read()
        figures = read_stream(recording)
        if figures.ttft_ms is None or figures.tokens != TOKENS:
            raise SystemExit(f"a request measured nothing: {figures.outcome} {figures.error}")
        first = next(e for e in recording.events if '"content"' in e.data)
        return Sample(figures.ttft_ms, (first.at - json.loads(first.data)["sent"]) * 1000)

    return read


def _httpx2_client() -> Any:
    import httpx2

    return httpx2.AsyncClient(timeout=60)


async def httpx2(port: int, client: Any) -> Pending:
    sent = time.perf_counter()
    first: tuple[float, str] | None = None
    async with client.stream(
        "POST",
        f"http://127.0.0.1:{port}/v1/chat/completions",
        content=BODY,
        headers={"Content-Type": "application/json"},
    ) as response:
        async for line in response.aiter_lines():
            if first is None and '"content"' in line:
                first = (time.perf_counter(), line)

    def read() -> Sample:
        assert first is not None
        written = json.loads(first[1].removeprefix("data: "))["sent"]
        return Sample((first[0] - sent) * 1000, (first[0] - written) * 1000)

    return read


def bench_serving(
    python: str, port: int, streams: int, requests: int, tokenizer: str
) -> list[Sample]:
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out.jsonl"
        subprocess.run(
            [
                python,
                "-m",
                "sglang.bench_serving",
                "--backend",
                "sglang-oai-chat",
                "--base-url",
                f"http://127.0.0.1:{port}",
                "--model",
                "scripted",
                "--tokenizer",
                tokenizer,
                "--dataset-name",
                "random-ids",
                "--random-input-len",
                "8",
                "--random-output-len",
                str(TOKENS),
                "--random-range-ratio",
                "1",
                "--num-prompts",
                str(requests),
                "--max-concurrency",
                str(streams),
                "--warmup-requests",
                str(streams),
                "--output-file",
                str(out),
                "--output-details",
                "--disable-tqdm",
            ],
            check=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            timeout=600,
        )
        details = json.loads(out.read_text().splitlines()[-1])
    return [Sample(t * 1000, None) for t in details["ttfts"]]


async def load(one: Any, streams: int, requests: int) -> tuple[list[Sample], float]:
    """Keep ``streams`` requests in flight; return the samples and the CPU seconds they took.

    Each stream starts at its own moment and discards its first two requests (imports, connections
    and caches of both sides).
    """
    rng = random.Random(streams)
    pending: list[Pending] = []
    warm = asyncio.Barrier(streams)
    started: list[float] = []

    async def stream(offset_s: float) -> None:
        for _ in range(2):
            await one()
        await warm.wait()
        started.append(time.process_time())
        await asyncio.sleep(offset_s)
        for _ in range(max(1, requests // streams)):
            pending.append(await one())

    length_s = (DELAY_MS + GAP_MS * TOKENS) / 1000
    await asyncio.gather(*(stream(rng.random() * length_s) for _ in range(streams)))
    samples = [read() for read in pending]
    return samples, time.process_time() - started[0]


def summary(samples: list[Sample], cpu_s: float | None) -> dict[str, Any]:
    errors = sorted(s.ttft_ms - DELAY_MS for s in samples)
    delivery = sorted(s.delivery_ms for s in samples if s.delivery_ms is not None)

    def p95(values: list[float]) -> float:
        return values[min(len(values) - 1, int(0.95 * len(values)))]

    return {
        "n": len(samples),
        "error_ms": {
            "median": round(statistics.median(errors), 3),
            "p95": round(p95(errors), 3),
            "max": round(errors[-1], 3),
        },
        "delivery_ms": None
        if not delivery
        else {"median": round(statistics.median(delivery), 3), "p95": round(p95(delivery), 3)},
        "cpu_s_per_1000_tokens": None
        if cpu_s is None
        else round(cpu_s / (len(samples) * TOKENS) * 1000, 4),
    }


async def measure(name: str, port: int, streams: int, requests: int) -> dict[str, Any]:
    client = _httpx2_client() if name == "httpx2" else None

    def one() -> Any:
        if name == "raw":
            return raw(port)
        return ours(port) if name == "ours" else httpx2(port, client)

    samples, cpu_s = await load(one, streams, requests)
    if client is not None:
        await client.aclose()
    return summary(samples, cpu_s)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--engine-python", help="interpreter that has sglang.bench_serving")
    parser.add_argument("--tokenizer", help="folder of a tokenizer for bench_serving")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    result: dict[str, Any] = {
        "schema": "qwen-tui.bench.ttft_error/1",
        "machine": machine_facts(),
        "server": {"delay_ms": DELAY_MS, "gap_ms": GAP_MS, "tokens": TOKENS},
        "streams": {},
    }
    for streams, requests in ((1, 40), (32, 320)):
        rows: dict[str, list[dict[str, Any]]] = {}
        # Rounds go through all clients in turn, so that a busy moment hits all of them.
        for _ in range(args.rounds):
            for name in ("raw", "ours", "httpx2", "bench_serving"):
                if name == "bench_serving" and not args.engine_python:
                    continue
                server, port = start_server()
                try:
                    if name == "bench_serving":
                        row = summary(
                            bench_serving(
                                args.engine_python, port, streams, requests, args.tokenizer
                            ),
                            None,
                        )
                    else:
                        row = asyncio.run(measure(name, port, streams, requests))
                finally:
                    server.terminate()
                    server.wait()
                rows.setdefault(name, []).append(row)
                print(f"{streams:3d} streams  {name:14s} {json.dumps(row)}", flush=True)
        result["streams"][str(streams)] = {name: best_of(r) for name, r in rows.items()}
    text = json.dumps(result, indent=1)
    print(text)
    if args.out:
        args.out.parent.mkdir(parents=True, exist_ok=True)
        args.out.write_text(text + "\n")


def best_of(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the round with the median of the medians, and all rounds' medians beside it."""
    ordered = sorted(rows, key=lambda r: r["error_ms"]["median"])
    middle = dict(ordered[len(ordered) // 2])
    middle["rounds"] = [r["error_ms"] for r in rows]
    return middle


if __name__ == "__main__":
    main()
