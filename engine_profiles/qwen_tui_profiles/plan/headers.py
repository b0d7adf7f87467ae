"""Sizes of a checkpoint's tensors, from the safetensors headers alone.

The engine loads the files that the index names, or every ``*.safetensors`` of the folder when there
is no index. Nothing is mapped or read beyond the headers.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from qwen_tui_profiles.errors import InputError
from qwen_tui_profiles.foreign import clean
from qwen_tui_profiles.plan.fusing import fused_name
from qwen_tui_profiles.safetensors_header import LARGEST_HEADER_BYTES, HeaderError, parse_header
from qwen_tui_profiles.text import t

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["StoredSizes", "has_weights", "read_stored_sizes"]

_LARGEST_INDEX_BYTES = 200_000_000
_INDEX = "model.safetensors.index.json"


@dataclass(frozen=True, slots=True)
class StoredSizes:
    """Bytes of a checkpoint by part."""

    target_bytes: int
    """Text model with embedding and output head, without MTP head, vision tower and PLE table."""
    draft_bytes: int
    """Tensors of the MTP head (``mtp.*``)."""
    vision_bytes: int
    head_bytes: int
    """Part of ``target_bytes`` in ``lm_head``."""
    embed_bytes: int
    """Part of ``target_bytes`` in ``embed_tokens``."""
    table_bytes: int
    """The n-gram table of the PLE layers, which may live outside the card."""
    tensors: int
    files: int
    draft_owns_embedding: bool = False
    """The MTP head has an embedding or output head of its own."""
    target_sizes: tuple[int, ...] = ()
    """Bytes of target and vision tower, tensor by tensor as the engine stacks them."""
    draft_sizes: tuple[int, ...] = ()
    """The same of the MTP head."""


def has_weights(folder: Path) -> bool:
    """Tell whether a folder holds safetensors files or an index that names some."""
    return (folder / _INDEX).is_file() or any(folder.glob("*.safetensors"))


def read_stored_sizes(folder: Path) -> StoredSizes:
    """Add up the tensors of every file that the engine would open.

    Raises:
        InputError: A file is missing, too short, or its header cannot be read.
    """
    target = draft = vision = head = embed = table = tensors = 0
    loaded: dict[str, int] = {}
    drafted: dict[str, int] = {}
    owns = False
    paths = _files(folder)
    for path in paths:
        for name, size in _tensors(path):
            tensors += 1
            if "ngram_embedding" not in name:
                stacked = drafted if name.startswith("mtp.") else loaded
                key = fused_name(name)
                stacked[key] = stacked.get(key, 0) + size
            if name.startswith("mtp."):
                draft += size
                owns = owns or "embed_tokens" in name or "lm_head" in name
            elif ".visual." in name or name.startswith("visual."):
                vision += size
            elif "ngram_embedding" in name:
                table += size
            else:
                target += size
                if name.startswith("lm_head."):
                    head += size
                elif ".embed_tokens." in name or name.startswith("embed_tokens."):
                    embed += size
    return StoredSizes(
        target,
        draft,
        vision,
        head,
        embed,
        table,
        tensors,
        len(paths),
        owns,
        tuple(loaded.values()),
        tuple(drafted.values()),
    )


def _files(folder: Path) -> list[Path]:
    index = folder / _INDEX
    if not index.is_file():
        paths = sorted(folder.glob("*.safetensors"))
        if not paths:
            raise InputError(
                t("{folder} holds no safetensors files.", folder=clean(str(folder))),
                t("Name the folder of a downloaded checkpoint with --model."),
            )
        return paths
    if index.stat().st_size > _LARGEST_INDEX_BYTES:
        raise InputError(
            t("{path} is larger than 200 MB.", path=clean(str(index))),
            t("Download the index again."),
        )
    document = _json(index.read_bytes(), index)
    names = document.get("weight_map")
    if not isinstance(names, Mapping) or not names:
        raise InputError(
            t("{path} has no weight_map.", path=clean(str(index))),
            t("Download the index again, or delete it if every file of the folder belongs."),
        )
    paths = []
    for name in sorted({str(value) for value in names.values()}):
        path = folder / name
        if "/" in name or not path.is_file():
            raise InputError(
                t(
                    "{name} is named by the index but is not in {folder}.",
                    name=clean(name),
                    folder=clean(str(folder)),
                ),
                t("Finish the download (qwen-tui download), then plan again."),
            )
        paths.append(path)
    return paths


def _tensors(path: Path) -> Iterator[tuple[str, int]]:
    """Yield name and bytes of every tensor that a header declares."""
    try:
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            size = os.fstat(file.fileno()).st_size
            if size < 8 or not 2 <= length <= min(LARGEST_HEADER_BYTES, size - 8):
                raise InputError(
                    t(
                        "{name} has no valid safetensors header ({size} bytes in the file).",
                        name=clean(path.name),
                        size=size,
                    ),
                    t("Run qwen-tui verify on the folder, then download the file again."),
                )
            raw = file.read(length)
    except OSError as error:
        raise InputError(
            t(
                "{name} cannot be read: {cause}.",
                name=clean(path.name),
                cause=error.strerror or "I/O error",
            ),
            t("Check the permissions of the checkpoint folder."),
        ) from error
    try:
        header = parse_header(raw)
    except HeaderError as error:
        raise InputError(
            t("{name}: the header is damaged: {cause}.", name=clean(path.name), cause=error.text),
            t("Run qwen-tui verify on the folder, then download the file again."),
        ) from error
    for name, entry in header.tensors.items():
        yield name, entry.size_bytes


def _json(data: bytes, path: Path) -> dict[str, object]:
    try:
        document = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise InputError(
            t(
                "{name} is not valid JSON: {cause}.",
                name=clean(path.name),
                cause=clean(str(error))[:120],
            ),
            t("Run qwen-tui verify on the folder, then download the file again."),
        ) from error
    if not isinstance(document, dict):
        raise InputError(
            t("{name} does not hold a JSON object.", name=clean(path.name)),
            t("Run qwen-tui verify on the folder, then download the file again."),
        )
    return document
