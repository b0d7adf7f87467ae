"""Reading through io_uring, classic AIO and threads: the bytes, the errors, what is refused."""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from qwen_tui_diagnostics.diskio import fio, measure
from qwen_tui_diagnostics.diskio.aio import ClassicAio
from qwen_tui_diagnostics.diskio.source import first_hole, open_source, pick_shard
from qwen_tui_diagnostics.diskio.threads import read_with_threads
from qwen_tui_diagnostics.diskio.uring import Uring, setup_errno

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


PAGE = 4096
MIB = 1024 * 1024

needs_ring = pytest.mark.skipif(setup_errno(8) != 0, reason="io_uring is refused here")


def aio_works() -> bool:
    try:
        ClassicAio(0, 1, PAGE).close()
    except OSError:
        return False
    return True


needs_aio = pytest.mark.skipif(not aio_works(), reason="classic AIO is refused here")


@pytest.fixture
def pages(tmp_path: Path) -> Iterator[tuple[int, int]]:
    """A file whose every page begins with its own number; buffered, so tmpfs will do."""
    path = tmp_path / "pages"
    count = 512
    with path.open("wb") as file:
        for number in range(count):
            file.write(number.to_bytes(8, "little") * (PAGE // 8))
    descriptor = os.open(path, os.O_RDONLY)
    yield descriptor, count
    os.close(descriptor)


def listed(offsets: list[int]) -> tuple[Callable[[], int], Callable[[], bool]]:
    """Give the offsets one by one, then the last again; stop when they are used up."""
    source = iter(offsets)
    state = {"last": 0, "left": len(offsets)}

    def next_offset() -> int:
        state["left"] -= 1
        state["last"] = next(source, state["last"])
        return state["last"]

    return next_offset, lambda: state["left"] > 0


@pytest.mark.parametrize(
    "kind",
    [pytest.param(Uring, marks=needs_ring), pytest.param(ClassicAio, marks=needs_aio)],
)
@pytest.mark.parametrize("depth", [1, 3, 32, 512])
def test_every_slot_holds_the_page_that_was_asked_for(
    kind: type[Uring | ClassicAio], depth: int, pages: tuple[int, int]
) -> None:
    descriptor, count = pages
    offsets = [number * 7 % count * PAGE for number in range(2000)]
    asked: list[int] = []
    next_offset, keep_going = listed(offsets)

    def remember() -> int:
        asked.append(next_offset())
        return asked[-1]

    with kind(descriptor, depth, PAGE) as queue:
        done = queue.run(remember, keep_going)
        assert done == len(asked)
        assert done >= depth
        held = {
            int.from_bytes(queue.buffer[slot * PAGE : slot * PAGE + 8], "little")
            for slot in range(depth)
        }
    assert held <= {offset // PAGE for offset in asked}


@pytest.mark.parametrize(
    "kind",
    [pytest.param(Uring, marks=needs_ring), pytest.param(ClassicAio, marks=needs_aio)],
)
def test_a_read_beyond_the_end_is_an_error_and_never_counted(
    kind: type[Uring | ClassicAio], pages: tuple[int, int]
) -> None:
    descriptor, count = pages
    with kind(descriptor, 4, PAGE) as queue, pytest.raises(OSError, match=r".") as caught:
        queue.run(lambda: count * PAGE, lambda: True)
    assert caught.value.errno == errno.EIO


@pytest.mark.parametrize(
    "kind",
    [pytest.param(Uring, marks=needs_ring), pytest.param(ClassicAio, marks=needs_aio)],
)
def test_the_kernels_error_comes_through(kind: type[Uring | ClassicAio], tmp_path: Path) -> None:
    descriptor = os.open(tmp_path, os.O_RDONLY)  # a folder cannot be read
    try:
        with kind(descriptor, 2, PAGE) as queue, pytest.raises(OSError, match=r".") as caught:
            queue.run(lambda: 0, lambda: True)
        assert caught.value.errno in {errno.EISDIR, errno.EINVAL}
    finally:
        os.close(descriptor)


def test_threads_read_with_a_source_each(pages: tuple[int, int]) -> None:
    descriptor, _ = pages
    left = {"turns": 400}

    def keep_going() -> bool:
        left["turns"] -= 1
        return left["turns"] > 0

    def source() -> int:
        return 0

    sources: list[Callable[[], int]] = [source] * 8
    assert read_with_threads(descriptor, PAGE, sources, keep_going) > 300


@pytest.mark.parametrize("depth", [1, 32, 512])
def test_a_measurement_counts_what_it_read(depth: int, pages: tuple[int, int]) -> None:
    descriptor, count = pages
    sample = measure.random_reads(descriptor, count * PAGE, depth, 0.05)
    assert sample.reads > 0
    assert sample.seconds >= 0.05
    assert sample.reads_per_s == pytest.approx(sample.reads / sample.seconds)
    assert sample.bytes_per_s == pytest.approx(sample.reads_per_s * PAGE)
    assert sample.depth == depth


def test_in_order_reads_start_again_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "two"
    path.write_bytes(os.urandom(2 * MIB + 123))
    descriptor = os.open(path, os.O_RDONLY)
    try:
        sample = measure.sequential_reads(descriptor, 2 * MIB + 123, 0.05)
    finally:
        os.close(descriptor)
    assert sample.reads > 2
    assert sample.block_bytes == MIB


def test_the_next_method_is_tried_when_one_is_refused(
    pages: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> Any:
        raise OSError(errno.EPERM, "refused")

    descriptor, count = pages
    monkeypatch.setattr(measure, "Uring", refused)
    sample = measure.random_reads(descriptor, count * PAGE, 8, 0.1)
    assert sample.method in {"libaio", "threads"}
    monkeypatch.setattr(measure, "ClassicAio", refused)
    sample = measure.random_reads(descriptor, count * PAGE, 256, 0.2)
    assert sample.method == "threads"
    assert sample.lower_bound
    with pytest.raises(OSError, match="refused"):
        measure.random_reads(descriptor, count * PAGE, 8, 0.02, ("io_uring", "libaio"))


def test_a_real_error_is_not_taken_for_a_refusal(tmp_path: Path) -> None:
    path = tmp_path / "small"
    path.write_bytes(b"x" * PAGE)
    descriptor = os.open(path, os.O_RDONLY)
    try:
        with pytest.raises(OSError, match="smaller than one page"):
            measure.random_reads(descriptor, 100, 4, 0.02)
        with pytest.raises(OSError, match=r"."):
            measure.random_reads(descriptor, 64 * PAGE, 4, 0.02)  # claims to be longer than it is
    finally:
        os.close(descriptor)


def shard(folder: Path, name: str, write: Callable[[int], None]) -> Path:
    path = folder / name
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT)
    write(descriptor)
    os.fsync(descriptor)
    os.close(descriptor)
    return path


SIZE = 65 * MIB


def test_sparse_and_only_reserved_files_are_refused(tmp_path: Path) -> None:
    """A sample from a sparse file is a failure of the doctor, never a number."""

    def reserve(descriptor: int) -> None:
        os.posix_fallocate(descriptor, 0, SIZE)

    shard(tmp_path, "sparse.safetensors", lambda d: os.truncate(d, SIZE))
    chosen, why = pick_shard(tmp_path)
    assert chosen is None
    assert "holes" in why
    descriptor = os.open(tmp_path / "sparse.safetensors", os.O_RDONLY)
    assert first_hole(descriptor) == 0
    os.close(descriptor)
    (tmp_path / "sparse.safetensors").unlink()

    reserved = shard(tmp_path, "reserved.safetensors", reserve)
    descriptor = os.open(reserved, os.O_RDONLY)
    hole = first_hole(descriptor)
    os.close(descriptor)
    if hole == SIZE:
        pytest.skip("this file system does not tell reserved from written blocks")
    assert pick_shard(tmp_path)[0] is None


def test_a_written_shard_is_chosen_and_a_small_one_is_not(tmp_path: Path) -> None:
    def fill(descriptor: int) -> None:
        block = os.urandom(MIB)
        for _ in range(65):
            os.write(descriptor, block)

    (tmp_path / "small.safetensors").write_bytes(b"x" * PAGE)
    assert pick_shard(tmp_path) == (None, "the shards are smaller than 64 MiB")
    path = shard(tmp_path, "big.safetensors", fill)
    assert pick_shard(tmp_path) == (path, "")


def test_the_scratch_file_leaves_nothing_behind(tmp_path: Path) -> None:
    with open_source(tmp_path, 8 * MIB) as source:
        assert source.kind == "scratch"
        assert list(tmp_path.iterdir()) == []  # its name is gone while it is open
        assert os.fstat(source.descriptor).st_size == 8 * MIB
    assert list(tmp_path.iterdir()) == []
    assert pick_shard(tmp_path) == (None, "no shards")


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="dropping privileges needs root")
@needs_ring
def test_a_small_memlock_limit_is_told_by_trying(tmp_path: Path) -> None:
    """Kernel 6.18: 64 KiB of locked memory carries a depth of 128, not of 512 (unprivileged)."""
    program = (
        "import os, resource\n"
        "from qwen_tui_diagnostics.diskio.uring import setup_errno\n"
        "resource.setrlimit(resource.RLIMIT_MEMLOCK, (65536, 65536))\n"
        "os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
        "print(setup_errno(32), setup_errno(4096))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=30
    )
    assert done.returncode == 0, done.stderr
    small, big = map(int, done.stdout.split())
    assert small == 0
    assert big in {0, errno.ENOMEM}


@pytest.mark.skipif(sys.maxsize < 2**32, reason="64-bit only")
def test_a_seccomp_filter_shows_as_eperm() -> None:
    """Docker's default profile refuses 425 to 427 (moby#47532); installing one needs no root."""
    program = (
        "import ctypes, struct\n"
        "from qwen_tui_diagnostics.diskio.uring import setup_errno\n"
        "libc = ctypes.CDLL(None, use_errno=True)\n"
        "def ins(code, jt, jf, k): return struct.pack('=HBBI', code, jt, jf, k)\n"
        "prog = ins(0x20,0,0,0)+ins(0x35,0,2,425)+ins(0x25,1,0,427)+ins(0x06,0,0,0x50001)"
        "+ins(0x06,0,0,0x7fff0000)\n"
        "buf = ctypes.create_string_buffer(prog)\n"
        "class F(ctypes.Structure): _fields_=[('n',ctypes.c_ushort),('p',ctypes.c_void_p)]\n"
        "f = F(5, ctypes.addressof(buf))\n"
        "assert libc.prctl(38,1,0,0,0) == 0\n"
        "assert libc.prctl(22,2,ctypes.byref(f)) == 0\n"
        "print(setup_errno(8))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=30
    )
    if done.returncode != 0:
        pytest.skip("seccomp filters cannot be installed here")
    assert int(done.stdout) == errno.EPERM


def test_ctypes_view_of_the_syscall_keeps_64_bits() -> None:
    from qwen_tui_diagnostics.diskio.syscalls import raw_syscall

    assert raw_syscall().function.argtypes == [ctypes.c_long] * 7


# --- fio as a second opinion --------------------------------------------------------------------


def fake_fio(folder: Path, body: str) -> str:
    program = folder / "fio"
    program.write_text(f"#!/bin/sh\n{body}\n")
    program.chmod(0o755)
    return str(program)


def test_fio_reads_the_open_file_and_cannot_write(tmp_path: Path) -> None:
    """Its output is the shape of fio 3.33; the arguments say what it was asked for."""
    answer = '{"jobs": [{"read": {"iops": 66213.5, "bw_bytes": 271210496, "total_ios": 132427}}]}'
    program = fake_fio(tmp_path, f"echo \"$@\" > {tmp_path}/asked; echo '{answer}'")
    result = fio.measure(program, 5, 32, 0.5, {"PATH": os.defpath})
    assert result == {
        "method": "io_uring", "depth": 32, "reads_per_s": 66213.5, "bytes_per_s": 271210496,
    }  # fmt: skip
    asked = (tmp_path / "asked").read_text().split()
    assert {"--readonly", "--direct=1", "--randrepeat=0", "--iodepth=32", "--bs=4096"} <= set(asked)
    assert f"--filename=/proc/{os.getpid()}/fd/5" in asked


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("echo 'fio: engine io_uring not loadable' >&2; exit 1", "not loadable"),
        ("exit 3", "exit code 3"),
        ("""echo '{"jobs": [{"read": {"iops": 0, "bw_bytes": 0}}]}'""", "0 reads/s"),
        ("echo '{}'", "exit code 0"),
    ],
)
def test_a_fio_without_a_figure_says_why(tmp_path: Path, body: str, why: str) -> None:
    with pytest.raises(fio.FioError, match=why):
        fio.measure(fake_fio(tmp_path, body), 0, 32, 0.1, {"PATH": os.defpath})
    with pytest.raises(fio.FioError, match="No such file"):
        fio.measure(str(tmp_path / "gone"), 0, 32, 0.1, {})


@pytest.mark.skipif(shutil.which("fio") is None, reason="fio is not installed")
def test_the_real_fio_reads_a_file_without_a_name(tmp_path: Path) -> None:
    path = tmp_path / "data"
    path.write_bytes(os.urandom(4 * 1024 * 1024))
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECT)
    except OSError as error:
        pytest.skip(f"no direct reads here: {error.strerror}")
    path.unlink()
    try:
        result = fio.measure(shutil.which("fio") or "", descriptor, 1, 0.2, dict(os.environ))
    finally:
        os.close(descriptor)
    assert result["reads_per_s"] > 0
    assert result["method"] == "psync"
