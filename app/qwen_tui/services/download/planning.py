"""The plan: what is wanted, what is here and proven, what has to come, and whether it fits."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING

from qwen_tui.services.download.hashing import file_hashes
from qwen_tui.services.download.listing import HTTP_LIMIT_BYTES
from qwen_tui.services.download.partial import Journal, boot_id
from qwen_tui.services.download.problems import Problem, from_os

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from qwen_tui.services.download.control import Control
    from qwen_tui.services.download.layout import Layout
    from qwen_tui.services.download.listing import RemoteFile
    from qwen_tui.services.download.manifest import Manifest

__all__ = ["FilePlan", "Plan", "existing_folder", "make_plan"]


@dataclass(frozen=True, slots=True)
class FilePlan:
    """One wanted file."""

    file: RemoteFile
    state: str
    """``here`` (and its hash is proven), ``part``, ``differs`` (another content has the name),
    ``missing``."""
    have: int = 0
    """Bytes that need not be fetched."""

    @property
    def to_fetch(self) -> int:
        """Bytes still to come; 0 where the size is not known."""
        return max((self.file.size or 0) - self.have, 0)


@dataclass(frozen=True, slots=True)
class Plan:
    """All wanted files, and the disk they go to."""

    files: tuple[FilePlan, ...]
    left_out: tuple[RemoteFile, ...]
    free_bytes: int
    leftovers: tuple[int, int]
    """Unfinished files of other downloaders below the target: count and bytes."""

    @property
    def fetch(self) -> tuple[FilePlan, ...]:
        """Files that have to come."""
        return tuple(f for f in self.files if f.state != "here")

    @property
    def fetch_bytes(self) -> int:
        """Bytes that have to come."""
        return sum(f.to_fetch for f in self.fetch)

    @property
    def too_large(self) -> tuple[str, ...]:
        """Files that the Hub does not send over plain HTTP."""
        return tuple(f.file.path for f in self.fetch if (f.file.size or 0) > HTTP_LIMIT_BYTES)

    def check(self) -> None:
        """Refuse what cannot end well.

        Raises:
            Problem: A file is too large for plain HTTP, or the disk too small.
        """
        if self.too_large:
            raise Problem("too_large", paths=list(self.too_large), limit=HTTP_LIMIT_BYTES)
        if self.fetch_bytes > self.free_bytes:
            raise Problem("not_enough_space", needed=self.fetch_bytes, free=self.free_bytes)

    def as_json(self) -> dict[str, object]:
        """Return the part of the ``plan`` event that is about files."""
        return {
            "files": [
                {
                    "path": f.file.path,
                    "size": f.file.size,
                    "state": f.state,
                    "have_bytes": f.have,
                    "sha256": f.file.sha256,
                }
                for f in self.files
            ],
            "left_out": [{"path": f.path, "size": f.size} for f in self.left_out],
            "total_bytes": sum(f.file.size or 0 for f in self.files),
            "here_bytes": sum(f.have for f in self.files if f.state == "here"),
            "kept_bytes": sum(f.have for f in self.files if f.state == "part"),
            "fetch_bytes": self.fetch_bytes,
            "unknown_sizes": sum(1 for f in self.fetch if f.file.size is None),
            "free_bytes": self.free_bytes,
            "free_after_bytes": self.free_bytes - self.fetch_bytes,
            "too_large": list(self.too_large),
            "leftovers": {"count": self.leftovers[0], "bytes": self.leftovers[1]},
        }


def make_plan(
    files: Sequence[RemoteFile],
    left_out: Sequence[RemoteFile],
    layout: Layout,
    manifest: Manifest,
    control: Control,
    on_hashed: Callable[[str, int], None],
) -> Plan:
    """Compare what is wanted with what is there; files of unproven content are hashed now.

    Raises:
        Problem: The target cannot be read.
        Cancelled: The user stopped it.
    """
    plans: list[FilePlan] = []
    for file in files:
        control.checkpoint()
        plans.append(_file_plan(file, layout, manifest, control, on_hashed))
    folder = existing_folder(layout.folder)
    return Plan(tuple(plans), tuple(left_out), _free(folder), _leftovers(layout.folder))


def existing_folder(path: Path) -> Path:
    """Return ``path``, or its nearest ancestor that exists."""
    while not path.exists() and path != path.parent:
        path = path.parent
    return path


def _file_plan(
    file: RemoteFile,
    layout: Layout,
    manifest: Manifest,
    control: Control,
    on_hashed: Callable[[str, int], None],
) -> FilePlan:
    layout.check(file)
    present = layout.existing(file)
    differs = False
    if present is not None:
        try:
            if _is_proven(file, present, manifest, control, on_hashed):
                return FilePlan(file, "here", file.size or 0)
        except OSError as error:
            raise from_os(error, present) from error
        differs = True
    kept = _kept_bytes(file, layout)
    if kept:
        return FilePlan(file, "part", kept)
    return FilePlan(file, "differs" if differs else "missing")


def _is_proven(
    file: RemoteFile,
    path: Path,
    manifest: Manifest,
    control: Control,
    on_hashed: Callable[[str, int], None],
) -> bool:
    if file.etag is None:
        return False
    if file.size is not None and path.stat().st_size != file.size:
        return False
    if manifest.proves(file, path):
        return True
    hashes = file_hashes(
        path,
        git=file.sha256 is None,
        on_bytes=lambda count: on_hashed(file.path, count),
        cancelled=control.cancelled,
    )
    if (hashes.sha256 if file.sha256 else hashes.blob_id) != file.etag:
        return False
    manifest.record(file, path, hashes.sha256, hashes.blob_id)
    return True


def _kept_bytes(file: RemoteFile, layout: Layout) -> int:
    partial = layout.places(file).partial
    journal = Journal.read(partial.with_name(partial.name + ".json"))
    if journal is None or journal.identity != file.etag or journal.size != file.size:
        return 0
    try:
        have = partial.stat().st_size
    except OSError:
        return 0
    return have if journal.boot and journal.boot == boot_id() else min(have, journal.synced)


def _free(folder: Path) -> int:
    try:
        return shutil.disk_usage(folder).free
    except OSError as error:
        raise from_os(error, folder) from error


def _leftovers(folder: Path) -> tuple[int, int]:
    count = size = 0
    try:
        with os.scandir(folder / ".cache" / "huggingface" / "download") as entries:
            for entry in entries:
                if entry.name.endswith(".incomplete"):
                    count += 1
                    size += entry.stat().st_size
    except OSError:
        return 0, 0
    return count, size
