"""Where a checkpoint is read from: a folder here, or (another class) a repository far away."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from qwen_tui_profiles.errors import InputError
from qwen_tui_profiles.foreign import clean
from qwen_tui_profiles.text import t

if TYPE_CHECKING:
    from collections.abc import Mapping

    from qwen_tui_profiles.text import Text

__all__ = ["FileKind", "FolderSource", "Source", "SourceFile", "open_folder"]

_MOST_FILES = 20_000
_MOST_HANDLES = 128


class FileKind(StrEnum):
    """What stands in the folder under a name."""

    FILE = "file"
    FOLDER = "folder"
    DANGLING = "dangling"
    OTHER = "other"
    """A socket, a device, or something that cannot be looked at."""


@dataclass(frozen=True, slots=True)
class SourceFile:
    """One name in the top folder."""

    name: str
    kind: FileKind
    size: int
    target: str | None = None
    """Where a link points to."""


class Source(Protocol):
    """A checkpoint's files, read piece by piece."""

    @property
    def label(self) -> str:
        """Path or name for people."""
        ...

    @property
    def folder(self) -> Path | None:
        """The folder on this machine; None for a repository far away."""
        ...

    def files(self) -> Mapping[str, SourceFile]:
        """Return what the top folder holds, by name."""
        ...

    def exists(self, name: str) -> bool:
        """Whether a file is there, in a subfolder, too."""
        ...

    def read(self, name: str, offset: int, length: int) -> bytes:
        """Return up to ``length`` bytes.

        Raises:
            OSError: The file cannot be read.
        """
        ...


class FolderSource:
    """A folder on this machine. Nothing is mapped; every read is one ``pread``."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files: dict[str, SourceFile] | None = None
        self._handles: dict[str, int] = {}

    @property
    def label(self) -> str:
        """The path as given."""
        return str(self._folder)

    @property
    def folder(self) -> Path:
        """The folder itself."""
        return self._folder

    def files(self) -> Mapping[str, SourceFile]:
        """List the top folder once.

        Raises:
            InputError: It cannot be listed, or holds an absurd number of files.
        """
        if self._files is None:
            self._files = self._listed()
        return self._files

    def _listed(self) -> dict[str, SourceFile]:
        found: dict[str, SourceFile] = {}
        try:
            with os.scandir(self._folder) as entries:
                for entry in entries:
                    if len(found) >= _MOST_FILES:
                        raise InputError(
                            t("{path} holds more than 20,000 files.", path=clean(self.label)),
                            t("Name the folder of one checkpoint."),
                        )
                    found[entry.name] = _look(entry)
        except OSError as error:
            raise InputError(
                t(
                    "{path} cannot be listed: {cause}.",
                    path=clean(self.label),
                    cause=error.strerror or "I/O error",
                ),
                t("Check the folder's permissions."),
            ) from error
        return found

    def exists(self, name: str) -> bool:
        """Whether a file is there."""
        return (self._folder / name).is_file()

    def read(self, name: str, offset: int, length: int) -> bytes:
        """Read a piece of a file."""
        handle = self._open(name)
        pieces = []
        while length > 0:
            piece = os.pread(handle, length, offset)
            if not piece:
                break
            pieces.append(piece)
            offset += len(piece)
            length -= len(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def close(self) -> None:
        """Close what was opened."""
        while self._handles:
            os.close(self._handles.popitem()[1])

    def _open(self, name: str) -> int:
        handle = self._handles.get(name)
        if handle is None:
            if len(self._handles) >= _MOST_HANDLES:
                self.close()
            # Non-blocking, so that a FIFO under a file's name cannot hang the check.
            handle = os.open(self._folder / name, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
            self._handles[name] = handle
            if hasattr(os, "posix_fadvise"):
                # Headers and scalars only: no read-ahead into gigabytes of weights.
                os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_RANDOM)
        return handle


def open_folder(path: Path) -> FolderSource:
    """Return the source of a checkpoint folder.

    Raises:
        InputError: There is no such folder.
    """
    if path.is_dir():
        return FolderSource(path)
    name = clean(str(path))
    if path.is_file():
        raise InputError(
            t("{path} is a file; the folder of a checkpoint is expected.", path=name),
            _about_file(path),
        )
    raise InputError(
        t("There is no folder {path}.", path=name),
        t("Name a checkpoint folder, or a repository as org/name."),
    )


def _about_file(path: Path) -> Text:
    try:
        with path.open("rb") as file:
            magic = file.read(4)
    except OSError:
        magic = b""
    if magic == b"GGUF":
        return t(
            "GGUF is llama.cpp's format; SGLang has no names for Qwen3.5 or Qwen4 in it. "
            "Take a release in safetensors."
        )
    return t("Name the folder that holds it.")


def _look(entry: os.DirEntry[str]) -> SourceFile:
    target = None
    try:
        if entry.is_symlink():
            target = str(Path(entry.path).readlink())
        facts = entry.stat()
    except FileNotFoundError:
        return SourceFile(entry.name, FileKind.DANGLING, 0, target)
    except OSError:
        return SourceFile(entry.name, FileKind.OTHER, 0, target)
    if stat.S_ISREG(facts.st_mode):
        kind = FileKind.FILE
    elif stat.S_ISDIR(facts.st_mode):
        kind = FileKind.FOLDER
    else:
        kind = FileKind.OTHER
    return SourceFile(entry.name, kind, facts.st_size, target)
