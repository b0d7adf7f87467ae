"""How fast ``verify --hash`` hashes, beside ``sha256sum`` on the same cores and the same files.

    python benchmarks/verify_hash.py [--gigabytes 2] [--runs 3]

Two files of random bytes are written, read once to warm the page cache (the hash is measured, not
the disk), then hashed in turns: ours with one and with two workers, ``sha256sum`` one after the
other and two at a time. Budget: ≥ 0.95 × ``sha256sum`` with as many processes as we have workers.
Results go to ``benchmarks/results/verify_hash.json``.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.machine import machine_facts  # noqa: E402

from qwen_tui_diagnostics.checkpoint.hashing import Digest, HashJob, hash_files  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable

RESULT = ROOT / "benchmarks" / "results" / "verify_hash.json"
BUDGET = 0.95


def ours(files: list[Path], workers: int) -> dict[str, str]:
    found = hash_files([HashJob(str(f), f) for f in files], workers=workers)
    return {name: d.sha256 for name, d in found.items() if isinstance(d, Digest)}


def theirs(files: list[Path], processes: int) -> dict[str, str]:
    found: dict[str, str] = {}
    groups = [files[i::processes] for i in range(processes)]
    running = [
        subprocess.Popen(["sha256sum", *map(str, group)], stdout=subprocess.PIPE, text=True)
        for group in groups
        if group
    ]
    for process in running:
        out, _ = process.communicate()
        for line in out.splitlines():
            digest, _, name = line.partition("  ")
            found[name] = digest
    return found


def timed(work: Callable[[], dict[str, str]]) -> tuple[float, dict[str, str]]:
    started = time.perf_counter()
    result = work()
    return time.perf_counter() - started, result


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--gigabytes", type=float, default=2.0)
    parser.add_argument("--runs", type=int, default=3)
    args = parser.parse_args()
    size = int(args.gigabytes * 1e9 / 2)
    rows = []
    with tempfile.TemporaryDirectory() as name:
        files = [Path(name) / f"shard-{i}" for i in (1, 2)]
        for file in files:
            block = os.urandom(1 << 20)
            with file.open("wb") as out:
                for _ in range(size >> 20):
                    out.write(block)
        total = sum(f.stat().st_size for f in files)
        theirs(files, 2)
        for workers in (1, 2):
            mine, other = [], []
            for _ in range(args.runs):
                seconds, digests = timed(lambda n=workers: ours(files, n))  # type: ignore[misc]
                mine.append(seconds)
                seconds, expected = timed(lambda n=workers: theirs(files, n))  # type: ignore[misc]
                other.append(seconds)
                if digests != expected:
                    raise SystemExit("the digests differ")
            ratio = statistics.median(other) / statistics.median(mine)
            row = {
                "workers": workers,
                "ours_gb_s": round(total / statistics.median(mine) / 1e9, 3),
                "sha256sum_gb_s": round(total / statistics.median(other) / 1e9, 3),
                "ratio": round(ratio, 3),
                "budget": BUDGET,
                "within": ratio >= BUDGET,
            }
            print(json.dumps(row))
            rows.append(row)
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_text(json.dumps({"machine": machine_facts(), "rows": rows}, indent=1) + "\n")
    return 0 if all(row["within"] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
