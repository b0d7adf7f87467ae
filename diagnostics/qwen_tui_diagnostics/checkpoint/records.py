"""What was recorded about a release's files: by the Hub's client, by our download, by a manifest.

Sources, best first: ``.metadata`` files beside the files (etag = SHA-256 of large files, git blob
id of small ones), the snapshot's links into ``blobs/``, the tree listing (sizes and SHA-256 of the
whole repository), our own manifest.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from qwen_tui_profiles.foreign import clean

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["MANIFEST_NAME", "Record", "Records", "read_manifest", "read_records"]

MANIFEST_NAME = "checksums.json"
"""Written and read by ``--manifest``; the shape is SGLang's ``--model-checksum`` file."""

_SHA256 = re.compile(r"[0-9a-f]{64}")
_SHA1 = re.compile(r"[0-9a-f]{40}")
_LARGEST_BYTES = 32 << 20
_MOST_FILES = 50_000


@dataclass(slots=True)
class Record:
    """What one file should be."""

    size: int | None = None
    sha256: str | None = None
    blob_id: str | None = None
    """Git's id of a small file: SHA-1 over a header and the content."""
    commit: str | None = None
    noted: float | None = None
    """When the download noted it; a later change of the file is the user's own."""

    @property
    def hashed(self) -> bool:
        """A hash to compare with is known."""
        return self.sha256 is not None or self.blob_id is not None


@dataclass(slots=True)
class Records:
    """Everything that is recorded about a folder."""

    files: dict[str, Record] = field(default_factory=dict)
    listed: dict[str, Record] = field(default_factory=dict)
    """The tree of the commit: every file of the repository."""
    commits: dict[str, str] = field(default_factory=dict)
    """File → commit that it was downloaded from."""

    def of(self, name: str) -> Record | None:
        """Return what is known of a file."""
        return self.files.get(name) or self.listed.get(name)


def read_records(folder: Path) -> Records:
    """Read whatever was recorded about a folder; damaged records count as none."""
    records = Records()
    _read_manifest_of_download(folder, records)
    _read_metadata(folder, records)
    _read_links(folder, records)
    commits = set(records.commits.values())
    if _SHA1.fullmatch(folder.name) and folder.parent.name == "snapshots":
        commits.add(folder.name)
    for commit in commits:
        for trees in (folder / ".cache" / "huggingface" / "trees", folder.parent.parent / "trees"):
            _read_tree(trees / f"{commit}.json", commit, records)
    for name, record in records.files.items():
        listed = records.listed.get(name)
        if listed is not None and (record.commit in {None, listed.commit}):
            record.size = listed.size if record.size is None else record.size
            record.sha256 = record.sha256 or listed.sha256
    return records


def read_manifest(path: Path) -> dict[str, Record] | None:
    """Read ``{"files": {name: {"sha256", "size"}}}``; None where it is not one."""
    document = _json(path)
    files = document.get("files") if isinstance(document, dict) else None
    if not isinstance(files, dict) or len(files) > _MOST_FILES:
        return None
    found: dict[str, Record] = {}
    for name, entry in files.items():
        if not isinstance(entry, dict) or not _plain(name):
            continue
        sha256, size = entry.get("sha256"), entry.get("size")
        if isinstance(sha256, str) and _SHA256.fullmatch(sha256):
            found[name] = Record(size=size if isinstance(size, int) else None, sha256=sha256)
    return found


def _read_manifest_of_download(folder: Path, records: Records) -> None:
    # Beside a plain folder's files; for a snapshot of the Hub's cache (…/snapshots/<commit>) in the
    # repository's folder, one manifest for each commit.
    cached = folder.parent.parent / ".qwen-tui" / folder.name
    for place in (folder / ".cache" / "qwen-tui", cached):
        found = read_manifest(place / "manifest.json")
        if found:
            records.files.update(found)


def _read_metadata(folder: Path, records: Records) -> None:
    root = folder / ".cache" / "huggingface" / "download"
    for path in _below(root, ".metadata"):
        name = path.relative_to(root).as_posix().removesuffix(".metadata")
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
            commit, etag, noted = lines[0].strip(), lines[1].strip(), float(lines[2])
        except (OSError, ValueError, IndexError):
            continue
        record = records.files.setdefault(name, Record())
        record.commit, record.noted = commit, noted
        if _SHA1.fullmatch(commit):
            records.commits[name] = commit
        _note_etag(record, etag)


def _read_links(folder: Path, records: Records) -> None:
    """In the Hub's cache the first link's target is named by the etag."""
    if folder.parent.name != "snapshots":
        return
    for path in _below(folder, ""):
        try:
            target = PurePosixPath(os.readlink(path))  # noqa: PTH115 - once, not resolved
        except OSError:
            continue
        if target.parent.name == "blobs":
            record = records.files.setdefault(path.relative_to(folder).as_posix(), Record())
            _note_etag(record, target.name)


def _note_etag(record: Record, etag: str) -> None:
    if _SHA256.fullmatch(etag):
        record.sha256 = etag
    elif _SHA1.fullmatch(etag):
        record.blob_id = etag


def _read_tree(path: Path, commit: str, records: Records) -> None:
    document = _json(path)
    files = document.get("files") if isinstance(document, dict) else None
    if not isinstance(files, dict) or len(files) > _MOST_FILES:
        return
    for name, entry in files.items():
        if not isinstance(entry, dict) or not _plain(name):
            continue
        record = Record(commit=commit)
        size = entry.get("lfs_size", entry.get("size"))
        record.size = size if isinstance(size, int) and not isinstance(size, bool) else None
        sha256, blob = entry.get("lfs_sha256"), entry.get("blob_id")
        if isinstance(sha256, str) and _SHA256.fullmatch(sha256):
            record.sha256 = sha256
        elif isinstance(blob, str) and _SHA1.fullmatch(blob):
            record.blob_id = blob
        records.listed[name] = record


def _below(root: Path, suffix: str) -> Iterator[Path]:
    count = 0
    for base, folders, names in os.walk(root):
        folders[:] = [name for name in folders if name != ".cache"]
        for name in names:
            if name.endswith(suffix):
                count += 1
                if count > _MOST_FILES:
                    return
                yield Path(base) / name


def _plain(name: object) -> bool:
    if not isinstance(name, str) or not name or clean(name) != name:
        return False
    return not name.startswith("/") and ".." not in name.split("/")


def _json(path: Path) -> Mapping[str, Any] | list[Any] | None:
    try:
        if path.stat().st_size > _LARGEST_BYTES:
            return None
        document: Any = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None
