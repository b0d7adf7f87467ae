"""From a file's address at the Hub to an open stream at whatever host holds the bytes.

Redirects are followed by hand: each host is recorded, the token goes to the Hub's own origin only,
and a redirect to Xet's storage can be named.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import quote, urljoin, urlsplit

import httpx2

from qwen_tui.services.download.hosts import HostLog, host_of, is_xet_host, origin_of
from qwen_tui.services.download.problems import Problem, from_network
from qwen_tui_profiles.text import t

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Opened", "Router", "make_client", "retry_after_s"]

_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_MOST_REDIRECTS = 10
_CONTENT_RANGE = re.compile(r"bytes (\d+)-(\d+)/(\d+|\*)")


@dataclass(slots=True)
class Opened:
    """A response whose body has not been read yet."""

    response: httpx2.Response
    host: str
    start: int
    """Offset of its first byte; 0 when the server sends the whole file."""
    size: int | None
    """Size of the whole file."""
    etag: str | None
    """Strong entity tag of this host."""
    linked_etag: str | None
    """What the Hub says the content is (``X-Linked-ETag``)."""


def make_client(*, stall_s: float, connections: int) -> httpx2.Client:
    """Return a client that honours proxies and CA bundles of the environment."""
    return httpx2.Client(
        timeout=httpx2.Timeout(10.0, read=stall_s, pool=None),
        limits=httpx2.Limits(max_connections=connections, max_keepalive_connections=connections),
        follow_redirects=False,
        headers={"User-Agent": "qwen-tui", "Accept-Encoding": "identity"},
    )


class Router:
    """Opens files of one repository at one endpoint."""

    def __init__(
        self, client: httpx2.Client, endpoint: str, token: str | None, hosts: HostLog
    ) -> None:
        self._client = client
        self._endpoint = endpoint.rstrip("/")
        self._token = token
        self._hosts = hosts

    def url(self, repo: str, commit: str, path: str) -> str:
        """Return the address of a file at the endpoint."""
        return f"{self._endpoint}/{repo}/resolve/{commit}/{quote(path)}"

    def open(
        self, url: str, *, start: int = 0, etag: str | None = None, last: int | None = None
    ) -> Opened:
        """Open a file from ``start`` on.

        Args:
            url: Address at the endpoint.
            start: First byte wanted.
            etag: Entity tag of the bytes that are already here; another content is then sent whole.
            last: Last byte wanted (to probe a host).

        Raises:
            Problem: A host refuses, fails or cannot be reached.
        """
        linked: str | None = None
        role = "files"
        here = url
        for _ in range(_MOST_REDIRECTS):
            response = self._send(here, start, etag, last)
            self._hosts.note(host_of(here), role)
            linked = linked or _tag(response.headers.get("X-Linked-ETag"))
            if response.status_code not in _REDIRECTS:
                return self._accept(response, here, start, linked, url)
            location = response.headers.get("Location")
            response.close()
            if not location:
                raise Problem("bad_redirect", host=host_of(here))
            there = _target(here, location)
            if urlsplit(here).scheme == "https" and urlsplit(there).scheme != "https":
                raise Problem("downgrade", host=host_of(here), target=host_of(there))
            here, role = there, "storage" if origin_of(there) != origin_of(url) else role
        raise Problem("bad_redirect", host=host_of(here))

    def _send(self, url: str, start: int, etag: str | None, last: int | None) -> httpx2.Response:
        headers: dict[str, str] = {}
        if start or last is not None:
            headers["Range"] = f"bytes={start}-{'' if last is None else last}"
            if etag is not None:
                headers["If-Range"] = etag
        if self._token is not None and origin_of(url) == origin_of(self._endpoint):
            headers["Authorization"] = f"Bearer {self._token}"
        request = self._client.build_request("GET", url, headers=headers)
        try:
            return self._client.send(request, stream=True)
        except (httpx2.HTTPError, OSError) as error:
            host = host_of(url)
            self._hosts.note(host, "unreachable")
            problem = from_network(error, host)
            if is_xet_host(host) and not problem.code.startswith("proxy"):
                raise Problem("xet_unreachable", host=host, why=problem.code) from error
            raise problem from error

    def _accept(
        self, response: httpx2.Response, url: str, start: int, linked: str | None, first: str
    ) -> Opened:
        status, host = response.status_code, host_of(url)
        if status == 206:
            begin, size = _content_range(response.headers)
            if begin != start:
                response.close()
                raise Problem("bad_range", host=host)
        elif status == 200:
            begin, size = 0, _length(response.headers)
        elif status == 416:
            response.close()
            raise Problem("range_refused", host=host)
        else:
            response.close()
            raise refusal(
                status, response.headers, host, storage=origin_of(url) != origin_of(first)
            )
        if response.headers.get("Content-Encoding", "identity") != "identity":
            # Decoded bytes have no offsets at the server: such a file is small, and never resumed.
            begin, size = 0, None
        return Opened(response, host, begin, size, _strong(response.headers.get("ETag")), linked)


def refusal(status: int, headers: Mapping[str, str], host: str, *, storage: bool) -> Problem:
    """Name a refusal by its status and the Hub's ``X-Error-Code``."""
    code = headers.get("X-Error-Code", "")
    if storage and status in {401, 403} and is_xet_host(host):
        return Problem("xet_refused", host=host, status=status)
    if code == "GatedRepo":
        return Problem("gated", host=host, status=status)
    if code == "RevisionNotFound":
        return Problem("revision_not_found", host=host)
    if code == "EntryNotFound":
        return Problem("entry_not_found", host=host)
    if status == 401 and "Invalid credentials" in headers.get("X-Error-Message", ""):
        return Problem("token_invalid", host=host)
    if storage and status in {401, 403}:
        return Problem("storage_refused", host=host, status=status)
    if status == 401:
        return Problem("unauthorized", host=host)
    if status == 403:
        return Problem("forbidden", host=host)
    if status == 407:
        return Problem("proxy", host=host, reason=str(t("407: it wants a user and a password")))
    if status == 404:
        return Problem("not_found", host=host)
    if status == 429:
        return Problem("rate_limited", host=host, wait_s=retry_after_s(headers))
    if status >= 500:
        wait = retry_after_s(headers) if "Retry-After" in headers else None
        return Problem("server_error", host=host, status=status, wait_s=wait)
    return Problem("unexpected_status", host=host, status=status)


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """Return what ``Retry-After`` asks for, in seconds; ``None`` when it does not say."""
    value = headers.get("Retry-After", "").strip()
    if value.isascii() and value.isdigit():
        return float(value[:12])
    if not value:
        return None
    import email.utils
    import time

    try:
        return max(email.utils.parsedate_to_datetime(value).timestamp() - time.time(), 0.0)
    except ValueError:
        return None


def _target(here: str, location: str) -> str:
    """Return where a redirect leads.

    Raises:
        Problem: Not to a web address.
    """
    try:
        there = urljoin(here, location)
        scheme = httpx2.URL(there).scheme
        named = bool(host_of(there))
    except (ValueError, httpx2.InvalidURL) as error:
        raise Problem("bad_redirect", host=host_of(here)) from error
    if scheme not in {"http", "https"} or not named:
        raise Problem("odd_redirect", host=host_of(here), scheme=scheme)
    return there


def _content_range(headers: Mapping[str, str]) -> tuple[int | None, int | None]:
    match = _CONTENT_RANGE.fullmatch(headers.get("Content-Range", ""))
    if match is None:
        return None, None
    size = match.group(3)
    return int(match.group(1)), None if size == "*" else int(size)


def _length(headers: Mapping[str, str]) -> int | None:
    value = headers.get("Content-Length", "")
    return int(value) if value.isascii() and value.isdigit() else None


def _strong(value: str | None) -> str | None:
    """Return an entity tag that ``If-Range`` may carry; weak ones may not."""
    return None if value is None or value.startswith("W/") else value


def _tag(value: str | None) -> str | None:
    return None if value is None else value.removeprefix("W/").strip('"') or None
