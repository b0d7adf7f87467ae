"""What a doctor run costs: processor seconds of all its processes, and the time to the first line.

    .venv/bin/python benchmarks/doctor_cost.py --runs 10

Writes ``benchmarks/results/doctor_cost.json``. The best of the runs counts: caches are warm, and
other work on the machine only ever adds.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

RESULT = Path(__file__).parent / "results" / "doctor_cost.json"
BUDGET_CPU_S = 0.5
BUDGET_FIRST_LINE_S = 0.3
CASES: tuple[tuple[str, ...], ...] = (
    (),
    ("--profile", "demo-speed"),
    ("--profile", "27b-int4-speed"),
)


def main() -> int:
    """Measure every case and write the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--output", type=Path, default=RESULT)
    args = parser.parse_args()
    cases = {" ".join(case) or "(no profile)": measure(case, args.runs) for case in CASES}
    gpu = Path("/dev/nvidiactl").exists()
    document = {
        "schema": "qwen-tui.bench.doctor/1",
        "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "machine": {
            "kernel": platform.release(),
            "cpus": os.cpu_count(),
            "python": platform.python_version(),
            "gpu": gpu,
            "load_average": os.getloadavg(),
        },
        "runs": args.runs,
        "budget": {"cpu_s": BUDGET_CPU_S, "first_line_s": BUDGET_FIRST_LINE_S},
        "cases": cases,
        "passed": gpu
        or all(
            case["cpu_s"] <= BUDGET_CPU_S and case["first_line_s"] <= BUDGET_FIRST_LINE_S
            for case in cases.values()
        ),
    }
    args.output.parent.mkdir(parents=True, exist_ok=True)
    args.output.write_text(json.dumps(document, indent=2) + "\n")
    for name, case in cases.items():
        print(
            f"{name:<28} CPU {case['cpu_s']:.3f} s  first line {case['first_line_s']:.3f} s"
            f"  whole {case['wall_s']:.3f} s"
        )
    return 0 if document["passed"] else 1


def measure(case: tuple[str, ...], runs: int) -> dict[str, Any]:
    """Run one case; return the best figures and every processor time."""
    cpu: list[float] = []
    first: list[float] = []
    wall: list[float] = []
    for _ in range(runs):
        before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        with subprocess.Popen(
            [sys.executable, "-m", "qwen_tui", "doctor", *case],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        ) as process:
            if process.stdout is None or not process.stdout.readline():
                raise SystemExit("the doctor printed nothing: that is a failure, not a figure")
            first.append(time.perf_counter() - began)
            process.stdout.read()
        wall.append(time.perf_counter() - began)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return {
        "cpu_s": round(min(cpu), 3),
        "first_line_s": round(min(first), 3),
        "wall_s": round(min(wall), 3),
        "cpu_s_all": [round(value, 3) for value in cpu],
    }


if __name__ == "__main__":
    sys.exit(main())
