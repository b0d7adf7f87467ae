"""What the Hub (or its mirror) says of the model: reachable, permitted, how big, from which host.

Asked over plain HTTP with redirects left alone, because a mirror may pass metadata on and send the
big files elsewhere. The token is used for the request and never kept.
"""

from __future__ import annotations

import email.utils
import importlib.metadata
import json
import socket
import ssl
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qwen_tui_diagnostics.probes.files import try_text
from qwen_tui_diagnostics.result import SkipReason
from qwen_tui_profiles.foreign import clean, redact
from qwen_tui_profiles.text import t

if TYPE_CHECKING:
    from collections.abc import Mapping
    from email.message import Message
    from http.client import HTTPMessage
    from typing import IO

    from qwen_tui_diagnostics.context import Context
    from qwen_tui_diagnostics.facts import Gathered

__all__ = ["DEFAULT_ENDPOINT", "collect"]

DEFAULT_ENDPOINT = "https://huggingface.co"
REQUEST_LIMIT_S = 5.0
_MOST_BYTES = 32 * 1024 * 1024


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Leaves redirects to the caller."""

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: HTTPMessage,
        newurl: str,
    ) -> None:
        """Follow nothing."""
        del req, fp, code, msg, headers, newurl


def collect(context: Context, found: Gathered) -> None:
    """Gather ``hub.*``."""
    env = context.child_env
    _client(found)
    if _complete(context):
        for name in ("endpoint", "error", "status", "token_from", "missing_bytes", "largest_bytes"):
            found.lack(f"hub.{name}", SkipReason.NOT_APPLICABLE, t("the model is already there"))
        return
    token, origin = _token(context, env)
    found.put("hub.token_from", origin)
    if token:
        found.put("hub.token_length", len(token))
    endpoint = (env.get("HF_ENDPOINT") or DEFAULT_ENDPOINT).rstrip("/")
    found.put("hub.endpoint", redact(clean(endpoint)))
    repo = context.target.repo
    if repo is None or "://" not in endpoint:
        found.lack("hub.status", SkipReason.NOT_APPLICABLE, t("the profile names no repository"))
        return
    asker = _Asker(token)
    model = urllib.parse.quote(repo)
    answer = asker.ask(f"{endpoint}/api/models/{model}?blobs=true", "GET")
    _status(found, answer)
    if answer.status != 200:
        return
    files = _files(answer.body)
    found.put("hub.gated", bool(files.get("gated")))
    sizes: dict[str, int] = files["sizes"]
    if sizes:
        found.put("hub.total_bytes", sum(sizes.values()))
        found.put("hub.largest_bytes", max(sizes.values()))
        found.put("hub.missing_bytes", _missing(context, sizes))
    largest = max(sizes, key=lambda name: sizes[name], default=None)
    if largest is not None:
        _big_file(found, asker, f"{endpoint}/{model}/resolve/main/{urllib.parse.quote(largest)}")


def _client(found: Gathered) -> None:
    """The download client beside qwen-tui, by its metadata."""
    for name, field in (("huggingface_hub", "client_version"), ("hf_transfer", "transfer")):
        try:
            version = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            version = ""
        if field == "transfer":
            found.put("hub.transfer_installed", bool(version))
        else:
            found.put_or(f"hub.{field}", version or None, SkipReason.NO_TOOL, t("not installed"))


def _complete(context: Context) -> bool:
    """Tell whether nothing has to be downloaded, so that the network is left alone."""
    target = context.target
    if target.online or target.model_path is None:
        return False
    return any(Path(target.model_path).glob("*.safetensors"))


def _token(context: Context, env: Mapping[str, str]) -> tuple[str, str]:
    """Return the token and where it comes from (``none``, a variable's name, ``token file``)."""
    for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"):
        if env.get(name):
            return env[name].strip(), name
    home = env.get("HF_HOME") or str(context.home / ".cache/huggingface")
    path = env.get("HF_TOKEN_PATH") or f"{home}/token"
    text = (try_text(Path(path).expanduser()) or "").strip()
    return (text, "token file") if text else ("", "none")


class _Answer:
    """One HTTP answer, or why there is none."""

    def __init__(self) -> None:
        self.status: int | None = None
        self.headers: Message | None = None
        self.body = b""
        self.error = ""
        """``dns``, ``tls``, ``timeout``, ``refused`` or ``network``."""
        self.seconds = 0.0


class _Asker:
    """Asks with the user's proxy settings and certificates."""

    def __init__(self, token: str) -> None:
        self._token = token
        self._opener = urllib.request.build_opener(_NoRedirect())

    def ask(self, url: str, method: str, *, with_token: bool = True) -> _Answer:
        headers = {"User-Agent": "qwen-tui doctor"}
        if with_token and self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        answer = _Answer()
        began = time.perf_counter()
        try:
            request = urllib.request.Request(url, method=method, headers=headers)
            with self._opener.open(request, timeout=REQUEST_LIMIT_S) as response:
                answer.status, answer.headers = response.status, response.headers
                answer.body = response.read(_MOST_BYTES)
        except urllib.error.HTTPError as error:
            answer.status, answer.headers = error.code, error.headers
            error.close()
        except urllib.error.URLError as error:
            answer.error = _kind(error.reason)
        except (OSError, ValueError) as error:
            answer.error = _kind(error)
        answer.seconds = time.perf_counter() - began
        return answer


def _kind(cause: object) -> str:
    if isinstance(cause, ssl.SSLError):
        return "tls"
    if isinstance(cause, socket.gaierror):
        return "dns"
    if isinstance(cause, TimeoutError):
        return "timeout"
    if isinstance(cause, ConnectionRefusedError):
        return "refused"
    return "network"


def _status(found: Gathered, answer: _Answer) -> None:
    found.put("hub.error", answer.error)
    if answer.status is None:
        found.lack("hub.status", SkipReason.TIMEOUT, answer.error)
        return
    found.put("hub.status", answer.status)
    found.put("hub.seconds", round(answer.seconds, 3))
    headers = answer.headers
    if headers is None:
        return
    for name, header in (("error_code", "X-Error-Code"), ("error_message", "X-Error-Message")):
        value = headers.get(header)
        if value:
            found.put(f"hub.{name}", redact(clean(value))[:200])
    with found.attempt("hub.clock_off_s"):
        stamp = headers.get("Date")
        if stamp:
            then = email.utils.parsedate_to_datetime(stamp).timestamp()
            found.put("hub.clock_off_s", round(time.time() - then))


def _files(body: bytes) -> dict[str, Any]:
    try:
        document: Any = json.loads(body)
        sizes = {
            str(item["rfilename"]): int(item["size"])
            for item in document["siblings"]
            if isinstance(item.get("size"), int)
        }
        return {"gated": document.get("gated"), "sizes": sizes}
    except (ValueError, LookupError, TypeError, AttributeError):
        return {"gated": None, "sizes": {}}


def _missing(context: Context, sizes: dict[str, int]) -> int:
    """Return the bytes that are not in the model folder yet."""
    if context.target.model_path is None:
        return sum(sizes.values())
    folder = Path(context.target.model_path)
    missing = 0
    for name, size in sizes.items():
        try:
            here = (folder / name).stat().st_size
        except OSError:
            here = 0
        missing += 0 if here == size else size
    return missing


def _big_file(found: Gathered, asker: _Asker, url: str) -> None:
    """Ask where a big file really comes from, and whether that host answers."""
    answer = asker.ask(url, "HEAD")
    if answer.status is None:
        found.put("hub.file_error", answer.error)
        return
    found.put("hub.file_status", answer.status)
    location = answer.headers.get("Location") if answer.headers is not None else None
    if not location:
        return
    target = urllib.parse.urljoin(url, location)
    host = urllib.parse.urlsplit(target).hostname or ""
    found.put("hub.redirect_host", clean(host))
    # The address carries its own signature; our token must not travel to another host.
    follow = asker.ask(target, "HEAD", with_token=False)
    found.put("hub.redirect_error", follow.error)
    if follow.status is not None:
        found.put("hub.redirect_status", follow.status)
