"""The folders of a launch: mount, device, space, a real write, and what O_DIRECT does there."""

from __future__ import annotations

import errno
import os
import random
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qwen_tui_diagnostics.probes import odirect
from qwen_tui_diagnostics.probes.mounts import Mount, device_stack, mount_of, read_mounts
from qwen_tui_diagnostics.result import SkipReason
from qwen_tui_profiles.text import t

if TYPE_CHECKING:
    from qwen_tui_diagnostics.context import Context
    from qwen_tui_diagnostics.facts import Gathered

__all__ = ["collect", "roles_of"]

_PROBE_BYTES = 4096
_NO_SCRATCH = frozenset({"nfs", "nfs4", "cifs", "smb3", "9p", "afs", "ceph", "proc", "sysfs"})
"""Where eight megabytes of scratch data prove nothing that the mount type does not say."""


def roles_of(context: Context) -> dict[str, list[str]]:
    """Return the distinct folders of the launch and what each is for."""
    target = context.target
    wanted: list[tuple[str, str | None]] = [
        ("model", target.model_path),
        ("ple", target.ple_folder),
        ("logs", context.state_folder),
        ("cache", context.cache_folder),
    ]
    if target.profile is None or (target.needs_gpu and not target.model_path):
        hub = context.env.get("HF_HUB_CACHE") or context.env.get("HF_HOME")
        wanted.append(("hub", hub or str(context.home / ".cache/huggingface")))
    folders: dict[str, list[str]] = {}
    for role, folder in wanted:
        if folder:
            folders.setdefault(os.path.abspath(folder), []).append(role)  # noqa: PTH100
    return folders


def collect(context: Context, found: Gathered) -> None:
    """Gather ``disk.paths``: one entry a folder."""
    mounts: list[Mount] | None
    try:
        mounts = read_mounts(context.path("proc"))
    except OSError as error:
        mounts = None
        detail = error.strerror or "unreadable"
    entries: list[dict[str, Any]] = []
    for index, (folder, roles) in enumerate(roles_of(context).items()):
        entry: dict[str, Any] = {"path": folder, "roles": roles}
        base = f"disk.paths.{index}"
        existing = _nearest(Path(folder))
        entry["exists"] = str(existing) == folder
        entry["nearest"] = str(existing)
        real = existing.resolve()
        mount = None if mounts is None else mount_of(str(real), mounts)
        if mount is None:
            reason = SkipReason.NOT_PERMITTED if mounts is None else SkipReason.UNSUPPORTED
            found.lack(f"{base}.mount", reason, detail if mounts is None else t("no mount found"))
        else:
            _mount(context, found, entry, base, mount)
        _space(found, entry, base, real)
        _write(entry, real)
        _direct(found, entry, base, real, mount)
        entries.append(entry)
    found.put("disk.paths", entries)


def _nearest(path: Path) -> Path:
    """Return the path itself, or its nearest ancestor that exists."""
    while not path.exists() and path != path.parent:
        path = path.parent
    return path


def _mount(
    context: Context, found: Gathered, entry: dict[str, Any], base: str, mount: Mount
) -> None:
    entry["mount"] = {
        "point": mount.point,
        "filesystem": mount.filesystem,
        "options": list(mount.options),
        "source": mount.source if mount.source.startswith("/dev/") else "",
    }
    stack = device_stack(context.path("sys"), mount)
    if stack is None:
        found.lack(
            f"{base}.device",
            SkipReason.UNSUPPORTED,
            t("{filesystem}: no block device", filesystem=mount.filesystem),
        )
    else:
        entry["device"] = stack


def _space(found: Gathered, entry: dict[str, Any], base: str, path: Path) -> None:
    with found.attempt(f"{base}.space"):
        stats = os.statvfs(path)
        entry["space"] = {
            # What this user may use, without the blocks reserved for root.
            "available_bytes": stats.f_bavail * stats.f_frsize,
            "free_bytes": stats.f_bfree * stats.f_frsize,
            "total_bytes": stats.f_blocks * stats.f_frsize,
            # 0 files in all: the file system has no fixed number of inodes.
            "inodes_fixed": stats.f_files > 0,
            "inodes_available": stats.f_favail,
            "noexec": bool(stats.f_flag & os.ST_NOEXEC),
            "readonly": bool(stats.f_flag & os.ST_RDONLY),
        }


def _write(entry: dict[str, Any], folder: Path) -> None:
    """Create, write, flush and remove a small file: quotas and read-only mounts show only so."""
    entry["readable"] = os.access(folder, os.R_OK | os.X_OK)
    path = folder / f".qwen-tui-probe-{os.getpid()}-{random.getrandbits(32):08x}"
    error_number = 0
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except OSError as error:
        entry["write_errno"] = error.errno or errno.EIO
        return
    try:
        os.write(descriptor, b"\0" * _PROBE_BYTES)
        os.fsync(descriptor)
    except OSError as error:
        error_number = error.errno or errno.EIO
    finally:
        os.close(descriptor)
        with suppress(OSError):
            path.unlink()
    entry["write_errno"] = error_number


def _direct(
    found: Gathered, entry: dict[str, Any], base: str, folder: Path, mount: Mount | None
) -> None:
    """Open a real shard where there is one; prove the bypass on a scratch file of our own."""
    if not set(entry["roles"]) & {"model", "ple", "hub"}:
        found.lack(f"{base}.direct", SkipReason.NOT_APPLICABLE, t("no weights are read from here"))
        return
    shard = _a_shard(folder) if entry["exists"] else None
    if shard is not None:
        open_errno, alignment = odirect.try_open(shard)
        entry["shard"] = {"open_errno": open_errno}
        if alignment is not None:
            entry["shard"]["alignment"] = alignment
    if mount is not None and mount.filesystem in _NO_SCRATCH:
        found.lack(
            f"{base}.direct",
            SkipReason.UNSUPPORTED,
            t("{filesystem} is not local", filesystem=mount.filesystem),
        )
        return
    with found.attempt(f"{base}.direct"):
        overlay = mount is None or mount.filesystem == "overlay"
        entry["direct"] = odirect.prove(folder, overlay=overlay)


def _a_shard(folder: Path) -> Path | None:
    with suppress(OSError):
        return next((p for p in sorted(folder.glob("*.safetensors")) if p.is_file()), None)
    return None
