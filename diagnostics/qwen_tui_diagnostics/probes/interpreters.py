"""Which Python interpreters there are and what each would import: one answer for doctor and launch.

A virtual environment or a conda prefix tells its packages by its layout, in a few milliseconds and
without being started. Any other interpreter (a distribution's own, a virtual environment that sees
the system's packages) is asked for its ``sys.path``; no package is imported for that.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qwen_tui_diagnostics.probes.dist_info import Environment, environment_of
from qwen_tui_diagnostics.probes.files import try_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["ENGINES", "Surroundings", "environment", "is_runnable", "locate"]

ENGINES = ("sglang", "vllm")
"""Distributions that are engines."""

_HOME_PATTERNS = (
    "*venv*", "sglang*", "vllm*", "sglang*/.venv", "vllm*/.venv", ".venvs/*", "venvs/*",
    ".virtualenvs/*", ".local/share/virtualenvs/*", "*conda*/envs/*", "miniforge*/envs/*",
)  # fmt: skip
_SYSTEM_PATTERNS = (
    ("opt", "*"), ("opt", "*/.venv"), ("opt", "*conda*/envs/*"), ("/", "sgl-workspace/*/.venv"),
)  # fmt: skip
"""Places outside the home where images and administrators put environments."""

ASK_LIMIT_S = 10.0
_ASK = (
    "import json,site,sys;"
    "print(json.dumps({'version':list(sys.version_info[:2]),'path':sys.path,"
    "'user_site':bool(site.ENABLE_USER_SITE)}))"
)
_SHEBANG = re.compile(r"#!\s*(\S+)(?:[ \t]+(\S+))?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """Where interpreters are looked for."""

    env: Mapping[str, str]
    """Environment of the user."""
    home: Path
    python: str
    """Our own interpreter."""
    configured: tuple[tuple[str, str], ...] = ()
    """Interpreters that the user's settings name, each with where it is named."""
    engines_folder: Path | None = None
    """Where environments of our own are."""
    root: Path = Path("/")
    commands: tuple[str, ...] = field(default=ENGINES)
    """Commands on ``PATH`` whose first line names an interpreter."""

    def candidates(self) -> Iterator[tuple[Path, str]]:
        """Yield what may be an interpreter with an engine, best first, with its origin."""
        for text, origin in self.configured:
            yield locate(text, self.env), origin
        yield Path(self.python), "this interpreter"
        for variable in ("VIRTUAL_ENV", "CONDA_PREFIX"):
            if self.env.get(variable):
                yield Path(self.env[variable]) / "bin/python", variable
        yield Path.cwd() / ".venv/bin/python", "./.venv"
        if self.engines_folder is not None:
            for folder in _folders(self.engines_folder, "*"):
                yield folder / "bin/python", "qwen-tui engine"
        for pattern in _HOME_PATTERNS:
            for folder in _folders(self.home, pattern):
                yield folder / "bin/python", str(folder)
        for top, pattern in _SYSTEM_PATTERNS:
            for folder in _folders(self.root / top.lstrip("/"), pattern):
                yield folder / "bin/python", str(folder)
        for command in self.commands:
            script = shutil.which(command, path=self.env.get("PATH"))
            interpreter = None if script is None else _shebang(Path(script))
            if interpreter is not None:
                yield interpreter, f"{command} on PATH"


def locate(text: str, env: Mapping[str, str]) -> Path:
    """Return the interpreter that a name, a path or the folder of an environment means.

    Absolute, and with links kept: the Python of a virtual environment *is* a link. It need not
    exist; see :func:`is_runnable`.
    """
    path = Path(text).expanduser()
    if os.sep not in text:
        found = shutil.which(text, path=env.get("PATH"))
        path = Path(found) if found is not None else path
    elif path.is_dir():
        path /= "bin/python"
    return Path(os.path.abspath(path))  # noqa: PTH100 (resolve() would follow the link)


def is_runnable(interpreter: Path) -> bool:
    """Tell whether a file is there that we may execute."""
    return interpreter.is_file() and os.access(interpreter, os.X_OK)


def environment(interpreter: Path, env: Mapping[str, str]) -> Environment | None:
    """Return what an interpreter would import from.

    Args:
        interpreter: Absolute path.
        env: The environment it would be started with; its ``PYTHONPATH`` comes first.

    Returns:
        ``None`` when the layout does not tell and the interpreter does not answer.
    """
    found = environment_of(interpreter, env)
    if found is None or found.must_ask:
        found = _asked(interpreter, env, found) or found
    if found is None:
        return None
    entries = env.get("PYTHONPATH", "").split(os.pathsep)
    first = tuple(Path(entry) for entry in entries if entry and Path(entry).is_dir())
    return replace(found, site_folders=(*first, *found.site_folders))


def _asked(
    interpreter: Path, env: Mapping[str, str], layout: Environment | None
) -> Environment | None:
    answer = _ask(interpreter, env)
    if answer is None:
        return None
    folders = tuple(Path(p) for p in answer["path"] if p and Path(p).is_dir())
    major, minor = answer["version"]
    return Environment(
        (int(major), int(minor)),
        folders,
        base=None if layout is None else layout.base,
        isolated=not answer["user_site"],
    )


def _ask(interpreter: Path, env: Mapping[str, str]) -> dict[str, Any] | None:
    """Ask an interpreter for its version and path; ``None`` when it does not answer in time.

    Without ``-I``, which would hide the packages in the home folder that a launch does see; from
    ``/``, so that no folder in the current directory shadows a module.
    """
    options = ["-E", *(["-s"] if env.get("PYTHONNOUSERSITE") else []), "-X", "utf8"]
    try:
        done = subprocess.run(
            [str(interpreter), *options, "-c", _ASK],
            capture_output=True,
            timeout=ASK_LIMIT_S,
            check=False,
            env=dict(env),
            stdin=subprocess.DEVNULL,
            cwd="/",
        )
        answer: Any = json.loads(done.stdout)
        _, _ = answer["version"]
        if not isinstance(answer["path"], list) or not isinstance(answer["user_site"], bool):
            return None
    except (OSError, ValueError, LookupError, TypeError, subprocess.TimeoutExpired):
        return None
    return dict(answer)


def _folders(root: Path, pattern: str) -> list[Path]:
    try:
        return [folder for folder in sorted(root.glob(pattern)) if (folder / "bin").is_dir()]
    except OSError:
        return []


def _shebang(script: Path) -> Path | None:
    match = _SHEBANG.match(try_text(script) or "")
    if match is None or "python" not in Path(match[2] or match[1]).name:
        return None
    return Path(match[1]) if not match[2] or not match[1].endswith("/env") else None
