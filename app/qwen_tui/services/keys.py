"""API keys for servers that we did not start: read from the environment, never stored."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from qwen_tui_profiles.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from qwen_tui.services.paths import Paths

__all__ = ["API_KEY_VARIABLE", "address_key", "attached_key", "fleet_key", "key_variable"]

API_KEY_VARIABLE = "QWEN_TUI_API_KEY"
"""Where the key is looked for when nothing else is said."""


def attached_key() -> str | None:
    """Return the API key for attached servers, if one is set."""
    return os.environ.get(API_KEY_VARIABLE) or None


def fleet_key(url: str, variables: Mapping[str, str]) -> str | None:
    """Return the key that one address of a fleet may be sent.

    Args:
        url: The address.
        variables: Address → name of the variable that holds its key, empty = it gets none
            (``[fleet.key-env]`` of the settings).

    Returns:
        The key from the address's own variable; where the address has no variable, the one from
        :data:`API_KEY_VARIABLE`. A variable that is not set is no key: another server's key is
        never sent in its place.
    """
    own = _variable(url, variables)
    return attached_key() if own is None else os.environ.get(own) or None


def address_key(url: str, paths: Paths) -> str | None:
    """Return the key that an address may be sent, as the settings have it now."""
    from qwen_tui.services.settings import load_settings

    return fleet_key(url, load_settings(paths).fleet_keys)


def key_variable(key: str, variables: Mapping[str, str]) -> str:
    """Return the name of the variable that holds a key; the key itself is never written.

    Args:
        key: The key that an address is sent.
        variables: As in :func:`fleet_key`.
    """
    names = (API_KEY_VARIABLE, *variables.values())
    return next((name for name in names if name and os.environ.get(name) == key), API_KEY_VARIABLE)


def _variable(url: str, variables: Mapping[str, str]) -> str | None:
    from qwen_tui.services.live.target import Target

    asked = Target.parse(url).url
    for address, name in variables.items():
        try:
            known = Target.parse(address).url
        except UsageError:
            continue
        if known == asked:
            return name
    return None
