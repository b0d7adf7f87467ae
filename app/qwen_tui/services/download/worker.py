"""The child process of a download: ``python -m qwen_tui.services.download.worker``.

It reads a request and then commands (``start``, ``pause``, ``resume``, ``cancel``) as lines on its
standard input, and writes events as JSON lines on its standard output. When its input ends, its
parent is gone, and it stops cleanly.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import threading
import time
from typing import TYPE_CHECKING

from qwen_tui.services.download.control import Control
from qwen_tui.services.download.hosts import HostLog, host_of
from qwen_tui.services.download.layout import CacheLayout, FolderLayout
from qwen_tui.services.download.lock import FolderLock
from qwen_tui.services.download.manifest import Manifest
from qwen_tui.services.download.planning import make_plan
from qwen_tui.services.download.pool import Pool
from qwen_tui.services.download.problems import Cancelled, Problem, from_network, from_os
from qwen_tui.services.download.request import DownloadRequest
from qwen_tui.services.download.route import Router, make_client
from qwen_tui.services.download.selection import (
    INDEX_NAME,
    by_patterns,
    indexed_files,
    loaded_only,
)
from qwen_tui_profiles.foreign import redact

if TYPE_CHECKING:
    from pathlib import Path

    from qwen_tui.services.download.hub import Hub
    from qwen_tui.services.download.layout import Layout
    from qwen_tui.services.download.listing import RemoteFile, RemoteRepo
    from qwen_tui.services.download.planning import Plan

__all__ = ["main"]

_LARGEST_INDEX = 256 << 20


class Worker:
    """One download, from its listing to its result."""

    def __init__(self, request: DownloadRequest) -> None:
        self._request = request
        self._control = Control(request.limit_bytes_s)
        self._hosts = HostLog()
        self._start = threading.Event()
        self._out = threading.Lock()
        self._listing_ms = 0.0
        self._token: str | None = None

    def run(self) -> int:
        """Do it; every outcome is one ``result`` or ``error`` event."""
        began = time.monotonic()
        try:
            self._download(began)
        except Cancelled:
            self._result("cancelled", began)
        except Problem as problem:
            return self._error(problem)
        except OSError as error:
            return self._error(from_os(error, error.filename or self._request.dest or "cache"))
        return 0

    def _error(self, problem: Problem) -> int:
        hosts = self._hosts.as_json()
        self.emit("error", code=problem.code, fields=problem.fields, hosts=hosts)
        return 1

    def emit(self, event: str, **fields: object) -> None:
        """Write one event, free of secrets; without a reader the download is cancelled."""
        if "fields" in fields:
            fields["fields"] = _without_secrets(fields["fields"], self._token)
        line = json.dumps({"event": event, **fields}, default=str) + "\n"
        try:
            with self._out:
                os.write(1, line.encode())
        except OSError:
            self._control.cancel()

    def obey(self, line: str) -> None:
        """Carry out a command of the parent."""
        match line.strip():
            case "start":
                self._start.set()
            case "pause":
                self._control.pause()
            case "resume":
                self._control.resume()
            case "cancel":
                self.stop()

    def stop(self) -> None:
        """Cancel, also while the plan waits for an answer."""
        self._control.cancel()
        self._start.set()

    def _download(self, began: float) -> None:
        # After the environment was fixed by the parent, and only here.
        from qwen_tui.services.download.hub import Hub

        hub = Hub.connect(self._request)
        self._token = hub.token
        self.emit(
            "ready",
            xet="off",
            hub_version=hub.library_version,
            endpoint=redact(hub.endpoint),
            token={"present": hub.token is not None, "from": hub.token_source},
        )
        stamp = time.monotonic()
        repo = hub.list_files(self._request, self._control, self._hosts, self.emit)
        self._listing_ms = (time.monotonic() - stamp) * 1000
        connections = self._request.workers + 1
        with make_client(stall_s=self._request.stall_s, connections=connections) as client:
            router = Router(client, hub.endpoint, hub.token, self._hosts)
            layout = self._layout(hub, repo)
            with FolderLock(layout.private, of=layout.folder) as lock:
                self._with_lock(lock, began, hub, repo, router, layout)

    def _with_lock(
        self,
        lock: FolderLock,
        began: float,
        hub: Hub,
        repo: RemoteRepo,
        router: Router,
        layout: Layout,
    ) -> None:
        wanted, left_out = self._select(repo, router)
        manifest = Manifest.load(layout.records, repo.repo, repo.commit, layout.older_records())
        hashed = _Announcer(self, "checking")
        plan = make_plan(wanted, left_out, layout, manifest, self._control, hashed.add)
        self.emit(
            "plan",
            repo=repo.repo,
            revision=self._request.revision,
            commit=repo.commit,
            endpoint=redact(hub.endpoint),
            folder=str(layout.folder),
            eta_s=_eta(plan, self._request.known_bytes_s),
            probes=self._probe(hub, repo, router, plan),
            **plan.as_json(),
        )
        plan.check()
        self._start.wait()
        self._control.checkpoint()
        lock.used = True
        # The seconds of the result are the transfer's, not those that somebody read the plan.
        began = time.monotonic()
        for file_plan in plan.files:
            if file_plan.state == "here":
                layout.publish(file_plan.file, self._request.revision)
        pool = Pool(
            self._request,
            repo.commit,
            layout,
            manifest,
            router,
            self._control,
            self._hosts,
            self.emit,
        )
        try:
            pool.run(plan.fetch)
        except Cancelled:
            with contextlib.suppress(OSError):
                manifest.save()
            self._result("cancelled", began, pool=pool, folder=layout.folder, commit=repo.commit)
            return
        status = "failed" if pool.failures else "complete"
        # On a full disk the failure that matters is the file's.
        with contextlib.suppress(OSError) if pool.failures else contextlib.nullcontext():
            manifest.save({f.path for f in repo.files})
        self._result(
            status,
            began,
            pool=pool,
            folder=layout.folder,
            commit=repo.commit,
            manifest=manifest.path,
        )

    def _layout(self, hub: Hub, repo: RemoteRepo) -> Layout:
        if self._request.dest is None:
            return CacheLayout(hub.cache, repo.repo, repo.commit)
        from pathlib import Path

        return FolderLayout(Path(self._request.dest), repo.commit)

    def _select(
        self, repo: RemoteRepo, router: Router
    ) -> tuple[list[RemoteFile], list[RemoteFile]]:
        by_path = {f.path: f for f in repo.files}
        chosen = by_patterns(by_path, self._request.include, self._request.exclude)
        if not chosen:
            raise Problem("nothing_matches", repo=repo.repo, files=len(by_path))
        dropped: list[str] = []
        if self._request.loaded_only:
            indexed = None
            if INDEX_NAME in by_path:
                indexed = indexed_files(self._read(router, repo, INDEX_NAME))
            chosen, dropped = loaded_only(chosen, indexed)
        return [by_path[p] for p in chosen], [by_path[p] for p in dropped]

    def _read(self, router: Router, repo: RemoteRepo, path: str) -> bytes:
        opened = router.open(router.url(repo.repo, repo.commit, path))
        try:
            data = bytearray()
            for chunk in opened.response.iter_bytes():
                data += chunk
                if len(data) > _LARGEST_INDEX:
                    raise Problem("index_too_large", path=path)
        except Problem:
            raise
        except Exception as error:
            raise from_network(error, opened.host) from error
        finally:
            opened.response.close()
        return bytes(data)

    def _probe(
        self, hub: Hub, repo: RemoteRepo, router: Router, plan: Plan
    ) -> list[dict[str, object]]:
        """Ask each host on the way once: the listing host answered already, the file hosts now."""
        probes: list[dict[str, object]] = [
            {"what": "listing", "host": host_of(hub.endpoint), "ms": round(self._listing_ms, 1)}
        ]
        if not plan.fetch:
            return probes
        largest = max(plan.fetch, key=lambda f: f.file.size or 0).file
        url = router.url(repo.repo, repo.commit, largest.path)
        began = time.monotonic()
        entry: dict[str, object] = {"what": "files", "host": host_of(url)}
        try:
            opened = router.open(url, start=0, last=0)
            entry |= {
                "content_host": opened.host,
                "ranges": opened.response.status_code == 206,
                "ms": round((time.monotonic() - began) * 1000, 1),
            }
            opened.response.close()
        except Problem as problem:
            entry |= {"code": problem.code, "fields": problem.fields}
            probes.append(entry)
            if not problem.retryable and problem.code != "range_refused":
                self.emit("probed", probes=probes)
                raise
            return probes
        probes.append(entry)
        return probes

    def _result(
        self,
        status: str,
        began: float,
        *,
        pool: Pool | None = None,
        folder: Path | None = None,
        commit: str | None = None,
        manifest: Path | None = None,
    ) -> None:
        failures = [] if pool is None else pool.failures
        self.emit(
            "result",
            status=status,
            folder=None if folder is None else str(folder),
            commit=commit,
            manifest=None if manifest is None else str(manifest),
            unproven=[] if pool is None else pool.unproven,
            fetched_bytes=0 if pool is None else pool.fetched,
            seconds=time.monotonic() - began,
            hosts=self._hosts.as_json(),
            failures=[
                {"path": p, "code": e.code, "fields": _without_secrets(e.fields, self._token)}
                for p, e in failures
            ],
        )


def _without_secrets(fields: object, token: str | None) -> object:
    secrets = () if token is None else (token,)
    if isinstance(fields, dict):
        return {k: redact(v, secrets) if isinstance(v, str) else v for k, v in fields.items()}
    return fields


class _Announcer:
    """Tells how far the hashing of present files is, twice a second at most."""

    def __init__(self, worker: Worker, event: str) -> None:
        self._worker = worker
        self._event = event
        self._done = 0
        self._last = 0.0

    def add(self, path: str, count: int) -> None:
        self._done += count
        now = time.monotonic()
        if now - self._last >= 0.5:
            self._last = now
            self._worker.emit(self._event, path=path, done_bytes=self._done)


def _eta(plan: Plan, bytes_s: float | None) -> float | None:
    return plan.fetch_bytes / bytes_s if bytes_s else None


def main() -> int:
    """Read the request, then work while commands come in."""
    # A terminal's Ctrl-C is the parent's to interpret; a plain kill stops as cleanly as `cancel`.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    first: str = sys.stdin.readline()
    try:
        worker = Worker(DownloadRequest.from_json(first))
    except (ValueError, TypeError):
        return 2
    signal.signal(signal.SIGTERM, lambda _number, _frame: worker.stop())

    def listen() -> None:
        for line in sys.stdin:
            worker.obey(line)
        worker.stop()

    threading.Thread(target=listen, name="commands", daemon=True).start()
    code = worker.run()
    sys.stdout.flush()
    # The listening thread blocks in a read of standard input; a normal exit would wait for it.
    os._exit(code)


if __name__ == "__main__":
    sys.exit(main())
