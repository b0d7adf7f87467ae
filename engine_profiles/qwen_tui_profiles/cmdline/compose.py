"""The launch in a compose file: the service whose image or command is an engine."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from qwen_tui_profiles.cmdline.command import find_engine
from qwen_tui_profiles.cmdline.docker import read_container_run
from qwen_tui_profiles.cmdline.shell import SimpleCommand, read_script
from qwen_tui_profiles.cmdline.yaml_subset import read_yaml
from qwen_tui_profiles.errors import InputError
from qwen_tui_profiles.text import t

if TYPE_CHECKING:
    from collections.abc import Mapping

    from qwen_tui_profiles.cmdline.command import EngineCommand

__all__ = ["compose_words", "read_compose"]

_VARIABLE = re.compile(r"\$\{(\w+)(?::?-([^}]*))?\}|\$(\w+)")


def read_compose(text: str) -> EngineCommand:
    """Find the engine among the services.

    Raises:
        InputError: the file cannot be read, or no service launches an engine.
    """
    data = read_yaml(text)
    services = data.get("services") if isinstance(data, dict) else None
    if not isinstance(services, dict):
        raise InputError(
            t("The YAML file has no services."),
            t("Pass a compose file, a shell script or a systemd unit."),
        )
    others: list[str] = []
    found: EngineCommand | None = None
    for name, service in services.items():
        if not isinstance(service, dict):
            continue
        words = compose_words(service)
        if words is None:
            continue
        run = read_container_run(words)
        env = {} if run is None else dict(run.env)
        engine = find_engine(SimpleCommand(words, env, _open(words)))
        if engine is not None and found is None:
            found = engine
        else:
            others.append(f"{name}: {' '.join(words)}")
    if found is None:
        raise InputError(
            t("No service of the compose file launches SGLang or vLLM."),
            t("Its services: {names}.", names=", ".join(str(name) for name in services)),
        )
    from dataclasses import replace

    return replace(found, script=tuple(others))


def compose_words(service: Mapping[str, object]) -> tuple[str, ...] | None:
    """Write a service as the ``docker run`` command that it stands for."""
    image = service.get("image")
    if not isinstance(image, str):
        return None
    words = ["docker", "run"]
    for name, value in _pairs(service.get("environment")).items():
        words += ["--env", name if value is None else f"{name}={value}"]
    for port in _texts(service.get("ports")):
        words += ["--publish", port]
    for volume in _texts(service.get("volumes")):
        words += ["--volume", volume]
    for key, option in (
        ("network_mode", "--network"),
        ("ipc", "--ipc"),
        ("shm_size", "--shm-size"),
        ("runtime", "--runtime"),
        ("container_name", "--name"),
    ):
        setting = service.get(key)
        if isinstance(setting, str):
            words += [option, setting]
    if "deploy" in service or "gpus" in service or service.get("runtime") == "nvidia":
        words += ["--gpus", "all"]
    entrypoint = _command(service.get("entrypoint"))
    if entrypoint:
        words += ["--entrypoint", entrypoint[0]]
    return tuple(
        _expanded(word)
        for word in (*words, image, *entrypoint[1:], *_command(service.get("command")))
    )


def _command(value: object) -> list[str]:
    """A command is a list of words, or a text that is split like a shell line."""
    if isinstance(value, list):
        return [str(item) for item in value if item is not None]
    if isinstance(value, str):
        # Compose replaces variables before it splits.
        commands = read_script(_expanded(value))
        return [word for command in commands for word in command.words]
    return []


def _pairs(value: object) -> dict[str, str | None]:
    if isinstance(value, dict):
        return {str(name): None if item is None else str(item) for name, item in value.items()}
    out: dict[str, str | None] = {}
    for item in _texts(value):
        name, equals, content = item.partition("=")
        out[name] = content if equals else None
    return out


def _texts(value: object) -> list[str]:
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


def _expanded(text: str) -> str:
    """Apply ``${NAME:-default}``; other variables stay, compose reads them from ``.env``."""

    def replaced(match: re.Match[str]) -> str:
        return match[2] if match[2] is not None else match[0]

    return _VARIABLE.sub(replaced, text.replace("$$", "\0")).replace("\0", "$")


def _open(words: tuple[str, ...]) -> tuple[str, ...]:
    found = (m[0] for word in words for m in _VARIABLE.finditer(word))
    return tuple(dict.fromkeys(found))
