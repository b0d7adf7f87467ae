"""A repository's checkpoint read through range requests: headers and configs, never the weights."""

from __future__ import annotations

import json
import os
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx2

from qwen_tui.services.download.hosts import HostLog, host_of
from qwen_tui.services.download.listing import check_path
from qwen_tui.services.download.problems import Problem, from_network
from qwen_tui.services.download.route import Router, make_client
from qwen_tui.services.download.sentences import describe
from qwen_tui_diagnostics.checkpoint.source import FileKind, SourceFile
from qwen_tui_profiles.errors import InputError, UsageError
from qwen_tui_profiles.foreign import clean
from qwen_tui_profiles.text import t

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["RepoSource", "open_repo"]

DEFAULT_ENDPOINT = "https://huggingface.co"
_HEAD_BYTES = 64 << 10
"""Read of every weight file at once: holds the header of most shards."""
_LARGEST_LISTING_BYTES = 64 << 20
_LARGEST_READ_BYTES = 64 << 20
_MOST_FILES = 20_000
_WORKERS = 8
_TRIES = 3


def open_repo(repo: str, *, revision: str = "main", endpoint: str | None = None) -> RepoSource:
    """List a repository at the Hub or a mirror.

    Raises:
        UsageError: Offline mode is on.
        DownloadError: The endpoint cannot be reached or refuses.
        InputError: The listing cannot be read.
    """
    if os.environ.get("HF_HUB_OFFLINE", "").upper() in {"1", "ON", "YES", "TRUE"}:
        raise UsageError(
            t("HF_HUB_OFFLINE is set; {repo} cannot be looked at.", repo=repo),
            t("Unset it, or name a folder of this machine."),
        )
    base = (endpoint or os.environ.get("HF_ENDPOINT") or DEFAULT_ENDPOINT).rstrip("/")
    source = RepoSource(repo, revision, base, _token())
    try:
        source.list()
    except Problem as problem:
        source.close()
        raise describe(problem.code, problem.fields) from problem
    except BaseException:
        source.close()
        raise
    return source


def _token() -> str | None:
    """Return the user's own token, as the Hub's client finds it; it goes to the endpoint only."""
    for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"):
        value = os.environ.get(name, "").strip()
        if value:
            return value
    home = Path(os.environ.get("HF_HOME") or "~/.cache/huggingface").expanduser()
    try:
        return (home / "token").read_text(encoding="utf-8").strip() or None
    except (OSError, UnicodeDecodeError):
        return None


class RepoSource:
    """One commit of a repository; reads are range requests, and what was read is kept."""

    folder = None

    def __init__(self, repo: str, revision: str, endpoint: str, token: str | None) -> None:
        self._repo = repo
        self._revision = revision
        self._endpoint = endpoint
        self._client = make_client(stall_s=30.0, connections=_WORKERS)
        self._router = Router(self._client, endpoint, token, HostLog())
        self._commit = revision
        self._files: dict[str, SourceFile] = {}
        self._below: set[str] = set()
        self._heads: dict[str, bytes] = {}
        self.received_bytes = 0

    @property
    def label(self) -> str:
        """``org/name@commit``."""
        return f"{self._repo}@{self._commit[:12]}"

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def files(self) -> Mapping[str, SourceFile]:
        """Return the top folder."""
        return self._files

    def exists(self, name: str) -> bool:
        """Whether the repository lists a file."""
        return name in self._files or name in self._below

    def list(self) -> None:
        """Fetch the listing, then the beginning of every weight file.

        Raises:
            Problem: A host cannot be reached or refuses.
            InputError: The listing cannot be read.
        """
        url = f"{self._endpoint}/api/models/{self._repo}/revision/{self._revision}?blobs=true"
        raw = self._fetch(url, 0, _LARGEST_LISTING_BYTES)
        try:
            document = json.loads(raw)
            siblings = document["siblings"]
            commit = document.get("sha")
        except (ValueError, RecursionError, KeyError, TypeError, AttributeError) as error:
            raise InputError(
                t("The listing of {repo} cannot be read.", repo=self._repo),
                t("Check the endpoint: {endpoint}", endpoint=clean(self._endpoint)),
            ) from error
        if isinstance(commit, str) and re.fullmatch(r"[0-9a-f]{40}", commit):
            self._commit = commit
        for entry in siblings[:_MOST_FILES] if isinstance(siblings, list) else ():
            name = entry.get("rfilename") if isinstance(entry, dict) else None
            if not isinstance(name, str):
                continue
            check_path(name)
            if "/" in name:
                self._below.add(name)
                continue
            size = _size_of(entry)
            self._files[name] = SourceFile(name, FileKind.FILE, size)
        weights = [name for name in self._files if name.endswith(".safetensors")]
        with ThreadPoolExecutor(max_workers=_WORKERS, thread_name_prefix="head") as pool:
            heads = pool.map(lambda name: self._range(name, 0, _HEAD_BYTES), weights)
            self._heads.update(zip(weights, heads, strict=True))

    def read(self, name: str, offset: int, length: int) -> bytes:
        """Read a piece of a file.

        Raises:
            DownloadError: The endpoint cannot be reached or refuses.
        """
        head = self._heads.get(name)
        if head is not None and (offset + length <= len(head) or len(head) < _HEAD_BYTES):
            return head[offset : offset + length]
        try:
            return self._range(name, offset, min(length, _LARGEST_READ_BYTES))
        except Problem as problem:
            raise describe(problem.code, problem.fields) from problem

    def _range(self, name: str, offset: int, length: int) -> bytes:
        if length <= 0 or self._files[name].size == 0:
            return b""
        return self._fetch(self._router.url(self._repo, self._commit, name), offset, length)

    def _fetch(self, url: str, offset: int, length: int) -> bytes:
        for attempt in range(_TRIES):
            try:
                return self._once(url, offset, length)
            except Problem as problem:
                if not problem.retryable or attempt == _TRIES - 1:
                    raise
        raise Problem("dropped", host=host_of(url), reason="")

    def _once(self, url: str, offset: int, length: int) -> bytes:
        ranged = "/api/" not in url
        opened = self._router.open(url, start=offset, last=offset + length - 1 if ranged else None)
        skip = offset - opened.start
        if skip > _LARGEST_READ_BYTES:
            opened.response.close()
            raise Problem("bad_range", host=opened.host)
        pieces: list[bytes] = []
        wanted = skip + length
        have = 0
        try:
            # A server without ranges sends the whole file: stop when there is enough.
            for piece in opened.response.iter_bytes():
                pieces.append(piece)
                have += len(piece)
                if have >= wanted:
                    break
        except (httpx2.HTTPError, OSError) as error:
            raise from_network(error, opened.host) from error
        finally:
            opened.response.close()
        self.received_bytes += have
        data = b"".join(pieces)
        return data[skip : skip + length]


def _size_of(entry: Mapping[str, Any]) -> int:
    lfs = entry.get("lfs")
    for value in (lfs.get("size") if isinstance(lfs, dict) else None, entry.get("size")):
        if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
            return value
    return 0
