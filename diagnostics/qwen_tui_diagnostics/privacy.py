"""Taking out of a report what identifies a person or a machine."""

from __future__ import annotations

import getpass
import ipaddress
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from qwen_tui_profiles.foreign import clean, redact

__all__ = ["Identity", "cleaned", "private"]

# An IPv4 address in an URL or before a port, other than loopback and "any". Four numbers alone are
# more often a version.
_IPV4 = r"(?!127\.|0\.0\.0\.0)(?:\d{1,3}\.){3}\d{1,3}"
_ADDRESS = re.compile(rf"(?<=://){_IPV4}|(?<=@){_IPV4}|(?<![\d.]){_IPV4}(?=:\d)")
_IPV6_IN_URL = re.compile(r"(?<=[/@])\[(?!::1?\])[0-9A-Fa-f]*:[0-9A-Fa-f:.]*(?:%\w+)?\]")
_USER_IN_URL = re.compile(r"(?<=://)[^\s/@:<>]+(?=@)")
"""A name alone may be a token; with a password the redaction of secrets has taken it."""
_LIST_IN_COMMAND = re.compile(r"\b((?:no_proxy|NO_PROXY)=)([^\s'\"`]+)")
_LISTS = frozenset({"no_proxy", "NO_PROXY"})
"""Variables whose every item may be an address."""
_SHORTEST_NAME = 4
"""A user or host called "a" must not turn every "a" of a report into a placeholder."""


@dataclass(frozen=True, slots=True)
class Identity:
    """What must not appear."""

    home: str
    user: str
    host: str

    @classmethod
    def here(cls) -> Identity:
        """Return the identity of this process."""
        try:
            user = getpass.getuser()
        except (OSError, KeyError):
            user = ""
        return cls(str(Path.home()), user, os.uname().nodename)


def private(value: Any, identity: Identity) -> Any:
    """Return a document with home folder, user, host, addresses and secrets taken out."""
    if isinstance(value, str):
        return _private_text(value, identity)
    if isinstance(value, dict):
        return {_private_text(k, identity): _field(k, v, identity) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [private(item, identity) for item in value]
    return value


def _field(name: str, value: Any, identity: Identity) -> Any:
    if name == "host" and isinstance(value, str) and _is_foreign_address(value):
        return "ADDRESS"
    if name in _LISTS and isinstance(value, str):
        return private(_plain_list(value), identity)
    return private(value, identity)


def _plain_list(text: str) -> str:
    """Hide the addresses of a comma-separated list."""
    return ",".join(
        "ADDRESS" if _is_foreign_address(item.strip().partition("/")[0].strip("[]")) else item
        for item in text.split(",")
    )


def _is_foreign_address(text: str) -> bool:
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return False
    return not (address.is_loopback or address.is_unspecified)


def _private_text(text: str, identity: Identity) -> str:
    text = _USER_IN_URL.sub("<redacted>", redact(text))
    if identity.home not in {"", "/"}:
        text = re.sub(rf"{re.escape(identity.home)}(?=/|\W|$)", "~", text)
    for name, placeholder in ((identity.host, "HOST"), (identity.user, "USER")):
        if len(name) >= _SHORTEST_NAME and name != "root":
            text = re.sub(rf"(?<![\w-]){re.escape(name)}(?![\w-])", placeholder, text)
    text = _LIST_IN_COMMAND.sub(lambda m: m[1] + _plain_list(m[2]), text)
    return _ADDRESS.sub("ADDRESS", _IPV6_IN_URL.sub("[ADDRESS]", text))


def cleaned(value: Any) -> Any:
    """Return a foreign document whose strings cannot steer a terminal."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, dict):
        return {clean(str(key)): cleaned(item) for key, item in value.items()}
    if isinstance(value, list):
        return [cleaned(item) for item in value]
    return value
