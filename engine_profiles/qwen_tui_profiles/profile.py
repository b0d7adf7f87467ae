"""The engine profile: everything that one launch needs, and where each value comes from."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "SMOKES",
    "ContainerLaunch",
    "EngineKind",
    "EngineMode",
    "EngineProfile",
    "ModelRef",
    "Origin",
    "Provenance",
    "Published",
    "PythonLaunch",
]


SMOKES = ("tool-call", "long-prompt", "stress")
"""What a profile may ask of a boot beyond one token: a parsed tool call, one long prompt, two long
prompts at once (for after slots or chunk size were changed)."""


class EngineKind(StrEnum):
    """Which program a profile launches. A profile cannot run anything else."""

    SGLANG = "sglang"
    VLLM = "vllm"
    DEMO = "demo"
    """The simulated engine that ships with qwen-tui; speaks SGLang's protocol."""


class EngineMode(StrEnum):
    """What the profile is tuned for; the two sides of a pair."""

    SPEED = "speed"
    CONTEXT = "context"


@dataclass(frozen=True, slots=True)
class PythonLaunch:
    """Launch with a Python interpreter (system, venv, conda)."""

    interpreter: str | None = None
    """Path of the interpreter; ``None`` = the configured or discovered engine (demo: our own)."""


@dataclass(frozen=True, slots=True)
class ContainerLaunch:
    """Launch with ``docker run`` or ``podman run``; always an argument list, never a shell."""

    runtime: str
    image: str
    args: tuple[str, ...] = ()
    """Options of ``run`` itself (``--gpus all``, ``--ipc host``, volumes)."""


@dataclass(frozen=True, slots=True)
class ModelRef:
    """Which checkpoint a profile serves."""

    path: str | None = None
    """Local folder; ``~`` is allowed. ``None`` for the demo engine."""
    repo: str | None = None
    """Hub repository it is downloaded from."""
    served_name: str | None = None


@dataclass(frozen=True, slots=True)
class Provenance:
    """Where a value comes from and what was measured with it."""

    source: str
    """``seed 004 §10``, ``SGLang default``, ``user``, …"""
    date: str | None = None
    figure: str | None = None
    note: str | None = None


@dataclass(frozen=True, slots=True)
class Origin:
    """The file that a profile was read from."""

    kind: str
    """``preset`` or ``user``."""
    path: str


@dataclass(frozen=True, slots=True)
class Published:
    """The recipe as its author published it, where the preset departs from it."""

    source: str
    """``seed 004 §10, tier A``."""
    argv: tuple[str, ...]
    """The published engine flags, model and address left out as in :attr:`EngineProfile.argv`."""
    differences: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """By flag (``--speculative-draft-model-path``): why the preset differs there."""
    env: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True, slots=True)
class EngineProfile:
    """One way to launch one engine on one model. Frozen: an edit makes another profile."""

    name: str
    title: str
    engine: EngineKind
    mode: EngineMode
    argv: tuple[str, ...]
    """Engine flags as typed, without model, host, port and served name (those are fields below)."""
    host: str = "127.0.0.1"
    port: int = 30000
    pair: str | None = None
    """Name of the profile on the other side of the speed ↔ context swap."""
    launch: PythonLaunch | ContainerLaunch = field(default_factory=PythonLaunch)
    model: ModelRef = field(default_factory=ModelRef)
    env: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    needs_gpu: bool = True
    engine_versions: str | None = None
    """Versions that the profile is written for, as a specifier (``>=0.5.18``)."""
    notes: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    """Rule ids that the owner of the profile decided to override; always shown with the profile."""
    ignore_reasons: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """By rule id: why it is overridden, where a reason was given."""
    build: str | None = None
    """The build that the profile needs when no release will do (a fork, a container image)."""
    published: Published | None = None
    """What the source published, when it is not what this profile launches."""
    thinking: bool | None = None
    """Whether our own probes let the model reason first; ``None`` = the template's default."""
    smoke: tuple[str, ...] = ()
    """What a boot must show beyond one token: ``tool-call``, ``long-prompt``, ``stress``."""
    extends: str | None = None
    """The profile that this one was derived from, key by key."""
    provenance: Mapping[str, Provenance] = field(default_factory=lambda: MappingProxyType({}))
    """By key of the TOML file: ``args.mem-fraction-static`` → where it comes from."""
    origin: Origin = Origin("preset", "")

    @property
    def simulated(self) -> bool:
        """Whether the engine is the built-in simulation, which every screen must say."""
        return self.engine is EngineKind.DEMO

    @property
    def url(self) -> str:
        """Base URL of the server as seen from this machine."""
        host = "127.0.0.1" if self.host in {"0.0.0.0", "::"} else self.host
        return f"http://[{host}]:{self.port}" if ":" in host else f"http://{host}:{self.port}"
