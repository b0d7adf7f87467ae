"""Nothing blocks the console's loop, not even a log of five thousand lines a second."""

from __future__ import annotations

import asyncio
import gc
import time
from typing import TYPE_CHECKING

import pytest

from qwen_tui.services.console import LogChunk
from support.console_pilot import opened, settled, view_of
from support.fake_console import FakeConsole, running

if TYPE_CHECKING:
    from collections.abc import Iterator

STALL_S = 0.050
LINE = (
    "[2026-11-29 13:02:11] Decode batch, #running-req: 2, #token: {n}, token usage: 0.46, "
    "accept len: 3.41, cuda graph: True, gen throughput (token/s): 148.22, #queue-req: 1"
)


class Heart:
    """Measures the CPU time that the loop's thread spends between two beats.

    CPU time, not wall time: a busy machine makes every program wait, and that is no stall of ours.
    """

    def __init__(self) -> None:
        self.longest_s = 0.0
        self.beats = 0

    async def beat(self) -> None:
        """Beat as often as the loop lets it: each round of the loop is one measurement."""
        while True:
            before = time.thread_time()
            await asyncio.sleep(0)
            self.longest_s = max(self.longest_s, time.thread_time() - before)
            self.beats += 1
            if self.beats % 50 == 0:
                # Let the loop sleep now and then, or the beat itself would be all that runs.
                await asyncio.sleep(0.001)


def batches(count: int, size: int) -> Iterator[LogChunk]:
    for batch in range(count):
        yield LogChunk(tuple(LINE.format(n=batch * size + n) for n in range(size)))


@pytest.mark.parametrize("place", ["1", "7"])
async def test_five_thousand_lines_a_second_do_not_stall_the_loop(place: str) -> None:
    fake = FakeConsole(running())
    async with opened(fake, (120, 40)) as pilot:
        await pilot.press(place)
        await pilot.pause(0.2)
        # As the command does after its first paint, or the collector would look at all of pytest.
        gc.collect()
        gc.freeze()
        heart = Heart()
        beating = asyncio.create_task(heart.beat())
        for chunk in batches(count=30, size=500):
            fake.chunks.put_nowait(chunk)
            await asyncio.sleep(0.1)
        await settled(pilot, lambda: view_of(pilot).log_total == 15_000)
        beating.cancel()
        gc.unfreeze()
    assert heart.beats > 500
    assert heart.longest_s <= STALL_S, f"{heart.longest_s * 1000:.0f} ms"
