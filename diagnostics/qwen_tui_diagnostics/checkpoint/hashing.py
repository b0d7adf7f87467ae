"""Hashing whole files: several at a time, cancellable, with the bytes counted as they pass."""

from __future__ import annotations

import hashlib
import os
import threading
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

__all__ = ["Digest", "HashCache", "HashJob", "hash_files"]

_BLOCK_BYTES = 1 << 20
"""64 KiB reads were half as fast; larger ones fall out of the processor's cache."""


@dataclass(frozen=True, slots=True)
class Digest:
    """Hashes of one file."""

    sha256: str
    blob_id: str | None
    """Git blob id, where it was asked for."""


class HashCache(Protocol):
    """Digests of files that were hashed before and have not changed since."""

    def get(self, facts: os.stat_result) -> str | None:
        """Return the SHA-256 for (device, inode, mtime, size)."""
        ...

    def put(self, facts: os.stat_result, sha256: str) -> None:
        """Note a digest; called from one thread at a time."""
        ...


@dataclass(frozen=True, slots=True)
class HashJob:
    """One file to be hashed."""

    name: str
    path: Path
    git: bool = False
    """Its git blob id is wanted, too."""


def hash_files(
    jobs: Sequence[HashJob],
    *,
    workers: int,
    cache: HashCache | None = None,
    on_bytes: Callable[[int], None] | None = None,
    drop_cache: bool = False,
) -> dict[str, Digest | OSError]:
    """Hash files in parallel; hashlib releases the interpreter's lock.

    Args:
        jobs: What to hash.
        workers: Files at a time.
        cache: Digests known from before.
        on_bytes: Told how many bytes passed (from the workers' threads).
        drop_cache: Keep the page cache clean behind the reader.

    Returns:
        A digest, or the error that reading ended in, for each name.
    """
    results: dict[str, Digest | OSError] = {}
    stop = threading.Event()
    with ThreadPoolExecutor(max_workers=max(1, workers), thread_name_prefix="hash") as pool:
        futures = {
            pool.submit(_hash, job, cache, on_bytes, stop, drop_cache): job
            # The largest first: the last file must not run alone for long.
            for job in sorted(jobs, key=_size, reverse=True)
        }
        pending = set(futures)
        try:
            while pending:
                done, pending = wait(pending, return_when=FIRST_COMPLETED)
                for future in done:
                    job = futures[future]
                    try:
                        facts, digest = future.result()
                    except OSError as error:
                        results[job.name] = error
                        continue
                    results[job.name] = digest
                    if cache is not None:
                        cache.put(facts, digest.sha256)
        except BaseException:
            stop.set()
            for future in pending:
                future.cancel()
            raise
    return results


def _size(job: HashJob) -> int:
    try:
        return job.path.stat().st_size
    except OSError:
        return 0


def _hash(
    job: HashJob,
    cache: HashCache | None,
    on_bytes: Callable[[int], None] | None,
    stop: threading.Event,
    drop_cache: bool,
) -> tuple[os.stat_result, Digest]:
    handle = os.open(job.path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        facts = os.fstat(handle)
        known = cache.get(facts) if cache is not None and not job.git else None
        if known is not None:
            if on_bytes is not None:
                on_bytes(facts.st_size)
            return facts, Digest(known, None)
        sha256 = hashlib.sha256()
        # The Hub names small files by this id; it identifies, it does not protect.
        git = hashlib.sha1(b"blob %d\0" % facts.st_size, usedforsecurity=False) if job.git else None
        _advise(handle, "POSIX_FADV_SEQUENTIAL", 0)
        buffer = memoryview(bytearray(_BLOCK_BYTES))
        position = 0
        while not stop.is_set():
            count = os.readv(handle, [buffer])
            if count == 0:
                break
            sha256.update(buffer[:count])
            if git is not None:
                git.update(buffer[:count])
            position += count
            if drop_cache:
                _advise(handle, "POSIX_FADV_DONTNEED", position)
            if on_bytes is not None:
                on_bytes(count)
        if position != facts.st_size and not stop.is_set():
            raise OSError(f"{position} of {facts.st_size} bytes could be read")
        return facts, Digest(sha256.hexdigest(), None if git is None else git.hexdigest())
    finally:
        os.close(handle)


def _advise(handle: int, name: str, length: int) -> None:
    advice = getattr(os, name, None)
    if advice is not None:
        os.posix_fadvise(handle, 0, length, advice)
