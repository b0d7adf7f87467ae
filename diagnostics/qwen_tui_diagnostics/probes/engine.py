"""The engine's interpreter and what is installed in it: read from disk, never imported."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qwen_tui_diagnostics.probes.dist_info import (
    Distribution,
    Environment,
    read_distributions,
)
from qwen_tui_diagnostics.probes.engine_build import build_facts
from qwen_tui_diagnostics.probes.interpreters import (
    ENGINES,
    Surroundings,
    environment,
    is_runnable,
    locate,
)
from qwen_tui_diagnostics.result import SkipReason
from qwen_tui_profiles.errors import InputError
from qwen_tui_profiles.text import t
from qwen_tui_profiles.versions import satisfies

if TYPE_CHECKING:
    from collections.abc import Iterator

    from qwen_tui_diagnostics.context import Context
    from qwen_tui_diagnostics.facts import Gathered

__all__ = ["PACKAGES", "collect", "first_install", "search", "surroundings"]

NAMED = "named"
"""Origin of an interpreter that the profile or the command line names."""

PACKAGES = (
    "sglang", "vllm", "torch", "transformers", "triton", "sgl-kernel", "sglang-kernel",
    "flashinfer-python", "flashinfer-cubin", "flashinfer-jit-cache", "huggingface-hub", "hf-xet",
    "hf-transfer", "ninja", "nvidia-nccl-cu12", "nvidia-nccl-cu13", "xgrammar",
)  # fmt: skip


def surroundings(context: Context) -> Surroundings:
    """Return where interpreters are looked for, as a launch looks for them."""
    engine = context.target.engine
    return Surroundings(
        env=context.env,
        home=context.home,
        python=context.python,
        configured=context.configured,
        engines_folder=None if not context.state_folder else Path(context.state_folder) / "engines",
        root=context.root,
        commands=ENGINES if engine not in ENGINES else (engine,),
    )


def _candidates(context: Context) -> Iterator[tuple[Path, str]]:
    if context.target.interpreter is not None:
        # Named by the user or the profile: nothing else is searched.
        yield locate(context.target.interpreter, context.env), NAMED
        return
    yield from surroundings(context).candidates()


def collect(context: Context, found: Gathered) -> None:
    """Gather ``engine.*``: every interpreter with an engine, and the build of the first."""
    if context.target.simulated:
        found.lack("engine", SkipReason.NOT_APPLICABLE, t("the simulated engine is built in"))
        return
    if context.target.image is not None:
        found.lack("engine", SkipReason.NOT_APPLICABLE, t("the engine is in the container"))
        return
    found_here, looked, missing = search(context)
    found.put("engine.named_missing", "" if missing is None else str(missing[0]))
    if missing is not None:
        found.put("engine.named_by", missing[1])
    found.put("engine.looked_at", looked)
    found.put("engine.packages_read", list(PACKAGES))
    installs = [_install(context, item) for item in found_here]
    if found_here:
        chosen = found_here[0]
        installs[0] |= build_facts(
            context, chosen.engine, chosen.packages, chosen.environment.site_folders
        )
        installs[0] |= _python_facts(context, chosen)
    found.put("engine.installs", installs)
    if not installs:
        found.lack("engine.installs.0", SkipReason.NO_TOOL, t("no engine was found"))


def first_install(context: Context) -> Path | None:
    """Return the interpreter that a launch would use, or ``None``."""
    found, _, _ = search(context)
    return found[0].interpreter if found else None


@dataclass(frozen=True, slots=True)
class Found:
    """One interpreter that has an engine."""

    interpreter: Path
    origin: str
    engine: str
    environment: Environment
    packages: dict[str, Distribution]


def search(context: Context) -> tuple[list[Found], list[str], tuple[Path, str] | None]:
    """Look at every candidate.

    Returns:
        Those with an engine, best first; the interpreters looked at; a missing one that is named
        or configured, with where.
    """
    wanted = (context.target.engine,) if context.target.engine in ENGINES else ENGINES
    meant = {NAMED, *(origin for _, origin in context.configured)}
    seen: set[Path] = set()
    sites: set[Path] = set()
    found: list[Found] = []
    looked: list[str] = []
    missing: tuple[Path, str] | None = None
    for interpreter, origin in _candidates(context):
        # Not resolved: a virtual environment's python is a link to its base.
        place = Path(os.path.abspath(interpreter))  # noqa: PTH100
        if place in seen:
            continue
        seen.add(place)
        if not is_runnable(place):
            if origin in meant and missing is None and not found:
                missing = (place, origin)
            continue
        looked.append(str(place))
        around = environment(place, context.child_env)
        if around is None:
            continue
        packages = read_distributions(around.site_folders, PACKAGES)
        engine = next((name for name in wanted if name in packages), None)
        if engine is None:
            continue
        # Several names may lead to one environment.
        site = Path(packages[engine].folder).resolve()
        if site not in sites:
            sites.add(site)
            found.append(Found(place, origin, engine, around, packages))
    return sorted(found, key=lambda item: not _fits(context, item)), looked, missing


def _fits(context: Context, item: Found) -> bool:
    """Among discovered engines, one that the profile is written for comes first."""
    wanted = context.target.engine_versions
    named = {NAMED, *(origin for _, origin in context.configured)}
    if wanted is None or item.origin in named:
        return True
    try:
        return satisfies(item.packages[item.engine].version, wanted)
    except InputError:
        return False


def _install(context: Context, item: Found) -> dict[str, Any]:
    distribution = item.packages[item.engine]
    folder = item.interpreter.parent
    install: dict[str, Any] = {
        "interpreter": str(item.interpreter),
        "origin": item.origin,
        "engine": item.engine,
        "version": distribution.version,
        "packages": {name: package.version for name, package in item.packages.items()},
        "requires": [r for r in distribution.requires if "extra ==" not in r],
        "ninja": os.access(folder / "ninja", os.X_OK),
    }
    if item.environment.python is not None:
        install["python"] = list(item.environment.python)
    for name in ("commit", "url", "editable"):
        value = getattr(distribution, name)
        if value:
            install[name] = value
    return install


def _python_facts(context: Context, item: Found) -> dict[str, Any]:
    """Whether ``Python.h`` is there, and which packages of the user's own folder get in the way."""
    environment = item.environment
    if environment.python is None:
        return {}
    version = f"python{environment.python[0]}.{environment.python[1]}"
    prefixes = [item.interpreter.parent.parent]
    if environment.base is not None:
        prefixes.append(environment.base.parent)
    prefixes.append(item.interpreter.resolve().parent.parent)
    facts: dict[str, Any] = {
        "python_h": any((p / "include" / version / "Python.h").exists() for p in prefixes)
    }
    user_site = context.home / ".local/lib" / version / "site-packages"
    facts["user_site"] = not environment.isolated
    if not environment.isolated:
        shadows = read_distributions([user_site], ("torch", "flashinfer-python", "transformers"))
        facts["user_site_shadows"] = sorted(shadows)
    return facts
