"""A file on its way in: received bytes beside a journal, durable and resumable by any process.

``X.incomplete`` holds exactly the bytes received so far, so its size never pretends more;
``X.incomplete.json`` says what they are a part of and how many are known to be on the disk. Space
is reserved beyond the end of the file (``FALLOC_FL_KEEP_SIZE``): a full disk shows at the start.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import functools
import json
import os
import threading
import time
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from qwen_tui.services.paths import write_private

__all__ = ["Journal", "Partial", "boot_id"]

_KEEP_SIZE = 1
"""``FALLOC_FL_KEEP_SIZE``."""
_OPEN = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
"""A link that lies where a partial file goes would have its target cut to nothing."""
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


@functools.cache
def boot_id() -> str:
    """Return the kernel's id of this boot; empty where there is none."""
    try:
        return _BOOT_ID.read_text("ascii").strip()
    except OSError:
        return ""


@dataclass(frozen=True, slots=True)
class Journal:
    """What the bytes of a partial file belong to."""

    identity: str
    """Content id (sha256 or git blob id)."""
    size: int | None
    etag: str | None = None
    """Strong entity tag of the host that the bytes came from, for ``If-Range``."""
    synced: int = 0
    """Bytes known to be on the disk."""
    boot: str = ""
    """Boot during which they were written. Within it the page cache survives any killed process;
    after a reboot only ``synced`` bytes count."""
    tries: int = 0
    """Full transfers of this content that ended with a wrong hash."""

    @classmethod
    def read(cls, path: Path) -> Journal | None:
        """Read a journal; ``None`` when there is none that can be read."""
        try:
            values = json.loads(path.read_bytes())
            known = {f.name for f in fields(cls)}
            journal = cls(**{k: v for k, v in values.items() if k in known})
        except (OSError, ValueError, TypeError, AttributeError):
            return None
        if not isinstance(journal.identity, str) or not isinstance(journal.synced, int):
            return None
        return journal


class Partial:
    """An open partial file. One writer; :meth:`sync` may run on another thread.

    Attributes:
        path: The ``….incomplete`` file.
        length: Bytes received.
        resumed: Bytes that were already there when it was opened.
    """

    def __init__(self, path: Path, journal: Journal, length: int, descriptor: int) -> None:
        self.path = path
        self.length = length
        self.resumed = length
        self._journal = journal
        self._fd = descriptor
        self._lock = threading.Lock()
        self._last_sync = time.monotonic()
        self._closed = False

    @classmethod
    def open(cls, path: Path, identity: str, size: int | None) -> Partial:
        """Open or create the partial file of one content, keeping every byte that can be trusted.

        Raises:
            OSError: The file system refuses.
        """
        path.parent.mkdir(parents=True, exist_ok=True)
        journal = Journal.read(_journal_path(path))
        descriptor = os.open(path, _OPEN, 0o644)
        try:
            have = os.fstat(descriptor).st_size
            if journal is None or journal.identity != identity or journal.size != size:
                journal = Journal(identity, size)
                have = 0
            elif journal.boot != boot_id() or not journal.boot:
                have = min(have, journal.synced)
            if size is not None and have > size:
                have = 0
            os.ftruncate(descriptor, have)
            journal = _replace(journal, boot=boot_id(), synced=min(journal.synced, have))
            write_private(_journal_path(path), _dump(journal))
        except BaseException:
            os.close(descriptor)
            raise
        return cls(path, journal, have, descriptor)

    @property
    def etag(self) -> str | None:
        """Entity tag to resume with."""
        return self._journal.etag

    @property
    def tries(self) -> int:
        """Full transfers that ended with a wrong hash."""
        return self._journal.tries

    @property
    def synced(self) -> int:
        """Bytes known to be on the disk."""
        return self._journal.synced

    def set_etag(self, etag: str | None) -> None:
        """Remember the entity tag of the bytes that follow."""
        if etag != self._journal.etag:
            self._write_journal(etag=etag)

    def reserve(self) -> None:
        """Reserve the space that is still missing, without changing the size.

        Raises:
            OSError: There is not enough space or quota.
        """
        size = self._journal.size
        if size is None or size <= self.length:
            return
        libc = ctypes.CDLL(None, use_errno=True)
        if not hasattr(libc, "fallocate"):
            return
        offset = ctypes.c_int64(self.length)
        count = ctypes.c_int64(size - self.length)
        if libc.fallocate(self._fd, _KEEP_SIZE, offset, count) == 0:
            return
        code = ctypes.get_errno()
        if code in {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}:
            raise OSError(code, os.strerror(code), str(self.path))

    def write(self, data: bytes) -> None:
        """Append bytes.

        Raises:
            OSError: The disk is full or fails; what was written before stays.
        """
        view = memoryview(data)
        while view:
            written = os.pwrite(self._fd, view, self.length)
            self.length += written
            view = view[written:]

    def read(self, offset: int, count: int) -> bytes:
        """Return received bytes (for the hash, which follows the writer)."""
        return os.pread(self._fd, max(min(count, self.length - offset), 0), offset)

    def restart(self) -> None:
        """Forget the bytes received so far."""
        self.length = 0
        os.ftruncate(self._fd, 0)
        self._write_journal(synced=0, etag=None)

    def due(self, every_bytes: int, every_s: float) -> bool:
        """Whether there is enough to be made durable."""
        unsynced = self.length - self._journal.synced
        return unsynced >= every_bytes or (
            unsynced > 0 and time.monotonic() - self._last_sync >= every_s
        )

    def sync(self) -> None:
        """Make what was received durable and write it down."""
        with self._lock:
            if self._closed:
                return
            length = self.length
            os.fdatasync(self._fd)
            self._last_sync = time.monotonic()
            if length > self._journal.synced:
                self._write_journal(synced=length)

    def close(self) -> None:
        """Close it for now: durable, journalled, and without reserved space."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            try:
                # On a full disk the journal cannot be renewed; the bytes themselves are kept.
                with contextlib.suppress(OSError):
                    os.ftruncate(self._fd, self.length)
                    os.fdatasync(self._fd)
                    self._write_journal(synced=self.length)
            finally:
                os.close(self._fd)

    def finish(self, target: Path) -> None:
        """Give the whole file its name: durable before it, and atomically.

        Raises:
            OSError: The name cannot be given; the partial file stays.
        """
        with self._lock:
            os.ftruncate(self._fd, self.length)
            os.fsync(self._fd)
            target.parent.mkdir(parents=True, exist_ok=True)
            self.path.replace(target)
            _sync_folder(target.parent)
            self._closed = True
            os.close(self._fd)
        with contextlib.suppress(OSError):
            _journal_path(self.path).unlink()

    def set_aside(self, place: Path) -> None:
        """Move bytes that are not what they should be out of the way, and begin anew.

        Raises:
            OSError: They cannot be moved.
        """
        with self._lock:
            place.parent.mkdir(parents=True, exist_ok=True)
            self.path.replace(place)
            os.close(self._fd)
            self._fd = os.open(self.path, _OPEN, 0o644)
            self.length = 0
            self._write_journal(synced=0, etag=None, tries=self._journal.tries + 1)

    def _write_journal(self, **changes: object) -> None:
        self._journal = _replace(self._journal, **changes)
        write_private(_journal_path(self.path), _dump(self._journal))


def _journal_path(path: Path) -> Path:
    return path.with_name(path.name + ".json")


def _replace(journal: Journal, **changes: object) -> Journal:
    return Journal(**{**asdict(journal), **changes})


def _dump(journal: Journal) -> bytes:
    return json.dumps(asdict(journal)).encode() + b"\n"


def _sync_folder(folder: Path) -> None:
    # Some file systems cannot sync a folder; the rename is then as durable as they make it.
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
