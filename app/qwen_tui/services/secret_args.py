"""Keeps API keys out of the process list: any user of the machine can read a command line.

vLLM takes its key from the environment, which only the same user can read. SGLang takes flags from
a YAML file (``--config``, 0.5.4 and newer; JSON is YAML), written for the owner only.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

from qwen_tui.services.paths import write_private
from qwen_tui_profiles.errors import ConfigError
from qwen_tui_profiles.foreign import is_secret_name
from qwen_tui_profiles.profile import EngineKind
from qwen_tui_profiles.text import t
from qwen_tui_profiles.versions import in_range

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

__all__ = ["Hidden", "hide_secrets"]

_IN_CONTAINER = "/run/qwen-tui-secrets.yaml"
_SINCE = "0.5.4"


class Hidden(NamedTuple):
    """A command without secrets, and where they went."""

    argv: tuple[str, ...]
    env: Mapping[str, str]


def hide_secrets(
    engine: EngineKind,
    version: str | None,
    argv: Sequence[str],
    env: Mapping[str, str],
    folder: Path,
    *,
    contained: bool,
) -> Hidden:
    """Take secret flags out of a command.

    What cannot be taken out (an engine too old, a ``--config`` of the user's) stays where it was:
    a server without its key would be worse.

    Args:
        engine: The engine that the command starts.
        version: Its version; ``None`` = not known, taken as new.
        argv: The whole command.
        env: Additions to its environment.
        folder: Private folder of the run.
        contained: The command is ``docker run …``.

    Raises:
        ConfigError: the file for the secrets cannot be written.
    """
    rest, secrets = _split(argv)
    if not secrets or engine is EngineKind.DEMO:
        return Hidden(tuple(argv), env)
    if engine is EngineKind.VLLM:
        if set(secrets) != {"api-key"}:
            return Hidden(tuple(argv), env)
        if contained:
            rest = [*rest[:2], "--env", "VLLM_API_KEY", *rest[2:]]
        return Hidden(tuple(rest), {**env, "VLLM_API_KEY": secrets["api-key"]})
    if "--config" in rest or (version is not None and not in_range(version, _SINCE, None)):
        return Hidden(tuple(argv), env)
    path = folder / "secrets.yaml"
    try:
        write_private(path, json.dumps(secrets).encode())
    except OSError as error:
        raise ConfigError(
            t("{path} cannot be written: {reason}.", path=str(path), reason=error.strerror or ""),
            t("Make room there, or make it writable for this user."),
        ) from error
    if contained:
        mount = ["--volume", f"{path}:{_IN_CONTAINER}:ro"]
        return Hidden((*rest[:2], *mount, *rest[2:], "--config", _IN_CONTAINER), env)
    return Hidden((*rest, "--config", str(path)), env)


def _split(argv: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """Return the command without its secret flags, and those by name."""
    rest: list[str] = []
    secrets: dict[str, str] = {}
    items = iter(argv)
    for item in items:
        name, equals, value = item.partition("=")
        if item.startswith("--") and is_secret_name(name):
            secrets[name.removeprefix("--")] = value if equals else next(items, "")
        else:
            rest.append(item)
    return rest, secrets
