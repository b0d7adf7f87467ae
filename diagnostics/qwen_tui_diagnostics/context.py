"""What a run judges and where it reads: the target (from a profile) and the context around it."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from qwen_tui_profiles.profile import ContainerLaunch, EngineKind

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from qwen_tui_profiles.profile import EngineProfile

__all__ = ["BENCH_MODES", "Context", "Target", "flag_value", "has_flag"]

BENCH_MODES = ("off", "quick", "full")

PLE_NVME_PATH = "SGLANG_QWEN4_PLE_NVME_PATH"
"""Variable of the SM120 fork that turns on streaming from the safetensors files."""
PLE_NVME_BACKEND = "SGLANG_QWEN4_PLE_NVME_BACKEND"
PLE_NVME_DEPTH = "SGLANG_QWEN4_PLE_NVME_QUEUE_DEPTH"
PLE_NVME_PAGES = "SGLANG_QWEN4_PLE_NVME_CACHE_PAGES"

PLE_NVME_BYTES = "SGLANG_QWEN4_PLE_NVME_CACHE_BYTES"
DEFAULT_PLE_PAGES = 5_242_880

DEFAULT_IO_DEPTH = 512
"""Queue depth of the fork's published command."""


def flag_value(argv: Sequence[str], *names: str) -> str | None:
    """Return the value of the last flag of these names (``--tp 2`` and ``--tp=2``)."""
    value: str | None = None
    for index, item in enumerate(argv):
        name, equals, inline = item.partition("=")
        if name not in names:
            continue
        if equals:
            value = inline
        elif index + 1 < len(argv) and not argv[index + 1].startswith("--"):
            value = argv[index + 1]
    return value


def has_flag(argv: Sequence[str], name: str) -> bool:
    """Tell whether a flag is there, with or without a value."""
    return any(item.partition("=")[0] == name for item in argv)


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The launch that is judged: plain values, because it travels to children and in bundles."""

    profile: str | None = None
    """``None``: the machine alone is judged."""
    engine: str | None = None
    """``sglang``, ``vllm`` or ``demo``."""
    needs_gpu: bool = True
    host: str = "127.0.0.1"
    port: int = 30000
    interpreter: str | None = None
    """Python of the engine as given; ``None`` = search for it."""
    runtime: str | None = None
    """``docker`` or ``podman`` for a profile that runs in a container."""
    image: str | None = None
    model_path: str | None = None
    """Local folder with ``~`` expanded."""
    repo: str | None = None
    argv: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """Variables that the profile adds for the engine."""
    engine_versions: str | None = None
    online: bool = False
    """The Hub may be asked although nothing has to be downloaded."""
    own_pids: tuple[int, ...] = ()
    """Processes of a server that we started ourselves."""
    own_profile: str | None = None
    """The profile of that server."""
    own_port: int | None = None
    """The port that it serves on; ``None`` while it does not serve."""

    @classmethod
    def from_profile(cls, profile: EngineProfile) -> Target:
        """Return the target of a profile."""
        container = profile.launch if isinstance(profile.launch, ContainerLaunch) else None
        path = profile.model.path
        return cls(
            profile=profile.name,
            engine=profile.engine.value,
            needs_gpu=profile.needs_gpu,
            host=profile.host,
            port=profile.port,
            interpreter=getattr(profile.launch, "interpreter", None),
            runtime=None if container is None else container.runtime,
            image=None if container is None else container.image,
            model_path=None if path is None else str(Path(path).expanduser()),
            repo=profile.model.repo,
            argv=profile.argv,
            env=profile.env,
            engine_versions=profile.engine_versions,
        )

    @property
    def simulated(self) -> bool:
        """Whether the engine is the built-in simulation."""
        return self.engine == EngineKind.DEMO.value

    @property
    def gpus_a_replica(self) -> int:
        """Number of GPUs that share one copy of the weights, on all machines together."""
        tensor = self._count("--tp-size", "--tp", "--tensor-parallel-size", "-tp")
        stages = self._count("--pp-size", "--pp", "--pipeline-parallel-size", "-pp")
        return tensor * stages

    @property
    def gpus(self) -> int:
        """Number of GPUs that the launch uses on this machine.

        Each data-parallel replica has GPUs of its own; with ``--enable-dp-attention`` the replicas
        share those of the tensor parallelism (SGLang's ``attn_dp_size``; seen with ``--dp-size 2``
        on two H200).
        """
        replicas = self._count("--dp-size", "--dp", "--data-parallel-size", "-dp")
        if self.engine == EngineKind.SGLANG.value and has_flag(self.argv, "--enable-dp-attention"):
            replicas = 1
        machines = self._count("--nnodes")
        local = self._count("--data-parallel-size-local", "-dpl", otherwise=0)
        if local:
            return self.gpus_a_replica * local
        return max(-(-self.gpus_a_replica * replicas // machines), 1)

    def _count(self, *names: str, otherwise: int = 1) -> int:
        text = flag_value(self.argv, *names)
        return int(text) if text is not None and text.isdecimal() and int(text) > 0 else otherwise

    @property
    def memory_fraction(self) -> float | None:
        """Share of GPU memory that the engine may use; ``None`` = it chooses."""
        text = flag_value(self.argv, "--mem-fraction-static", "--gpu-memory-utilization")
        try:
            value = float(text) if text is not None else None
        except ValueError:
            return None
        return value if value is not None and 0 < value <= 1 else None

    @property
    def ple(self) -> str | None:
        """How the n-gram table is kept: ``nvme`` (SM120 fork), ``file``, ``pinned`` or ``None``."""
        if PLE_NVME_PATH in self.env:
            return "nvme"
        if has_flag(self.argv, "--ple-offload-embedding") or has_flag(
            self.argv, "--ple-offload-backend"
        ):
            return flag_value(self.argv, "--ple-offload-backend") or "pinned"
        return None

    @property
    def ple_folder(self) -> str | None:
        """Folder that holds the table: the model itself (nvme) or the offload folder (file)."""
        if self.ple == "nvme":
            return str(Path(self.env[PLE_NVME_PATH]).expanduser())
        if self.ple == "file":
            return flag_value(self.argv, "--ple-offload-dir")
        return None

    @property
    def io_depth(self) -> int:
        """Queue depth of PLE streaming."""
        text = self.env.get(PLE_NVME_DEPTH, "")
        return int(text) if text.isdecimal() and int(text) > 0 else DEFAULT_IO_DEPTH

    @property
    def ple_cache_bytes(self) -> int:
        """Host memory that the fork keeps for pages or rows of the table."""
        limit = self.env.get(PLE_NVME_BYTES, "")
        if limit.isdecimal():
            return int(limit)
        pages = self.env.get(PLE_NVME_PAGES, "")
        return (int(pages) if pages.isdecimal() else DEFAULT_PLE_PAGES) * 4096

    @property
    def reads_weights(self) -> bool:
        """Whether the engine loads weights; ``--load-format dummy`` makes them up."""
        return flag_value(self.argv, "--load-format") != "dummy"

    @property
    def speculative(self) -> bool:
        """Whether a draft is used."""
        return has_flag(self.argv, "--speculative-algorithm") or has_flag(
            self.argv, "--speculative-config"
        )

    def as_json(self) -> dict[str, Any]:
        """Return every field as a JSON value."""
        document = {f.name: getattr(self, f.name) for f in fields(self)}
        return document | {
            "argv": list(self.argv),
            "env": dict(self.env),
            "own_pids": list(self.own_pids),
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Target:
        """Rebuild a target; fields of another version are ignored."""
        known = {f.name: document[f.name] for f in fields(cls) if f.name in document}
        for name in ("argv", "own_pids"):
            if name in known:
                known[name] = tuple(known[name])
        return cls(**known)


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """Where collectors read, and how much they may do."""

    target: Target = field(default_factory=Target)
    root: Path = Path("/")
    """``/proc``, ``/sys``, ``/dev``, ``/etc``, ``/usr`` are read below this folder."""
    env: Mapping[str, str] = field(default_factory=lambda: os.environ)
    """Environment of the user; the engine gets it with the target's additions."""
    home: Path = field(default_factory=Path.home)
    bench: str = "off"
    """``off``, ``quick`` or ``full``."""
    raw: bool = False
    """Keep the raw outputs of tools, for a bundle."""
    cuda_probe: bool = False
    """Import torch in the engine's interpreter (seconds)."""
    ask_engine: bool = False
    """Let the engine's own parser read the command line (8 to 18 s)."""
    state_folder: str | None = None
    """Folder of our own state (run records, logs)."""
    cache_folder: str | None = None
    configured: tuple[tuple[str, str], ...] = ()
    """Interpreters that the user's settings name, each with where it is named."""
    terminal: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    """What standard output is connected to; only the process of the user knows."""
    python: str = sys.executable
    """Our own interpreter, for child processes."""

    @property
    def child_env(self) -> dict[str, str]:
        """The environment that the engine will get."""
        return dict(self.env) | dict(self.target.env)

    def path(self, *parts: str) -> Path:
        """Return a path below the root."""
        return self.root.joinpath(*(part.lstrip("/") for part in parts))

    def with_target(self, **changes: Any) -> Context:
        """Return a copy whose target has other values."""
        return replace(self, target=replace(self.target, **changes))

    def as_json(self) -> dict[str, Any]:
        """Return what a child process needs (the environment is inherited, not sent)."""
        return {
            "target": self.target.as_json(),
            "root": str(self.root),
            "home": str(self.home),
            "bench": self.bench,
            "raw": self.raw,
            "cuda_probe": self.cuda_probe,
            "ask_engine": self.ask_engine,
            "state_folder": self.state_folder,
            "cache_folder": self.cache_folder,
            "configured": [list(pair) for pair in self.configured],
            "terminal": dict(self.terminal),
            "python": self.python,
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Context:
        """Rebuild a context in a child process."""
        values = dict(document)
        values["target"] = Target.from_json(values["target"])
        values["root"] = Path(values["root"])
        values["home"] = Path(values["home"])
        values["configured"] = tuple((str(p), str(o)) for p, o in values["configured"])
        return cls(**values)


def describe(target: Target) -> dict[str, Any]:
    """Return the ``target`` object of the report: what was judged, without environment."""
    hidden = {"env", "argv", "own_pids"}
    return {name: value for name, value in target.as_json().items() if name not in hidden}
