"""Installed distributions, read from ``*.dist-info`` without importing anything."""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qwen_tui_diagnostics.probes.files import read_text, try_text
from qwen_tui_profiles.foreign import clean, redact

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

__all__ = ["Distribution", "Environment", "canonical", "environment_of", "read_distributions"]

_RUNS = re.compile(r"[-_.]+")
_CHANGES_PATH = re.compile(r"addsitedir|sys\.path")


def canonical(name: str) -> str:
    """Return a distribution's name as indexes compare it (PEP 503)."""
    return _RUNS.sub("-", name).lower()


@dataclass(frozen=True, slots=True)
class Distribution:
    """One installed distribution."""

    name: str
    version: str
    folder: str
    requires: tuple[str, ...] = ()
    """``Requires-Dist`` as written."""
    commit: str | None = None
    """From ``direct_url.json``: installed from a source tree."""
    url: str | None = None
    editable: bool = False


@dataclass(frozen=True, slots=True)
class Environment:
    """A Python environment as found on disk."""

    python: tuple[int, int] | None
    site_folders: tuple[Path, ...]
    """In the order of ``sys.path``, with what ``.pth`` files add."""
    must_ask: bool = False
    """There is more than the layout tells: the packages of its base installation, or a ``.pth``
    file that runs code to find folders."""
    base: Path | None = None
    """Folder of the interpreter that a virtual environment was made from."""
    isolated: bool = False
    """It does not see the packages in the user's home (a virtual environment)."""


def environment_of(interpreter: Path, env: Mapping[str, str] | None = None) -> Environment | None:
    """Find the site-packages of an interpreter by the layout of its prefix.

    Args:
        interpreter: Absolute path.
        env: The environment that it would be started with.

    Returns:
        ``None`` when the layout does not tell (a distribution's own Python); ask the interpreter.
    """
    prefix = interpreter.parent.parent
    settings = _pyvenv(prefix)
    if settings is None and not (prefix / "conda-meta").is_dir():
        return None
    folders = [
        folder
        for lib in ("lib", "lib64")
        for folder in sorted((prefix / lib).glob("python3*/site-packages"))
        if folder.is_dir()
    ]
    unique = {folder.resolve(): folder for folder in folders}
    if not unique:
        return None
    match = re.fullmatch(r"python(\d+)\.(\d+)t?", next(iter(unique.values())).parent.name)
    isolated = settings is not None or bool((env or {}).get("PYTHONNOUSERSITE"))
    if not isolated and match is not None and env is not None and env.get("HOME"):
        user_site = Path(env["HOME"]) / ".local/lib" / match[0] / "site-packages"
        if user_site.is_dir():
            unique = {user_site.resolve(): user_site} | unique
    must_ask = (settings or {}).get("include-system-site-packages", "").lower() == "true"
    sites = tuple(unique.values())
    for site in sites:
        added, runs_code = _path_files(site)
        must_ask = must_ask or runs_code
        for folder in added:
            unique.setdefault(folder.resolve(), folder)
    return Environment(
        python=(int(match[1]), int(match[2])) if match else None,
        site_folders=tuple(unique.values()),
        must_ask=must_ask,
        base=Path(settings["home"]) if settings and "home" in settings else None,
        isolated=isolated and not must_ask,
    )


def _path_files(site: Path) -> tuple[list[Path], bool]:
    """Return the folders that ``.pth`` files add, and whether one of them runs code to add more.

    As the ``site`` module does: a line is a folder, relative to where the file is; lines that begin
    with ``import`` are run; the files of an added folder are not read.
    """
    found: list[Path] = []
    runs_code = False
    for line in _path_lines(site):
        if line.startswith(("import ", "import\t")):
            runs_code = runs_code or _CHANGES_PATH.search(line) is not None
            continue
        folder = Path(os.path.abspath(site / line))  # noqa: PTH100 (links are kept, as Python does)
        if folder.is_dir():
            found.append(folder)
    return found, runs_code


def _path_lines(site: Path) -> Iterator[str]:
    try:
        files = sorted(entry for entry in site.iterdir() if entry.name.endswith(".pth"))
    except OSError:
        return
    for file in files:
        if file.name.startswith("."):
            continue
        for line in (try_text(file) or "").splitlines():
            if line.strip() and not line.startswith("#"):
                yield line.rstrip()


def read_distributions(
    folders: Iterable[Path], names: Iterable[str] | None = None
) -> dict[str, Distribution]:
    """Read the metadata of distributions; the first folder that has one wins, as on ``sys.path``.

    Args:
        folders: site-packages folders in the order of ``sys.path``.
        names: Canonical names to read; ``None`` = all.
    """
    wanted = None if names is None else set(names)
    found: dict[str, Distribution] = {}
    for folder in folders:
        try:
            entries = [entry for entry in folder.iterdir() if entry.name.endswith(".dist-info")]
        except OSError:
            continue
        for entry in entries:
            name = canonical(entry.name.rpartition("-")[0].rpartition("-")[0] or entry.name[:-10])
            guess = canonical(entry.name[: -len(".dist-info")].partition("-")[0])
            if wanted is not None and guess not in wanted and name not in wanted:
                continue
            distribution = _read(entry)
            if distribution is not None:
                found.setdefault(canonical(distribution.name), distribution)
    return found


def _read(entry: Path) -> Distribution | None:
    try:
        text = read_text(entry / "METADATA")
    except OSError:
        return None
    header = text.partition("\n\n")[0]
    name = version = ""
    requires: list[str] = []
    for line in header.splitlines():
        key, colon, value = line.partition(": ")
        if not colon:
            continue
        if key == "Name":
            name = clean(value.strip())
        elif key == "Version":
            version = clean(value.strip())
        elif key == "Requires-Dist":
            requires.append(clean(value.strip()))
    if not name or not version:
        return None
    commit, url, editable = _direct_url(entry)
    return Distribution(name, version, str(entry), tuple(requires), commit, url, editable)


def _direct_url(entry: Path) -> tuple[str | None, str | None, bool]:
    text = try_text(entry / "direct_url.json")
    if text is None:
        return None, None, False
    try:
        document: Any = json.loads(text)
        url = redact(clean(str(document.get("url", ""))))
        vcs = document.get("vcs_info") or {}
        commit = clean(str(vcs["commit_id"])) if "commit_id" in vcs else None
        editable = bool((document.get("dir_info") or {}).get("editable"))
    except (ValueError, AttributeError, TypeError):
        return None, None, False
    return commit, url or None, editable


def _pyvenv(prefix: Path) -> dict[str, str] | None:
    text = try_text(prefix / "pyvenv.cfg")
    if text is None:
        return None
    pairs = (line.split("=", 1) for line in text.splitlines() if "=" in line)
    return {key.strip().lower(): value.strip() for key, value in pairs}
