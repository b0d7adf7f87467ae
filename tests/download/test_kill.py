"""SIGKILL at random moments: the folder is always whole, and nothing kept is fetched again."""

from __future__ import annotations

import asyncio
import os
import random
from typing import TYPE_CHECKING, Any

import pytest

from qwen_tui.services.download import DownloadSession
from qwen_tui.services.download.partial import Journal
from qwen_tui_profiles.errors import DownloadError

if TYPE_CHECKING:
    from pathlib import Path

    from support.download_bench import Bench

SIZE = 24 << 20
MODEL = "model.safetensors"


def part_of(bench: Bench) -> Path:
    return bench.dest / ".cache/qwen-tui/incoming" / f"{MODEL}.incomplete"


async def run_until_killed(bench: Bench, after_s: float) -> bool:
    """Run a download and kill its worker ``after_s`` after the plan; True when it had ended."""
    request = bench.request(sync_bytes=1 << 20, sync_s=0.05)
    async with DownloadSession(request, environment=bench.environment()) as session:
        killer: asyncio.TimerHandle | None = None
        try:
            async for event in session.events():
                if event["event"] == "plan":
                    session.start()
                    killer = asyncio.get_running_loop().call_later(after_s, session.kill)
                if event["event"] == "result":
                    assert killer is not None
                    killer.cancel()
                    return True
        except DownloadError as error:
            # Any other end than by the kill is a failure of the test.
            if "ended with -9" not in str(error):
                raise
    return False


def check_folder(bench: Bench, content: bytes, starts: list[int], synced_before: int) -> int:
    """Check what must hold after any kill; return the bytes known to be durable."""
    final = bench.dest / MODEL
    if final.exists():
        # The final name stands for the whole content, whatever moment the kill came at.
        assert final.read_bytes() == content
        return SIZE
    for path in bench.dest.rglob("*"):
        assert not path.is_file() or ".cache" in path.parts or path.name == "config.json"
    part = part_of(bench)
    if not part.exists():
        return 0
    assert content.startswith(part.read_bytes())
    journal = Journal.read(part.with_name(part.name + ".json"))
    assert journal is not None
    # No byte up to the last sync was asked for again.
    assert all(start >= synced_before for start in starts)
    return journal.synced


async def kill_many(bench: Bench, times: int, seed: int) -> int:
    """Kill ``times`` downloads; return how many restarts went on from kept bytes."""
    rng = random.Random(seed)
    content = os.urandom(SIZE)
    bench.hub.files = {"config.json": b"{}", MODEL: content}
    bench.hub.rate_bytes_s = 40e6
    kills = resumed = synced = 0
    while kills < times:
        before = len(bench.hub.begun)
        kept = part_of(bench).stat().st_size if part_of(bench).exists() else 0
        ended = await run_until_killed(bench, rng.uniform(0.0, 0.25))
        starts = [start for path, start in bench.hub.begun[before:] if path == MODEL]
        if starts and kept:
            # The whole kept part counts, synced or not: a kill loses no byte that was written.
            assert starts[0] == kept
            resumed += 1
        synced = check_folder(bench, content, starts, synced)
        if ended:
            assert (bench.dest / MODEL).read_bytes() == content
            (bench.dest / MODEL).unlink()
            synced = 0
        else:
            kills += 1
    return resumed


async def test_killed_again_and_again(cold_bench: Bench) -> None:
    resumed = await kill_many(cold_bench, times=8, seed=7)
    assert resumed > 0


@pytest.mark.slow
@pytest.mark.timeout(600)
async def test_killed_a_hundred_times(cold_bench: Bench) -> None:
    resumed = await kill_many(cold_bench, times=100, seed=11)
    assert resumed > 30


async def test_the_parent_that_dies_takes_the_worker_along(cold_bench: Bench) -> None:
    """A worker whose standard input ends stops by itself and keeps what it has."""
    cold_bench.hub.files[MODEL] = os.urandom(4 << 20)
    cold_bench.hub.rate_bytes_s = 2e6
    request = cold_bench.request()
    ended: list[dict[str, Any]] = []
    async with DownloadSession(request, environment=cold_bench.environment()) as session:
        async for event in session.events():
            if event["event"] == "plan":
                session.start()
            if event["event"] == "progress" and event["done_bytes"] > 500_000 and not ended:
                process = session._process
                assert process is not None
                assert process.stdin is not None
                process.stdin.close()
            if event["event"] == "result":
                ended.append(event)
    assert [e["status"] for e in ended] == ["cancelled"]
    assert part_of(cold_bench).stat().st_size >= 500_000
