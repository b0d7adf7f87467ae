"""The sampling pass: a few kilobytes of every quantized tensor (rules S).

Scales that are NaN, infinite or zero throughout, and weights that are zero wherever they were
looked at: what a header cannot tell and a hash can only compare.
"""

from __future__ import annotations

import math
import struct
from typing import TYPE_CHECKING

from qwen_tui_diagnostics.checkpoint.phrases import group_names
from qwen_tui_profiles.text import t

if TYPE_CHECKING:
    from collections.abc import Iterator

    from qwen_tui_diagnostics.checkpoint.judge import Judgement
    from qwen_tui_profiles.safetensors_header import TensorEntry

__all__ = ["check_samples"]

_SAMPLE_BYTES = 4096
_SCALES = (
    ".weight_scale", ".weight_scale_inv", ".weight_scale_2", ".weight_global_scale",
    ".input_global_scale", ".input_scale", ".scales", ".pre_quant_scale",
)  # fmt: skip
_WEIGHTS = (".weight_packed", ".qweight", ".weight")
_FLOATS = {"F32": ("f", 4), "F16": ("e", 2), "F64": ("d", 8)}


_TROUBLES = {
    "NaN or infinite": t("NaN or infinite"),
    "NaN": t("NaN"),
    "all zero": t("all zero"),
}


def check_samples(j: Judgement) -> None:
    """Read samples of scales and quantized weights."""
    broken: dict[str, list[tuple[str, str]]] = {}
    empty: list[tuple[str, str]] = []
    for name, key, entry in _wanted(j):
        pieces = _pieces(j, name, entry)
        if not pieces:
            continue
        data = b"".join(pieces)
        if key.endswith(_SCALES):
            trouble = _scale_trouble(entry.dtype, data)
            if trouble is not None:
                broken.setdefault(trouble, []).append((key, name))
        elif not any(data):
            empty.append((key, name))
    for trouble, found in broken.items():
        keys = [key for key, _ in found]
        j.found.add(
            "S01",
            evidence=t("{key}: {trouble}", key=keys[0], trouble=_TROUBLES[trouble]),
            detail=t("{tensors}: {trouble}", tensors="; ".join(group_names(keys)[:4]),
                     trouble=_TROUBLES[trouble]),
            tensors=keys,
            count=len(keys),
            files=[name for _, name in found],
        )  # fmt: skip
    if empty:
        keys = [key for key, _ in empty]
        j.found.add(
            "S02",
            evidence=keys[0],
            detail=t("{tensors}", tensors="; ".join(group_names(keys)[:4])),
            tensors=keys,
            count=len(keys),
            files=[name for _, name in empty],
        )


def _wanted(j: Judgement) -> Iterator[tuple[str, str, TensorEntry]]:
    """Yield scales, and weights of packed dtypes, file by file in the order of their data."""
    for name in j.index.loaded:
        header = j.shards[name].header
        if header is None:
            continue
        for key, entry in sorted(header.tensors.items(), key=lambda item: item[1].begin):
            packed = entry.dtype in {"I32", "U8", "I8"} or entry.dtype.startswith("F8_")
            if key.endswith(_SCALES) or (packed and key.endswith(_WEIGHTS)):
                yield name, key, entry


def _pieces(j: Judgement, name: str, entry: TensorEntry) -> list[bytes]:
    """Return the beginning, the middle and the end of a tensor, or all of a small one."""
    begin = j.shards[name].data_begin + entry.begin
    size = entry.size_bytes
    if size <= 3 * _SAMPLE_BYTES:
        places = [(begin, size)]
    else:
        # Whole elements: samples begin at multiples of 8 bytes from the tensor's begin.
        middle = (size // 2) & ~7
        last = (size - _SAMPLE_BYTES) & ~7
        places = [(begin + at, _SAMPLE_BYTES) for at in (0, middle, last)]
    pieces = []
    for offset, length in places:
        try:
            piece = j.source.read(name, offset, length)
        except OSError:
            return []
        if len(piece) == length:
            pieces.append(piece)
    return pieces


def _scale_trouble(dtype: str, data: bytes) -> str | None:
    if dtype == "BF16":
        # Exponent all ones = infinite or NaN; a sign alone is zero.
        high = data[1::2]
        low = data[0::2]
        if any(h & 0x7F == 0x7F and lo & 0x80 for h, lo in zip(high, low, strict=False)):
            return "NaN or infinite"
        nothing = not any(h & 0x7F for h in high) and not any(low)
        return "all zero" if nothing else None
    if dtype in _FLOATS:
        code, size = _FLOATS[dtype]
        values = struct.unpack(f"<{len(data) // size}{code}", data[: len(data) // size * size])
        if not all(map(math.isfinite, values)):
            return "NaN or infinite"
        return None if any(values) else "all zero"
    if dtype == "F8_E4M3":
        if any(b & 0x7F == 0x7F for b in data):
            return "NaN"
        return None if any(b & 0x7F for b in data) else "all zero"
    return None
