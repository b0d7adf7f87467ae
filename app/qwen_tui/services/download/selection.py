"""Which files of a repository are wanted: patterns, and what an engine would open."""

from __future__ import annotations

import json
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["INDEX_NAME", "by_patterns", "indexed_files", "is_weight", "loaded_only"]

INDEX_NAME = "model.safetensors.index.json"

_WEIGHT_SUFFIXES = (
    *(".safetensors", ".bin", ".pt", ".pth", ".gguf", ".ggml", ".onnx", ".onnx_data", ".h5"),
    *(".msgpack", ".ckpt", ".npz", ".mlx", ".tflite", ".ot", ".nemo", ".llamafile"),
)
_BESIDE_THE_INDEX = ("adapter_model.safetensors", "joint_head.safetensors", "readout.safetensors")
"""Files that stand beside the index on purpose and are opened by name."""
_SMALL_WEIGHT_NAMES = ("training_args.bin", "optimizer.bin", "optimizer.pt", "scheduler.pt")


def by_patterns(paths: Iterable[str], include: Sequence[str], exclude: Sequence[str]) -> list[str]:
    """Return the paths that match ``include`` (all when empty) and not ``exclude``.

    As in the Hub's own client, a pattern that ends with ``/`` takes the whole folder.
    """
    wanted = [p + "*" if p.endswith("/") else p for p in include]
    unwanted = [p + "*" if p.endswith("/") else p for p in exclude]
    return [
        path
        for path in paths
        if (not wanted or any(fnmatchcase(path, p) for p in wanted))
        and not any(fnmatchcase(path, p) for p in unwanted)
    ]


def indexed_files(index: bytes) -> frozenset[str] | None:
    """Return the files that an index names; ``None`` when it cannot be read."""
    try:
        mapping = json.loads(index)["weight_map"]
        return frozenset(str(name) for name in mapping.values())
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def loaded_only(
    paths: Sequence[str], indexed: frozenset[str] | None
) -> tuple[list[str], list[str]]:
    """Split paths into those that an engine opens or a person needs, and weights it never opens.

    Args:
        paths: All candidate paths.
        indexed: Files that the index names; ``None`` = there is no (readable) index.

    Returns:
        Kept and left-out paths. The index itself is always kept, and so is everything that is
        not weights. Weights are opened in the top folder only: safetensors, else ``.bin``, else
        ``.pt``; with an index, only the files that it names.
    """
    weights = [p for p in paths if is_weight(p)]
    top = [p for p in weights if "/" not in p]
    opened: set[str] = set()
    for suffix in (".safetensors", ".bin", ".pt"):
        found = [p for p in top if p.endswith(suffix) and p not in _SMALL_WEIGHT_NAMES]
        if found:
            opened = set(found)
            break
    if indexed is not None and indexed & opened:
        opened &= indexed | set(_BESIDE_THE_INDEX)
    elif indexed is None and "model.safetensors" in opened and _only_consolidated(opened):
        opened -= {p for p in opened if p.startswith("consolidated")}
    out = [p for p in weights if p not in opened]
    dropped = set(out)
    return [p for p in paths if p not in dropped], out


def _only_consolidated(opened: set[str]) -> bool:
    return all(p == "model.safetensors" or p.startswith("consolidated") for p in opened)


def is_weight(path: str) -> bool:
    """Whether a name is that of weights, in whatever format."""
    name = path.rsplit("/", 1)[-1].lower()
    return name.endswith(_WEIGHT_SUFFIXES)
