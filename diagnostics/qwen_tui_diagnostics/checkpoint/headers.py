"""The header pass: every file that the engine would open is structurally whole (rules F)."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from qwen_tui_diagnostics.checkpoint.signatures import looks_like_page, read_pointer
from qwen_tui_diagnostics.checkpoint.source import FileKind
from qwen_tui_profiles.findings import Severity
from qwen_tui_profiles.foreign import clean
from qwen_tui_profiles.safetensors_header import (
    LARGEST_HEADER_BYTES,
    LARGEST_READ_BYTES,
    HeaderError,
    HeaderFault,
    parse_header,
)
from qwen_tui_profiles.text import t

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from qwen_tui_diagnostics.checkpoint.collect import Findings
    from qwen_tui_diagnostics.checkpoint.source import Source, SourceFile
    from qwen_tui_profiles.safetensors_header import Header

__all__ = ["BESIDE", "Shard", "check_leftovers", "read_shards", "say_no_weights"]

_FIRST_READ_BYTES = 64 << 10
_SMALLEST_HOLE_BYTES = 64 << 10
_MOST_HOLES = 1000
_LEFTOVER = re.compile(
    r"^(?P<name>.+?)(?:\.[0-9a-f]{8})?\.(?:incomplete|aria2|part|crdownload|tmp)$"
)
_WEIGHTS = (".safetensors", ".bin", ".gguf", ".pt", ".pth")
BESIDE = re.compile(r"^(?:adapter_model|joint_head|readout|consolidated.*)\.safetensors$")
"""Files that lie beside a checkpoint on purpose."""


@dataclass(slots=True)
class Shard:
    """One safetensors file."""

    name: str
    size: int
    header: Header | None = None
    """None when it could not be read."""
    hole_bytes: int = 0
    """Bytes never written, where they are many: values read there are zeros nobody stored."""
    gguf: bool = False
    too_complex: bool = False

    @property
    def data_begin(self) -> int:
        """Offset of the first data byte."""
        return 8 + (self.header.length if self.header else 0)


def read_shards(source: Source, names: Iterable[str], found: Findings) -> dict[str, Shard]:
    """Read the headers of these files and record what is wrong with them."""
    shards = {name: _read(source, source.files()[name], found) for name in names}
    odd = [s for s in shards.values() if s.header is not None and _is_odd(s.header)]
    if odd:
        found.add(
            "F12",
            evidence=t("no __metadata__.format, padding, or first character"),
            files=[shard.name for shard in odd],
        )
    sparse = [shard for shard in shards.values() if shard.hole_bytes]
    if sparse:
        found.add(
            "F11",
            evidence=", ".join(
                f"{s.name}: {s.hole_bytes:,} of {s.size:,} bytes" for s in sparse[:3]
            ),
            files=[shard.name for shard in sparse],
        )
    return shards


def _is_odd(header: Header) -> bool:
    return not header.tidy or (bool(header.tensors) and "format" not in header.metadata)


def _read(source: Source, file: SourceFile, found: Findings) -> Shard:
    shard = Shard(file.name, file.size)
    if file.kind is not FileKind.FILE:
        what = {
            FileKind.FOLDER: t("a folder in place of a file"),
            FileKind.DANGLING: t("a link to a file that is not there"),
            FileKind.OTHER: t("not a regular file, or it cannot be looked at"),
        }[file.kind]
        found.add("F10", evidence=file.target or file.name, detail=what, files=[file.name])
        return shard
    try:
        head = source.read(file.name, 0, min(file.size, _FIRST_READ_BYTES))
        shard.size = max(file.size, len(head))
        _judge(source, shard, head, found)
    except OSError as error:
        found.add(
            "F10",
            evidence=error.strerror or "I/O error",
            detail=t("reading it failed"),
            files=[file.name],
        )
    return shard


def _judge(source: Source, shard: Shard, head: bytes, found: Findings) -> None:
    pointer = read_pointer(head[:1024])
    if pointer is not None:
        found.add(
            "F02",
            evidence=f"oid sha256:{pointer.sha256 or '?'}, size {pointer.size_bytes or '?'}",
            detail=t(
                "The file has {size} bytes; the pointer stands for {wanted}.",
                size=shard.size,
                wanted="?" if pointer.size_bytes is None else f"{pointer.size_bytes:,}",
            ),
            files=[shard.name],
        )
        return
    if looks_like_page(head[:512]):
        text = head[:120].decode("utf-8", "replace").replace("\n", " ")
        found.add("F03", evidence=clean(text), files=[shard.name])
        return
    if len(head) < 8:
        found.add(
            "F04",
            evidence=t("{size} bytes", size=shard.size),
            detail=t("The file has {size} bytes; a header needs 8 and more.", size=shard.size),
            files=[shard.name],
        )
        return
    length = int.from_bytes(head[:8], "little")
    if head[:4] == b"GGUF":
        shard.gguf = True
        found.add(
            "F05",
            evidence="GGUF",
            detail=t("This is llama.cpp's GGUF format under the name of a safetensors file."),
            files=[shard.name],
        )
        return
    if length > LARGEST_HEADER_BYTES or 8 + length > shard.size:
        found.add(
            "F04",
            evidence=t("N = {length}, file {size} bytes", length=length, size=shard.size),
            detail=t(
                "The first 8 bytes announce a header of {length} bytes; the file has {size}.",
                length=length,
                size=shard.size,
            ),
            files=[shard.name],
        )
        return
    if length > LARGEST_READ_BYTES:
        _too_complex(shard, found, length)
        return
    start = head[8:9]
    if length and start not in b"{ \t\r\n":
        found.add(
            "F05",
            evidence=head[8:40].hex(" "),
            detail=t("The header does not begin with an opening brace: it is not JSON."),
            files=[shard.name],
        )
        return
    raw = head[8 : 8 + length]
    if len(raw) < length:
        raw += source.read(shard.name, 8 + len(raw), length - len(raw))
    _parse(source, shard, raw, found)


def _parse(source: Source, shard: Shard, raw: bytes, found: Findings) -> None:
    try:
        header = parse_header(raw)
    except HeaderError as error:
        if error.fault is HeaderFault.TOO_COMPLEX:
            _too_complex(shard, found, len(raw))
            return
        rule = "F06" if error.fault in {HeaderFault.OFFSETS, HeaderFault.SIZE} else "F05"
        found.add(
            rule,
            evidence=str(error.text),
            detail=error.text,
            tensors=[error.tensor] if error.tensor else [],
            files=[shard.name],
        )
        return
    shard.header = header
    _check_end(shard, header, found)
    _check_duplicates(shard, header, found)
    if source.folder is not None and shard.size >= _SMALLEST_HOLE_BYTES:
        holes = _holes_bytes(source.folder / shard.name)
        if holes >= _SMALLEST_HOLE_BYTES and holes >= shard.size // 20:
            shard.hole_bytes = holes


def _too_complex(shard: Shard, found: Findings, length: int) -> None:
    shard.too_complex = True
    found.add(
        "F05",
        severity=Severity.INFO,
        evidence=t("header of {length:,} bytes", length=length),
        detail=t("The header is larger than any known release's; it was not looked at."),
        consequence=t("This file was not judged."),
        files=[shard.name],
    )


def _check_end(shard: Shard, header: Header, found: Findings) -> None:
    wanted = 8 + header.length + header.data_bytes
    difference = shard.size - wanted
    if difference == 0:
        return
    if difference > 0:
        found.add(
            "F07",
            evidence=t("{size} bytes, {wanted} expected", size=shard.size, wanted=wanted),
            detail=t("The file is {count} bytes too long.", count=f"{difference:,}"),
            files=[shard.name],
        )
        return
    data = shard.size - 8 - header.length
    cut = min(
        ((entry.begin, name) for name, entry in header.tensors.items() if entry.end > data),
        default=None,
    )
    found.add(
        "F07",
        evidence=t("{size} bytes, {wanted} expected", size=shard.size, wanted=wanted),
        detail=t(
            "{count} bytes are missing at the end; the first tensor cut off is {tensor}.",
            count=f"{-difference:,}",
            tensor=clean(cut[1])[:160] if cut else "?",
        ),
        tensors=[cut[1]] if cut else [],
        files=[shard.name],
    )


def _check_duplicates(shard: Shard, header: Header, found: Findings) -> None:
    if not header.duplicates:
        return
    differ = [name for name, equal in header.duplicates.items() if not equal]
    names = differ or list(header.duplicates)
    found.add(
        "F08",
        severity=Severity.ERROR if differ else Severity.WARN,
        evidence=names[0][:160],
        detail=t("The entries differ.") if differ else t("The entries are equal."),
        tensors=names,
        count=len(names),
        files=[shard.name],
    )


def _holes_bytes(path: Path) -> int:
    """Add up ranges that were never written; 0 on file systems that cannot tell."""
    if not hasattr(os, "SEEK_HOLE"):
        return 0
    holes = 0
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return 0
    try:
        size = os.fstat(handle).st_size
        position = 0
        for _ in range(_MOST_HOLES):
            hole = os.lseek(handle, position, os.SEEK_HOLE)
            if hole >= size:
                break
            try:
                position = os.lseek(handle, hole, os.SEEK_DATA)
            except OSError:
                # No data behind the hole: it reaches to the end.
                return holes + size - hole
            holes += position - hole
    except OSError:
        return 0
    finally:
        os.close(handle)
    return holes


def say_no_weights(source: Source, found: Findings) -> str | None:
    """Record that there is nothing to load, and return the format that is there instead."""
    names = sorted(source.files())
    others = [name for name in names if name.endswith(_WEIGHTS[1:])]
    leftovers = [name for name in names if _LEFTOVER.match(name)]
    gguf = any(name.endswith(".gguf") for name in others)
    if gguf:
        detail = t(
            "The folder holds GGUF, llama.cpp's format. SGLang has no names for Qwen3.5 or Qwen4 "
            "in it and converters drop the MTP head: not for SGLang, use a safetensors release."
        )
    elif others:
        detail = t("There is {names}: pickled weights are not judged.", names=clean(others[0]))
    elif leftovers:
        detail = t("There is only an unfinished download ({name}).", name=clean(leftovers[0]))
    elif "snapshots" in names:
        detail = t("This is a repository of the Hub's cache: name the folder below snapshots/.")
    elif names:
        detail = t("There are {count} other files.", count=len(names))
    else:
        detail = t("The folder is empty.")
    found.add("F01", evidence=", ".join((others or leftovers or names)[:3]) or "—", detail=detail)
    return "gguf" if gguf else "bin" if others else None


def check_leftovers(source: Source, found: Findings) -> None:
    """Look for what unfinished downloads leave behind."""
    files = source.files()
    stale: list[str] = []
    missing: list[str] = []
    for name in sorted(files):
        match = _LEFTOVER.match(name)
        if match is None or files[name].kind is not FileKind.FILE:
            continue
        wanted = match["name"]
        weights = wanted.endswith((*_WEIGHTS, ".json"))
        if weights and (name.endswith(".aria2") or wanted not in files):
            missing.append(name)
        else:
            stale.append(name)
    if source.folder is not None:
        for below in ("huggingface/download", "qwen-tui/incoming"):
            folder = source.folder / ".cache" / below
            try:
                stale += [
                    f".cache/{below}/{name}"
                    for name in sorted(path.name for path in folder.iterdir())
                    if name.endswith(".incomplete")
                ]
            except OSError:
                continue
    if missing:
        found.add(
            "F09",
            severity=Severity.ERROR,
            evidence=missing[0],
            detail=t("The file it stands for is absent, or preallocated and not filled."),
            files=missing,
        )
    if stale:
        found.add("F09", evidence=stale[0], files=stale)
