"""What a repository holds, as the Hub lists it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePosixPath

from qwen_tui.services.download.problems import Problem

__all__ = ["HTTP_LIMIT_BYTES", "RemoteFile", "RemoteRepo", "check_path"]

HTTP_LIMIT_BYTES = 50 * 10**9
"""The Hub refuses larger files over plain HTTP; they exist through Xet only."""

_UNSAFE = re.compile(r"[\x00-\x1f\x7f\\]")


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """One file of one commit."""

    path: str
    """Relative, with ``/``."""
    size: int | None
    """Bytes; ``None`` when the server does not tell."""
    sha256: str | None
    """Of the content, for files in large-file storage."""
    blob_id: str | None
    """Git blob id (SHA-1), for small files."""

    @property
    def etag(self) -> str | None:
        """What the Hub calls the content: sha256, else blob id."""
        return self.sha256 or self.blob_id


@dataclass(frozen=True, slots=True)
class RemoteRepo:
    """One commit of a repository."""

    repo: str
    commit: str
    """40 hex digits."""
    files: tuple[RemoteFile, ...]


def check_path(path: str) -> str:
    """Return a path from the server, if it is safe to write below a folder.

    Raises:
        Problem: It is absolute, climbs out, holds control characters, or is ours.
    """
    parts = PurePosixPath(path).parts
    if (
        not parts
        or path.startswith("/")
        or _UNSAFE.search(path)
        or any(part in {"..", "."} or len(part.encode()) > 255 for part in path.split("/"))
        or parts[0] == ".cache"
        or "" in path.split("/")
    ):
        raise Problem("unsafe_path", path=path)
    return path
