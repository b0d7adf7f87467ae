"""The engine's interpreter and what is installed in it: read from disk, never imported."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qwen_tui_diagnostics.probes.dist_info import (
    Distribution,
    Environment,
    environment_of,
    read_distributions,
)
from qwen_tui_diagnostics.probes.engine_build import build_facts
from qwen_tui_diagnostics.probes.files import try_text
from qwen_tui_diagnostics.result import SkipReason
from qwen_tui_profiles.errors import InputError
from qwen_tui_profiles.versions import satisfies

if TYPE_CHECKING:
    from collections.abc import Iterator

    from qwen_tui_diagnostics.context import Context
    from qwen_tui_diagnostics.facts import Gathered

__all__ = ["PACKAGES", "candidates", "collect", "first_install", "search"]

ENGINES = ("sglang", "vllm")

PACKAGES = (
    "sglang", "vllm", "torch", "transformers", "triton", "sgl-kernel", "sglang-kernel",
    "flashinfer-python", "flashinfer-cubin", "flashinfer-jit-cache", "huggingface-hub", "hf-xet",
    "hf-transfer", "ninja", "nvidia-nccl-cu12", "nvidia-nccl-cu13", "xgrammar",
)  # fmt: skip

_HOME_PATTERNS = (
    "*venv*", "sglang*", "vllm*", "sglang*/.venv", "vllm*/.venv", ".venvs/*", "venvs/*",
    ".virtualenvs/*", ".local/share/virtualenvs/*", "*conda*/envs/*", "miniforge*/envs/*",
)  # fmt: skip
_SYSTEM_PATTERNS = (
    ("opt", "*"), ("opt", "*/.venv"), ("opt", "*conda*/envs/*"), ("/", "sgl-workspace/*/.venv"),
)  # fmt: skip

ASK_LIMIT_S = 10.0
# -I keeps a folder called `sglang` in the current directory from shadowing the installed one.
_ASK = (
    "import json,site,sys,sysconfig;"
    "print(json.dumps({'version':list(sys.version_info[:3]),'path':sys.path,"
    "'user_site':bool(site.ENABLE_USER_SITE),'include':sysconfig.get_path('include')}))"
)


def candidates(context: Context) -> Iterator[tuple[Path, str]]:
    """Yield the interpreters that may hold the engine, in the order of a launch, with their origin.

    The launch itself (``services.engines``) searches in the same order.
    """
    target, env = context.target, context.env
    if target.interpreter is not None:
        # Named by the user or the profile: nothing else is searched.
        yield _program(target.interpreter, context), "named"
        return
    for path, origin in context.configured:
        yield _program(path, context), origin
    yield Path(context.python), "this interpreter"
    for variable in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        if env.get(variable):
            yield Path(env[variable]) / "bin/python", variable
    yield Path.cwd() / ".venv/bin/python", "./.venv"
    if context.state_folder:
        for folder in _folders(Path(context.state_folder), "engines/*"):
            yield folder / "bin/python", "qwen-tui engine"
    for pattern in _HOME_PATTERNS:
        for folder in _folders(context.home, pattern):
            yield folder / "bin/python", str(folder)
    for root, pattern in _SYSTEM_PATTERNS:
        for folder in _folders(context.path(root), pattern):
            yield folder / "bin/python", str(folder)
    for engine in ENGINES if target.engine is None else (target.engine,):
        script = shutil.which(engine, path=env.get("PATH"))
        interpreter = None if script is None else _shebang(Path(script))
        if interpreter is not None:
            yield interpreter, f"{engine} on PATH"


def collect(context: Context, found: Gathered) -> None:
    """Gather ``engine.*``: every interpreter with an engine, and the build of the first."""
    if context.target.simulated:
        found.lack("engine", SkipReason.NOT_APPLICABLE, "the simulated engine is built in")
        return
    if context.target.image is not None:
        found.lack("engine", SkipReason.NOT_APPLICABLE, "the engine is in the container")
        return
    found_here, looked, missing = search(context)
    found.put("engine.named_missing", "" if missing is None else str(missing))
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
        found.lack("engine.installs.0", SkipReason.NO_TOOL, "no engine was found")


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


def search(context: Context) -> tuple[list[Found], list[str], Path | None]:
    """Look at every candidate.

    Returns:
        Those with an engine, best first; the interpreters looked at; a named one that is missing.
    """
    wanted = (context.target.engine,) if context.target.engine in ENGINES else ENGINES
    seen: set[Path] = set()
    sites: set[Path] = set()
    found: list[Found] = []
    looked: list[str] = []
    missing: Path | None = None
    for interpreter, origin in candidates(context):
        # Not resolved: a virtual environment's python is a link to its base.
        place = Path(os.path.abspath(interpreter))  # noqa: PTH100
        if place in seen:
            continue
        seen.add(place)
        if not os.access(place, os.X_OK) or not place.is_file():
            missing = place if origin == "named" else missing
            continue
        looked.append(str(place))
        environment = _environment(context, place)
        if environment is None:
            continue
        packages = read_distributions(environment.site_folders, PACKAGES)
        engine = next((name for name in wanted if name in packages), None)
        if engine is None:
            continue
        # Several names may lead to one environment.
        site = Path(packages[engine].folder).resolve()
        if site not in sites:
            sites.add(site)
            found.append(Found(place, origin, engine, environment, packages))
    return sorted(found, key=lambda item: not _fits(context, item)), looked, missing


def _fits(context: Context, item: Found) -> bool:
    """Among discovered engines, one that the profile is written for comes first."""
    wanted = context.target.engine_versions
    named = {"named", *(origin for _, origin in context.configured)}
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
    isolated = environment.isolated or bool(context.child_env.get("PYTHONNOUSERSITE"))
    facts["user_site"] = not isolated
    if not isolated:
        shadows = read_distributions([user_site], ("torch", "flashinfer-python", "transformers"))
        facts["user_site_shadows"] = sorted(shadows)
    return facts


def _folders(root: Path, pattern: str) -> list[Path]:
    try:
        return [folder for folder in sorted(root.glob(pattern)) if (folder / "bin").is_dir()]
    except OSError:
        return []


def _environment(context: Context, interpreter: Path) -> Environment | None:
    environment = environment_of(interpreter)
    if environment is None or environment.system_site:
        answer = ask(context, interpreter)
        if answer is not None:
            folders = tuple(Path(p) for p in answer["path"] if p and Path(p).is_dir())
            version = answer["version"]
            environment = Environment((int(version[0]), int(version[1])), folders)
    if environment is None:
        return None
    # A launch inherits PYTHONPATH, and what lies there is imported first.
    entries = context.child_env.get("PYTHONPATH", "").split(os.pathsep)
    first = tuple(Path(entry) for entry in entries if entry and Path(entry).is_dir())
    return replace(environment, site_folders=(*first, *environment.site_folders))


def ask(context: Context, interpreter: Path) -> dict[str, Any] | None:
    """Ask an interpreter for its version and path; ``None`` when it does not answer in time."""
    try:
        done = subprocess.run(
            [str(interpreter), "-I", "-X", "utf8", "-c", _ASK],
            capture_output=True,
            timeout=ASK_LIMIT_S,
            check=False,
            env=dict(context.env),
            stdin=subprocess.DEVNULL,
        )
        answer: Any = json.loads(done.stdout)
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return None
    if not isinstance(answer, dict) or not {"version", "path"} <= set(answer):
        return None
    return answer


def _program(text: str, context: Context) -> Path:
    path = Path(text).expanduser()
    if path.is_dir():
        return path / "bin/python"
    if path.parent == Path():
        found = shutil.which(text, path=context.env.get("PATH"))
        return Path(found) if found else path
    return path


def _shebang(script: Path) -> Path | None:
    text = try_text(script)
    match = re.match(r"#!\s*(\S+)(?:[ \t]+(\S+))?", text or "")
    if match is None or "python" not in Path(match[2] or match[1]).name:
        return None
    return Path(match[1]) if not match[2] or not match[1].endswith("/env") else None
