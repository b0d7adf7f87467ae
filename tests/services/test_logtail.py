from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st

from qwen_tui.services.logtail import LogBatch, LogTail, last_lines

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from pathlib import Path


async def next_batch(batches: AsyncGenerator[LogBatch, None]) -> LogBatch:
    async with asyncio.timeout(5):
        return await anext(batches)


async def test_follows_what_is_appended(tmp_path: Path) -> None:
    path = tmp_path / "engine.log"
    batches = LogTail(path).batches()
    waiting = asyncio.create_task(next_batch(batches))
    await asyncio.sleep(0.05)
    assert not waiting.done()  # the file need not be there yet
    path.write_bytes(b"one\ntwo\nthr")
    assert (await waiting).lines == ("one", "two")
    with path.open("ab") as file:
        file.write(b"ee\n")
    assert (await next_batch(batches)).lines == ("three",)
    await batches.aclose()


async def test_at_most_ten_batches_a_second_and_the_flood_is_counted(tmp_path: Path) -> None:
    path = tmp_path / "engine.log"
    path.write_bytes(b"".join(b"line %d\n" % n for n in range(20_000)))
    batches = LogTail(path, backlog_bytes=10**9).batches()
    batch = await next_batch(batches)
    assert batch.lines[-1] == "line 19999"
    assert len(batch.lines) == 500
    assert batch.dropped == 19_500
    began, count = time.monotonic(), 0
    while time.monotonic() - began < 0.55:
        with path.open("ab") as file:
            file.write(b"x\n")
        await next_batch(batches)
        count += 1
    assert count <= 6
    await batches.aclose()


async def test_starts_with_the_end_of_a_long_log(tmp_path: Path) -> None:
    path = tmp_path / "engine.log"
    path.write_bytes(b"a" * 1000 + b"\nlast but one\nlast\n")
    batches = LogTail(path, backlog_bytes=50).batches()
    assert (await next_batch(batches)).lines == ("last but one", "last")
    await batches.aclose()


async def test_rotation_and_truncation_begin_again(tmp_path: Path) -> None:
    path = tmp_path / "engine.log"
    path.write_bytes(b"old\n")
    batches = LogTail(path).batches()
    assert (await next_batch(batches)).lines == ("old",)
    path.rename(tmp_path / "engine.log.1")
    path.write_bytes(b"new one\n")
    batch = await next_batch(batches)
    assert (batch.lines, batch.restart) == (("new one",), True)
    path.write_bytes(b"n\n")
    batch = await next_batch(batches)
    assert (batch.lines, batch.restart) == (("n",), True)
    await batches.aclose()


async def test_lines_are_cleaned_and_redacted(tmp_path: Path) -> None:
    path = tmp_path / "engine.log"
    path.write_bytes(
        b"\x1b[31mred\x1b[0m \xff broken\n"
        b"bar  10%\rbar  50%\rbar 100%\n"
        b"server_args={'api_key': 'secret-value-1', 'port': 1}\n" + b"x" * 5000 + b"\n"
    )
    batches = LogTail(path).batches()
    lines = (await next_batch(batches)).lines
    assert lines[0] == "red \N{REPLACEMENT CHARACTER} broken"
    assert lines[1] == "bar 100%"
    assert "secret-value-1" not in lines[2]
    assert lines[3].endswith("… (+1,000 characters)")
    await batches.aclose()


@given(
    text=st.lists(st.text("aä€\U0001f600 ", max_size=8), min_size=1, max_size=30),
    cuts=st.lists(st.integers(1, 7), min_size=1, max_size=5),
)
@settings(max_examples=50, deadline=None)
def test_any_chunking_gives_the_same_lines(text: list[str], cuts: list[int]) -> None:
    from qwen_tui.services.logtail import _Lines

    data = "\n".join(text).encode()
    splitter = _Lines()
    lines: list[str] = []
    at, turn = 0, 0
    while at < len(data):
        step = cuts[turn % len(cuts)]
        lines += splitter.feed(data[at : at + step])
        at, turn = at + step, turn + 1
    lines += splitter.end()
    assert lines == [*text[:-1], *filter(None, text[-1:])]


def test_last_lines(tmp_path: Path) -> None:
    path = tmp_path / "engine.log"
    path.write_bytes(b"".join(b"%06d %s\n" % (n, b"x" * 100) for n in range(10_000)) + b"unended")
    assert [line[:6] for line in last_lines(path, 3)] == ["009998", "009999", "unende"]
    assert len(last_lines(path, 9_000)) == 9_000  # more than the first span holds
    assert len(last_lines(path, 50_000)) == 10_001
    assert last_lines(path, 0) == ()
