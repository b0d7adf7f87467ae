"""The user's settings: ``config.toml`` in the config folder, read leniently, written politely.

::

    language = "en"             # or zh_CN
    last-profile = "27b-int4-speed"
    [engine]
    interpreter = "/opt/sglang/bin/python"
    [console]
    theme = "qwen-safe"
    marks = "ascii"             # or unicode
    [console.keys]              # command id = keys, as the console's help shows them
    "server.start" = "f5"
    [gateway]                   # in front of the engine; probes show what it costs
    url = "http://127.0.0.1:4000"
    model = "qwen"              # what it calls the model, where that differs
    key-env = "LITELLM_KEY"     # variable that holds its key
    [fleet]                     # servers that the console watches side by side
    urls = ["http://10.0.0.2:30000"]
    [fleet.key-env]             # variable that holds a server's key; "" = it is sent none
    "http://10.0.0.2:30000" = "BOX2_KEY"

Unknown keys are left alone: a newer version of the product may have written them. Writing keeps the
user's comments and order.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from qwen_tui.services.paths import write_private
from qwen_tui_profiles.errors import ConfigError
from qwen_tui_profiles.text import t
from qwen_tui_profiles.toml_io import ProfileFileError, read_toml

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from qwen_tui.services.paths import Paths

__all__ = ["Settings", "change_settings", "load_settings", "settings_path"]

_KEYS: Mapping[str, tuple[str, ...]] = {
    "language": ("language",),
    "last_profile": ("last-profile",),
    "interpreter": ("engine", "interpreter"),
    "theme": ("console", "theme"),
    "marks": ("console", "marks"),
    "guide": ("console", "guide"),
    "gateway": ("gateway", "url"),
    "gateway_model": ("gateway", "model"),
    "gateway_key_env": ("gateway", "key-env"),
}
"""Field of :class:`Settings` → key path in the file."""
_LISTS: Mapping[str, tuple[str, ...]] = {"fleet": ("fleet", "urls")}
"""The same for fields that hold several texts."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What the user chose; ``None`` = not set."""

    language: str | None = None
    last_profile: str | None = None
    """The profile selected last, preselected by the console and judged by ``doctor``."""
    interpreter: str | None = None
    """Python that has the engine, for profiles that name none."""
    theme: str | None = None
    marks: str | None = None
    """``ascii`` or ``unicode``; what the console draws boxes and bars with."""
    guide: str | None = None
    """``done`` once the first steps were shown."""
    gateway: str | None = None
    """Address of a gateway in front of the engine, which probes are sent through as well."""
    gateway_model: str | None = None
    """The model's name there."""
    gateway_key_env: str | None = None
    """Name of the variable that holds its key; the key itself is never written down."""
    fleet: tuple[str, ...] = ()
    """Addresses of servers to watch side by side."""
    fleet_keys: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """Address → name of the variable that holds its key; empty = it is sent none."""
    keys: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """Keys of the console that the user moved: command id → keys, separated by commas."""
    problem: ConfigError | None = None
    """Why the file, or a value of it, was not used."""


def settings_path(paths: Paths) -> Path:
    """Return where the settings are, whether or not the file exists."""
    return paths.settings


def load_settings(paths: Paths) -> Settings:
    """Read the settings; a file that cannot be used is reported in ``problem`` and changes nothing.

    An unusable value is reported too, and only that value falls back to "not set".
    """
    path = settings_path(paths)
    if not path.exists():
        return Settings()
    try:
        document = read_toml(path)
    except ProfileFileError as problem:
        return Settings(problem=problem)
    values: dict[str, str] = {}
    problem_found: ConfigError | None = None
    for name, key in _KEYS.items():
        value: Any = document.data
        for part in key:
            value = value.get(part) if isinstance(value, dict) else None
        if value is None:
            continue
        if isinstance(value, str) and value:
            values[name] = value
        else:
            problem_found = document.error(
                key,
                t("{key} must be a text that is not empty.", key=".".join(key)),
                t("Correct or remove this line."),
            )
    return Settings(
        **values,
        fleet=_fleet(document.data),
        fleet_keys=_texts(document.data, "fleet", "key-env"),
        keys=_keys(document.data),
        problem=problem_found,
    )


def _fleet(data: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the addresses of the fleet; whatever is no text is left out."""
    table = data.get("fleet")
    urls = table.get("urls") if isinstance(table, dict) else None
    if not isinstance(urls, list):
        return ()
    return tuple(dict.fromkeys(url for url in urls if isinstance(url, str) and url))


def _keys(data: Mapping[str, Any]) -> Mapping[str, str]:
    """Return the moved keys; an empty text moves nothing."""
    keys = _texts(data, "console", "keys")
    return MappingProxyType({name: key for name, key in keys.items() if key})


def _texts(data: Mapping[str, Any], table: str, name: str) -> Mapping[str, str]:
    """Return a table below a table; whatever is no text is left out."""
    outer = data.get(table)
    inner = outer.get(name) if isinstance(outer, dict) else None
    if not isinstance(inner, dict):
        return MappingProxyType({})
    return MappingProxyType({k: v for k, v in inner.items() if isinstance(v, str)})


def change_settings(paths: Paths, **changes: str | tuple[str, ...] | None) -> Settings:
    """Set fields of :class:`Settings` by name (``None`` removes one) and return what is then read.

    Raises:
        ConfigError: the present file is broken, or the new one cannot be written.
    """
    import tomlkit
    from tomlkit.items import Table

    path = settings_path(paths)
    document = tomlkit.parse(read_toml(path).text) if path.exists() else tomlkit.document()
    for name, value in changes.items():
        *tables, last = _KEYS[name] if name in _KEYS else _LISTS[name]
        target: Any = document
        for part in tables:
            if not isinstance(target.get(part), Table):
                target[part] = tomlkit.table()
            target = target[part]
        if value is None:
            with contextlib.suppress(KeyError):
                target.remove(last)
        else:
            target[last] = list(value) if isinstance(value, tuple) else value
    paths.make(paths.config)
    try:
        write_private(path, tomlkit.dumps(document).encode())
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise ConfigError(
            t("Cannot write {path} ({reason}).", path=str(path), reason=reason),
            t("Free space on that disk or make the folder writable; nothing was changed."),
        ) from error
    return load_settings(paths)
