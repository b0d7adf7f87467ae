"""One large file over the loopback: ``qwen-tui download`` beside curl and sha256sum.

    python benchmarks/download_loopback.py [--megabytes 2000] [--rounds 3] [--folder DIR]

A server in a process of its own sends the file with ``sendfile``. In each round, in turn: curl
writes it to the same disk, sha256sum reads it, and our worker receives, hashes, syncs and names it.
Our time is that of the transfer, from the connection to the durable final name; the process start,
the listing and the plan before it are left out, as curl has none of them (they are recorded beside
it). Budget: ≥ 0.9 × min(curl, sha256sum), medians. The result goes to
``benchmarks/results/download_loopback.json``.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from benchmarks.machine import machine_facts  # noqa: E402 - found through the path above

from qwen_tui.services.download import DownloadRequest, DownloadSession  # noqa: E402 - after the path
from support.fake_hub import fake_hub  # noqa: E402 - likewise

if TYPE_CHECKING:
    from collections.abc import Iterator

RESULT = ROOT / "benchmarks" / "results" / "download_loopback.json"
BUDGET = 0.9
NAME = "model.safetensors"


@contextlib.contextmanager
def serving(source: Path) -> Iterator[dict[str, str]]:
    """Serve the file in a child process; yield its addresses."""
    command = [sys.executable, __file__, "--serve", str(source)]
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert child.stdout is not None
    assert child.stdin is not None
    try:
        yield json.loads(child.stdout.readline())
    finally:
        child.stdin.close()
        child.wait(10)
        child.stdout.close()


def serve(source: Path) -> None:
    """Be that child: serve until standard input ends."""
    with fake_hub(files={"config.json": b"{}", NAME: source}) as hub:
        blob = f"{hub.url('storage')}/blob/{NAME}"
        print(json.dumps({"endpoint": hub.endpoint, "blob": blob}), flush=True)
        sys.stdin.read()


def make_file(path: Path, megabytes: int) -> None:
    """Write random bytes (they compress to nothing anywhere)."""
    block = os.urandom(1 << 20)
    with path.open("wb") as file:
        for number in range(megabytes * 10**6 // (1 << 20)):
            file.write(number.to_bytes(8, "little") + block[8:])
        file.flush()
        os.fsync(file.fileno())


def timed(command: list[str]) -> float:
    """Return the seconds of a command."""
    began = time.monotonic()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.monotonic() - began


async def download(endpoint: str, folder: Path) -> dict[str, Any]:
    """Download once; return the seconds of the file, of the whole, and CPU seconds."""
    environment = {**os.environ, "HF_HOME": str(folder / "hf")}
    request = DownloadRequest("org/model", dest=str(folder / "model"), endpoint=endpoint)
    began = time.monotonic()
    seconds = 0.0
    async with DownloadSession(request, environment=environment) as session:
        async for event in session.events():
            if event["event"] == "plan":
                session.start()
            if event["event"] == "file" and event["path"] == NAME:
                seconds = event["seconds"]
    if not seconds:
        message = "the file did not come"
        raise SystemExit(message)
    return {"file_s": seconds, "all_s": time.monotonic() - began}


def measure(megabytes: int, rounds: int, folder: Path) -> dict[str, Any]:
    """Run the three side by side and return the medians."""
    source = folder / "source.bin"
    make_file(source, megabytes)
    size = source.stat().st_size
    times: dict[str, list[float]] = {"curl": [], "sha256sum": [], "ours": [], "ours_all": []}
    with serving(source) as addresses:
        timed(["sha256sum", str(source)])
        for _ in range(rounds):
            out = folder / "curl.out"
            times["curl"].append(timed(["curl", "-s", "-o", str(out), addresses["blob"]]))
            out.unlink()
            os.sync()
            times["sha256sum"].append(timed(["sha256sum", str(source)]))
            target = Path(tempfile.mkdtemp(dir=folder))
            ours = asyncio.run(download(addresses["endpoint"], target))
            times["ours"].append(ours["file_s"])
            times["ours_all"].append(ours["all_s"])
            shutil.rmtree(target)
            os.sync()
    rates = {k: round(size / statistics.median(v) / 1e6, 1) for k, v in times.items()}
    ratio = rates["ours"] / min(rates["curl"], rates["sha256sum"])
    return {
        "benchmark": "download_loopback",
        "machine": machine_facts(),
        "bytes": size,
        "rounds": rounds,
        "median_mb_s": rates,
        "seconds": {k: [round(s, 3) for s in v] for k, v in times.items()},
        "ratio": round(ratio, 3),
        "budget": BUDGET,
        "met": ratio >= BUDGET,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--megabytes", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", type=Path, default=None)
    parser.add_argument("--serve", type=Path, default=None, help=argparse.SUPPRESS)
    parser.add_argument("--no-save", action="store_true")
    args = parser.parse_args()
    if args.serve is not None:
        serve(args.serve)
        return 0
    with tempfile.TemporaryDirectory(dir=args.folder) as folder:
        result = measure(args.megabytes, args.rounds, Path(folder))
    print(json.dumps(result, indent=2))
    if not args.no_save:
        RESULT.parent.mkdir(exist_ok=True)
        RESULT.write_text(json.dumps(result, indent=2) + "\n")
    return 0 if result["met"] else 1


if __name__ == "__main__":
    sys.exit(main())
