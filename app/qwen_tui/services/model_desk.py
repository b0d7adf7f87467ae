"""Checkpoints on this disk: which there are, what they are worth, and how more are fetched."""

from __future__ import annotations

import asyncio
import importlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from qwen_tui_profiles.errors import InputError, ProbeError
from qwen_tui_profiles.foreign import clean
from qwen_tui_profiles.text import t

if TYPE_CHECKING:
    from collections.abc import Iterable

    from qwen_tui.services.download.job import DownloadJob
    from qwen_tui.services.paths import Paths
    from qwen_tui_diagnostics.checkpoint.report import VerifyReport
    from qwen_tui_profiles.profile import EngineProfile
    from qwen_tui_profiles.safetensors_header import Header

__all__ = ["ModelDesk", "ModelFolder", "RealModels", "TensorRow"]

ROOTS = ("~/models", "~/.cache/huggingface/hub")
"""Folders whose subfolders are looked at, besides those that profiles name."""
MOST = 200


@dataclass(frozen=True, slots=True)
class ModelFolder:
    """One folder that holds a checkpoint, or that a profile expects one in."""

    path: Path
    profiles: tuple[str, ...]
    """Names of the profiles that serve it."""
    repo: str | None
    """Hub repository that a profile names for it."""
    exists: bool
    bytes: int | None
    """Size of its weight files; ``None`` = it is not there."""


@dataclass(frozen=True, slots=True)
class TensorRow:
    """One tensor of a checkpoint, from a shard's header."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    bytes: int
    shard: str


class ModelDesk(Protocol):
    """What the console's Models place asks for."""

    async def folders(self, profiles: Iterable[EngineProfile]) -> tuple[ModelFolder, ...]:
        """Return the folders that profiles name, and others that look like checkpoints."""
        ...

    async def verify(self, folder: Path) -> VerifyReport:
        """Judge a checkpoint from its headers."""
        ...

    async def tensors(self, folder: Path) -> tuple[TensorRow, ...]:
        """Return every tensor, by name."""
        ...

    def download(self, repo: str | None, profile: EngineProfile | None) -> DownloadJob:
        """Prepare the transfer of a repository, to where the profile expects it.

        Raises:
            UsageError: no repository is named, or it is none.
        """
        ...


class RealModels:
    """See :class:`ModelDesk`."""

    def __init__(self, paths: Paths) -> None:
        self._paths = paths

    async def folders(self, profiles: Iterable[EngineProfile]) -> tuple[ModelFolder, ...]:
        """Look at the disk."""
        return await asyncio.to_thread(_folders, tuple(profiles))

    async def verify(self, folder: Path) -> VerifyReport:
        """Judge from the headers."""
        return await asyncio.to_thread(_verify, folder)

    async def tensors(self, folder: Path) -> tuple[TensorRow, ...]:
        """Read the headers."""
        return await asyncio.to_thread(_tensors, folder)

    def download(self, repo: str | None, profile: EngineProfile | None) -> DownloadJob:
        """Prepare a transfer in a child process."""
        from qwen_tui.services.download.job import DownloadJob
        from qwen_tui.services.download.prepare import prepare

        request = prepare(self._paths, repo=repo, profile=profile, environment=os.environ)
        return DownloadJob(request, self._paths)


def _folders(profiles: tuple[EngineProfile, ...]) -> tuple[ModelFolder, ...]:
    named: dict[Path, tuple[list[str], str | None]] = {}
    for profile in profiles:
        if profile.model.path is not None:
            path = Path(profile.model.path).expanduser()
            names, repo = named.setdefault(path, ([], profile.model.repo))
            names.append(profile.name)
            named[path] = (names, repo or profile.model.repo)
    found = [*named, *(p for p in _candidates() if p not in named)]
    out = []
    for path in found[:MOST]:
        names, repo = named.get(path, ([], None))
        size = _weights_bytes(path)
        out.append(ModelFolder(path, tuple(names), repo, size is not None, size))
    return tuple(out)


def _candidates() -> list[Path]:
    """Return folders with a ``config.json``, one and (for the Hub's cache) three levels deep."""
    out: list[Path] = []
    for root in ROOTS:
        folder = Path(root).expanduser()
        for pattern in ("*/config.json", "models--*/snapshots/*/config.json"):
            try:
                out += sorted(path.parent for path in folder.glob(pattern))
            except OSError:
                continue
    return out


def _weights_bytes(folder: Path) -> int | None:
    try:
        sizes = [
            entry.stat().st_size
            for entry in os.scandir(folder)
            if entry.name.endswith((".safetensors", ".gguf", ".bin"))
        ]
    except OSError:
        return None
    return sum(sizes)


def _verify(folder: Path) -> VerifyReport:
    try:
        checkpoint = importlib.import_module("qwen_tui_diagnostics.checkpoint")
        report: VerifyReport = checkpoint.verify(folder)
    except (ModuleNotFoundError, AttributeError) as error:
        raise ProbeError(
            t("The checkpoint cannot be judged: this installation has no verifier."),
            t("Install qwen-tui anew."),
        ) from error
    return report


def _tensors(folder: Path) -> tuple[TensorRow, ...]:
    rows: list[TensorRow] = []
    for shard in sorted(folder.glob("*.safetensors")):
        for name, entry in _header(shard).tensors.items():
            rows.append(
                TensorRow(clean(name), entry.dtype, entry.shape, entry.size_bytes, shard.name)
            )
    if not rows:
        raise InputError(
            t("{path} holds no safetensors file.", path=str(folder)),
            t("Choose a folder with weights, or download them."),
        )
    return tuple(sorted(rows, key=lambda row: row.name))


def _header(shard: Path) -> Header:
    from qwen_tui_profiles.safetensors_header import (
        LARGEST_HEADER_BYTES,
        HeaderError,
        HeaderFault,
        parse_header,
    )

    try:
        with shard.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            if not 2 <= length <= LARGEST_HEADER_BYTES:
                raise HeaderError(HeaderFault.SIZE, t("its length is {n}", n=length))
            return parse_header(file.read(length))
    except (OSError, HeaderError) as error:
        cause = error.text if isinstance(error, HeaderError) else t("it cannot be read")
        raise InputError(
            t("{name}: {cause}.", name=clean(shard.name), cause=cause),
            t("Run qwen-tui verify on the folder, then download the file again."),
        ) from error
