"""The flags of an engine that is installed here, read from its own source and kept in the cache.

A fork or a release newer than our tables may have other flags than we know; the installed package
is the authority. Reading it costs a few tenths of a second once per interpreter and version.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from qwen_tui.services.paths import write_private
from qwen_tui_profiles.flags import FlagTable
from qwen_tui_profiles.flags.source import read_sglang, read_vllm
from qwen_tui_profiles.flags.spec import Arity, FlagSpec
from qwen_tui_profiles.profile import EngineKind

if TYPE_CHECKING:
    from qwen_tui.services.engines import EngineFound
    from qwen_tui.services.paths import Paths

__all__ = ["installed_flags"]

_READERS = {
    EngineKind.SGLANG: (read_sglang, "sglang/srt/server_args.py"),
    EngineKind.VLLM: (read_vllm, "vllm/engine/arg_utils.py"),
}
_FORMAT = 2


def installed_flags(engine: EngineFound, paths: Paths) -> FlagTable | None:
    """Return the flags of an installed engine.

    Returns:
        None when they cannot be read (a container, a compiled or partial installation): the tables
        of the releases have to do then.
    """
    reader = _READERS.get(engine.kind)
    if reader is None or engine.site_packages is None or engine.version is None:
        return None
    read, marker = reader
    root = next((r for r in _roots(engine) if (r / marker).is_file()), None)
    if root is None:
        return None
    try:
        changed = (root / marker).stat().st_mtime_ns
    except OSError:
        return None
    key = hashlib.sha256(f"{root}\0{engine.version}\0{changed}".encode()).hexdigest()[:24]
    cached = paths.cache / "flags" / f"{key}.json"
    flags = _load(cached)
    if flags is None:
        try:
            flags = read(root)
        except (OSError, SyntaxError, ValueError, RecursionError):
            return None
        if len(flags) < 50:
            # Neither engine ever had so few: the source is written in a way that we cannot read.
            return None
        _store(paths, cached, flags)
    return FlagTable(engine.kind.value, engine.version, flags)


def _roots(engine: EngineFound) -> tuple[Path, ...]:
    """Return where the package may lie: site-packages, or the checkout of an editable one."""
    roots = [Path(engine.site_packages or "")]
    parts = urlsplit((engine.build or "").partition("@")[0])
    if parts.scheme == "file":
        checkout = Path(unquote(parts.path))
        # SGLang keeps its package below `python/`; `pip install -e ./python` names that folder.
        roots += [checkout, checkout / "python"]
    return tuple(roots)


def _load(path: Path) -> tuple[FlagSpec, ...] | None:
    try:
        rows = json.loads(path.read_text(encoding="utf-8"))
        if rows["format"] != _FORMAT:
            return None
        return tuple(
            FlagSpec(
                tuple(names),
                Arity(arity),
                None if choices is None else tuple(choices),
                use,
                refused,
                number,
            )
            for names, arity, choices, use, refused, number in rows["flags"]
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _store(paths: Paths, path: Path, flags: tuple[FlagSpec, ...]) -> None:
    rows = [[f.names, f.arity.value, f.choices, f.use, f.refused, f.number] for f in flags]
    try:
        paths.make(path.parent)
        write_private(path, json.dumps({"format": _FORMAT, "flags": rows}).encode())
    except OSError:
        return  # a cache that cannot be written costs time, nothing else
