"""Hosts that a transfer met, and what kind of host each is."""

from __future__ import annotations

import threading
from urllib.parse import urlsplit

__all__ = ["HostLog", "host_of", "is_xet_host", "origin_of"]

_XET_SUFFIXES = (".xethub.hf.co", ".xet.hf.co")
"""Xet's storage: content-addressed servers (``cas-server``, ``transfer``) and the HTTP bridge."""
_XET_WORDS = ("cas-server", "cas-bridge", "xethub")


def host_of(url: str) -> str:
    """Return ``host[:port]`` of a URL, without credentials."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    return f"{host}:{parts.port}" if parts.port else host


def origin_of(url: str) -> tuple[str, str, int | None]:
    """Return scheme, host and port: what a token may be sent to."""
    parts = urlsplit(url)
    port = parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    return parts.scheme, parts.hostname or "", port


def is_xet_host(host: str) -> bool:
    """Whether a host belongs to Xet's storage, which no mirror stands in for."""
    name = host.rsplit(":", 1)[0].lower()
    return name.endswith(_XET_SUFFIXES) or any(word in name for word in _XET_WORDS)


class HostLog:
    """Hosts that were contacted, in order, with the role of each; safe across threads."""

    def __init__(self) -> None:
        self._seen: dict[str, set[str]] = {}
        self._bytes: dict[str, int] = {}
        self._lock = threading.Lock()

    def note(self, host: str, role: str) -> bool:
        """Record a host (``listing``, ``files``, ``storage``); True when the pair is new."""
        with self._lock:
            roles = self._seen.setdefault(host, set())
            if role in roles:
                return False
            roles.add(role)
            return True

    def count(self, host: str, count: int) -> None:
        """Count content bytes from a host."""
        with self._lock:
            self._bytes[host] = self._bytes.get(host, 0) + count

    def as_json(self) -> list[dict[str, object]]:
        """Return ``[{host, roles, bytes, xet}]``."""
        with self._lock:
            return [
                {
                    "host": host,
                    "roles": sorted(roles),
                    "bytes": self._bytes.get(host, 0),
                    "xet": is_xet_host(host),
                }
                for host, roles in self._seen.items()
            ]
