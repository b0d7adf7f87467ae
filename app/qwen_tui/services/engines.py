"""Which engines there are, told from package metadata on disk; no engine is ever imported or run.

An interpreter is asked by looking beside it: ``bin/python`` belongs to a prefix, the prefix has
``lib/python3.X/site-packages``, and that holds ``sglang-0.5.23.dist-info``. This costs a few
milliseconds where starting the interpreter costs fifty and importing the engine costs seconds.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from qwen_tui.services.settings import load_settings, settings_path
from qwen_tui_profiles.errors import EngineError, InputError
from qwen_tui_profiles.foreign import clean
from qwen_tui_profiles.profile import ContainerLaunch, EngineKind
from qwen_tui_profiles.text import t
from qwen_tui_profiles.versions import satisfies

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from qwen_tui.services.paths import Paths
    from qwen_tui_profiles.profile import EngineProfile

__all__ = [
    "DEMO_VERSION",
    "INTERPRETER_VARIABLE",
    "EngineFound",
    "engines_of",
    "find_engines",
    "resolve_interpreter",
]

INTERPRETER_VARIABLE = "QWEN_TUI_ENGINE_PYTHON"
"""Names the engine's interpreter for this session."""

DEMO_VERSION = "0.5.23"
"""The SGLang release that the simulated engine behaves like."""

_DISTRIBUTIONS = {EngineKind.SGLANG: "sglang", EngineKind.VLLM: "vllm"}
_IMAGE_VERSION = re.compile(r":v?(\d+\.\d+\.\d+(?:[.-]?(?:rc|post)\d+)?)(?:-|$)")
_SHEBANG_LIMIT = 512
_WELL_KNOWN_ROOTS: tuple[tuple[Path, str], ...] = (
    (Path("/opt"), "*"),
    (Path("/opt"), "*/.venv"),
    (Path("/opt"), "*conda*/envs/*"),
    (Path("/"), "sgl-workspace/*/.venv"),
)
"""Places outside the home where images and administrators put environments."""


@dataclass(frozen=True, slots=True)
class EngineFound:
    """One engine in one interpreter or container image."""

    interpreter: str
    """Absolute path of the Python; for a container the path of its runtime."""
    kind: EngineKind
    version: str | None
    """From the package metadata; ``None`` for a container image that does not tell."""
    source: str
    """How it was found: ``profile``, ``config.toml``, ``QWEN_TUI_ENGINE_PYTHON``, …"""
    site_packages: str | None = None
    """The folder that holds the package; ``None`` for a container."""
    build: str | None = None
    """Where a build that is not from a package index came from (URL and commit, or a folder)."""
    image: str | None = None


def find_engines(paths: Paths) -> tuple[EngineFound, ...]:
    """List the engines on this machine, best candidate first.

    An interpreter that is configured but missing is left out here; :func:`resolve_interpreter`
    reports it when a launch would need it.
    """
    found: list[EngineFound] = []
    seen: set[tuple[str, EngineKind]] = set()
    for source, interpreter in _candidates(paths):
        for engine in engines_of(interpreter, source):
            # Several names may lead to one environment (`python`, `python3`, a link to the venv).
            key = (str(Path(engine.site_packages or engine.interpreter).resolve()), engine.kind)
            if key not in seen:
                seen.add(key)
                found.append(engine)
    return tuple(found)


def resolve_interpreter(profile: EngineProfile, paths: Paths) -> EngineFound:
    """Return the engine that a launch of ``profile`` would use.

    Order: the profile, ``config.toml``, :data:`INTERPRETER_VARIABLE`, this interpreter, the active
    environment, well-known places. A version that the profile is written for wins over the order
    among those that were only discovered.

    Raises:
        EngineError: a named interpreter is missing or lacks the engine, or none was found.
    """
    if profile.engine is EngineKind.DEMO:
        return EngineFound(sys.executable, EngineKind.DEMO, DEMO_VERSION, "qwen-tui")
    if isinstance(profile.launch, ContainerLaunch):
        return _container(profile.launch, profile.engine)
    named = profile.launch.interpreter
    if named is not None:
        return _named(named, profile, "profile")

    settings = load_settings(paths)
    for source, value in (
        (settings_path(paths).name, settings.interpreter),
        (INTERPRETER_VARIABLE, os.environ.get(INTERPRETER_VARIABLE)),
    ):
        if value:
            path = _interpreter(value)
            if path is None:
                raise _missing(value, source)
            # It may hold the other engine only; that is no mistake, so the search goes on.
            for engine in engines_of(path, source):
                if engine.kind is profile.engine:
                    return engine

    discovered = [e for e in find_engines(paths) if e.kind is profile.engine]
    if not discovered:
        raise EngineError(
            t("No Python with {engine} was found.", engine=_DISTRIBUTIONS[profile.engine]),
            t(
                "Install it into an environment of its own, then name its Python: "
                "launch.interpreter in the profile, [engine] interpreter in {config}, "
                "or {variable}.",
                config=str(settings_path(paths)),
                variable=INTERPRETER_VARIABLE,
            ),
        )
    return next((e for e in discovered if _fits(e, profile)), discovered[0])


def engines_of(interpreter: Path, source: str) -> tuple[EngineFound, ...]:
    """Return the engines that an interpreter would import."""
    found = []
    folders = [str(folder) for folder in _site_packages(interpreter)]
    for kind, name in _DISTRIBUTIONS.items():
        for folder in folders:
            distribution = next(
                iter(importlib.metadata.distributions(name=name, path=[folder])), None
            )
            version = _version(distribution)
            if distribution is None or version is None:
                continue
            build = _build(distribution)
            found.append(EngineFound(str(interpreter), kind, version, source, folder, build))
            break
    return tuple(found)


def _candidates(paths: Paths) -> Iterator[tuple[str, Path]]:
    """Yield source and interpreter in order of preference; only those that exist."""
    settings = load_settings(paths)
    named = (
        (settings_path(paths).name, settings.interpreter),
        (INTERPRETER_VARIABLE, os.environ.get(INTERPRETER_VARIABLE)),
        ("this interpreter", sys.executable),
    )
    for source, value in named:
        path = _interpreter(value) if value else None
        if path is not None:
            yield source, path
    for source, prefix in _prefixes(paths):
        path = _interpreter(str(prefix / "bin" / "python"))
        if path is not None:
            yield source, path
    for command in ("sglang", "vllm"):
        path = _shebang(shutil.which(command))
        if path is not None:
            yield f"{command} on PATH", path


def _prefixes(paths: Paths) -> Iterator[tuple[str, Path]]:
    for variable in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        value = os.environ.get(variable)
        if value:
            yield variable, Path(value)
    yield "./.venv", Path.cwd() / ".venv"
    home = Path.home()
    patterns: Iterable[tuple[Path, str]] = (
        (paths.state, "engines/*"),
        (home, "*venv*"),
        (home, "sglang*"),
        (home, "vllm*"),
        (home, "sglang*/.venv"),
        (home, "vllm*/.venv"),
        (home, ".venvs/*"),
        (home, "venvs/*"),
        (home, ".virtualenvs/*"),
        (home, ".local/share/virtualenvs/*"),
        (home, "*conda*/envs/*"),
        (home, "miniforge*/envs/*"),
        *_WELL_KNOWN_ROOTS,
    )
    for root, pattern in patterns:
        try:
            folders = sorted(root.glob(pattern))
        except OSError:
            continue
        for folder in folders:
            if (folder / "bin").is_dir():
                yield str(folder), folder


def _interpreter(value: str) -> Path | None:
    """Return the interpreter as it was named, made absolute; links are kept, a venv *is* one."""
    path = Path(value).expanduser()
    if os.sep not in value:
        located = shutil.which(value)
        if located is None:
            return None
        path = Path(located)
    if path.is_dir():
        path = path / "bin" / "python"
    path = Path(os.path.abspath(path))  # noqa: PTH100 (resolve() would follow the venv's link)
    return path if path.is_file() and os.access(path, os.X_OK) else None


def _site_packages(interpreter: Path) -> Iterator[Path]:
    """Yield the folders that this interpreter imports packages from."""
    prefix = interpreter.parent.parent
    configuration = prefix / "pyvenv.cfg"
    yield from _libraries(prefix)
    if configuration.is_file():
        settings = _pyvenv(configuration)
        if settings.get("include-system-site-packages", "").lower() == "true":
            home = settings.get("home")
            if home:
                yield from _libraries(Path(home).parent)
        return
    base = interpreter.resolve().parent.parent
    if base != prefix:
        yield from _libraries(base)
    if base in {Path("/usr"), Path("/usr/local")}:
        yield from _libraries(Path("/usr/local"))
        yield from _libraries(Path("/usr"))
    yield from _libraries(Path.home() / ".local")


def _libraries(prefix: Path) -> Iterator[Path]:
    for pattern in ("lib/python3*/site-packages", "lib/python3*/dist-packages"):
        yield from sorted(prefix.glob(pattern), reverse=True)
    yield from sorted(prefix.glob("lib64/python3*/site-packages"), reverse=True)


def _pyvenv(path: Path) -> dict[str, str]:
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return {}
    pairs = (line.partition("=") for line in lines if "=" in line)
    return {key.strip().lower(): value.strip() for key, _, value in pairs}


def _shebang(script: str | None) -> Path | None:
    if script is None:
        return None
    try:
        with Path(script).open("rb") as file:
            first = file.read(_SHEBANG_LIMIT).split(b"\n", 1)[0]
    except OSError:
        return None
    if not first.startswith(b"#!"):
        return None
    words = first[2:].decode("utf-8", "replace").split()
    return _interpreter(words[0]) if words and "python" in words[0] else None


def _version(distribution: importlib.metadata.Distribution | None) -> str | None:
    """Return the version; ``None`` for the remains of an uninstalled package."""
    if distribution is None:
        return None
    value = distribution.metadata["Version"]
    return clean(str(value)) if value else None


def _build(distribution: importlib.metadata.Distribution) -> str | None:
    """Return where a fork or a source checkout came from (``direct_url.json``, PEP 610)."""
    try:
        text = distribution.read_text("direct_url.json")
        data = json.loads(text) if text else None
    except (OSError, ValueError):
        return None
    if not isinstance(data, dict) or not isinstance(data.get("url"), str):
        return None
    info = data.get("vcs_info")
    commit = info.get("commit_id") if isinstance(info, dict) else None
    return clean(f"{data['url']}@{commit}" if isinstance(commit, str) else data["url"])


def _named(value: str, profile: EngineProfile, source: str) -> EngineFound:
    path = _interpreter(value)
    if path is None:
        raise _missing(value, source)
    found = engines_of(path, source)
    match = next((e for e in found if e.kind is profile.engine), None)
    if match is None:
        raise EngineError(
            t(
                "{interpreter} (from {source}) has no {engine}.",
                interpreter=str(path),
                source=source,
                engine=_DISTRIBUTIONS[profile.engine],
            ),
            t(
                "Run `{interpreter} -m pip install {engine}`, or name another Python.",
                interpreter=str(path),
                engine=_DISTRIBUTIONS[profile.engine],
            ),
        )
    return match


def _missing(value: str, source: str) -> EngineError:
    return EngineError(
        t(
            "The interpreter {interpreter} (from {source}) does not exist or cannot be run.",
            interpreter=value,
            source=source,
        ),
        t("Name the Python of the environment that has the engine: /opt/sglang/bin/python."),
    )


def _container(launch: ContainerLaunch, kind: EngineKind) -> EngineFound:
    runtime = shutil.which(launch.runtime)
    if runtime is None:
        raise EngineError(
            t("{runtime} is not installed (not found on PATH).", runtime=launch.runtime),
            t("Install it, or choose a profile that launches with a Python interpreter."),
        )
    match = _IMAGE_VERSION.search(launch.image)
    version = match[1] if match else None
    return EngineFound(runtime, kind, version, "container image", image=launch.image)


def _fits(engine: EngineFound, profile: EngineProfile) -> bool:
    if engine.version is None or profile.engine_versions is None:
        return True
    try:
        return satisfies(engine.version, profile.engine_versions)
    except InputError:
        return False
