"""The manifest of a download: which commit, and the hash of every file; readable offline.

Its ``files`` part has the shape of SGLang's own checksum files (``{name: {"sha256", "size"}}``), so
``verify --hash`` and the engine's ``--model-checksum`` can use it. Modification times make a later
run skip hashing what has not changed since.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from qwen_tui.services.paths import write_private

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from qwen_tui.services.download.listing import RemoteFile

__all__ = ["MANIFEST_NAME", "Manifest"]

MANIFEST_NAME = "manifest.json"


@dataclass(slots=True)
class Manifest:
    """Hashes of whole files. Not safe across threads."""

    path: Path
    repo: str
    commit: str
    files: dict[str, dict[str, Any]]
    older: tuple[dict[str, dict[str, Any]], ...] = ()

    @classmethod
    def load(cls, folder: Path, repo: str, commit: str, older: Iterable[Path] = ()) -> Manifest:
        """Read the manifest in ``folder``, or begin one; a broken one is begun anew.

        ``older`` are folders of other commits' manifests: where they name the same content of the
        same file, it need not be hashed again.
        """
        path = folder / MANIFEST_NAME
        others = tuple(_entries(place / MANIFEST_NAME) for place in older)
        return cls(path, repo, commit, _entries(path), others)

    def proves(self, file: RemoteFile, path: Path) -> bool:
        """Whether this very file on disk was hashed before and is what the Hub lists."""
        try:
            stat = path.stat()
        except OSError:
            return False
        for files in (self.files, *self.older):
            entry = files.get(file.path)
            if (
                entry is not None
                and file.etag in {entry.get("sha256"), entry.get("blob_id")}
                and entry.get("size") == stat.st_size
                and entry.get("mtime_ns") == stat.st_mtime_ns
            ):
                self.files[file.path] = entry
                return True
        return False

    def record(self, file: RemoteFile, path: Path, sha256: str, blob_id: str | None) -> None:
        """Note the hashes of a whole file."""
        stat = path.stat()
        entry: dict[str, Any] = {"sha256": sha256, "size": stat.st_size}
        if blob_id is not None:
            entry["blob_id"] = blob_id
        self.files[file.path] = {**entry, "mtime_ns": stat.st_mtime_ns}

    def save(self, wanted: set[str] | None = None) -> None:
        """Write it; ``wanted`` drops entries of files that are no part of this commit.

        Raises:
            OSError: It cannot be written.
        """
        kept = (
            self.files if wanted is None else {k: self.files[k] for k in self.files if k in wanted}
        )
        document = {
            "schema": "qwen-tui.manifest/1",
            "repo": self.repo,
            "commit": self.commit,
            "written": time.time(),
            "files": {name: kept[name] for name in sorted(kept)},
        }
        self.path.parent.mkdir(parents=True, exist_ok=True)
        write_private(self.path, json.dumps(document, indent=1).encode() + b"\n")


def _entries(path: Path) -> dict[str, dict[str, Any]]:
    try:
        files = json.loads(path.read_bytes())["files"]
        return {
            str(name): dict(entry)
            for name, entry in files.items()
            if isinstance(entry, dict) and isinstance(entry.get("sha256"), str)
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}
