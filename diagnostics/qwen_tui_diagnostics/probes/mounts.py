"""Which mount a path is on, and the stack of block devices below it."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from qwen_tui_diagnostics.probes.files import read_text, try_text
from qwen_tui_profiles.foreign import clean

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

__all__ = ["Mount", "device_stack", "mount_of", "parse_mountinfo"]

_OCTAL = re.compile(r"\\([0-7]{3})")
_TRUE_ROTATIONAL = frozenset({"nvme", "ata", "scsi"})
"""virtio and loop devices say "rotational" on SSD hosts."""


@dataclass(frozen=True, slots=True)
class Mount:
    """One line of ``mountinfo``."""

    point: str
    filesystem: str
    source: str
    options: tuple[str, ...]
    """Of the mount and of the file system together."""
    device: str
    """``major:minor``; ``0:N`` where the file system has no single device."""


def parse_mountinfo(text: str) -> list[Mount]:
    """Read ``/proc/self/mountinfo``; broken lines are left out."""
    mounts: list[Mount] = []
    for line in text.splitlines():
        before, separator, after = line.partition(" - ")
        left, right = before.split(" "), after.split(" ")
        if not separator or len(left) < 6 or len(right) < 3:
            continue
        options = tuple(dict.fromkeys([*left[5].split(","), *right[2].split(",")]))
        mounts.append(
            Mount(
                _unescape(left[4]),
                right[0],
                clean(_unescape(right[1])),
                tuple(map(clean, options)),
                left[2],
            )
        )
    return mounts


def mount_of(path: str, mounts: Sequence[Mount]) -> Mount | None:
    """Return the mount of an absolute path without symbolic links: the longest, last mounted."""
    best: Mount | None = None
    for mount in mounts:
        point = mount.point.rstrip("/") or "/"
        inside = point in {"/", path} or path.startswith(point + "/")
        if inside and (best is None or len(point) >= len(best.point.rstrip("/") or "/")):
            best = mount
    return best


def _unescape(field: str) -> str:
    """Undo the octal escapes of blanks and the like."""
    return _OCTAL.sub(lambda match: chr(int(match[1], 8)), field)


def device_stack(sys_root: Path, mount: Mount) -> dict[str, Any] | None:
    """Describe the devices under a mount, top to bottom.

    Returns:
        ``{stack: [names], kinds: [...], bottom: {name, kind, rotational?, removable?, …}}``, or
        ``None`` where sysfs knows no block device for it.
    """
    numbers = mount.device
    if numbers.startswith("0:"):
        # btrfs, zfs, overlay, fuse: the mount's source may name a device.
        name = mount.source.rpartition("/")[2] if mount.source.startswith("/dev/") else ""
        start = sys_root / "class/block" / name if name else None
        if start is None or not start.exists():
            return None
        entry = start.resolve()
    else:
        link = sys_root / "dev/block" / numbers
        if not link.exists():
            return None
        entry = link.resolve()
    stack: list[dict[str, Any]] = []
    seen: set[Path] = set()
    while entry not in seen and len(stack) < 8:
        seen.add(entry)
        if (entry / "partition").exists():
            entry = entry.parent
        stack.append(_describe(entry))
        slaves = sorted((entry / "slaves").iterdir()) if (entry / "slaves").is_dir() else []
        if not slaves:
            break
        entry = slaves[0].resolve()
    return {"stack": [item["name"] for item in stack], "bottom": stack[-1], "layers": stack[:-1]}


def _describe(entry: Path) -> dict[str, Any]:
    name = entry.name
    item: dict[str, Any] = {"name": name, "kind": _kind(entry)}
    node = (try_text(entry / "device/numa_node") or "").strip()
    if node.lstrip("-").isdecimal():
        item["numa_node"] = int(node)
    if (try_text(entry / "removable") or "").strip() == "1" or "/usb" in str(entry):
        item["removable"] = True
    if item["kind"] in _TRUE_ROTATIONAL:
        rotational = (try_text(entry / "queue/rotational") or "").strip()
        if rotational in {"0", "1"}:
            item["rotational"] = rotational == "1"
    size = (try_text(entry / "queue/logical_block_size") or "").strip()
    if size.isdecimal():
        item["logical_block_bytes"] = int(size)
    model = clean((try_text(entry / "device/model") or "").strip())
    if model:
        item["model"] = model
    return item


def _kind(entry: Path) -> str:
    name = entry.name
    if (entry / "dm").is_dir():
        uuid = (try_text(entry / "dm/uuid") or "").strip()
        return {"CRYPT": "dm-crypt", "LVM": "lvm"}.get(uuid.partition("-")[0], "device-mapper")
    for prefix, kind in (
        ("nvme", "nvme"), ("md", "md"), ("loop", "loop"), ("vd", "virtio"), ("zram", "zram"),
        ("mmcblk", "mmc"), ("ram", "ram"), ("nbd", "network"), ("rbd", "network"),
        ("xvd", "virtio"),
    ):  # fmt: skip
        if name.startswith(prefix):
            return kind
    if name.startswith("sd"):
        path = str(entry)
        if "/usb" in path:
            return "usb"
        if "/virtio" in path:
            return "virtio"
        return "ata" if "/ata" in path else "scsi"
    subsystem = entry / "device/subsystem"
    return os.path.basename(os.path.realpath(subsystem)) if subsystem.exists() else "unknown"  # noqa: PTH119


def read_mounts(proc_root: Path) -> list[Mount]:
    """Return the mounts this process sees.

    Raises:
        OSError: ``/proc/self/mountinfo`` cannot be read.
    """
    return parse_mountinfo(read_text(proc_root / "self/mountinfo"))
