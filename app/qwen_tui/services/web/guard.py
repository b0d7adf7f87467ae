"""Who may talk to the web console: this machine's browser, from our own page, with the key.

The console launches and stops servers, so a request must pass three tests:

* ``Host`` is a loopback name. A foreign name that resolves to 127.0.0.1 (DNS rebinding) is not. The
  port is free, so that ``ssh -L 9000:127.0.0.1:8765`` works.
* ``Origin``, where a browser sends it, is the host itself: no other site opens the WebSocket.
* The key of the printed address, or the cookie that it was exchanged for: other users of the
  machine reach the port, and do not have the key.
"""

from __future__ import annotations

import hmac
import ipaddress
import secrets
from http import HTTPStatus
from typing import TYPE_CHECKING

from aiohttp import web

from qwen_tui_profiles.text import t, tr

if TYPE_CHECKING:
    from aiohttp.typedefs import Handler
    from multidict import MultiMapping

    from qwen_tui_profiles.text import Text

__all__ = ["KEY", "NONCE", "Guard", "is_loopback"]

KEY = "key"
"""Query parameter that carries the key."""
NONCE = "nonce"
"""Where a request keeps the word by which the browser knows our page's own script."""


def is_loopback(host: str) -> bool:
    """Tell whether a host name or address, with or without brackets, is this machine alone."""
    name = host.strip("[]").lower()
    if name == "localhost":
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


class Guard:
    """The rules of one running ``qwen-tui web``; ``middleware`` applies them to every request."""

    def __init__(self, port: int) -> None:
        self.key = secrets.token_urlsafe(24)
        # Cookies know no ports: two consoles of one machine must not take each other's.
        self._cookie = f"qwen-tui-{port}"

    @web.middleware
    async def middleware(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Refuse what fails a test, exchange the key for a cookie, and seal the page."""
        refusal = self.refusal(request.headers, request.query, request.cookies.get(self._cookie))
        if refusal is not None:
            return web.Response(status=HTTPStatus.FORBIDDEN, text=tr(refusal) + "\n")
        if KEY in request.query and request.path == "/":
            response = web.Response(status=HTTPStatus.SEE_OTHER, headers={"Location": "/"})
            response.set_cookie(self._cookie, self.key, httponly=True, samesite="Strict")
            return response
        request[NONCE] = nonce = secrets.token_urlsafe(12)
        answer = await handler(request)
        if not answer.prepared:
            answer.headers.update(_seal(request.host, nonce))
        return answer

    def refusal(
        self, headers: MultiMapping[str], query: MultiMapping[str], cookie: str | None
    ) -> Text | None:
        """Return why a request is refused, or nothing."""
        host = headers.get("Host", "")
        if not is_loopback(_name(host)):
            return t("This console answers on this machine alone, under a loopback name.")
        origin = headers.get("Origin")
        if origin is not None and origin != f"http://{host}":
            return t("Another site asked for this console: refused.")
        given = query.get(KEY, cookie or "")
        if not hmac.compare_digest(given.encode(), self.key.encode()):
            return t("Open the whole address that qwen-tui web printed, with its key.")
        return None


def _name(host: str) -> str:
    """Return the host without its port; an IPv6 address keeps its brackets."""
    if host.startswith("["):
        return host.partition("]")[0] + "]"
    return host.partition(":")[0]


def _seal(host: str, nonce: str) -> dict[str, str]:
    """Return headers that keep the page to itself and its address out of others' logs."""
    rules = (
        "default-src 'self'",
        f"script-src 'self' 'nonce-{nonce}'",
        "style-src 'self' 'unsafe-inline'",
        "img-src 'self' data: blob:",
        "font-src 'self' data:",
        f"connect-src 'self' ws://{host}",
        "frame-ancestors 'none'",
    )
    return {
        "Content-Security-Policy": "; ".join(rules),
        "Referrer-Policy": "no-referrer",
        "X-Content-Type-Options": "nosniff",
        "Cache-Control": "no-store",
    }
