"""Where files go: a plain folder, or the Hub's cache, each as the Hub's own client lays it out."""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from qwen_tui.services.download.problems import Problem
from qwen_tui.services.download.transfer import Places

if TYPE_CHECKING:
    from pathlib import Path

    from qwen_tui.services.download.listing import RemoteFile

__all__ = ["CacheLayout", "FolderLayout", "Layout"]

_TAG = "Signature: 8a477f597d28d172789f06886806bc55\n# This folder can be fetched again.\n"
"""Content of ``CACHEDIR.TAG``: backup programs know it by its signature."""


class Layout(Protocol):
    """A place for the files of one commit."""

    @property
    def folder(self) -> Path:
        """Folder that an engine is given."""
        ...

    @property
    def private(self) -> Path:
        """Our own folder beside the files: lock, partial files."""
        ...

    @property
    def records(self) -> Path:
        """Folder of this commit's manifest."""
        ...

    def older_records(self) -> list[Path]:
        """Return the folders of other commits' manifests, which prove shared files as well."""
        ...

    def existing(self, file: RemoteFile) -> Path | None:
        """Return the file that is already there, if any."""
        ...

    def places(self, file: RemoteFile) -> Places:
        """Return where the bytes of a file go."""
        ...

    def check(self, file: RemoteFile) -> None:
        """Make sure that the file's place is below the folder and can take a file.

        Raises:
            Problem: It is not, or cannot.
        """
        ...

    def publish(self, file: RemoteFile, revision: str) -> None:
        """Write what the Hub's client wants to find beside a whole file."""
        ...


@dataclass(frozen=True)
class FolderLayout:
    """A plain folder (``--local-dir`` of the Hub's client)."""

    root: Path
    commit: str

    @property
    def folder(self) -> Path:
        """The folder itself."""
        return self.root

    @property
    def private(self) -> Path:
        """``.cache/qwen-tui``."""
        return self.root / ".cache" / "qwen-tui"

    @property
    def records(self) -> Path:
        """The same folder: it holds one commit at a time."""
        return self.private

    def older_records(self) -> list[Path]:
        """None: an update goes on with the one manifest."""
        return []

    def existing(self, file: RemoteFile) -> Path | None:
        """Return the file in the folder."""
        path = self.root / file.path
        return path if path.is_file() else None

    def places(self, file: RemoteFile) -> Places:
        """Partial files keep their path below our folder, on the same file system."""
        return Places(
            partial=self.private / "incoming" / (file.path + ".incomplete"),
            target=self.root / file.path,
            aside=self.private / "aside" / file.path,
        )

    def check(self, file: RemoteFile) -> None:
        """Refuse a link on the way that leads out of the folder, and what is in the way."""
        places = self.places(file)
        for place in (places.partial, places.target, places.aside):
            _check_parents(self.root, place)
        if (self.root / file.path).is_dir():
            raise Problem("in_the_way", path=str(self.root / file.path))

    def publish(self, file: RemoteFile, revision: str) -> None:
        """Write the ``.metadata`` file: commit, etag, time."""
        del revision
        hub = self.root / ".cache" / "huggingface"
        path = hub / "download" / (file.path + ".metadata")
        path.parent.mkdir(parents=True, exist_ok=True)
        _tag(hub)
        if file.etag is not None:
            _put(path, f"{self.commit}\n{file.etag}\n{time.time()}\n")


@dataclass(frozen=True)
class CacheLayout:
    """The Hub's cache: blobs by content, snapshots of links."""

    cache: Path
    repo: str
    commit: str

    @property
    def _storage(self) -> Path:
        return self.cache / ("models--" + self.repo.replace("/", "--"))

    @property
    def folder(self) -> Path:
        """The snapshot of this commit."""
        return self._storage / "snapshots" / self.commit

    @property
    def private(self) -> Path:
        """``.qwen-tui`` in the repository's folder."""
        return self._storage / ".qwen-tui"

    @property
    def records(self) -> Path:
        """A folder for each commit: the manifest of one says nothing of another's files."""
        return self.private / self.commit

    def older_records(self) -> list[Path]:
        """Every other commit's folder."""
        try:
            found = sorted(p for p in self.private.iterdir() if len(p.name) == len(self.commit))
        except OSError:
            return []
        return [p for p in found if p != self.records]

    def existing(self, file: RemoteFile) -> Path | None:
        """Return the snapshot's file, or the blob that it would point to."""
        for path in (self.folder / file.path, self._blob(file)):
            if path is not None and path.is_file():
                return path
        return None

    def places(self, file: RemoteFile) -> Places:
        """Blobs are named by content, so partial files are too."""
        blob = self._blob(file)
        target = blob if blob is not None else self.folder / file.path
        return Places(
            partial=self.private / "incoming" / (target.name + ".incomplete"),
            target=target,
            aside=self.private / "aside" / target.name,
        )

    def check(self, file: RemoteFile) -> None:
        """Nothing to refuse: names are hashes, and the cache's own links are the user's."""
        del file

    def publish(self, file: RemoteFile, revision: str) -> None:
        """Link the snapshot to the blob and note what the revision stands for."""
        _tag(self.cache)
        blob = self._blob(file)
        link = self.folder / file.path
        if blob is not None and not link.exists():
            link.parent.mkdir(parents=True, exist_ok=True)
            with contextlib.suppress(FileNotFoundError):
                link.unlink()
            link.symlink_to(os.path.relpath(blob, link.parent))
        if revision != self.commit:
            ref = self._storage / "refs" / revision
            ref.parent.mkdir(parents=True, exist_ok=True)
            _put(ref, self.commit)

    def _blob(self, file: RemoteFile) -> Path | None:
        return None if file.etag is None else self._storage / "blobs" / file.etag


def _check_parents(root: Path, place: Path) -> None:
    whole = root.resolve()
    for parent in reversed(place.parents):
        if not parent.is_relative_to(root):
            continue
        if parent.is_symlink() and not parent.resolve().is_relative_to(whole):
            raise Problem("leads_out", path=str(parent), target=str(parent.resolve()))
        if parent.exists() and not parent.is_dir():
            raise Problem("in_the_way", path=str(parent))


def _put(path: Path, text: str) -> None:
    """Replace a small file as a whole: never half written, never through a link."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".put-")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            os.fchmod(file.fileno(), 0o644)
            file.write(text)
        os.replace(name, path)  # noqa: PTH105 - two plain names
    except BaseException:
        os.unlink(name)  # noqa: PTH108 - likewise
        raise


def _tag(folder: Path) -> None:
    with contextlib.suppress(OSError):
        tag = folder / "CACHEDIR.TAG"
        if not tag.exists():
            tag.write_text(_TAG, encoding="ascii")
        ignore = folder / ".gitignore"
        if folder.name == "huggingface" and folder.parent.name == ".cache" and not ignore.exists():
            ignore.write_text("*", encoding="ascii")
