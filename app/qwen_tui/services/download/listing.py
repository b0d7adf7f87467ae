"""What a repository holds, as the Hub lists it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePosixPath

from qwen_tui.services.download.problems import Problem
from qwen_tui_profiles.foreign import clean

__all__ = [
    "HTTP_LIMIT_BYTES",
    "RemoteFile",
    "RemoteRepo",
    "check_commit",
    "check_path",
    "git_id",
    "sha256_id",
]

HTTP_LIMIT_BYTES = 50 * 10**9
"""The Hub refuses larger files over plain HTTP; they exist through Xet only."""

_UNSAFE = re.compile(r"[\x00-\x1f\x7f-\x9f\\\ud800-\udfff]")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_SHA1 = re.compile(r"[0-9a-f]{40}")


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
        Problem: It is absolute, climbs out, holds control characters or ones that turn the reading
            direction, or is ours.
    """
    parts = PurePosixPath(path).parts if isinstance(path, str) else ()
    if (
        not parts
        or path.startswith("/")
        or _UNSAFE.search(path)
        or clean(path) != path
        or any(part in {"..", "."} or len(part.encode()) > 255 for part in path.split("/"))
        or parts[0] == ".cache"
        or "" in path.split("/")
    ):
        raise Problem("unsafe_path", path=str(path))
    return path


def check_commit(commit: object, revision: str, repo: str) -> str:
    """Return the commit of a listing: it names folders, and pins every file's address.

    Raises:
        Problem: It is no commit, or another one than was asked for.
    """
    if not isinstance(commit, str) or _SHA1.fullmatch(commit) is None:
        raise Problem("bad_listing", repo=repo, value=repr(commit)[:80])
    if _SHA1.fullmatch(revision) and revision != commit:
        raise Problem("other_commit", repo=repo, asked=revision, got=commit)
    return commit


def sha256_id(value: object, path: str, repo: str) -> str | None:
    """Return a SHA-256 of a listing; ``None`` when the server gives none.

    Raises:
        Problem: It is something else, which must become no file name and prove nothing.
    """
    return _id(value, _SHA256, path, repo)


def git_id(value: object, path: str, repo: str) -> str | None:
    """Return a git blob id of a listing; ``None`` when the server gives none.

    Raises:
        Problem: It is something else.
    """
    return _id(value, _SHA1, path, repo)


def _id(value: object, shape: re.Pattern[str], path: str, repo: str) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str) or shape.fullmatch(value) is None:
        raise Problem("bad_listing", repo=repo, path=path, value=repr(value)[:80])
    return value
