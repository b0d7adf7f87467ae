"""The doctor's disk probe against fio: same file, same minute, alternating runs.

    .venv/bin/python benchmarks/disk_vs_fio.py --folder /var/tmp --rounds 6 --seconds 2

Writes ``benchmarks/results/disk_vs_fio.json``. fio picks fresh random offsets (``--randrepeat=0
--norandommap``), as the probe does; the order of the two changes every round; a ratio is the median
of the rounds' pairs.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qwen_tui_diagnostics.diskio.measure import Sample, random_reads, sequential_reads
from qwen_tui_diagnostics.diskio.source import first_hole

if TYPE_CHECKING:
    from collections.abc import Callable

RESULT = Path(__file__).parent / "results" / "disk_vs_fio.json"
BUDGET = 0.9
BLOCK_BYTES = 4 * 1024 * 1024

# name, fio engine, block, depth, pattern
LOADS = (
    ("4k_qd1", "psync", 4096, 1, "randread"),
    ("4k_qd32", "io_uring", 4096, 32, "randread"),
    ("4k_qd512", "io_uring", 4096, 512, "randread"),
    ("1m_sequential", "io_uring", 1024 * 1024, 8, "read"),
)


def main() -> int:
    """Run the comparison and write the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path("/var/tmp"))
    parser.add_argument("--size-gib", type=float, default=8.0)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--output", type=Path, default=RESULT)
    args = parser.parse_args()
    if shutil.which("fio") is None:
        print("fio is not installed (apt-get install fio)", file=sys.stderr)
        return 2
    path = args.folder / f"qwen-tui-fio-{os.getpid()}"
    try:
        size = write_file(path, int(args.size_gib * 1024**3))
        loads = compare(path, size, args.rounds, args.seconds)
    finally:
        path.unlink(missing_ok=True)
    document = {
        "schema": "qwen-tui.bench.disk/1",
        "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "machine": {
            "kernel": platform.release(),
            "cpus": os.cpu_count(),
            "python": platform.python_version(),
            "load_average": os.getloadavg(),
        },
        "fio": fio_version(),
        "file_bytes": size,
        "rounds": args.rounds,
        "seconds": args.seconds,
        "budget_ratio": BUDGET,
        "loads": loads,
        "passed": all(load["ratio_median"] >= BUDGET for load in loads.values()),
    }
    args.output.parent.mkdir(parents=True, exist_ok=True)
    args.output.write_text(json.dumps(document, indent=2) + "\n")
    for name, load in loads.items():
        print(
            f"{name:<14} ours {load['ours_median']:>10,.0f}/s  fio {load['fio_median']:>10,.0f}/s"
            f"  ratio {load['ratio_median']:.2f} (best/best {load['ratio_best']:.2f})"
            f"  CPU us per read {load['ours_cpu_us']:.1f} (fio {load['fio_cpu_us']:.1f})"
            f"  by {load['method']}"
        )
    return 0 if document["passed"] else 1


def write_file(path: Path, size: int) -> int:
    """Write a file without holes and drop it from the page cache; return its size."""
    block = os.urandom(BLOCK_BYTES)
    with path.open("wb") as file:
        for _ in range(size // BLOCK_BYTES):
            file.write(block)
        file.flush()
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    with path.open("rb") as file:
        written = os.fstat(file.fileno()).st_size
        if first_hole(file.fileno()) != written:
            raise SystemExit("the file system left holes: nothing would be measured")
    return written


def compare(path: Path, size: int, rounds: int, seconds: float) -> dict[str, Any]:
    """Alternate fio and the probe for every load."""
    pairs: dict[str, list[tuple[dict[str, float], Sample]]] = {name: [] for name, *_ in LOADS}
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECT)
    try:
        for number in range(rounds):
            for name, engine, block, depth, pattern in LOADS:

                def fio(e: str = engine, b: int = block, d: int = depth, p: str = pattern) -> Any:
                    return run_fio(path, e, b, d, p, seconds)

                def ours(d: int = depth, p: str = pattern) -> Any:
                    if p == "read":
                        return sequential_reads(descriptor, size, seconds)
                    return random_reads(descriptor, size, d, seconds)

                order: list[Callable[[], Any]] = [fio, ours] if number % 2 == 0 else [ours, fio]
                first, second = order[0](), order[1]()
                pair = (first, second) if number % 2 == 0 else (second, first)
                pairs[name].append(pair)
    finally:
        os.close(descriptor)
    return {name: summarise(rounds_of) for name, rounds_of in pairs.items()}


def summarise(rounds: list[tuple[dict[str, float], Sample]]) -> dict[str, Any]:
    """Return medians, the paired ratio and the processor time of one load."""
    ours = [sample.reads_per_s for _, sample in rounds]
    fio = [result["iops"] for result, _ in rounds]
    if not all(ours) or not all(fio):
        raise SystemExit("a run completed no reads: that is a failure, not a figure")
    return {
        "method": rounds[0][1].method,
        "depth": rounds[0][1].depth,
        "ours_median": statistics.median(ours),
        "fio_median": statistics.median(fio),
        "ratio_median": round(statistics.median(o / f for o, f in zip(ours, fio, strict=True)), 3),
        "ratio_best": round(max(ours) / max(fio), 3),
        "ours_cpu_us": round(statistics.median(s.cpu_us_per_read for _, s in rounds), 2),
        "fio_cpu_us": round(statistics.median(r["cpu_us"] for r, _ in rounds), 2),
        "ours": [round(value) for value in ours],
        "fio": [round(value) for value in fio],
    }


def run_fio(
    path: Path, engine: str, block: int, depth: int, pattern: str, seconds: float
) -> dict[str, float]:
    """Run fio once; return its reads a second and its processor time a read."""
    done = subprocess.run(
        [
            "fio", "--name=probe", f"--filename={path}", "--readonly", "--direct=1",
            f"--rw={pattern}", f"--bs={block}", f"--ioengine={engine}", f"--iodepth={depth}",
            f"--runtime={seconds}", "--time_based", "--randrepeat=0", "--norandommap",
            "--output-format=json", "--thread",
        ],
        capture_output=True, check=True, timeout=seconds + 60,
    )  # fmt: skip
    job = json.loads(done.stdout)["jobs"][0]
    ios = job["read"]["total_ios"]
    busy_s = (job["usr_cpu"] + job["sys_cpu"]) / 100 * job["read"]["runtime"] / 1000
    return {"iops": job["read"]["iops"], "cpu_us": busy_s * 1e6 / max(1, ios)}


def fio_version() -> str:
    """Return what ``fio --version`` says."""
    done = subprocess.run(["fio", "--version"], capture_output=True, check=True, text=True)
    return done.stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
