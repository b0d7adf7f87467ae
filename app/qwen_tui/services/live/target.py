"""Where a server is: the parts of its base URL."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlsplit

from qwen_tui_profiles.errors import UsageError
from qwen_tui_profiles.foreign import clean, redact
from qwen_tui_profiles.text import t

__all__ = ["Target"]


@dataclass(frozen=True, slots=True)
class Target:
    """Where a server is: the parts of its base URL."""

    scheme: str
    host: str
    port: int
    prefix: str = ""
    """Path before every request's path, without a final slash (``/v1`` is taken off)."""

    @classmethod
    def parse(cls, url: str) -> Target:
        """Read a base URL such as ``http://127.0.0.1:30000`` (a final ``/v1`` is ignored).

        Raises:
            UsageError: it is not an http or https URL.
        """
        text = url if "://" in url else f"http://{url}"
        try:
            parts = urlsplit(text)
            port = parts.port
        except ValueError as error:
            raise _bad_url(url) from error
        host = parts.hostname
        if parts.scheme not in {"http", "https"} or not host or not text.isprintable():
            raise _bad_url(url)
        prefix = parts.path.rstrip("/")
        prefix = prefix.removesuffix("/v1")
        if " " in prefix or " " in host:
            raise _bad_url(url)
        default = 443 if parts.scheme == "https" else 80
        return cls(parts.scheme, host, default if port is None else port, prefix)

    @property
    def url(self) -> str:
        """The base URL, without credentials."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}{self.prefix}"

    @property
    def authority(self) -> str:
        """Value of the Host header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


def _bad_url(url: str) -> UsageError:
    return UsageError(
        t("{url} is not the address of a server.", url=repr(redact(clean(url)))),
        t("Write it as http://HOST:PORT."),
    )
