"""All transfers of one download: order, threads, progress, and what ends them all."""

from __future__ import annotations

import threading
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from qwen_tui.services.download.problems import Cancelled, Problem, from_os
from qwen_tui.services.download.transfer import Transfer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from qwen_tui.services.download.control import Control
    from qwen_tui.services.download.hosts import HostLog
    from qwen_tui.services.download.layout import Layout
    from qwen_tui.services.download.manifest import Manifest
    from qwen_tui.services.download.planning import FilePlan
    from qwen_tui.services.download.request import DownloadRequest
    from qwen_tui.services.download.route import Router

__all__ = ["Pool", "Speed"]

_TICK_S = 0.5
_WINDOW_S = 10.0
_SMALL_BYTES = 16 << 20
_ONE_FILE_ONLY = frozenset({"hash_mismatch", "entry_not_found", "size_mismatch", "too_long"})
"""Failures of one file; every other one would meet the next file as well."""


class Speed:
    """Bytes a second over the last seconds."""

    def __init__(self) -> None:
        self._points: deque[tuple[float, int]] = deque()

    def add(self, total: int) -> float | None:
        """Note a running total; return the speed over the window, ``None`` at the beginning."""
        now = time.monotonic()
        self._points.append((now, total))
        while now - self._points[0][0] > _WINDOW_S:
            self._points.popleft()
        seconds = now - self._points[0][0]
        return (total - self._points[0][1]) / seconds if seconds > 0 else None


class Pool:
    """Runs the transfers.

    Attributes:
        failures: ``(path, problem)`` of every file that did not come.
        fetched: Bytes that came over the network.
    """

    def __init__(
        self,
        request: DownloadRequest,
        commit: str,
        layout: Layout,
        manifest: Manifest,
        router: Router,
        control: Control,
        hosts: HostLog,
        notify: Callable[..., None],
    ) -> None:
        self.failures: list[tuple[str, Problem]] = []
        self._request = request
        self._commit = commit
        self._layout = layout
        self._manifest = manifest
        self._router = router
        self._control = control
        self._hosts = hosts
        self._notify = notify
        self._transfers: list[Transfer] = []
        self._speeds: dict[str, Speed] = {}
        self._lock = threading.Lock()
        self._over = threading.Event()

    @property
    def unproven(self) -> list[str]:
        """Files that are here, for which the server gave no hash to compare with."""
        done = (t for t in self._transfers if t.state == "done")
        return [t.file.path for t in done if not t.proven]

    @property
    def fetched(self) -> int:
        """Bytes that came over the network."""
        return sum(t.fetched for t in self._transfers)

    def run(self, files: Sequence[FilePlan]) -> None:
        """Fetch the files; small ones first, so that a folder soon says what it is.

        Raises:
            Cancelled: The user stopped it.
        """
        ordered = sorted(files, key=lambda f: ((f.file.size or 0) > _SMALL_BYTES, f.file.path))
        groups = _by_place(ordered, self._layout)
        self._transfers = [self._transfer(group[0], files) for group in groups]
        ticker = threading.Thread(target=self._tick, args=(files,), name="progress", daemon=True)
        ticker.start()
        try:
            with ThreadPoolExecutor(self._request.workers, thread_name_prefix="file") as pool:
                pairs = zip(self._transfers, groups, strict=True)
                for future in [pool.submit(self._one, *pair) for pair in pairs]:
                    future.result()
        finally:
            self._over.set()
            ticker.join()
        if self._control.cancelled.is_set() and not self.failures:
            raise Cancelled

    def _transfer(self, plan: FilePlan, files: Sequence[FilePlan]) -> Transfer:
        del files
        transfer = Transfer(
            plan.file,
            self._layout.places(plan.file),
            self._router.url(self._request.repo, self._commit, plan.file.path),
            router=self._router,
            control=self._control,
            hosts=self._hosts,
            request=self._request,
            notify=self._notify,
        )
        transfer.received = plan.have
        return transfer

    def _one(self, transfer: Transfer, group: Sequence[FilePlan]) -> None:
        if self._control.cancelled.is_set():
            return
        began = time.monotonic()
        path = transfer.file.path
        try:
            hashes = transfer.run()
            with self._lock:
                for plan in group:
                    self._layout.publish(plan.file, self._request.revision)
                    final = self._layout.existing(plan.file)
                    if final is not None:
                        self._manifest.record(plan.file, final, hashes.sha256, hashes.blob_id)
                self._manifest.save()
        except Cancelled:
            return
        except OSError as error:
            self._fail(path, from_os(error, self._layout.folder))
        except Problem as problem:
            self._fail(path, problem)
        else:
            seconds = time.monotonic() - began
            self._notify(
                "file",
                path=path,
                bytes=transfer.received,
                seconds=seconds,
                sha256=hashes.sha256,
                proven=transfer.proven,
            )

    def _fail(self, path: str, problem: Problem) -> None:
        with self._lock:
            self.failures.append((path, problem))
        self._notify("failed", path=path, code=problem.code, fields=problem.fields)
        if problem.code not in _ONE_FILE_ONLY:
            self._control.cancel()

    def _tick(self, files: Sequence[FilePlan]) -> None:
        total = sum(f.file.size or 0 for f in files)
        speed = Speed()
        began = time.monotonic()
        while not self._over.wait(_TICK_S):
            self._progress(total, speed, began)
        self._progress(total, speed, began)

    def _progress(self, total: int, speed: Speed, began: float) -> None:
        done = sum(t.received for t in self._transfers)
        rate = speed.add(self.fetched)
        left = total - done
        self._notify(
            "progress",
            done_bytes=done,
            total_bytes=total,
            bytes_s=rate,
            eta_s=left / rate if rate else None,
            elapsed_s=time.monotonic() - began,
            paused=self._control.paused,
            files=[
                {
                    "path": t.file.path,
                    "done_bytes": t.received,
                    "size": t.file.size,
                    "state": t.state,
                    "bytes_s": self._speeds.setdefault(t.file.path, Speed()).add(t.fetched),
                }
                for t in self._transfers
                if t.state not in {"waiting", "done"}
            ],
        )


def _by_place(files: Sequence[FilePlan], layout: Layout) -> list[list[FilePlan]]:
    """Group files that share their bytes (equal content in the Hub's cache): fetched once."""
    groups: dict[str, list[FilePlan]] = {}
    for plan in files:
        groups.setdefault(str(layout.places(plan.file).target), []).append(plan)
    return list(groups.values())
