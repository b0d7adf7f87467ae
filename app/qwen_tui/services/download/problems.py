"""What can go wrong, as codes with fields; the words are in :mod:`.sentences`.

The worker raises and sends codes, so that the parent can say them in the user's language.
"""

from __future__ import annotations

import errno
import ssl
import urllib.request
from typing import TYPE_CHECKING

from qwen_tui.services.download.hosts import host_of

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["LONGEST_WAIT_S", "RETRYABLE", "Cancelled", "Problem", "from_network", "from_os"]

LONGEST_WAIT_S = 600.0
"""A server that asks for a longer pause ends the run; its user comes back later."""

RETRYABLE = frozenset(
    {
        "dropped",
        "proxy_down",
        "stalled",
        "timeout",
        "connect",
        "dns",
        "server_error",
        "rate_limited",
        "bad_range",
        "too_short",
        "changed",
    }
)
"""Codes after which a new connection may help."""


class Cancelled(Exception):  # noqa: N818 - not an error: somebody asked for it
    """The user stopped it."""


class Problem(Exception):  # noqa: N818 - carries a code; shown as a DownloadError by the parent
    """A failure with a code of :mod:`.sentences` and the values of its sentence."""

    def __init__(self, code: str, **fields: object) -> None:
        super().__init__(code)
        self.code = code
        self.fields = fields

    @property
    def retryable(self) -> bool:
        """Whether a new connection may help."""
        return self.code in RETRYABLE


_OS_CODES = {
    errno.ENOSPC: "no_space",
    errno.EDQUOT: "quota",
    errno.EROFS: "read_only",
    errno.EACCES: "no_permission",
    errno.EPERM: "no_permission",
}


def from_os(error: OSError, path: object) -> Problem:
    """Name a failure of the target file system."""
    code = _OS_CODES.get(error.errno or 0, "disk_error")
    return Problem(code, path=str(path), reason=error.strerror or type(error).__name__)


def from_network(error: BaseException, host: str) -> Problem:
    """Name a failure of the connection to ``host``.

    It goes by class names and causes, since the hub library brings one HTTP client or another.
    """
    chain = list(_causes(error))
    names = {cls.__name__ for e in chain for cls in type(e).__mro__}
    reason = _reason(chain)
    if any(isinstance(e, ssl.SSLError) for e in chain) or "CERTIFICATE_VERIFY" in reason:
        return Problem("tls", host=host, reason=reason)
    if "ProxyError" in names:
        return Problem("proxy", host=host, reason=reason)
    proxy = _proxy_to(host)
    if proxy is not None and names & {"gaierror", "ConnectError", "ConnectTimeout"}:
        # Only the proxy was asked; what its failure says is not about the host.
        return Problem("proxy_down", host=host, proxy=proxy, reason=reason)
    if "gaierror" in names or "Name or service not known" in reason:
        return Problem("dns", host=host)
    if names & {"ReadTimeout", "WriteTimeout"}:
        return Problem("stalled", host=host)
    if names & {"ConnectTimeout", "PoolTimeout", "TimeoutException"}:
        return Problem("timeout", host=host)
    if names & {"ConnectError", "ConnectionRefusedError"}:
        return Problem("connect", host=host, reason=reason)
    return Problem("dropped", host=host, reason=reason)


def _proxy_to(host: str) -> str | None:
    """Return the proxy of the environment on the way to a host, without its credentials."""
    proxies = urllib.request.getproxies()
    found = next((proxies[k] for k in ("https", "http", "all") if proxies.get(k)), None)
    if found is None or urllib.request.proxy_bypass(host):
        return None
    return host_of(found if "://" in found else f"http://{found}") or None


def _causes(error: BaseException) -> Iterator[BaseException]:
    step: BaseException | None = error
    seen: set[int] = set()
    while step is not None and id(step) not in seen:
        seen.add(id(step))
        yield step
        step = step.__cause__ or step.__context__


def _reason(chain: list[BaseException]) -> str:
    for error in reversed(chain):
        text = str(error).strip()
        if text:
            return text.splitlines()[0][:200]
    return type(chain[0]).__name__
