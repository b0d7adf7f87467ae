"""An hour of watching: does the console stay small and quiet?

The console runs on a terminal over a demo engine of its own that gets traffic in bursts (busy and
idle by turns). Every half minute its CPU share and memory are noted, and at the end how often it
asked the server for metrics, from the server's own log. ``--others VENV`` runs sgtop (on a demo
engine of its own, with the same traffic) and vllmstat beside it.

    python -m benchmarks.soak --minutes 62 --others VENV --out benchmarks/results/soak.json
"""

from __future__ import annotations

import argparse
import asyncio
import http.server
import json
import random
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from benchmarks.console_cpu import HERE, Demo, PretendVllm
from benchmarks.machine import machine_facts
from benchmarks.ptyrun import Terminal, measure


async def bursts(url: str, seconds: float) -> None:
    """One or two streams for half a minute, then quiet for half a minute, by a fixed dice."""
    from qwen_tui.services.live.target import Target
    from qwen_tui.services.probe.kinds import KINDS
    from qwen_tui.services.probe.stream import chat_body, record_chat

    rng = random.Random(7)
    target = Target.parse(url)
    end = time.monotonic() + seconds

    async def client(until: float) -> None:
        # Not the probe itself: that scrapes /metrics too, and the scrapes are counted here.
        while time.monotonic() < until:
            kind = KINDS[rng.choice(("prose", "code", "tool", "code"))]
            await record_chat(
                target,
                chat_body(
                    "qwen3.8-27b-demo",
                    kind.messages(),
                    max_tokens=kind.max_tokens,
                    sglang=True,
                    extra=dict(kind.extra),
                ),
            )

    while time.monotonic() < end:
        until = time.monotonic() + rng.uniform(15, 45)
        await asyncio.gather(*(client(until) for _ in range(rng.randint(1, 2))))
        await asyncio.sleep(rng.uniform(15, 45))


def start_bursts(url: str, seconds: float) -> subprocess.Popen[bytes]:
    """Send the bursts from a child process, so that they are nobody's CPU here."""
    return subprocess.Popen(
        [sys.executable, "-m", "benchmarks.soak", "--bursts", url, str(seconds)],
        cwd=HERE.parent,
        stdout=subprocess.DEVNULL,
    )


def slope_per_hour(points: list[tuple[float, float]]) -> float:
    """Return the least-squares slope of (seconds, value) points, per hour."""
    n = len(points)
    mean_x = sum(x for x, _ in points) / n
    mean_y = sum(y for _, y in points) / n
    top = sum((x - mean_x) * (y - mean_y) for x, y in points)
    bottom = sum((x - mean_x) ** 2 for x, _ in points)
    return top / bottom * 3600 if bottom else 0.0


def summary(samples: list[dict[str, Any]], name: str) -> dict[str, Any]:
    """Return mean CPU, memory at both ends, its largest and its slope after ten minutes."""
    rows = [(s["at_s"], s[name]) for s in samples if name in s]
    rss = [(at, row["rss_mib"]) for at, row in rows]
    settled = [p for p in rss if p[0] >= 600] or rss
    half = [p for p in rss if p[0] >= rss[-1][0] / 2]
    return {
        "cpu_pct_mean": round(sum(row["cpu_pct"] for _, row in rows) / len(rows), 2),
        "cpu_pct_max": max(row["cpu_pct"] for _, row in rows),
        "rss_mib_first": rss[0][1],
        "rss_mib_last": rss[-1][1],
        "rss_mib_max": max(v for _, v in rss),
        "rss_mib_slope_per_hour": round(slope_per_hour(settled), 2),
        "rss_mib_slope_per_hour_second_half": round(slope_per_hour(half), 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=62.0)
    parser.add_argument("--every", type=float, default=30.0, help="seconds between samples")
    parser.add_argument("--others", type=Path, help="environment with sgtop and vllmstat")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--bursts", nargs=2, metavar=("URL", "SECONDS"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.bursts:
        asyncio.run(bursts(args.bursts[0], float(args.bursts[1])))
        return
    result: dict[str, Any] = {"schema": "qwen-tui.bench.soak/1", "machine": machine_facts()}
    samples: list[dict[str, Any]] = []
    programs: dict[str, Terminal] = {}
    vllm = http.server.ThreadingHTTPServer(("127.0.0.1", 0), PretendVllm)
    threading.Thread(target=vllm.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory() as home:
        demo = Demo(Path(home) / "ours")
        # An engine of its own for sgtop: its polls would show in the log that our console follows.
        theirs = Demo(Path(home) / "theirs") if args.others else None
        traffic: list[subprocess.Popen[bytes]] = []
        try:
            log = Path(json.loads(demo.cli("status", "--json").stdout)["log"])
            programs["console"] = Terminal([sys.executable, "-m", "qwen_tui"], env=demo.env)
            if args.others and theirs is not None:
                bin_ = args.others / "bin"
                sgtop = ["--port", str(theirs.port), "--mode", "direct", "--no-full-scan"]
                programs["sgtop"] = Terminal([str(bin_ / "sgtop"), *sgtop])
                programs["vllmstat"] = Terminal(
                    [
                        str(bin_ / "vllmstat"),
                        "--no-gpu",
                        "-u",
                        f"http://127.0.0.1:{vllm.server_port}",
                    ]
                )
            time.sleep(6)
            programs["console"].press("\x1b")
            time.sleep(6)
            scrapes_before = log.read_bytes().count(b"GET /metrics")
            began = time.monotonic()
            for engine in (demo, theirs):
                if engine is not None:
                    traffic.append(start_bursts(engine.url, args.minutes * 60))
            while time.monotonic() - began < args.minutes * 60 and programs["console"].alive():
                row: dict[str, Any] = {"at_s": round(time.monotonic() - began, 1)}
                for name, cost in measure(programs, args.every).items():
                    row[name] = cost.as_json()
                samples.append(row)
                print(json.dumps(row), flush=True)
            took = time.monotonic() - began
            scrapes = log.read_bytes().count(b"GET /metrics") - scrapes_before
            result |= {
                "minutes": round(took / 60, 1),
                "console_alive_at_the_end": programs["console"].alive(),
                "metrics_scrapes_per_s": round(scrapes / took, 3),
                "programs": {name: summary(samples, name) for name in programs},
                "samples": samples[:: max(1, len(samples) // 40)],
            }
        finally:
            for load in traffic:
                load.terminate()
                load.wait(timeout=10)
            for program in programs.values():
                program.end()
            demo.end()
            if theirs is not None:
                theirs.end()
            vllm.shutdown()
    print(json.dumps({k: v for k, v in result.items() if k != "samples"}, indent=1))
    if args.out:
        args.out.parent.mkdir(parents=True, exist_ok=True)
        args.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
