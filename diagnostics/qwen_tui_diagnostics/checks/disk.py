"""Checks of the folders of a launch: usable, mounted how, on what device, with how much room."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

from qwen_tui_diagnostics.check import (
    Check,
    always,
    failed,
    fix,
    not_applicable,
    ok,
    skipped,
    warned,
)
from qwen_tui_diagnostics.checks.disk_reads import READ_CHECKS
from qwen_tui_diagnostics.checks.folders import WEIGHT_ROLES, concerns, worst_of
from qwen_tui_diagnostics.checks.needs import needs_of
from qwen_tui_diagnostics.checks.units import GIB, gb, gib, listed
from qwen_tui_profiles.text import listing, t

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qwen_tui_diagnostics.context import Target
    from qwen_tui_diagnostics.facts import Facts
    from qwen_tui_diagnostics.result import Remedy, Verdict
    from qwen_tui_profiles.text import Text

__all__ = ["CHECKS"]

LOG_BYTES = GIB
MARGIN_BYTES = 5 * GIB
INODES_LOW, INODES_GOOD = 100, 10_000
NETWORK = frozenset({"nfs", "nfs4", "cifs", "smb3", "9p", "afs", "ceph", "glusterfs", "lustre"})
MEMORY = frozenset({"tmpfs", "ramfs"})
_REMOVABLE_POINTS = ("/media", "/run/media")
_SEQUENTIAL = "bench.samples.sequential.bytes_per_s"


_ROLES = {
    "model": t("model"),
    "ple": t("PLE rows"),
    "logs": t("logs"),
    "cache": t("cache"),
    "hub": t("Hub cache"),
}


def _path(facts: Facts, target: Target) -> Verdict:
    def judge(entry: Facts) -> Verdict:
        path, error = entry.text("path"), entry.integer("write_errno")
        if error == 0:
            if entry.flag("exists"):
                return ok(t("{path}: writable", path=path))
            return ok(t("{path}: can be created", path=path))
        roles = entry.texts("roles")
        if set(roles) <= {"model", "ple"} and entry.flag("exists") and entry.flag("readable"):
            return ok(t("{path}: readable, which is enough to serve from it", path=path))
        name = errno.errorcode.get(error, str(error))
        return failed(
            t("{path}: {reason} ({name})", path=path, reason=os.strerror(error), name=name),
            expected=t("a file can be created, written and flushed there"),
            consequence=t(
                "the launch stops when it writes its {roles}",
                roles=listing([_ROLES.get(role, role) for role in roles]),
            ),
            remedy=_write_remedy(error, path),
        )

    return worst_of(facts, judge)


def _write_remedy(error: int, path: str) -> Remedy:
    if error == errno.EROFS:
        return fix(t("it is mounted read-only: choose another folder, or remount it"))
    if error == errno.EDQUOT:
        return fix(t("your quota is used up: free space, or choose another folder"), "quota -s")
    if error == errno.ENOSPC:
        return fix(t("the disk is full: free space"), f"df -h {path}")
    return fix(t("make it writable for this user, or choose another folder"), f"ls -ld {path}")


def _mount(facts: Facts, target: Target) -> Verdict:
    total = facts.integer("memory.total_bytes")
    needs = needs_of(target, facts)

    def judge(entry: Facts) -> Verdict:
        path, kind = entry.text("path"), entry.text("mount.filesystem")
        point = entry.text("mount.point")
        shown = t("{path} is on {kind}", path=path, kind=kind)
        move = fix(t("move the model to a local ext4 or xfs file system"))
        if kind in MEMORY:
            size = needs.disk_bytes if needs is not None else 0
            if size > total:
                return failed(
                    shown,
                    expected=t("a disk: the model is bigger than the memory"),
                    consequence=t("the download fills the memory, then the machine kills programs"),
                    remedy=move,
                )
            return warned(
                shown,
                expected=t("a local disk"),
                consequence=t("the model takes memory twice, and is gone after a reboot"),
                remedy=move,
            )
        if kind in NETWORK or kind.startswith("fuse"):
            return warned(
                shown,
                expected=t("a local disk"),
                consequence=t("loading takes as long as the network; direct reads are not direct"),
                remedy=move,
            )
        removable = entry.has("device.bottom.removable") and entry.flag("device.bottom.removable")
        if removable or point.startswith(_REMOVABLE_POINTS):
            return warned(
                t("{path} is on a removable disk ({point})", path=path, point=point),
                expected=t("an internal disk"),
                consequence=t("it is slow, and an automount may take it away"),
                remedy=fix(
                    t("move the model to an internal disk"),
                    docs="https://github.com/JustVugg/colibri/issues/1594",
                ),
            )
        return ok(shown)

    return worst_of(facts, judge, WEIGHT_ROLES)


def _stacked(layers: Sequence[str]) -> Text:
    """Return ``ext4 on dm-crypt on nvme nvme0n1``."""
    stack = t("{layer}", layer=layers[0])
    for layer in layers[1:]:
        stack = t("{above} on {below}", above=stack, below=layer)
    return stack


def _device(facts: Facts, target: Target) -> Verdict:
    judged = f" --profile {target.profile}" if target.profile is not None else ""

    def judge(entry: Facts) -> Verdict:
        if not entry.has("device"):
            absence = entry.why_absent("device")
            return skipped(
                absence.reason, t("{path}: {why}", path=entry.text("path"), why=absence.detail)
            )
        bottom = entry.at("device.bottom")
        kind, name = bottom.text("kind"), bottom.text("name")
        layers = [layer.text("kind") for layer in entry.rows("device.layers")]
        stack = _stacked([entry.text("mount.filesystem"), *layers, f"{kind} {name}"])
        shown = t("{path}: {stack}", path=entry.text("path"), stack=stack)
        if kind == "nvme":
            return ok(shown)
        if bottom.has("rotational") and bottom.flag("rotational"):
            return warned(
                shown,
                expected=t("NVMe"),
                consequence=t("a spinning disk: 18.6 GB take two minutes, PLE streaming crawls"),
                remedy=fix(t("move the model to an NVMe drive")),
            )
        if not target.reads_weights and target.ple is None:
            return ok(shown, t("--load-format dummy reads no weights"))
        if facts.has(_SEQUENTIAL):
            # What it gives counts, and disk.seq judges that.
            return ok(shown, t("measured: {rate}/s in order", rate=gb(facts.number(_SEQUENTIAL))))
        return warned(
            shown,
            expected=t("NVMe"),
            consequence=t("loading may be slower than the card could take it"),
            remedy=fix(
                t("measure it"),
                f"qwen-tui doctor{judged} --bench quick --only 'disk.*'",
            ),
        )

    return worst_of(facts, judge, WEIGHT_ROLES)


def _needed_bytes(entry: Facts, facts: Facts, target: Target) -> int:
    """Return the room that a folder still has to give."""
    if not concerns(entry, frozenset({"model", "ple"})):
        return LOG_BYTES if not concerns(entry, frozenset({"hub"})) else 0
    if facts.has("hub.missing_bytes"):
        return facts.integer("hub.missing_bytes")
    complete = (
        facts.has("model.exists")
        and facts.flag("model.exists")
        and facts.has("model.shard_bytes")
        and facts.integer("model.shard_bytes") > 0
    )
    needs = needs_of(target, facts)
    if complete or needs is None:
        return LOG_BYTES
    return needs.disk_bytes


def _space(facts: Facts, target: Target) -> Verdict:
    def judge(entry: Facts) -> Verdict:
        path = entry.text("path")
        available, free = entry.integer("space.available_bytes"), entry.integer("space.free_bytes")
        need = _needed_bytes(entry, facts, target)
        comfortable = need + max(need // 20, MARGIN_BYTES) if need > LOG_BYTES else need
        shown = t("{path}: {available} available", path=path, available=gib(available))
        reserved = free - available
        detail = (
            (t("{free} are free, of which {reserved} are kept for root", free=gib(free),
               reserved=gib(reserved)),)
            if reserved > max(available, GIB)
            else ()
        )  # fmt: skip
        consequence = t("downloads and logs end in 'no space left on device'")
        remedy = fix(t("free some space, or choose a folder on another disk"), f"df -h {path}")
        if available >= comfortable:
            return ok(shown, *detail)
        if available >= need:
            return warned(
                shown,
                *detail,
                expected=t("{need} and a margin", need=gib(need)),
                consequence=consequence,
                remedy=remedy,
            )
        return failed(
            shown,
            *detail,
            expected=t("{need}", need=gib(need)),
            consequence=consequence,
            remedy=remedy,
        )

    return worst_of(facts, judge)


def _inodes(facts: Facts, target: Target) -> Verdict:
    def judge(entry: Facts) -> Verdict:
        path = entry.text("path")
        if not entry.flag("space.inodes_fixed"):
            return not_applicable(t("{path}: no fixed number of inodes", path=path))
        count = entry.integer("space.inodes_available")
        shown = t("{path}: {count} inodes left", path=path, count=f"{count:,}")
        remedy = fix(t("remove files you do not need (caches of small files)"), f"df -i {path}")
        consequence = t("'no space left on device' although blocks are free")
        if count == 0:
            return failed(shown, expected=t("some"), consequence=consequence, remedy=remedy)
        if count <= INODES_GOOD:
            return warned(
                shown, expected=t("10,000 or more"), consequence=consequence, remedy=remedy
            )
        return ok(shown)

    return worst_of(facts, judge)


def _symlink(facts: Facts, target: Target) -> Verdict:
    outside = facts.texts("model.links_outside")
    count = facts.integer("model.links_outside_count")
    if not facts.integer("model.shards"):
        return not_applicable(t("there are no shards"))
    if not count:
        return ok(t("every shard is inside the model's folder"))
    shown = t("{count} shards are links out of the folder ({names})", count=count,
              names=listed(outside))  # fmt: skip
    consequence = t("a container that mounts the folder alone sees dangling links")
    remedy = fix(
        t("download into a folder of its own instead of linking the cache"),
        f"qwen-tui download {target.repo or 'REPO'}",
    )
    if target.image:
        return failed(
            shown,
            expected=t("files, or links inside the folder"),
            consequence=consequence,
            remedy=remedy,
        )
    return ok(
        shown, t("no container is used; one that mounts this folder alone would not see them")
    )


def _has_model(target: Target) -> Text | None:
    return None if target.model_path else t("the profile names no local model folder")


def _has_shards(facts: Facts, target: Target) -> Text | None:
    return None if facts.flag("model.exists") else t("the model is not there yet")


def _ple_file(facts: Facts, target: Target) -> Verdict:
    entry = next((e for e in facts.rows("disk.paths") if "ple" in e.texts("roles")), None)
    if entry is None:
        return failed(
            t("no --ple-offload-dir"),
            expected=t("a folder for the n-gram table"),
            consequence=t("the engine refuses the file backend"),
            remedy=fix(t("name a folder on a local disk in the profile")),
        )
    kind = entry.text("mount.filesystem")
    shown = t("{path} on {kind}", path=entry.text("path"), kind=kind)
    unified = [device.flag("unified") for device in facts.rows("gpu.devices")]
    if unified and not any(unified):
        return failed(
            t("the file backend on a discrete card"),
            expected=t("a card that reads host pages itself (GB10)"),
            consequence=t("the engine refuses it: no pageable access through host page tables"),
            remedy=fix(t("use --ple-offload-backend pinned with 64 GiB of memory, or the NVMe "
                         "fork")),
        )  # fmt: skip
    if kind in NETWORK or kind in MEMORY or kind.startswith("fuse"):
        return warned(
            shown,
            expected=t("a local disk"),
            consequence=t("every page fault waits for the network or takes memory twice"),
            remedy=fix(t("choose a folder on a local disk")),
        )
    return ok(shown)


def _uses_file_backend(target: Target) -> Text | None:
    return None if target.ple == "file" else t("only the file backend for PLE needs it")


CHECKS: tuple[Check, ...] = (
    Check(
        "disk.path", t("folders can be used"), _path, ("disk",),
        t("a read-only or full folder stops the launch minutes after it began"),
        required=always,
    ),
    Check(
        "disk.mount", t("model on a local file system"), _mount, ("disk", "memory", "model"),
        t("a network, removable or memory file system makes loading slow or impossible"),
        required=lambda target: target.model_path is not None,
        evidence=("https://github.com/JustVugg/colibri/issues/1594",),
    ),
    Check(
        "disk.device", t("the disk below the model"), _device, ("disk",),
        t("what is below the file system decides how long loading takes"), uses=("bench",),
    ),
    Check(
        "disk.space", t("disk space"), _space, ("disk", "model"),
        t("the Hub client only warns about a full disk and leaves half a model"),
        required=always, explained_by=("disk.path",), uses=("hub",),
        evidence=("https://github.com/huggingface/huggingface_hub/issues/2742",),
    ),
    Check(
        "disk.inodes", t("inodes"), _inodes, ("disk",),
        t("a disk can be full of small files while its blocks are free"),
        required=always, explained_by=("disk.path",),
    ),
    Check(
        "disk.symlink", t("links in the model's folder"), _symlink, ("model",),
        t("a container that mounts the folder alone sees dangling links"),
        wanted=_has_model, applies=_has_shards,
    ),
    *READ_CHECKS,
    Check(
        "disk.ple_file", t("folder for the PLE table"), _ple_file, ("disk", "gpu"),
        t("the file backend works through page faults of the card, which needs GB10-like hardware"),
        required=always, wanted=_uses_file_backend, explained_by=("driver.nvml",),
    ),
)  # fmt: skip
