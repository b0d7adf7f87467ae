"""The engine's interpreter and what is installed in it: read from disk, never imported."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qwen_tui_diagnostics.probes.dist_info import (
    Distribution,
    Environment,
    environment_of,
    read_distributions,
)
from qwen_tui_diagnostics.probes.files import try_text
from qwen_tui_diagnostics.result import SkipReason

if TYPE_CHECKING:
    from qwen_tui_diagnostics.context import Context
    from qwen_tui_diagnostics.facts import Gathered

__all__ = ["PACKAGES", "candidates", "collect"]

ENGINES = ("sglang", "vllm")

PACKAGES = (
    "sglang", "vllm", "torch", "transformers", "triton", "sgl-kernel", "sglang-kernel",
    "flashinfer-python", "flashinfer-cubin", "flashinfer-jit-cache", "huggingface-hub", "hf-xet",
    "hf-transfer", "ninja", "nvidia-nccl-cu12", "nvidia-nccl-cu13", "xgrammar",
)  # fmt: skip

ASK_LIMIT_S = 10.0
# -I keeps a folder called `sglang` in the current directory from shadowing the installed one.
_ASK = (
    "import json,site,sys,sysconfig;"
    "print(json.dumps({'version':list(sys.version_info[:3]),'path':sys.path,"
    "'user_site':bool(site.ENABLE_USER_SITE),'include':sysconfig.get_path('include')}))"
)


def candidates(context: Context) -> list[tuple[Path, str]]:
    """Return the interpreters that may hold the engine, in order, and where each comes from."""
    target, env = context.target, context.env
    if target.interpreter is not None:
        # Named by the user or the profile: nothing else is searched.
        return [(_program(target.interpreter, context), "named")]
    listed: list[tuple[Path, str]] = []
    for variable in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        if env.get(variable):
            listed.append((Path(env[variable]) / "bin/python", variable))
    listed.append((Path.cwd() / ".venv/bin/python", "./.venv"))
    for engine in ENGINES if target.engine is None else (target.engine,):
        script = shutil.which(engine, path=env.get("PATH"))
        interpreter = None if script is None else _shebang(Path(script))
        if interpreter is not None:
            listed.append((interpreter, f"the command {engine} on PATH"))
    if context.state_folder:
        environments = Path(context.state_folder).parent
        for pattern in ("engines/*/bin/python", "*/engines/*/bin/python"):
            listed += [(path, "qwen-tui engine") for path in sorted(environments.glob(pattern))]
    listed.append((Path(context.python), "qwen-tui's own"))
    for name in ("python3", "python"):
        found = shutil.which(name, path=env.get("PATH"))
        if found is not None:
            listed.append((Path(found), f"{name} on PATH"))
    return listed


def collect(context: Context, found: Gathered) -> None:
    """Gather ``engine.*``: every interpreter with an engine, and the packages of the first."""
    if context.target.simulated:
        found.lack("engine", SkipReason.NOT_APPLICABLE, "the simulated engine is built in")
        return
    wanted = (context.target.engine,) if context.target.engine in ENGINES else ENGINES
    seen: set[Path] = set()
    installs: list[dict[str, Any]] = []
    looked: list[str] = []
    for interpreter, origin in candidates(context):
        # Not resolved: a virtual environment's python is a link to its base.
        place = Path(os.path.abspath(interpreter))  # noqa: PTH100
        if place in seen:
            continue
        seen.add(place)
        if not os.access(place, os.X_OK):
            if origin == "named":
                found.put("engine.named_missing", str(interpreter))
            continue
        looked.append(str(place))
        environment = _environment(context, place)
        if environment is None:
            continue
        packages = read_distributions(environment.site_folders, PACKAGES)
        if any(engine in packages for engine in wanted):
            installs.append(_install(place, origin, environment, packages))
    found.put("engine.looked_at", looked)
    found.put("engine.installs", installs)


def _install(
    interpreter: Path, origin: str, environment: Environment, packages: dict[str, Distribution]
) -> dict[str, Any]:
    install: dict[str, Any] = {
        "interpreter": str(interpreter),
        "origin": origin,
        "site_folders": [str(folder) for folder in environment.site_folders],
        "packages": {name: found.version for name, found in packages.items()},
    }
    if environment.python is not None:
        install["python"] = list(environment.python)
    for engine in ENGINES:
        if engine in packages:
            distribution = packages[engine]
            install.setdefault("engine", engine)
            install["requires"] = list(distribution.requires)
            for name in ("commit", "url", "editable"):
                value = getattr(distribution, name)
                if value:
                    install[name] = value
            break
    return install


def _environment(context: Context, interpreter: Path) -> Environment | None:
    environment = environment_of(interpreter)
    if environment is not None and not environment.system_site:
        return environment
    answer = ask(context, interpreter)
    if answer is None:
        return environment
    folders = tuple(Path(p) for p in answer["path"] if p and Path(p).is_dir())
    version = answer["version"]
    return Environment((int(version[0]), int(version[1])), folders)


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
