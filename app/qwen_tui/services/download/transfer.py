"""One file from the Hub to its place: resumed, hashed while it streams, retried, proven."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

import httpx2

from qwen_tui.services.download.hashing import Follower
from qwen_tui.services.download.partial import Partial
from qwen_tui.services.download.problems import (
    LONGEST_WAIT_S,
    Problem,
    from_network,
    from_os,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from qwen_tui.services.download.control import Control
    from qwen_tui.services.download.hashing import Hashes
    from qwen_tui.services.download.hosts import HostLog
    from qwen_tui.services.download.listing import RemoteFile
    from qwen_tui.services.download.request import DownloadRequest
    from qwen_tui.services.download.route import Opened, Router

__all__ = ["Places", "Transfer"]

_DRIP_BYTES = 32 << 10
"""Less than this in a stall interval is a connection that only pretends to live."""
_LONGEST_BACKOFF_S = 60.0


@dataclass(frozen=True, slots=True)
class Places:
    """Where the bytes of one file go."""

    partial: Path
    target: Path
    aside: Path
    """Where bytes with a wrong hash are kept."""


class Transfer:
    """The transfer of one file; :meth:`run` blocks until it is there.

    Attributes:
        file: What is fetched.
        received: Bytes here now, old ones included.
        fetched: Bytes that came over the network in this process.
        state: ``waiting``, ``connecting``, ``running``, ``stalled``, ``hashing``, ``done``.
        proven: Whether the server gave a hash and the content has it; False until the end.
    """

    def __init__(
        self,
        file: RemoteFile,
        places: Places,
        url: str,
        *,
        router: Router,
        control: Control,
        hosts: HostLog,
        request: DownloadRequest,
        notify: Callable[..., None],
    ) -> None:
        self.file = file
        self.received = 0
        self.fetched = 0
        self.state = "waiting"
        self.proven = False
        self._places = places
        self._url = url
        self._router = router
        self._control = control
        self._hosts = hosts
        self._request = request
        self._notify = notify
        self._linked: str | None = None
        self._syncing = threading.Lock()

    def run(self) -> Hashes:
        """Fetch, prove and name the file; return its hashes.

        Raises:
            Cancelled: The user stopped it; what was received is kept.
            Problem: It cannot be had; what was received is kept.
        """
        try:
            partial = Partial.open(self._places.partial, self._identity, self.file.size)
        except OSError as error:
            raise from_os(error, self._places.partial) from error
        with ThreadPoolExecutor(1, thread_name_prefix="sync") as syncer:
            try:
                return self._until_proven(partial, syncer)
            except OSError as error:
                raise from_os(error, self._places.partial) from error
            finally:
                partial.close()

    @property
    def _identity(self) -> str:
        return self.file.etag or f"unknown:{self.file.path}"

    def _until_proven(self, partial: Partial, syncer: ThreadPoolExecutor) -> Hashes:
        partial.reserve()
        if partial.resumed and self.file.etag is None and partial.etag is None:
            # Nothing says that the rest would belong to the same content.
            partial.restart()
            partial.resumed = 0
        self.received = partial.length
        if partial.resumed:
            self._notify("resumed", path=self.file.path, bytes=partial.resumed)
        while True:
            follower = Follower(partial, self.file.size, git=self.file.sha256 is None)
            try:
                self._until_whole(partial, follower, syncer)
                self.state = "hashing"
                hashes = follower.result()
            finally:
                follower.stop()
            wanted = self.file.etag or self._linked
            found = hashes.sha256 if wanted and len(wanted) == 64 else hashes.blob_id
            if wanted is None or found is None or found == wanted:
                self.proven = wanted is not None and found is not None
                self._displace()
                partial.finish(self._places.target)
                self.state = "done"
                return hashes
            again = partial.tries == 0
            partial.set_aside(self._places.aside)
            details = {"path": self.file.path, "expected": wanted, "found": found}
            self._notify("mismatch", **details, kept=str(self._places.aside), again=again)
            if not again:
                raise Problem("hash_mismatch", **details, kept=str(self._places.aside))
            self.received = 0

    def _displace(self) -> None:
        """Keep a file of another content that has the name: it may hold somebody's edits."""
        target = self._places.target
        if not target.exists() and not target.is_symlink():
            return
        kept = _free_name(self._places.aside, ".replaced")
        kept.parent.mkdir(parents=True, exist_ok=True)
        target.replace(kept)
        self._notify("displaced", path=self.file.path, kept=str(kept))

    def _until_whole(
        self, partial: Partial, follower: Follower, syncer: ThreadPoolExecutor
    ) -> None:
        """Receive until every byte is here, over as many connections as it takes."""
        failures = 0
        while self.file.size is None or partial.length < self.file.size or self.file.size == 0:
            self._control.checkpoint()
            before = partial.length
            try:
                self.state = "connecting"
                self._one_connection(partial, follower, syncer)
            except Problem as problem:
                failures = 0 if partial.length > before else failures
                failures += 1
                if problem.code == "range_refused" and partial.length:
                    self._restart(partial, follower, "range_refused")
                elif not problem.retryable or failures >= self._request.attempts:
                    raise
                self._pause(problem, failures)
                continue
            if self.file.size is None or partial.length >= self.file.size:
                return

    def _one_connection(
        self, partial: Partial, follower: Follower, syncer: ThreadPoolExecutor
    ) -> None:
        interruptions = self._control.interruptions
        opened = self._router.open(self._url, start=partial.length, etag=partial.etag)
        response = opened.response
        try:
            if opened.start and partial.etag and opened.etag and opened.etag != partial.etag:
                # A part of another content, from a server that does not know If-Range.
                self._restart(partial, follower, "changed")
                raise Problem("changed", host=opened.host, wait_s=0.0)
            if partial.length and opened.start == 0:
                # Another content (If-Range), or a server that knows no ranges.
                changed = opened.etag is not None and opened.etag != partial.etag
                self._restart(partial, follower, "changed" if changed else "no_ranges")
            self._check_size(opened)
            partial.set_etag(opened.etag)
            self._linked = opened.linked_etag
            self.state = "running"
            with self._control.breakable(response):
                for data in self._chunks(opened):
                    if self.file.size is not None and partial.length + len(data) > self.file.size:
                        raise Problem("too_long", host=opened.host, path=self.file.path)
                    partial.write(data)
                    follower.grown()
                    self.received = partial.length
                    self.fetched += len(data)
                    self._hosts.count(opened.host, len(data))
                    self._control.spend(len(data))
                    if partial.due(self._request.sync_bytes, self._request.sync_s):
                        self._sync(partial, syncer)
        except (httpx2.HTTPError, httpx2.StreamError, OSError) as error:
            if isinstance(error, OSError) and not isinstance(error, ConnectionError):
                raise
            self._control.checkpoint()
            if interruptions == self._control.interruptions:
                raise from_network(error, opened.host) from error
        finally:
            response.close()
        self._control.checkpoint()
        short = self.file.size is not None and partial.length < self.file.size
        if short and interruptions == self._control.interruptions:
            raise Problem("too_short", host=opened.host, path=self.file.path)

    def _chunks(self, opened: Opened) -> Iterator[bytes]:
        """Yield the body; a connection that only drips is given up like a silent one."""
        encoded = opened.response.headers.get("Content-Encoding", "identity") != "identity"
        source = opened.response.iter_bytes() if encoded else opened.response.iter_raw()
        waited = 0.0
        count = 0
        while True:
            began = time.monotonic()
            data = next(source, None)
            waited += time.monotonic() - began
            if data is None:
                return
            count += len(data)
            yield data
            if count >= _DRIP_BYTES:
                waited, count = 0.0, 0
            elif waited > self._request.stall_s:
                raise Problem("stalled", host=opened.host)

    def _check_size(self, opened: Opened) -> None:
        if self.file.size is not None and opened.size is not None and opened.size != self.file.size:
            raise Problem(
                "size_mismatch",
                host=opened.host,
                path=self.file.path,
                expected=self.file.size,
                found=opened.size,
            )

    def _restart(self, partial: Partial, follower: Follower, why: str) -> None:
        lost = partial.length
        partial.restart()
        follower.restart()
        self.received = 0
        self._notify("restarted", path=self.file.path, lost_bytes=lost, why=why)

    def _pause(self, problem: Problem, failures: int) -> None:
        """Say what happened and wait before the next connection."""
        wait = problem.fields.get("wait_s")
        if not isinstance(wait, int | float):
            wait = min(self._request.backoff_s * 2 ** (failures - 1), _LONGEST_BACKOFF_S)
        if wait > LONGEST_WAIT_S:
            raise problem
        self.state = "stalled" if problem.code == "stalled" else "waiting"
        self._notify(
            "retry",
            path=self.file.path,
            code=problem.code,
            fields=problem.fields,
            wait_s=wait,
            attempt=failures,
        )
        self._control.wait(wait)

    def _sync(self, partial: Partial, syncer: ThreadPoolExecutor) -> None:
        """Make bytes durable on the side; one sync at a time."""
        if self._syncing.acquire(blocking=False):
            syncer.submit(self._sync_and_release, partial)

    def _sync_and_release(self, partial: Partial) -> None:
        try:
            partial.sync()
        except OSError:
            # The writer or the final sync meets the same failure and reports it.
            return
        finally:
            self._syncing.release()


def _free_name(path: Path, suffix: str) -> Path:
    """Return a name beside ``path`` that nothing has: what was kept once stays kept."""
    number = 1
    name = path.with_name(path.name + suffix)
    while name.exists() or name.is_symlink():
        number += 1
        name = path.with_name(f"{path.name}{suffix}-{number}")
    return name
