"""How fast ``explain-log`` reads a service's days, and whether its memory depends on the size.

    python benchmarks/explain_log.py [--megabytes 200]

Writes a log of a few SGLang boots (40 % prefill and decode lines, the rest access lines) into a
temporary folder, reads it and a tenth of it in child processes, and records CPU seconds and peak
memory in ``benchmarks/results/explain_log.json``. Budget: ≥ 40 MB/s on one core, memory
independent of the size.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import resource
import subprocess
import sys
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parent.parent
RESULT = ROOT / "benchmarks" / "results" / "explain_log.json"
BOOT = ROOT / "tests" / "enginelog" / "data" / "h200" / "cg27-lazy-5-1-6.log"
BUDGET_MB_S = 40.0
BOOTS = 4

_PATHS = (
    ("POST", "/v1/chat/completions", "200 OK"),
    ("POST", "/v1/chat/completions", "200 OK"),
    ("GET", "/health", "200 OK"),
    ("GET", "/metrics", "200 OK"),
    ("POST", "/generate", "200 OK"),
    ("POST", "/v1/chat/completions", "400 Bad Request"),
)


def boot_lines() -> bytes:
    """Return the recorded boot up to readiness."""
    data = BOOT.read_bytes()
    ready = data.index(b"The server is fired up")
    return data[: data.index(b"\n", ready) + 1]


def service(rng: random.Random, now: datetime) -> Iterator[str]:
    """Yield serving lines for ever: decode, prefill and access lines."""
    while True:
        now += timedelta(seconds=rng.choice((0, 0, 1, 2)))
        stamp = f"[{now:%Y-%m-%d %H:%M:%S}]"
        dice = rng.random()
        if dice < 0.30:
            yield (
                f"{stamp} Decode batch, #running-req: {rng.randint(1, 2)}, #full token: "
                f"{rng.randint(1000, 300000)}, full token usage: {rng.random():.2f}, mamba num: 3, "
                f"mamba usage: 0.38, accept len: {1 + 4 * rng.random():.2f}, accept rate: "
                f"{rng.random():.2f}, cuda graph: True, gen throughput (token/s): "
                f"{rng.uniform(60, 190):.2f}, #queue-req: 0\n"
            )
        elif dice < 0.40:
            yield (
                f"{stamp} Prefill batch, #new-seq: 1, #new-token: {rng.randint(1, 2048)}, "
                f"#cached-token: {rng.randint(0, 300000)}, full token usage: {rng.random():.2f}, "
                f"mamba usage: 0.38, #running-req: {rng.randint(0, 1)}, #queue-req: 0, "
                f"#pending-token: 0, cuda graph: False, input throughput (token/s): "
                f"{rng.uniform(1, 3000):.2f}\n"
            )
        else:
            method, path, code = rng.choice(_PATHS)
            yield (
                f'{stamp} INFO:     127.0.0.1:{rng.randint(30000, 60000)} - "{method} {path} '
                f'HTTP/1.1" {code}\n'
            )


def write_log(path: Path, megabytes: int) -> None:
    """Write a log of ``megabytes`` (10^6 bytes) with :data:`BOOTS` boots."""
    rng = random.Random(20261129)
    boot = boot_lines()
    wanted = megabytes * 1_000_000
    with path.open("wb") as file:
        for number in range(BOOTS):
            file.write(boot)
            end = wanted * (number + 1) // BOOTS
            lines = service(rng, datetime(2026, 11, 29 - number, 8, 0, 0, tzinfo=UTC))
            while file.tell() < end:
                file.write("".join(next(lines) for _ in range(2000)).encode())


def child(path: Path) -> None:
    """Read ``path`` and print what it cost."""
    from qwen_tui_diagnostics.enginelog import LogReader

    before = resource.getrusage(resource.RUSAGE_SELF)
    reader = LogReader()
    with path.open("rb") as file:
        while data := file.read(1 << 20):
            reader.feed(data)
    reader.finish()
    report = reader.report()
    after = resource.getrusage(resource.RUSAGE_SELF)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(
        json.dumps(
            {
                "bytes": path.stat().st_size,
                "lines": reader.lines,
                "boots": reader.boots,
                "ready": report.ready,
                "kv_tokens": report.facts["kv_tokens"],
                "cpu_s": round(cpu, 3),
                "peak_rss_mib": round(after.ru_maxrss / 1024, 1),
            }
        )
    )


def measure(path: Path) -> dict[str, object]:
    """Run :func:`child` in a process of its own (so that peak memory is its own)."""
    done = subprocess.run(
        [sys.executable, __file__, "--child", str(path)], check=True, capture_output=True, text=True
    )
    result: dict[str, object] = json.loads(done.stdout)
    return result


def machine() -> dict[str, object]:
    """Return what the figures depend on."""
    model = "unknown"
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text().splitlines():
            if line.startswith("model name"):
                model = line.partition(":")[2].strip()
                break
    return {
        "cpu": model,
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()}",
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=200)
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--no-record", action="store_true", help="print, write no result")
    args = parser.parse_args()
    if args.child is not None:
        child(args.child)
        return 0
    with tempfile.TemporaryDirectory() as folder:
        small, large = Path(folder) / "small.log", Path(folder) / "large.log"
        write_log(small, max(args.megabytes // 10, 1))
        write_log(large, args.megabytes)
        runs = {"tenth": measure(small), "whole": measure(large)}
    whole, tenth = runs["whole"], runs["tenth"]
    assert isinstance(whole["bytes"], int)
    assert isinstance(whole["cpu_s"], float)
    assert isinstance(whole["peak_rss_mib"], float)
    assert isinstance(tenth["peak_rss_mib"], float)
    speed = whole["bytes"] / 1e6 / whole["cpu_s"]
    growth = whole["peak_rss_mib"] - tenth["peak_rss_mib"]
    result = {
        "benchmark": "explain_log",
        "at": datetime.now().astimezone().isoformat(timespec="seconds"),
        "machine": machine(),
        "log": "synthetic: 4 boots as recorded on an H200, 40 % prefill and decode lines",
        "runs": runs,
        "mb_per_cpu_s": round(speed, 1),
        "rss_growth_mib_for_10x": round(growth, 1),
        "budget": {"mb_per_cpu_s": BUDGET_MB_S},
        "met": speed >= BUDGET_MB_S and growth < 8.0,
    }
    text = json.dumps(result, indent=1)
    print(text)
    if not args.no_record:
        RESULT.parent.mkdir(parents=True, exist_ok=True)
        RESULT.write_text(text + "\n")
    return 0 if result["met"] else 1


if __name__ == "__main__":
    sys.exit(main())
