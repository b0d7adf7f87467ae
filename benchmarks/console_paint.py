"""What the console costs until its first paint, and how much it writes to the terminal.

First paint: CPU seconds of the process from its start until a panel's title stands on the
terminal (best and median of several runs; the first poll has not returned by then). Output: bytes a
second at 80x24 with nothing running, with an idle demo engine, and with three busy streams, on the
main screen and on the log.

    python -m benchmarks.console_paint --out benchmarks/results/console_paint.json
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.console_cpu import Demo, Load
from benchmarks.machine import machine_facts
from benchmarks.ptyrun import Terminal

PANEL = b"Asked"
SETTLE_S = 8.0
SECONDS = 15.0


def first_paint(env: dict[str, str]) -> float:
    """CPU seconds until the first panel is on the terminal."""
    console = Terminal([sys.executable, "-m", "qwen_tui"], size=(80, 24), env=env)
    try:
        end = time.monotonic() + 30
        while PANEL not in console.last:
            if time.monotonic() > end:
                raise SystemExit("the console did not paint")
            time.sleep(0.002)
        return console.cpu_s()
    finally:
        console.end()


def bytes_a_second(console: Terminal) -> float:
    time.sleep(SETTLE_S)
    before = console.bytes_seen
    time.sleep(SECONDS)
    return round((console.bytes_seen - before) / SECONDS, 1)


def output(env: dict[str, str], demo: Demo) -> dict[str, float]:
    console = Terminal([sys.executable, "-m", "qwen_tui"], size=(80, 24), env=env)
    load: Load | None = None
    try:
        found = {"idle_home": bytes_a_second(console)}
        load = Load(demo.url, 3, 3 * (SETTLE_S + SECONDS))
        found["busy_home"] = bytes_a_second(console)
        console.press("7")
        found["busy_logs"] = bytes_a_second(console)
        return found
    finally:
        console.end()
        if load is not None:
            load.process.terminate()
            load.process.wait(10)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--runs", type=int, default=9)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as empty:
        env = {"QWEN_TUI_HOME": empty}
        paints = [first_paint(env) for _ in range(options.runs)]
        stopped = Terminal([sys.executable, "-m", "qwen_tui"], size=(80, 24), env=env)
        nothing = bytes_a_second(stopped)
        stopped.end()
    with tempfile.TemporaryDirectory() as home:
        demo = Demo(Path(home))
        try:
            written = output(demo.env, demo)
        finally:
            demo.end()
    result: dict[str, Any] = {
        "machine": machine_facts(),
        "first_paint_cpu_s": {
            "best": round(min(paints), 2),
            "median": round(statistics.median(paints), 2),
            "runs": len(paints),
            "budget": 0.60,
        },
        "output_bytes_s": {"terminal": "80x24", "stopped": nothing, **written},
    }
    text = json.dumps(result, indent=2) + "\n"
    print(text, end="")
    if options.out is not None:
        options.out.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
