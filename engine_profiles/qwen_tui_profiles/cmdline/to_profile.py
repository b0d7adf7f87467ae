"""From a launch that somebody already has to the content of a profile file."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from qwen_tui_profiles.cmdline.arguments import read_arguments
from qwen_tui_profiles.flags.tables import flag_table
from qwen_tui_profiles.foreign import is_secret_name
from qwen_tui_profiles.profile import EngineKind
from qwen_tui_profiles.text import t

if TYPE_CHECKING:
    from collections.abc import Mapping

    from qwen_tui_profiles.cmdline.arguments import Option
    from qwen_tui_profiles.cmdline.command import EngineCommand
    from qwen_tui_profiles.text import Text

__all__ = ["ImportedProfile", "import_command"]

Scalar = str | int | float | bool
_FIELDS = frozenset(
    {"--model-path", "--model", "--served-model-name", "--host", "--port", "--config"}
)
_LOCAL = re.compile(r"[./~$]|[A-Za-z]:[\\/]")
_OURS = frozenset({"--env", "--publish", "--name", "--entrypoint", "--restart", "--env-file"})
"""Options of ``docker run`` that the launch sets itself, or that would take it out of hand."""


@dataclass(frozen=True, slots=True)
class ImportedProfile:
    """What was understood of a launch."""

    engine: EngineKind
    mode: str
    model_path: str | None
    model_repo: str | None
    served_name: str | None
    host: str
    port: int
    interpreter: str | None
    image: str | None
    runtime: str | None
    run_args: tuple[str, ...]
    args: Mapping[str, Scalar | list[Scalar]]
    env: Mapping[str, str]
    notes: tuple[Text, ...] = field(default_factory=tuple)
    """What was left out or could not be known."""


def import_command(command: EngineCommand) -> ImportedProfile:
    """Turn a launch into the content of a profile; secrets are left out and said so."""
    table = flag_table(command.engine)
    arguments = read_arguments(command.engine, command.argv, table)
    notes: list[Text] = []
    args: dict[str, Scalar | list[Scalar]] = {}
    for option in arguments.options:
        if option.name in _FIELDS:
            if option.name == "--config":
                notes.append(
                    t("--config {file} was left out: write its flags here.", file=_first(option))
                )
            continue
        if is_secret_name(option.name):
            notes.append(t("{flag} was left out: a secret has no place here.", flag=option.name))
            continue
        key = f"no-{option.name[2:]}" if option.negated else option.name.lstrip("-")
        args[key] = _value(option)
    model = arguments.value("--model-path") or arguments.value("--model")
    if model is None and command.engine is EngineKind.VLLM and arguments.positionals:
        model = arguments.positionals[0]
    local = model is not None and (bool(_LOCAL.match(model)) or model.count("/") > 1)
    notes += [
        t("{name} is not known here: put its value in.", name=name) for name in command.unresolved
    ]
    host, port = _address(command, arguments.value("--host"), arguments.value("--port"))
    run = command.container
    env = {}
    for name, value in command.env.items():
        if is_secret_name(name):
            notes.append(t("{flag} was left out: a secret has no place here.", flag=name))
        else:
            env[name] = value
    speculative = any(
        name in args for name in ("speculative-algorithm", "speculative-config", "spec-method")
    )
    return ImportedProfile(
        command.engine,
        "speed" if speculative else "context",
        model if local else None,
        None if local else model,
        arguments.value("--served-model-name"),
        host,
        port,
        command.interpreter if run is None and "/" in (command.interpreter or "") else None,
        None if run is None else run.image,
        None if run is None else run.runtime,
        () if run is None else _run_args(run.options),
        args,
        env,
        tuple(notes),
    )


def _address(command: EngineCommand, host: str | None, port: str | None) -> tuple[str, int]:
    default = 8000 if command.engine is EngineKind.VLLM else 30000
    number = int(port) if port is not None and port.isdigit() else default
    run = command.container
    if run is None:
        listens = "0.0.0.0" if command.engine is EngineKind.VLLM else "127.0.0.1"
        return host or listens, number
    # Outside, the container is where it is published; the launch maps the same number inside.
    for value, address in zip(run.values("--publish"), run.published, strict=True):
        outer = value.rpartition(":")[0].rpartition(":")[2] or value.partition(":")[0]
        if outer.isdigit():
            return address, int(outer)
    return ("0.0.0.0" if run.host_network else "127.0.0.1"), number


def _run_args(options: tuple[tuple[str, str | None], ...]) -> tuple[str, ...]:
    out: list[str] = []
    for name, value in options:
        detached = name in {"-d", "-i", "-t", "--detach", "--interactive", "--tty"}
        if name in _OURS or detached or name in {"--rm", "--init"}:
            continue
        out.append(name if value is None else f"{name}={value}")
    return tuple(out)


def _value(option: Option) -> Scalar | list[Scalar]:
    if not option.values:
        return True
    values = [_scalar(value) for value in option.values]
    return values[0] if len(values) == 1 else values


def _scalar(text: str) -> Scalar:
    """Return a number only where it is written as TOML would write it back."""
    if re.fullmatch(r"-?(?:0|[1-9]\d*)", text):
        return int(text)
    if re.fullmatch(r"-?(?:0|[1-9]\d*)\.\d+", text) and str(float(text)) == text:
        return float(text)
    return text


def _first(option: Option) -> str:
    return option.values[0] if option.values else "—"
