"""Rows for disk and model."""

from __future__ import annotations

import errno
from dataclasses import replace
from typing import TYPE_CHECKING

from support.doctor_machines import GIB, TARGET_27B, TARGET_FLASH, changed, workstation
from support.doctor_rows.base import DOCKER, FAIL, FILE, OK, SKIP, UNIFIED, WARN, base, folder

if TYPE_CHECKING:
    from support.doctor_rows.base import Row

DUMMY = replace(TARGET_27B, argv=(*TARGET_27B.argv, "--load-format", "dummy"))
VIRTIO = folder(device__bottom={"name": "vda", "kind": "virtio"})

ROWS: list[Row] = [
    # --- disk ---------------------------------------------------------------------------------
    ("disk.path", folder(write_errno=errno.EROFS), TARGET_27B, OK, "readable"),
    ("disk.path", changed(workstation(), disk__paths__1__write_errno=errno.EROFS), TARGET_27B, FAIL,
     "EROFS"),
    ("disk.path", changed(workstation(), disk__paths__1__write_errno=errno.EDQUOT), TARGET_27B,
     FAIL, "EDQUOT"),
    ("disk.path", folder(write_errno=errno.EACCES, readable=False), TARGET_27B, FAIL, "EACCES"),
    ("disk.mount", workstation(), TARGET_27B, OK, "ext4"),
    ("disk.mount", folder(mount__filesystem="nfs4"), TARGET_27B, WARN, "nfs4"),
    ("disk.mount", folder(mount__filesystem="fuse.sshfs"), TARGET_27B, WARN, "fuse.sshfs"),
    ("disk.mount", folder(mount__filesystem="tmpfs"), TARGET_27B, WARN, "tmpfs"),
    ("disk.mount", changed(folder(mount__filesystem="tmpfs"), memory__total_bytes=16 * GIB),
     TARGET_27B, FAIL, "tmpfs"),
    # colibri#1594
    ("disk.mount", folder(mount__point="/run/media/u/disk"), TARGET_27B, WARN, "removable"),
    ("disk.device", workstation(), TARGET_27B, OK, "ext4 on nvme nvme0n1"),
    ("disk.device", folder(device__bottom={"name": "sda", "kind": "ata", "rotational": True}),
     TARGET_27B, WARN, "ata sda"),
    # virtio and loop say "rotational" on SSD hosts: the collector leaves it out
    ("disk.device", changed(VIRTIO, bench=...), TARGET_27B, WARN, "virtio vda"),
    # What was measured counts for more than what the device is called (disk.seq judges it).
    ("disk.device", VIRTIO, TARGET_27B, OK, "virtio vda"),
    ("disk.device", changed(VIRTIO, bench=...), DUMMY, OK, "virtio vda"),
    ("disk.device", folder(device__layers=[{"kind": "dm-crypt", "name": "dm-0"}]), TARGET_27B, OK,
     "ext4 on dm-crypt on nvme nvme0n1"),
    # 193 GiB free, 42 GiB usable: reserved blocks
    ("disk.space", changed(folder(space__available_bytes=42 * GIB, space__free_bytes=193 * GIB),
                           hub__missing_bytes=60 * 10**9), TARGET_27B, FAIL, "42.0 GiB available"),
    ("disk.space", changed(folder(space__available_bytes=60 * GIB),
                           hub__missing_bytes=60 * 10**9), TARGET_27B, WARN, "60.0 GiB"),
    ("disk.space", workstation(), TARGET_27B, OK, "400.0 GiB"),
    ("disk.inodes", folder(space__inodes_available=0), TARGET_27B, FAIL, "0 inodes"),
    ("disk.inodes", folder(space__inodes_available=5000), TARGET_27B, WARN, "5,000"),
    # btrfs says 0 of 0: no fixed number, not "none left"
    ("disk.inodes", folder(space__inodes_fixed=False, space__inodes_available=0), TARGET_27B, OK,
     "50,000,000"),
    ("disk.symlink", base(model__links_outside=["a.safetensors"], model__links_outside_count=1),
     TARGET_27B, OK, "a.safetensors"),
    ("disk.symlink", base(model__links_outside=["a.safetensors"], model__links_outside_count=1),
     DOCKER, FAIL, "1 shards"),
    ("disk.odirect", workstation(), TARGET_27B, OK, "bypasses the page cache"),
    # FreeToken#282: eCryptfs refuses at open
    ("disk.odirect", folder(mount__filesystem="ecryptfs", shard__open_errno=errno.EINVAL),
     TARGET_FLASH, FAIL, "refused"),
    ("disk.odirect", folder(mount__filesystem="ecryptfs", shard__open_errno=errno.EINVAL),
     TARGET_27B, WARN, "refused"),
    ("disk.odirect", folder(direct__resident=256), TARGET_FLASH, WARN, "through the page cache"),
    ("disk.odirect", folder(direct__resident=100), TARGET_FLASH, SKIP, "cannot tell"),
    ("disk.odirect", folder(direct__pass_us=[60.0, 2.0]), TARGET_FLASH, SKIP, "cannot tell"),
    ("disk.odirect", folder(mount__filesystem="fuse.bindfs"), TARGET_FLASH, FAIL, "FUSE"),
    ("disk.align", workstation(), TARGET_27B, SKIP, "only PLE streaming"),
    ("disk.align", workstation(TARGET_FLASH), TARGET_FLASH, OK, "512 bytes (statx)"),
    ("disk.align", folder(shard__alignment__offset_bytes=0), TARGET_FLASH, FAIL, "not supported"),
    ("disk.align", folder(shard__alignment__offset_bytes=8192), TARGET_FLASH, FAIL, "8192"),
    ("disk.align", folder(shard__alignment={"known": False}), TARGET_FLASH, OK,
     "512 bytes (device)"),
    ("disk.io_uring", workstation(), TARGET_FLASH, OK, "depth 512"),
    # moby#47532
    ("disk.io_uring", base(rings__errno=errno.EPERM, system__seccomp=2), TARGET_FLASH, FAIL,
     "refused"),
    ("disk.io_uring", base(rings__errno=errno.EPERM, rings__sysctl=2), TARGET_FLASH, FAIL,
     "refused"),
    ("disk.io_uring", base(rings__errno=errno.ENOSYS), TARGET_FLASH, FAIL, "not implemented"),
    # 18.6 GB at 0.5 / 1.5 / 3.5 GB/s = 37 / 12 / 5 s
    ("disk.seq", workstation(), TARGET_27B, OK, "18.6 GB in 5.5 s"),
    ("disk.seq", base(bench__samples__sequential__bytes_per_s=0.5e9), TARGET_27B, WARN,
     "18.6 GB in 37 s"),
    ("disk.seq", base(bench__samples__sequential__bytes_per_s=0.16e9), TARGET_27B, WARN, "116 s"),
    ("disk.randread", workstation(), TARGET_FLASH, OK, "400,000 reads/s"),
    # What fio has read counts: a probe that is too slow must not condemn the disk.
    ("disk.randread", changed(base(bench__samples__random_512__reads_per_s=100_000.0),
                              bench__fio={"random_512": {"reads_per_s": 200_000.0}}),
     TARGET_FLASH, OK, "200,000 reads/s"),
    ("disk.seq", changed(base(bench__samples__sequential__bytes_per_s=1e9),
                         bench__fio={"sequential": {"bytes_per_s": 2e9, "reads_per_s": 2000.0}}),
     TARGET_27B, OK, "2.0 GB/s"),
    ("disk.randread", base(bench__samples__random_512__reads_per_s=100_000.0), TARGET_FLASH, WARN,
     "100,000"),
    ("disk.randread", base(bench__samples__random_512__reads_per_s=5_000.0), TARGET_FLASH, FAIL,
     "5,000"),
    ("disk.randread", base(bench__samples__random_512__reads_per_s=5_000.0,
                           bench__samples__random_512__lower_bound=True), TARGET_FLASH, WARN,
     "5,000"),
    ("disk.randread", base(bench__samples__random_512__reads_per_s=5_000.0), TARGET_27B, OK,
     "5,000"),
    ("disk.ple_file", workstation(), TARGET_27B, SKIP, "file backend"),
    ("disk.ple_file", folder(roles=["ple"]), FILE, FAIL, "discrete card"),
    ("disk.ple_file", changed(UNIFIED, disk__paths__0__roles=["ple"]), FILE, OK, "ext4"),
    # --- model --------------------------------------------------------------------------------
    ("model.folder", workstation(), TARGET_27B, OK, "2 shards, 18.6 GB"),
    ("model.folder", base(model__exists=False), TARGET_27B, FAIL, "is not there"),
    ("model.folder", base(model__shards=0, model__shard_bytes=0), TARGET_27B, FAIL, "0 shards"),
    ("model.folder", base(model__shards=0, model__shard_bytes=0), DUMMY, OK, "dummy reads none"),
    ("model.index", base(model__missing_count=2), DUMMY, SKIP, "dummy reads no weights"),
    ("model.index", base(model__indexed=False, model__shards=0), TARGET_27B, SKIP, "no shards"),
    ("model.index", base(model__indexed=False, model__shards=1, model__partial=["x.incomplete"]),
     TARGET_27B, WARN, "x.incomplete"),
    ("model.folder", base(model__dangling=["a.safetensors"]), TARGET_27B, FAIL, "a.safetensors"),
    ("disk.symlink", base(model__shards=0), TARGET_27B, SKIP, "no shards"),
    ("model.index", base(model__missing=["m-2.safetensors"], model__missing_count=1), TARGET_27B,
     FAIL, "1 of 2"),
    ("model.index", base(model__partial=["x.incomplete"]), TARGET_27B, WARN, "x.incomplete"),
    ("model.index", base(model__indexed=False), TARGET_27B, WARN, "no index"),
    ("model.config", base(model__config__architectures=...), TARGET_27B, FAIL, "no architecture"),
    ("model.config", workstation(), TARGET_27B, OK, "qwen3_5"),
    ("model.tokenizer", base(model__tokenizer=False), TARGET_27B, FAIL, "no tokenizer"),
]  # fmt: skip
