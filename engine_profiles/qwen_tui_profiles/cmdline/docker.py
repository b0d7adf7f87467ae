"""``docker run`` (podman, nerdctl) taken apart: options, image, command."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["RUNTIMES", "ContainerRun", "read_container_run"]

RUNTIMES = frozenset({"docker", "podman", "nerdctl"})

_NO_VALUE = frozenset(
    {
        *("--detach", "--disable-content-trust", "--init", "--interactive", "--no-healthcheck"),
        *("--oom-kill-disable", "--privileged", "--publish-all", "--quiet", "--read-only", "--rm"),
        *("--sig-proxy", "--tty", "--replace", "--no-hosts", "--rootfs", "--tls-verify"),
    }
)
_SHORT_NO_VALUE = frozenset("ditqP")
_LONG_OF = {
    "-e": "--env",
    "-p": "--publish",
    "-v": "--volume",
    "-w": "--workdir",
    "-u": "--user",
    "-m": "--memory",
    "-h": "--hostname",
    "-l": "--label",
    "-c": "--cpu-shares",
    "-a": "--attach",
}
# Of the runtime itself, before `run`.
_GLOBAL_WITH_VALUE = frozenset({"--context", "-c", "--host", "-H", "--config", "--log-level", "-l"})


@dataclass(frozen=True, slots=True)
class ContainerRun:
    """One ``run`` command."""

    runtime: str
    options: tuple[tuple[str, str | None], ...]
    """Long name and value, in order."""
    image: str
    command: tuple[str, ...]
    """What the image is told to run: words after it, behind ``--entrypoint`` if that is given."""
    args: tuple[str, ...]
    """The options as they were written."""

    def values(self, option: str) -> tuple[str, ...]:
        """Return every value of a long option."""
        return tuple(value for name, value in self.options if name == option and value is not None)

    @property
    def env(self) -> Mapping[str, str]:
        """Variables given with ``--env NAME=VALUE``; a bare ``NAME`` is taken from outside."""
        pairs = (value.partition("=") for value in self.values("--env"))
        return {name: value for name, equals, value in pairs if equals}

    @property
    def host_network(self) -> bool:
        """Whether the container shares the network of the host."""
        return any(v == "host" for o in ("--network", "--net") for v in self.values(o))

    @property
    def published(self) -> tuple[str, ...]:
        """Addresses that ``--publish`` opens on the host; a bare port means every address."""
        out = []
        for value in self.values("--publish"):
            head, _, _ = value.rpartition(":")
            address, colon, _ = head.rpartition(":")
            out.append(address.strip("[]") if colon else "0.0.0.0")
        return tuple(out)


def read_container_run(words: Sequence[str]) -> ContainerRun | None:
    """Read ``docker … run OPTIONS IMAGE COMMAND``; ``None`` when it is not such a command."""
    if not words or PurePosixPath(words[0]).name not in RUNTIMES:
        return None
    index = 1
    while index < len(words) and words[index].startswith("-"):
        index += 2 if words[index] in _GLOBAL_WITH_VALUE else 1
    if words[index : index + 1] == ["container"] or tuple(words[index : index + 1]) == (
        "container",
    ):
        index += 1
    if index >= len(words) or words[index] not in {"run", "create"}:
        return None
    index += 1
    start = index
    options: list[tuple[str, str | None]] = []
    while index < len(words) and words[index].startswith("-") and words[index] != "-":
        index = _option(words, index, options)
    if index >= len(words):
        return None
    command = tuple(words[index + 1 :])
    entrypoint = next((value for name, value in options if name == "--entrypoint" and value), None)
    if entrypoint is not None:
        command = (entrypoint, *command)
    return ContainerRun(
        PurePosixPath(words[0]).name,
        tuple(options),
        words[index],
        command,
        tuple(words[start:index]),
    )


def _option(words: Sequence[str], index: int, options: list[tuple[str, str | None]]) -> int:
    """Read one option into ``options``; return the index after it."""
    word = words[index]
    if word.startswith("--"):
        name, equals, value = word.partition("=")
        if equals:
            options.append((name, value))
        elif name in _NO_VALUE:
            options.append((name, None))
        else:
            options.append((name, words[index + 1] if index + 1 < len(words) else None))
            return index + 2
        return index + 1
    # Short options may be glued: -it, -dp 80:80, -eNAME=value.
    for position, letter in enumerate(word[1:], start=1):
        if letter in _SHORT_NO_VALUE:
            options.append((f"-{letter}", None))
            continue
        name = _LONG_OF.get(f"-{letter}", f"-{letter}")
        rest = word[position + 1 :].removeprefix("=")
        if rest:
            options.append((name, rest))
            return index + 1
        options.append((name, words[index + 1] if index + 1 < len(words) else None))
        return index + 2
    return index + 1
