"""Mounts, devices, real writes and the proof of direct reads, on real file systems where root."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qwen_tui_diagnostics.checks import check_called
from qwen_tui_diagnostics.context import Context, Target
from qwen_tui_diagnostics.facts import Facts, Gathered
from qwen_tui_diagnostics.probes import bench, disk, odirect
from qwen_tui_diagnostics.probes.mounts import Mount, device_stack, mount_of, parse_mountinfo
from qwen_tui_diagnostics.result import CheckResult, Status
from qwen_tui_diagnostics.runner import judge

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MOUNTINFO = """\
22 1 259:2 / / rw,relatime shared:1 - ext4 /dev/nvme0n1p2 rw,errors=remount-ro
30 22 0:26 / /proc rw,nosuid - proc proc rw
41 22 0:40 /@home /home rw,relatime shared:20 - btrfs /dev/mapper/crypt rw,compress=zstd:3
42 22 8:17 / /mnt/my\\040disk rw - ext4 /dev/sdb1 rw
43 22 0:55 / /mnt/nas rw - nfs4 nas:/export rw,vers=4.2
broken line
50 22 0:60 / /home/u/tmp rw - tmpfs tmpfs rw,size=1024k
"""


def test_mountinfo_is_read_with_its_escapes() -> None:
    mounts = parse_mountinfo(MOUNTINFO)
    assert [m.point for m in mounts] == [
        "/", "/proc", "/home", "/mnt/my disk", "/mnt/nas", "/home/u/tmp",
    ]  # fmt: skip
    assert mounts[2].options[-1] == "compress=zstd:3"


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/models/x", "ext4"),
        ("/home/u/models", "btrfs"),
        ("/homework", "ext4"),
        ("/home/u/tmp/x", "tmpfs"),
        ("/mnt/my disk/a", "ext4"),
        ("/mnt/nas", "nfs4"),
    ],
)
def test_the_longest_mount_point_wins(path: str, kind: str) -> None:
    found = mount_of(path, parse_mountinfo(MOUNTINFO))
    assert found is not None
    assert found.filesystem == kind


@given(st.text())
def test_mountinfo_never_raises(text: str) -> None:
    assert isinstance(parse_mountinfo(text), list)


def block(root: Path, path: str, number: str, files: dict[str, str]) -> Path:
    entry = root / "devices" / path
    for name, text in files.items():
        target = entry / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
    link = root / "dev/block" / number
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(entry)
    return entry


def test_the_stack_goes_from_partition_through_encryption_to_the_drive(tmp_path: Path) -> None:
    drive = "pci0000:00/0000:02:00.0/nvme/nvme0/nvme0n1"
    block(
        tmp_path, drive, "259:0",
        {"queue/rotational": "0", "queue/logical_block_size": "4096", "removable": "0",
         "device/model": "WD_BLACK SN850X"},
    )  # fmt: skip
    part = block(tmp_path, drive + "/nvme0n1p3", "259:3", {"partition": "3"})
    crypt = block(
        tmp_path, "virtual/block/dm-0", "253:0",
        {"dm/uuid": "CRYPT-LUKS2-abc", "queue/rotational": "0"},
    )  # fmt: skip
    (crypt / "slaves").mkdir()
    (crypt / "slaves/nvme0n1p3").symlink_to(part)
    stack = device_stack(tmp_path, Mount("/", "ext4", "/dev/mapper/x", (), "253:0"))
    assert stack is not None
    assert stack["stack"] == ["dm-0", "nvme0n1"]
    assert stack["layers"][0]["kind"] == "dm-crypt"
    assert stack["bottom"]["kind"] == "nvme"
    assert stack["bottom"]["rotational"] is False
    assert stack["bottom"]["logical_block_bytes"] == 4096


def test_rotational_is_believed_of_real_drives_only(tmp_path: Path) -> None:
    block(tmp_path, "pci0/virtio1/block/vda", "254:0", {"queue/rotational": "1"})
    block(tmp_path, "pci0/ata1/host0/block/sda", "8:0", {"queue/rotational": "1"})
    block(tmp_path, "pci0/usb1/host3/block/sdb", "8:16", {"queue/rotational": "1"})

    def bottom(number: str) -> dict[str, Any]:
        stack = device_stack(tmp_path, Mount("/", "ext4", "/dev/x", (), number))
        assert stack is not None
        result: dict[str, Any] = stack["bottom"]
        return result

    assert "rotational" not in bottom("254:0")
    assert bottom("8:0")["rotational"] is True
    assert bottom("8:16")["removable"] is True
    assert device_stack(tmp_path, Mount("/", "nfs4", "nas:/x", (), "0:55")) is None


def collect(folder: Path, *, ple: bool = True) -> dict[str, Any]:
    env = {"SGLANG_QWEN4_PLE_NVME_PATH": str(folder)} if ple else {}
    target = Target(profile="p", engine="sglang", model_path=str(folder), env=env)
    found = Gathered()
    disk.collect(Context(target=target), found)
    entry: dict[str, Any] = found.values["disk"]["paths"][0]
    entry["absent"] = {k: v.as_json() for k, v in found.absent.items()}
    return entry


def judged(check_id: str, folder: Path, *, ple: bool = True) -> CheckResult:
    env = {"SGLANG_QWEN4_PLE_NVME_PATH": str(folder)} if ple else {}
    target = Target(profile="p", engine="sglang", model_path=str(folder), env=env)
    found = Gathered()
    disk.collect(Context(target=target), found)
    check = check_called(check_id)
    assert check is not None
    return judge(check, Facts(found.values, found.absent), target)


def test_a_folder_that_is_not_there_is_judged_by_its_parent(tmp_path: Path) -> None:
    entry = collect(tmp_path / "a" / "b")
    assert entry["exists"] is False
    assert entry["nearest"] == str(tmp_path)
    assert entry["write_errno"] == 0
    assert list(tmp_path.iterdir()) == []


def test_probing_leaves_nothing_behind(tmp_path: Path) -> None:
    entry = collect(tmp_path)
    assert entry["write_errno"] == 0
    assert list(tmp_path.iterdir()) == []


def test_direct_reads_here(tmp_path: Path) -> None:
    outcome = odirect.prove(tmp_path, overlay=False)
    if outcome["open_errno"]:
        pytest.skip("O_DIRECT is refused here")
    assert outcome["reads"] == odirect.READS
    assert len(outcome["pass_us"]) == 2
    assert 0 <= outcome["resident"] <= odirect.SCRATCH_BYTES // 4096


def test_one_folder_with_two_roles_is_probed_once(tmp_path: Path) -> None:
    target = Target(
        profile="p", model_path=str(tmp_path), env={"SGLANG_QWEN4_PLE_NVME_PATH": str(tmp_path)}
    )
    roles = disk.roles_of(Context(target=target, state_folder=str(tmp_path / "s")))
    assert roles == {str(tmp_path): ["model", "ple"], str(tmp_path / "s"): ["logs"]}


# --- real file systems, as root ------------------------------------------------------------------

root = pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")


@contextlib.contextmanager
def mounted(*arguments: str, at: Path) -> Iterator[Path]:
    at.mkdir(exist_ok=True)
    done = subprocess.run(["mount", *arguments, str(at)], capture_output=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"cannot mount here: {done.stderr.decode(errors='replace').strip()[:80]}")
    try:
        yield at
    finally:
        subprocess.run(["umount", str(at)], check=True, capture_output=True)


@contextlib.contextmanager
def loop_fs(
    tmp_path: Path, kind: str, *mkfs: str, options: str = "loop", sector: int = 0
) -> Iterator[Path]:
    """A file system of a kind in a loop file."""
    tool = shutil.which(f"mkfs.{kind}", path=f"{os.environ['PATH']}:/sbin:/usr/sbin")
    if tool is None:
        pytest.skip(f"mkfs.{kind} is not installed")
    image = tmp_path / "image"
    with image.open("wb") as file:
        file.truncate((320 if kind == "xfs" else 128) * 1024 * 1024)  # sparse
    device = str(image)
    loop = ""
    if sector:
        done = subprocess.run(
            ["losetup", "-b", str(sector), "-f", "--show", str(image)],
            capture_output=True, check=False, text=True,
        )  # fmt: skip
        if done.returncode != 0:
            pytest.skip("no loop device with that sector size")
        device = loop = done.stdout.strip()
    try:
        made = subprocess.run([tool, *mkfs, device], capture_output=True, check=False)
        if made.returncode != 0:
            pytest.skip(f"mkfs.{kind} failed")
        with mounted("-o", options, device, at=tmp_path / "mnt") as point:
            yield point
    finally:
        if loop:
            subprocess.run(["losetup", "-d", loop], check=True)


@pytest.mark.root
@root
def test_ext4_is_a_true_bypass(tmp_path: Path) -> None:
    with loop_fs(tmp_path, "ext4", "-q") as point:
        result = judged("disk.odirect", point)
        assert result.status is Status.OK, result.observed
        assert judged("disk.align", point).status is Status.OK
        entry = collect(point)
        alignment = entry["direct"]["alignment"]
        assert alignment["known"] is True
        assert (alignment["memory_bytes"], alignment["offset_bytes"]) == (512, 512)
        assert entry["device"]["bottom"]["kind"] == "loop"


@pytest.mark.root
@root
def test_ext4_with_data_journal_is_named_as_fake(tmp_path: Path) -> None:
    """The flag is accepted, statx says "not for this file", and every page lands in the cache."""
    with loop_fs(tmp_path, "ext4", "-q", options="loop,data=journal") as point:
        entry = collect(point)
        assert entry["direct"]["open_errno"] == 0
        assert entry["direct"]["resident"] >= 0.9 * entry["direct"]["reads"]
        assert judged("disk.odirect", point).status is Status.WARN
        assert judged("disk.align", point).status is Status.FAIL


@pytest.mark.root
@root
def test_sectors_of_4096_bytes(tmp_path: Path) -> None:
    with loop_fs(tmp_path, "ext4", "-q", options="rw", sector=4096) as point:
        entry = collect(point)
        assert entry["direct"]["alignment"]["offset_bytes"] == 4096
        assert judged("disk.align", point).status is Status.OK  # 4,096 divides 4,096


@pytest.mark.root
@root
def test_tmpfs_is_the_page_cache_itself(tmp_path: Path) -> None:
    with mounted("-t", "tmpfs", "-o", "size=64m", "tmpfs", at=tmp_path / "mnt") as point:
        result = judged("disk.odirect", point)
        assert result.status in {Status.WARN, Status.FAIL}
        assert "tmpfs" in str(result.observed)
        found = Gathered()
        target = Target(model_path=str(point))
        bench.collect(Context(target=target, bench="quick"), found)
        assert "bench" not in found.values  # no figure of the memory is sold as the disk's
        assert "page cache" in str(found.absent["bench"].detail)


@pytest.mark.root
@root
def test_overlay_on_tmpfs_is_not_mistaken_for_a_bypass(tmp_path: Path) -> None:
    """On overlay ``cachestat`` looks at the wrong inode and always says 0; mincore is right."""
    with mounted("-t", "tmpfs", "-o", "size=64m", "tmpfs", at=tmp_path / "base") as below:
        for name in ("lower", "upper", "work"):
            (below / name).mkdir()
        options = f"lowerdir={below}/lower,upperdir={below}/upper,workdir={below}/work"
        with mounted("-t", "overlay", "-o", options, "overlay", at=tmp_path / "mnt") as point:
            result = judged("disk.odirect", point)
            assert result.status is not Status.OK
            entry = collect(point)
            if not entry["direct"]["open_errno"]:
                assert entry["direct"]["counted_by"] == "mincore"


@pytest.mark.root
@root
def test_ramfs_refuses(tmp_path: Path) -> None:
    with mounted("-t", "ramfs", "ramfs", at=tmp_path / "mnt") as point:
        entry = collect(point)
        assert entry["direct"]["open_errno"] == errno.EINVAL
        assert judged("disk.odirect", point).status is Status.FAIL
        assert judged("disk.odirect", point, ple=False).status is Status.WARN


@pytest.mark.root
@root
def test_a_read_only_mount_is_seen_by_root_too(tmp_path: Path) -> None:
    with mounted("-t", "tmpfs", "-o", "ro,size=1m", "tmpfs", at=tmp_path / "mnt") as point:
        assert collect(point)["write_errno"] == errno.EROFS


@pytest.mark.root
@root
def test_a_full_disk_and_no_inodes(tmp_path: Path) -> None:
    with mounted("-t", "tmpfs", "-o", "size=64k,nr_inodes=3", "tmpfs", at=tmp_path / "m") as point:
        (point / "a").write_bytes(b"x")
        (point / "b").write_bytes(b"x")
        entry = collect(point)
        assert entry["write_errno"] == errno.ENOSPC
        assert entry["space"]["inodes_available"] == 0
        assert judged("disk.inodes", point).status is Status.FAIL


@pytest.mark.root
@root
def test_blocks_reserved_for_root_are_not_yours(tmp_path: Path) -> None:
    with loop_fs(tmp_path, "ext4", "-q", "-m", "50") as point:
        space = collect(point)["space"]
        assert space["free_bytes"] - space["available_bytes"] > 0.4 * space["total_bytes"]


@pytest.mark.root
@root
def test_noexec_is_seen(tmp_path: Path) -> None:
    with mounted("-t", "tmpfs", "-o", "noexec,size=1m", "tmpfs", at=tmp_path / "mnt") as point:
        assert collect(point)["space"]["noexec"] is True


@pytest.mark.root
@root
def test_compressing_btrfs_is_mentioned(tmp_path: Path) -> None:
    """Weights do not compress, so the bypass is real; a file that does compress goes buffered."""
    with loop_fs(tmp_path, "btrfs", "-q", options="loop,compress-force=zstd") as point:
        result = judged("disk.odirect", point)
        assert result.status is Status.OK
        assert "compress" in " ".join(map(str, result.detail))


@pytest.mark.root
@root
@pytest.mark.parametrize("kind", ["xfs", "btrfs"])
def test_other_local_file_systems(tmp_path: Path, kind: str) -> None:
    with loop_fs(tmp_path, kind, "-q") as point:
        assert judged("disk.odirect", point).status is Status.OK
