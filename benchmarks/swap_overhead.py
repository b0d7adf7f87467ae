"""How much a swap costs beyond the engine's own stop and start (budget: 1 s).

The simulated engine at zero delay is started and stopped by a bare loop (spawn, wait for the first
token; TERM, wait for the exit), and by swaps, in turn.

    python -m benchmarks.swap_overhead
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.machine import machine_facts

from qwen_tui.services.paths import Paths
from qwen_tui.services.supervisor import ServerSupervisor
from qwen_tui.services.swap import SwapOutcome
from qwen_tui_profiles.launch import build_launch
from qwen_tui_profiles.loader import load_profiles

if TYPE_CHECKING:
    from qwen_tui_profiles.profile import EngineProfile

ROUNDS = 8
BUDGET_S = 1.0
RESULT = Path(__file__).parent / "results" / "swap_overhead.json"
QUICK = ("--demo-load-seconds", "0", "--demo-drain-poll-seconds", "0")


def profiles(port: int) -> tuple[EngineProfile, EngineProfile]:
    """The demo pair with no delays."""
    found = load_profiles(None)
    speed, context = (
        replace(p, argv=(*p.argv, *QUICK), port=port)
        for p in (found.get("demo-speed"), found.get("demo-context"))
    )
    return speed, context


def bare(profile: EngineProfile, log: Path) -> tuple[float, float]:
    """Return the seconds of a start up to the first token, and of a stop, with nothing of ours."""
    argv = build_launch(profile, interpreter=sys.executable).argv
    began = time.monotonic()
    with log.open("wb") as out:
        process = subprocess.Popen(argv, stdout=out, stderr=out, start_new_session=True)
    while not first_token(profile.url):
        time.sleep(0.005)
    started = time.monotonic()
    process.send_signal(signal.SIGTERM)
    process.wait()
    return started - began, time.monotonic() - started


def first_token(url: str) -> bool:
    request = urllib.request.Request(
        f"{url}/generate",
        data=b'{"text": "1 2 3", "sampling_params": {"max_new_tokens": 4}}',
        headers={"Content-Type": "application/json"},
    )
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return bool(json.loads(answer.read())["meta_info"]["completion_tokens"])
    except (OSError, urllib.error.HTTPError):
        return False


async def measure(home: Path) -> dict[str, object]:
    paths = Paths(home / "config", home / "state", home / "cache")
    supervisor = ServerSupervisor(paths)
    speed, context = profiles(31870)
    other = replace(speed, port=31871)
    await supervisor.start(speed)
    assert (await supervisor.wait_ready()).ready
    swaps, starts, stops = [], [], []
    try:
        for turn in range(ROUNDS):
            start_s, stop_s = bare(other, home / "bare.log")
            starts.append(start_s)
            stops.append(stop_s)
            began = time.monotonic()
            target = context if turn % 2 == 0 else speed
            last = [step async for step in supervisor.swap(target)][-1]
            assert last.outcome is SwapOutcome.SWAPPED, last.text
            swaps.append(time.monotonic() - began)
    finally:
        await supervisor.stop()
    own = [start + stop for start, stop in zip(starts, stops, strict=True)]
    overhead = [swap - bare_s for swap, bare_s in zip(swaps, own, strict=True)]
    return {
        "what": "swap of the simulated engine at zero delay against a bare stop and start",
        "machine": machine_facts(),
        "rounds": ROUNDS,
        "swap_s_median": round(statistics.median(swaps), 3),
        "bare_start_s_median": round(statistics.median(starts), 3),
        "bare_stop_s_median": round(statistics.median(stops), 3),
        "overhead_s_median": round(statistics.median(overhead), 3),
        "overhead_s_max": round(max(overhead), 3),
        "budget_s": BUDGET_S,
    }


def main() -> int:
    os.environ["QWEN_TUI_HOME"] = "/nonexistent"
    with tempfile.TemporaryDirectory() as folder:
        result = asyncio.run(measure(Path(folder)))
    RESULT.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result, indent=1))
    return 0 if float(str(result["overhead_s_median"])) <= BUDGET_S else 1


if __name__ == "__main__":
    sys.exit(main())
