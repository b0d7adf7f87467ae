"""A real HTTP server that speaks the Hub's API on the loopback, with scripted faults.

It listens on three ports, so that hosts can be told apart: the Hub (listing and ``resolve``), the
storage that large files redirect to, and a stand-in for Xet's storage. Every request is recorded
with the range it asked for and the bytes it was sent.
"""

from __future__ import annotations

import contextlib
import email.utils
import hashlib
import json
import os
import re
import socket
import threading
import time
from collections import deque
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["COMMIT", "FakeHub", "Fault", "Seen", "fake_hub"]

COMMIT = "0123456789abcdef0123456789abcdef01234567"
_RANGE = re.compile(r"bytes=(\d+)-(\d*)")


@dataclass(frozen=True)
class Fault:
    """What goes wrong with the next matching request."""

    status: int | None = None
    headers: dict[str, str] = field(default_factory=dict)
    drop_after: int | None = None
    """Close the connection after so many bytes of the body."""
    drip_s: float | None = None
    """Send one byte, wait so long, and so on."""
    silence_after: int | None = None
    """Send so many bytes and then nothing, with the connection open."""
    corrupt: bool = False
    """Flip a byte in the middle."""
    ignore_range: bool = False
    etag: str | None = None
    """Another entity tag (another content as far as ``If-Range`` goes)."""
    redirect: str | None = None
    """Where ``resolve`` sends the client instead of the storage."""


@dataclass(frozen=True)
class Seen:
    """A request that was answered."""

    host: str
    """``hub``, ``storage`` or ``xet``."""
    path: str
    start: int
    status: int
    sent: int
    token: str | None
    if_range: str | None


@dataclass
class FakeHub:
    """The server and what it serves."""

    files: dict[str, bytes | Path] = field(default_factory=dict)
    faults: dict[str, deque[Fault]] = field(default_factory=dict)
    """By ``hub:PATH``, ``storage:PATH``, ``api`` or ``xet``; each fault is used once."""
    seen: list[Seen] = field(default_factory=list)
    """Requests, noted when their answer has ended."""
    begun: list[tuple[str, int]] = field(default_factory=list)
    """Path and first byte of every request for content, noted when its answer begins."""
    repo: str = "org/model"
    commit: str = COMMIT
    token: str | None = None
    """The only token that is let in; ``None`` = everybody."""
    gated: bool = False
    listed_sizes: dict[str, int] = field(default_factory=dict)
    """Sizes that the listing claims instead of the true ones."""
    listed_commit: str | None = None
    """What the listing calls the commit instead."""
    listed_hashes: dict[str, str] = field(default_factory=dict)
    """Hashes that the listing claims instead of the true ones."""
    hashless: bool = False
    """A mirror that tells no hash, neither in the listing nor with the file."""
    silent: threading.Event = field(default_factory=threading.Event)
    """Set when a request got no answer."""
    large_from: int = 1000
    """Files from this size on are in large-file storage."""
    rate_bytes_s: float | None = None
    ports: dict[str, int] = field(default_factory=dict)

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.ports['hub']}"

    def url(self, role: str) -> str:
        # Another name for the storage: hub clients follow redirects within one host by themselves.
        name = "localhost" if role == "storage" else "127.0.0.1"
        return f"http://{name}:{self.ports[role]}"

    def fail(self, where: str, *faults: Fault) -> None:
        self.faults.setdefault(where, deque()).extend(faults)

    def take(self, where: str) -> Fault | None:
        queue = self.faults.get(where)
        return queue.popleft() if queue else None

    def content(self, path: str) -> bytes | Path:
        return self.files[path]

    def size(self, path: str) -> int:
        content = self.files[path]
        return content.stat().st_size if isinstance(content, Path) else len(content)

    def sha256(self, path: str) -> str:
        content = self.files[path]
        if isinstance(content, Path):
            with content.open("rb") as file:
                return hashlib.file_digest(file, "sha256").hexdigest()
        return hashlib.sha256(content).hexdigest()

    def blob_id(self, path: str) -> str:
        content = self.files[path]
        data = content.read_bytes() if isinstance(content, Path) else content
        return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()

    def is_large(self, path: str) -> bool:
        return self.size(path) >= self.large_from

    def ranges(self, path: str, host: str = "storage") -> list[Seen]:
        """Requests for a file's bytes, without the one-byte probes."""
        return [s for s in self.seen if s.host == host and s.path == path and s.sent != 1]


@contextlib.contextmanager
def fake_hub(**settings: Any) -> Iterator[FakeHub]:
    """Serve until the block ends."""
    hub = FakeHub(**settings)
    digests: dict[str, str] = {}
    servers: list[_Server] = []
    for role in ("hub", "storage", "xet"):
        handler = type("Handler", (_Handler,), {"hub": hub, "role": role, "digests": digests})
        server = _Server(("127.0.0.1", 0), handler)
        hub.ports[role] = server.server_address[1]
        servers.append(server)
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    try:
        yield hub
    finally:
        for server in servers:
            server.shutdown()
            server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 64

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that go away are what is tested here."""


class _Handler(BaseHTTPRequestHandler):
    hub: FakeHub
    role: str
    digests: dict[str, str]
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: Any) -> None:
        pass

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        path = unquote(urlsplit(self.path).path)
        if self.role == "hub":
            self._hub(path)
        elif self.role == "storage":
            name = path.removeprefix("/blob/")
            self._bytes(name, self.hub.take(f"storage:{name}"))
        else:
            fault = self.hub.take("xet") or Fault(status=401)
            self._refuse(fault, path)

    def _hub(self, path: str) -> None:
        api = f"/api/models/{self.hub.repo}"
        resolve = f"/{self.hub.repo}/resolve/{self.hub.commit}/"
        if path.startswith("/api/"):
            fault = self.hub.take("api")
            if fault is not None:
                self._refuse(fault, path)
            elif path == f"{api}/tree/{self.hub.commit}" and self._let_in():
                self._tree(path)
            elif not path.startswith(api):
                self._refuse(Fault(404, {"X-Error-Code": "RepoNotFound"}), path)
            elif path not in {api, f"{api}/revision/main", f"{api}/revision/{self.hub.commit}"}:
                self._refuse(Fault(404, {"X-Error-Code": "RevisionNotFound"}), path)
            elif not self._let_in():
                self._refuse(Fault(401, {"X-Error-Code": "RepoNotFound"}), path)
            else:
                self._listing(path)
            return
        name = path.removeprefix(resolve)
        if not path.startswith(resolve) or name not in self.hub.files:
            self._refuse(Fault(404, {"X-Error-Code": "EntryNotFound"}), path)
            return
        if self.hub.gated:
            self._refuse(Fault(403, {"X-Error-Code": "GatedRepo"}), name)
            return
        if not self._let_in():
            self._refuse(Fault(401), name)
            return
        fault = self.hub.take(f"hub:{name}")
        if fault is not None and fault.status is not None:
            self._refuse(fault, name)
        elif self.hub.is_large(name):
            self._redirect(name, fault)
        else:
            self._bytes(name, fault)

    def _let_in(self) -> bool:
        return self.hub.token is None or self._token() == self.hub.token

    def _token(self) -> str | None:
        value = self.headers.get("Authorization")
        return None if value is None else value.removeprefix("Bearer ")

    def _listing(self, path: str) -> None:
        siblings: list[dict[str, Any]] = []
        for name in self.hub.files:
            size = self.hub.listed_sizes.get(name, self.hub.size(name))
            entry: dict[str, Any] = {"rfilename": name, "size": size}
            if self.hub.is_large(name):
                entry["blobId"] = hashlib.sha1(name.encode()).hexdigest()
                entry["lfs"] = {"sha256": self._sha256(name), "size": size, "pointerSize": 134}
            else:
                entry["blobId"] = self.hub.blob_id(name)
            if name in self.hub.listed_hashes:
                claimed = self.hub.listed_hashes[name]
                entry["blobId"] = claimed
                if "lfs" in entry:
                    entry["lfs"]["sha256"] = claimed
            if self.hub.hashless:
                entry = {"rfilename": name, "size": size}
            siblings.append(entry)
        document = {
            "id": self.hub.repo,
            "modelId": self.hub.repo,
            "sha": self.hub.listed_commit or self.hub.commit,
            "private": False,
            "gated": False,
            "tags": [],
            "downloads": 0,
            "likes": 0,
            "siblings": siblings,
        }
        body = json.dumps(document).encode()
        self._head(200, {"Content-Type": "application/json", "Content-Length": str(len(body))})
        self._send(body)
        self._note(path, 0, 200, len(body))

    def _tree(self, path: str) -> None:
        entries: list[dict[str, Any]] = []
        for name in self.hub.files:
            size = self.hub.size(name)
            entry: dict[str, Any] = {"type": "file", "path": name, "size": size}
            entry["oid"] = hashlib.sha1(name.encode()).hexdigest()
            if self.hub.is_large(name):
                entry["lfs"] = {"oid": self._sha256(name), "size": size, "pointerSize": 134}
            else:
                entry["oid"] = self.hub.blob_id(name)
            entries.append(entry)
        body = json.dumps(entries).encode()
        self._head(200, {"Content-Type": "application/json", "Content-Length": str(len(body))})
        self._send(body)
        self._note(path, 0, 200, len(body))

    def _redirect(self, name: str, fault: Fault | None) -> None:
        target = f"{self.hub.url('storage')}/blob/{name}"
        if fault is not None and fault.redirect is not None:
            target = fault.redirect
        headers = {
            "Location": target,
            "X-Repo-Commit": self.hub.commit,
            "X-Linked-Size": str(self.hub.size(name)),
            "X-Linked-ETag": f'"{self._sha256(name)}"',
            "X-Xet-Hash": "f" * 64,
            "Content-Length": "0",
        }
        if self.hub.hashless:
            del headers["X-Linked-ETag"]
        self._head(302, headers)
        self._note(name, 0, 302, 0)

    def _sha256(self, name: str) -> str:
        if name not in self.digests:
            self.digests[name] = self.hub.sha256(name)
        return self.digests[name]

    def _refuse(self, fault: Fault, path: str) -> None:
        if fault.drop_after is not None or fault.silence_after is not None:
            if fault.silence_after is not None:
                self.hub.silent.set()
                time.sleep(8)
            self._hang_up()
            return
        headers = {"Content-Length": "0", **fault.headers}
        self._head(fault.status or 500, headers)
        self._note(path, 0, fault.status or 500, 0)

    def _bytes(self, name: str, fault: Fault | None) -> None:
        fault = fault or Fault()
        if fault.status is not None:
            self._refuse(fault, name)
            return
        size = self.hub.size(name)
        etag = fault.etag or f'"{self._etag(name)}"'
        start, end, status = self._wanted(size, etag, fault)
        if start > size or (start == size and size):
            self._refuse(Fault(416, {"Content-Range": f"bytes */{size}"}), name)
            return
        headers = {"ETag": etag, "Content-Length": str(end - start), "Accept-Ranges": "bytes"}
        if self.role == "hub":
            headers["X-Repo-Commit"] = self.hub.commit
        if status == 206:
            headers["Content-Range"] = f"bytes {start}-{end - 1}/{size}"
        if end - start != 1:
            self.hub.begun.append((name, start))
        self._head(status, headers)
        sent = 0
        try:
            sent = self._body(name, start, end, fault)
        finally:
            self._note(name, start, status, sent)

    def _etag(self, name: str) -> str:
        return self._sha256(name) if self.hub.is_large(name) else self.hub.blob_id(name)

    def _wanted(self, size: int, etag: str, fault: Fault) -> tuple[int, int, int]:
        match = _RANGE.fullmatch(self.headers.get("Range", ""))
        condition = self.headers.get("If-Range")
        if match is None or fault.ignore_range or (condition is not None and condition != etag):
            return 0, size, 200
        last = int(match.group(2)) + 1 if match.group(2) else size
        return int(match.group(1)), min(last, size), 206

    def _body(self, name: str, start: int, end: int, fault: Fault) -> int:
        if self.command == "HEAD":
            return 0
        content = self.hub.content(name)
        if isinstance(content, Path):
            return self._file_body(content, start, end)
        data = content[start:end]
        if fault.corrupt and data:
            middle = len(data) // 2
            data = data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]
        if fault.drip_s is not None:
            return self._drip(data, fault.drip_s)
        stop = fault.drop_after if fault.drop_after is not None else fault.silence_after
        sent = self._send(data if stop is None else data[:stop])
        if fault.silence_after is not None:
            time.sleep(5)
        if stop is not None and stop < len(data):
            self._hang_up()
        return sent

    def _drip(self, data: bytes, seconds: float) -> int:
        for index in range(len(data)):
            self._send(data[index : index + 1])
            time.sleep(seconds)
        return len(data)

    def _file_body(self, path: Path, start: int, end: int) -> int:
        """Send without copying, so that the server costs the measurement little."""
        self.wfile.flush()
        offset = start
        with path.open("rb") as file:
            while offset < end:
                count = os.sendfile(
                    self.connection.fileno(), file.fileno(), offset, min(end - offset, 1 << 20)
                )
                if count == 0:
                    break
                offset += count
        return offset - start

    def _send(self, data: bytes) -> int:
        rate = self.hub.rate_bytes_s
        if rate is None:
            self.wfile.write(data)
            return len(data)
        step = max(int(rate / 50), 1)
        for offset in range(0, len(data), step):
            self.wfile.write(data[offset : offset + step])
            time.sleep(step / rate)
        return len(data)

    def _head(self, status: int, headers: dict[str, str]) -> None:
        self.send_response_only(status)
        self.send_header("Date", email.utils.formatdate(usegmt=True))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    def _hang_up(self) -> None:
        self.close_connection = True
        self.wfile.flush()
        with contextlib.suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)

    def _note(self, path: str, start: int, status: int, sent: int) -> None:
        self.hub.seen.append(
            Seen(
                self.role,
                path,
                start,
                status,
                sent,
                self._token(),
                self.headers.get("If-Range"),
            )
        )
