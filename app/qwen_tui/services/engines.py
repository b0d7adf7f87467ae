"""Which engines there are, told from package metadata on disk; no engine is ever imported or run.

Where interpreters are looked for and what one would import is the doctor's knowledge
(``qwen_tui_diagnostics.probes.interpreters``): what it judges is what a launch starts.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from qwen_tui.services.settings import load_settings, settings_path
from qwen_tui_diagnostics.probes.dist_info import Distribution, read_distributions
from qwen_tui_diagnostics.probes.interpreters import (
    Surroundings,
    environment,
    is_runnable,
    locate,
)
from qwen_tui_profiles.errors import EngineError, InputError
from qwen_tui_profiles.profile import ContainerLaunch, EngineKind
from qwen_tui_profiles.text import t
from qwen_tui_profiles.versions import satisfies

if TYPE_CHECKING:
    from collections.abc import Mapping

    from qwen_tui.services.paths import Paths
    from qwen_tui_profiles.profile import EngineProfile

__all__ = [
    "DEMO_VERSION",
    "INTERPRETER_VARIABLE",
    "EngineFound",
    "configured_interpreters",
    "engines_of",
    "find_engines",
    "resolve_interpreter",
    "surroundings",
]

INTERPRETER_VARIABLE = "QWEN_TUI_ENGINE_PYTHON"
"""Names the engine's interpreter for this session."""

DEMO_VERSION = "0.5.23"
"""The SGLang release that the simulated engine behaves like."""

_DISTRIBUTIONS = {EngineKind.SGLANG: "sglang", EngineKind.VLLM: "vllm"}
_IMAGE_VERSION = re.compile(r":v?(\d+\.\d+\.\d+(?:[.-]?(?:rc|post)\d+)?)(?:-|$)")


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


def configured_interpreters(paths: Paths) -> tuple[tuple[str, str], ...]:
    """Return the interpreters that the settings and the session name, each with where."""
    named = (
        (load_settings(paths).interpreter, settings_path(paths).name),
        (os.environ.get(INTERPRETER_VARIABLE), INTERPRETER_VARIABLE),
    )
    return tuple((value, source) for value, source in named if value)


def surroundings(paths: Paths) -> Surroundings:
    """Return where interpreters are looked for."""
    return Surroundings(
        env=os.environ,
        home=Path.home(),
        python=sys.executable,
        configured=configured_interpreters(paths),
        engines_folder=paths.state / "engines",
    )


def find_engines(paths: Paths, env: Mapping[str, str] | None = None) -> tuple[EngineFound, ...]:
    """List the engines on this machine, best candidate first.

    Args:
        paths: Where the settings and our own environments are.
        env: What a launch adds to the environment; a ``PYTHONPATH`` in it counts.

    An interpreter that is configured but missing is left out here; :func:`resolve_interpreter`
    reports it when a launch would need it.
    """
    found: list[EngineFound] = []
    seen: set[tuple[str, EngineKind]] = set()
    looked: set[Path] = set()
    for interpreter, source in surroundings(paths).candidates():
        place = Path(os.path.abspath(interpreter))  # noqa: PTH100 (a venv's python is a link)
        if place in looked or not is_runnable(place):
            continue
        looked.add(place)
        for engine in engines_of(place, source, env):
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

    for value, source in configured_interpreters(paths):
        path = locate(value, os.environ)
        if not is_runnable(path):
            raise _missing(value, source)
        # It may hold the other engine only; that is no mistake, so the search goes on.
        for engine in engines_of(path, source, profile.env):
            if engine.kind is profile.engine:
                return engine

    discovered = [e for e in find_engines(paths, profile.env) if e.kind is profile.engine]
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


def engines_of(
    interpreter: Path, source: str, env: Mapping[str, str] | None = None
) -> tuple[EngineFound, ...]:
    """Return the engines that an interpreter would import when started with ``env`` added."""
    around = environment(interpreter, {**os.environ, **(env or {})})
    if around is None:
        return ()
    packages = read_distributions(around.site_folders, _DISTRIBUTIONS.values())
    return tuple(
        EngineFound(
            str(interpreter),
            kind,
            packages[name].version,
            source,
            str(Path(packages[name].folder).parent),
            _build(packages[name]),
        )
        for kind, name in _DISTRIBUTIONS.items()
        if name in packages
    )


def _build(distribution: Distribution) -> str | None:
    """Return where a fork or a source checkout came from (``direct_url.json``, PEP 610)."""
    if distribution.url is None or distribution.commit is None:
        return distribution.url
    return f"{distribution.url}@{distribution.commit}"


def _named(value: str, profile: EngineProfile, source: str) -> EngineFound:
    path = locate(value, os.environ)
    if not is_runnable(path):
        raise _missing(value, source)
    found = engines_of(path, source, profile.env)
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
