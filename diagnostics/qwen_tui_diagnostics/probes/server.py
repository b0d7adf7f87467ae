"""Does a server already answer on the launch's port?"""

from __future__ import annotations

import http.client
import json
from typing import TYPE_CHECKING, Any

from qwen_tui_diagnostics.result import SkipReason
from qwen_tui_profiles.foreign import clean
from qwen_tui_profiles.text import t

if TYPE_CHECKING:
    from qwen_tui_diagnostics.context import Context
    from qwen_tui_diagnostics.facts import Gathered

__all__ = ["collect"]

LIMIT_S = 2.0
_MOST_BYTES = 65536


def collect(context: Context, found: Gathered) -> None:
    """Gather ``server.*``. Loopback is asked directly, never through a proxy."""
    host = context.target.host
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    if host not in {"127.0.0.1", "::1", "localhost"}:
        found.lack("server.answers", SkipReason.DISABLED, t("only this machine is asked"))
        return
    try:
        connection = http.client.HTTPConnection(host, context.target.port, timeout=LIMIT_S)
        connection.request("GET", "/v1/models")
        response = connection.getresponse()
        body = response.read(_MOST_BYTES)
    except ConnectionRefusedError:
        found.put("server.answers", False)
        return
    except TimeoutError:
        found.put("server.answers", True)
        found.put("server.silent", True)
        return
    except (OSError, http.client.HTTPException) as error:
        found.put("server.answers", not isinstance(error, OSError))
        return
    finally:
        connection.close()
    found.put("server.answers", True)
    found.put("server.status", response.status)
    try:
        document: Any = json.loads(body)
        entry = document["data"][0]
        found.put("server.model", clean(str(entry["id"]))[:100])
        found.put("server.owner", clean(str(entry.get("owned_by", "")))[:40])
    except (ValueError, LookupError, TypeError, AttributeError):
        return
