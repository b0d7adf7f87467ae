"""The tool chain that compiles kernels at the first start: nvcc, host compiler, ninja, caches.

Everything is resolved as the engine does it: ``CUDA_HOME`` or ``CUDA_PATH``, then ``nvcc`` on
PATH, then ``/usr/local/cuda``; with the PATH that our launch gives the engine (its ``bin`` first).
"""

from __future__ import annotations

import getpass
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qwen_tui_diagnostics.probes.files import try_text
from qwen_tui_diagnostics.result import SkipReason
from qwen_tui_profiles.foreign import clean
from qwen_tui_profiles.text import t

if TYPE_CHECKING:
    from collections.abc import Mapping

    from qwen_tui_diagnostics.context import Context
    from qwen_tui_diagnostics.facts import Gathered

__all__ = ["collect", "parse_nvcc"]

TOOL_LIMIT_S = 5.0
_RELEASE = re.compile(r"release (\d+)\.(\d+)")
_GNU_LIMIT = re.compile(r"__GNUC__\s*>\s*(\d+)")
_CUDA_LIBRARY = re.compile(r"lib(cudart|cublas|nccl|cublasLt|cuda)\.so(?:\.(\d+))?")
_VERSION_FOLDER = re.compile(r"\d+\.\d+\.\d+[\w.]*")
_INCLUDE_FOLDERS = ("include", "targets/x86_64-linux/include", "targets/sbsa-linux/include")


def collect(context: Context, found: Gathered) -> None:
    """Gather ``toolkit.*``."""
    env = context.child_env
    path = _engine_path(context, env)
    root = _nvcc(context, found, env, path)
    _compiler(found, env, path, root)
    _headers(found, root)
    ninja = shutil.which("ninja", path=path)
    found.put("toolkit.ninja", ninja or "")
    _ptxas(context, found, env)
    _link(context, found, path)
    _library_path(found, env)
    _caches(context, found, env)


def _engine_path(context: Context, env: Mapping[str, str]) -> str:
    """Return the PATH of the launched engine: the interpreter's folder comes first."""
    path = env.get("PATH", os.defpath)
    interpreter = context.target.interpreter
    if interpreter:
        folder = Path(interpreter).expanduser()
        folder = folder / "bin" if folder.is_dir() else folder.parent
        path = f"{folder}{os.pathsep}{path}"
    return path


def _nvcc(context: Context, found: Gathered, env: Mapping[str, str], path: str) -> Path | None:
    """Find nvcc; return the root of its toolkit."""
    home = env.get("CUDA_HOME") or env.get("CUDA_PATH")
    name = "CUDA_HOME" if env.get("CUDA_HOME") else "CUDA_PATH"
    nvcc: Path | None = None
    found.put("toolkit.home", home or "")
    if home:
        # Taken as it stands, as the engine does: a stray colon or blank makes it miss.
        folder = Path(home)
        found.put("toolkit.home_variable", name)
        found.put("toolkit.home_exists", folder.is_dir())
        nvcc = folder / "bin/nvcc"
        origin = name
        if not os.access(nvcc, os.X_OK):
            found.put("toolkit.nvcc", "")
            found.put("toolkit.nvcc_origin", origin)
            return None
    else:
        located = shutil.which("nvcc", path=path)
        default = context.path("usr/local/cuda/bin/nvcc")
        if located is not None:
            nvcc, origin = Path(located), "PATH"
        elif os.access(default, os.X_OK):
            nvcc, origin = default, "/usr/local/cuda"
    others = sorted(
        folder.name for folder in context.path("usr/local").glob("cuda-*") if folder.is_dir()
    )
    found.put("toolkit.installed", others)
    if nvcc is None:
        found.put("toolkit.nvcc", "")
        return None
    found.put("toolkit.nvcc", str(nvcc))
    found.put("toolkit.nvcc_origin", origin)
    text = _run([str(nvcc), "--version"])
    version = None if text is None else parse_nvcc(text)
    found.put_or(
        "toolkit.nvcc_version", version, SkipReason.NO_TOOL, t("nvcc --version: no answer")
    )
    return nvcc.resolve().parent.parent


def parse_nvcc(text: str) -> list[int] | None:
    """Return ``[12, 8]`` from what ``nvcc --version`` prints."""
    match = _RELEASE.search(text)
    return [int(match[1]), int(match[2])] if match else None


def _compiler(found: Gathered, env: Mapping[str, str], path: str, root: Path | None) -> None:
    named = env.get("NVCC_CCBIN") or env.get("CXX") or env.get("CC")
    compiler = shutil.which(named or "g++", path=path) or shutil.which("c++", path=path)
    found.put("toolkit.compiler", compiler or "")
    if compiler is not None:
        text = _run([compiler, "-dumpfullversion", "-dumpversion"])
        match = re.match(r"(\d+)", text or "")
        gnu = "clang" not in Path(os.path.realpath(compiler)).name
        found.put_or(
            "toolkit.compiler_major",
            int(match[1]) if match and gnu else None,
            SkipReason.NO_TOOL,
            t("its version is not told") if gnu else t("not GCC"),
        )
    if root is not None:
        for folder in _INCLUDE_FOLDERS:
            text = try_text(root / folder / "crt/host_config.h")
            limits = [int(number) for number in _GNU_LIMIT.findall(text or "")]
            if limits:
                found.put("toolkit.compiler_limit", max(limits))
                return
    found.lack("toolkit.compiler_limit", SkipReason.UNSUPPORTED, t("no crt/host_config.h"))


def _headers(found: Gathered, root: Path | None) -> None:
    if root is None:
        found.lack("toolkit.headers_missing", SkipReason.NOT_APPLICABLE, t("no nvcc"))
        return
    folders = [root / folder for folder in _INCLUDE_FOLDERS]
    if not any((folder / "cuda_runtime.h").exists() for folder in folders):
        found.lack("toolkit.headers_missing", SkipReason.UNSUPPORTED, t("no toolkit beside nvcc"))
        return
    wanted = ("curand_kernel.h", "cuda/std/version")
    # CUDA 13 moved the C++ headers one folder down.
    missing = [
        name
        for name in wanted
        if not any((f / name).exists() or (f / "cccl" / name).exists() for f in folders)
    ]
    found.put("toolkit.headers_missing", missing)


def _ptxas(context: Context, found: Gathered, env: Mapping[str, str]) -> None:
    override = env.get("TRITON_PTXAS_PATH")
    found.put("toolkit.ptxas_override", override or "")
    if override:
        found.put("toolkit.ptxas_usable", os.access(override, os.X_OK))
    else:
        default = context.path("usr/local/cuda/bin/ptxas")
        found.put("toolkit.ptxas_default", str(default) if os.access(default, os.X_OK) else "")


def _link(context: Context, found: Gathered, path: str) -> None:
    """Is there something that ``-lcuda`` finds?"""
    tool = shutil.which("ldconfig", path=f"{path}{os.pathsep}/sbin{os.pathsep}/usr/sbin")
    listing = None if tool is None else _run([tool, "-p"])
    stubs = context.path("usr/local/cuda/lib64/stubs/libcuda.so").exists()
    if listing is None and not stubs:
        found.lack("toolkit.libcuda_link", SkipReason.NO_TOOL, t("ldconfig does not answer"))
        return
    found.put("toolkit.libcuda_link", bool(re.search(r"\blibcuda\.so ", listing or "")) or stubs)


def _library_path(found: Gathered, env: Mapping[str, str]) -> None:
    """Look for CUDA libraries that ``LD_LIBRARY_PATH`` puts before the engine's own."""
    entries = [entry for entry in env.get("LD_LIBRARY_PATH", "").split(os.pathsep) if entry]
    hits: list[dict[str, Any]] = []
    for entry in entries:
        try:
            names = os.listdir(entry)  # noqa: PTH208
        except OSError:
            continue
        libraries = {m[1]: m[2] for name in names if (m := _CUDA_LIBRARY.match(name))}
        if libraries or entry.rstrip("/").endswith(("compat", "stubs")):
            cudart = libraries.get("cudart")
            hit: dict[str, Any] = {
                "folder": entry,
                "libraries": sorted(libraries),
                "compat": entry.rstrip("/").endswith("compat"),
                "stubs": entry.rstrip("/").endswith("stubs"),
            }
            if cudart:
                hit["cudart_major"] = int(cudart)
            hits.append(hit)
    found.put("toolkit.library_path", hits)


def _caches(context: Context, found: Gathered, env: Mapping[str, str]) -> None:
    """The folders that compiled kernels go to: they are executed from there."""
    home = context.home
    try:
        user = getpass.getuser()
    except (OSError, KeyError):
        user = str(os.getuid())
    temporary = env.get("TMPDIR") or "/tmp"
    folders = {
        "flashinfer": Path(env.get("FLASHINFER_WORKSPACE_BASE") or home) / ".cache/flashinfer",
        "triton": Path(env.get("TRITON_CACHE_DIR") or home / ".triton"),
        "inductor": Path(env.get("TORCHINDUCTOR_CACHE_DIR") or f"{temporary}/torchinductor_{user}"),
        "temporary": Path(temporary),
    }
    rows: list[dict[str, Any]] = []
    for index, (name, folder) in enumerate(folders.items()):
        row: dict[str, Any] = {"name": name, "path": str(folder)}
        nearest = folder
        while not nearest.exists() and nearest != nearest.parent:
            nearest = nearest.parent
        with found.attempt(f"toolkit.caches.{index}.available_bytes"):
            stats = os.statvfs(nearest)
            row["available_bytes"] = stats.f_bavail * stats.f_frsize
            row["noexec"] = bool(stats.f_flag & os.ST_NOEXEC)
            row["writable"] = os.access(nearest, os.W_OK) and not stats.f_flag & os.ST_RDONLY
        if name == "flashinfer":
            row["versions"] = sorted(
                entry.name for entry in folder.glob("*") if _VERSION_FOLDER.fullmatch(entry.name)
            )
        rows.append(row)
    found.put("toolkit.caches", rows)


def _run(argv: list[str]) -> str | None:
    try:
        done = subprocess.run(
            argv,
            capture_output=True,
            timeout=TOOL_LIMIT_S,
            check=False,
            stdin=subprocess.DEVNULL,
            env=dict(os.environ) | {"LC_ALL": "C"},
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    if done.returncode != 0:
        return None
    return "\n".join(clean(line) for line in done.stdout.decode("utf-8", "replace").splitlines())
