"""Disks that are full, small or read-only: a clean stop, and the part is kept."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

import pytest

from support.fake_hub import Fault

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from support.download_bench import Bench

MODEL = "model.safetensors"


def mount(folder: Path, options: str) -> None:
    command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"a small file system cannot be mounted here: {done.stderr.strip()}")


@pytest.fixture
def small(bench: Bench) -> Iterator[Path]:
    """Four MiB of disk."""
    if os.geteuid() != 0:
        pytest.skip("mounting a small file system needs root")
    bench.dest.mkdir()
    mount(bench.dest, "size=4m")
    try:
        yield bench.dest
    finally:
        subprocess.run(["umount", "-l", str(bench.dest)], check=True)


@pytest.mark.root
async def test_too_small_a_disk_is_seen_before_anything_is_fetched(
    bench: Bench, small: Path
) -> None:
    bench.hub.files[MODEL] = b"x" * (6 << 20)
    run = await bench.download()
    assert run.error is not None
    assert "have to come" in str(run.error.message)
    assert bench.hub.ranges(MODEL) == []


@pytest.mark.root
async def test_a_disk_that_fills_up_meanwhile(bench: Bench, small: Path) -> None:
    """Two files fit by the listing; something else takes the room between plan and start."""
    bench.hub.files[MODEL] = os.urandom(3 << 20)
    bench.hub.fail(
        f"storage:{MODEL}", Fault(), Fault(drop_after=1 << 20), *[Fault(drop_after=0)] * 2
    )
    first = await bench.download(attempts=2)
    assert first.status == "failed"
    filler = small / "filler"
    with filler.open("wb") as file, pytest.raises(OSError, match="No space"):
        file.write(b"y" * (4 << 20))
    run = await bench.download()
    assert run.error is not None or run.status == "failed"
    part = small / ".cache/qwen-tui/incoming" / f"{MODEL}.incomplete"
    assert part.stat().st_size == 1 << 20
    filler.unlink()
    done = await bench.download()
    assert done.status == "complete"
    assert done.plan["kept_bytes"] == 1 << 20
    assert bench.whole()


@pytest.mark.root
async def test_no_space_while_writing(bench: Bench, small: Path) -> None:
    """The size is not listed, so nothing could be reserved or refused before."""
    bench.hub.files[MODEL] = os.urandom(6 << 20)
    bench.hub.listed_sizes[MODEL] = None  # type: ignore[assignment]
    run = await bench.download()
    assert run.status == "failed"
    assert run.result["failures"][0]["code"] == "no_space"
    assert not (small / MODEL).exists()
    assert (small / ".cache/qwen-tui/incoming" / f"{MODEL}.incomplete").stat().st_size > 0


@pytest.mark.root
async def test_a_read_only_disk(bench: Bench, small: Path) -> None:
    command = ["mount", "-o", "remount,ro", str(small)]
    subprocess.run(command, check=True)  # noqa: ASYNC221 - instant
    run = await bench.download()
    assert run.error is not None
    assert "read-only" in str(run.error.message)


async def test_a_target_that_is_a_file(bench: Bench) -> None:
    bench.dest.write_text("in the way")
    run = await bench.download()
    assert run.error is not None
    assert str(bench.dest) in str(run.error.message)
