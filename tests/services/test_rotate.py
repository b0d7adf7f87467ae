from __future__ import annotations

import gzip
from typing import TYPE_CHECKING

import pytest

from qwen_tui.services.bootlog import BootLog
from qwen_tui.services.logtail import last_lines
from qwen_tui.services.rotate import ARCHIVES, Rotated, rotate
from qwen_tui.services.runs import RunStore
from support.fake_reader import FakeReader
from support.supervise import fake_profile, fake_supervisor, free_port

if TYPE_CHECKING:
    from pathlib import Path

    from qwen_tui.services.paths import Paths

HEAD, TAIL, LIMIT = 64 << 10, 128 << 10, 512 << 10


def write(path: Path, first: int, count: int) -> None:
    with path.open("ab") as file:
        file.write(
            b"".join(b"line %07d %s\n" % (n, b"x" * 80) for n in range(first, first + count))
        )


def rotated(path: Path) -> int:
    result = rotate(path, HEAD, limit_bytes=LIMIT, tail_bytes=TAIL)
    if result is None:
        pytest.skip("this file system cannot punch holes")
    return result.lines


def test_no_line_is_lost_and_the_disk_is_free(tmp_path: Path) -> None:
    path = tmp_path / "engine.log"
    write(path, 0, 20_000)
    whole = path.read_bytes()
    size = path.stat().st_size
    lines = rotated(path)
    assert path.stat().st_size == size  # the engine goes on where it was
    assert path.stat().st_blocks * 512 <= HEAD + TAIL + 64 * 1024
    left = path.read_bytes()
    archive = gzip.decompress((tmp_path / "engine.log.0001.gz").read_bytes())
    begin = left.index(b"\0")
    assert left[:begin] + archive + left[begin + len(archive) :] == whole
    assert lines == archive.count(b"\n")
    assert last_lines(path, 2)[-1].startswith("line 0019999")


def test_a_small_log_stays(tmp_path: Path) -> None:
    path = tmp_path / "engine.log"
    write(path, 0, 100)
    assert rotate(path, HEAD, limit_bytes=LIMIT, tail_bytes=TAIL) is None
    assert list(tmp_path.iterdir()) == [path]


def test_again_and_again_with_a_limit_of_archives(tmp_path: Path) -> None:
    path = tmp_path / "engine.log"
    total = 0
    for turn in range(ARCHIVES + 2):
        write(path, turn * 20_000, 20_000)
        total += rotated(path)
    names = sorted(p.name for p in tmp_path.glob("*.gz"))
    assert names == [f"engine.log.{n:04d}.gz" for n in range(3, ARCHIVES + 3)]
    # Each archive holds what came after the one before: nothing twice.
    texts = [gzip.decompress((tmp_path / n).read_bytes()) for n in names]
    joined = b"".join(texts).splitlines()
    numbers = [int(line.split()[1]) for line in joined if line.startswith(b"line ")]
    assert numbers == sorted(set(numbers))


def test_a_reader_that_comes_later_keeps_the_line_numbers(tmp_path: Path) -> None:
    path = tmp_path / "engine.log"
    write(path, 0, 20_000)
    lines = rotated(path)
    made: list[FakeReader] = []

    def make(asked: object) -> FakeReader:
        made.append(FakeReader())
        return made[-1]

    log = BootLog(path, (), make, archived_lines=lines)
    log.advance()
    assert b"\0" not in made[0].data
    assert made[0].data.count(b"\n") == 20_000
    assert b"line 0019999" in made[0].data


async def test_the_lines_of_an_archive_are_counted_in_the_record(
    paths: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    supervisor = fake_supervisor(paths)
    await supervisor.start(fake_profile(port=free_port()))
    assert (await supervisor.wait_ready()).ready
    calls: list[int] = []

    def rotated_once(path: Path, head_bytes: int) -> Rotated | None:
        calls.append(head_bytes)
        return Rotated(path, 7) if len(calls) == 1 else None

    monkeypatch.setattr("qwen_tui.services.control.rotate", rotated_once)
    for _ in range(2):
        await supervisor._control.maintain()
    record = RunStore(paths).latest()
    assert record is not None
    assert record.archived_lines == 7
    # The boot always stays readable in place.
    assert min(calls) >= (record.ready_log_bytes or 0)
