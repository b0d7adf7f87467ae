"""Judge a checkpoint: here from its folder, or far away from its headers alone."""

from __future__ import annotations

import json
import re
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from qwen_tui_diagnostics.checkpoint import NEWEST, Assumed, verify, verify_source
from qwen_tui_profiles.errors import ConfigError, DownloadError, InputError, UsageError
from qwen_tui_profiles.foreign import clean
from qwen_tui_profiles.text import t
from qwen_tui_profiles.versions import Version

if TYPE_CHECKING:
    from collections.abc import Callable

    from qwen_tui.services.paths import Paths
    from qwen_tui_diagnostics.checkpoint import Judgement, Reach, VerifyReport

__all__ = ["HashProgress", "VerifyOptions", "engine_of", "verify_checkpoint", "write_manifest"]

_REPO = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}")


@dataclass(frozen=True, slots=True)
class VerifyOptions:
    """What to judge, and for what."""

    path: str
    engine: str | None = None
    """``sglang==0.5.17``, ``vllm``, …"""
    speculative: bool = False
    language_only: bool = False
    quantization: str | None = None
    hash: bool = False
    """Compare the content with what was recorded."""
    sample: bool = False
    """Read a few kilobytes of every quantized tensor."""
    manifest: bool = False
    """Compare with the manifest in the folder instead of the Hub's records."""
    workers: int | None = None
    drop_cache: bool = False
    revision: str = "main"
    endpoint: str | None = None


@dataclass(slots=True)
class HashProgress:
    """How far hashing is; figures are measured, the remaining time follows from them."""

    show: Callable[[HashProgress], None]
    total_bytes: int = 0
    done_bytes: int = 0
    started: float = 0.0
    shown: float = 0.0

    def begin(self, total: int) -> None:
        """Note how much there is to read."""
        self.total_bytes = total
        self.started = self.shown = time.monotonic()

    def add(self, count: int) -> None:
        """Count bytes; called from the workers, shown four times a second at most."""
        self.done_bytes += count
        now = time.monotonic()
        if now - self.shown >= 0.25:
            self.shown = now
            self.show(self)

    @property
    def bytes_s(self) -> float:
        """Speed so far."""
        return self.done_bytes / max(time.monotonic() - self.started, 1e-6)

    @property
    def left_s(self) -> float | None:
        """Seconds that remain at this speed; None before the first bytes."""
        return (self.total_bytes - self.done_bytes) / self.bytes_s if self.done_bytes else None


def is_repo_name(text: str) -> bool:
    """Whether an argument names a repository; a folder of that name goes first."""
    return _REPO.fullmatch(text) is not None and not Path(text).exists()


def verify_checkpoint(
    options: VerifyOptions, paths: Paths, *, progress: HashProgress | None = None
) -> VerifyReport:
    """Run the passes that are asked for.

    Raises:
        UsageError: The engine is not known, or a pass needs the files here.
        InputError: The folder or repository cannot be read, or its endpoint fails.
    """
    engine, version = engine_of(options.engine)
    if is_repo_name(options.path):
        return _verify_repo(options, engine, version)
    from qwen_tui_diagnostics.checkpoint.sampling import check_samples

    content, finish = _content(options, paths, progress)
    try:
        return verify(
            Path(options.path).expanduser(),
            engine=engine,
            engine_version=version,
            speculative=options.speculative,
            language_only=options.language_only,
            quantization=options.quantization,
            content=content,
            sampling=check_samples if options.sample else None,
        )
    finally:
        finish()


def _content(
    options: VerifyOptions, paths: Paths, progress: HashProgress | None
) -> tuple[Callable[[Judgement], Reach] | None, Callable[[], None]]:
    if not (options.hash or options.manifest):
        return None, lambda: None
    from qwen_tui.services.verify_cache import StoredHashes
    from qwen_tui_diagnostics.checkpoint.content import ContentPass, default_workers
    from qwen_tui_diagnostics.checkpoint.records import MANIFEST_NAME

    cache = StoredHashes(paths.cache / "hashes.json")
    folder = Path(options.path).expanduser()
    return (
        ContentPass(
            cache=cache,
            workers=options.workers or default_workers(),
            manifest=folder / MANIFEST_NAME if options.manifest else None,
            begin=None if progress is None else progress.begin,
            on_bytes=None if progress is None else progress.add,
            drop_cache=options.drop_cache,
        ),
        cache.save,
    )


def _verify_repo(options: VerifyOptions, engine: str, version: str | None) -> VerifyReport:
    from qwen_tui.services.verify_remote import open_repo

    if options.hash or options.sample or options.manifest:
        raise UsageError(
            t("--hash, --sample and --manifest need the files on this machine."),
            t("Download the repository first: qwen-tui download {repo}", repo=options.path),
        )
    source = None
    try:
        source = open_repo(options.path, revision=options.revision, endpoint=options.endpoint)
        return verify_source(
            source,
            Assumed(
                engine=engine,
                engine_version=version or NEWEST[engine],
                speculative=options.speculative,
                language_only=options.language_only,
                stated=version is not None,
            ),
            quantization=options.quantization,
        )
    except DownloadError as error:
        raise InputError(
            t("{repo} is no folder here, and as a repository: {cause}", repo=options.path,
              cause=error.message),
            error.remedy,
        ) from error  # fmt: skip
    finally:
        if source is not None:
            source.close()


def write_manifest(
    path: str, paths: Paths, *, progress: HashProgress | None = None, workers: int | None = None
) -> tuple[Path, int]:
    """Hash every file of a folder and write ``checksums.json``, the shape that SGLang reads.

    Returns:
        The manifest's path and the number of files in it.

    Raises:
        InputError: The folder or a file in it cannot be read.
        ConfigError: The manifest cannot be written.
    """
    from qwen_tui.services.paths import write_private
    from qwen_tui.services.verify_cache import StoredHashes
    from qwen_tui_diagnostics.checkpoint.content import default_workers
    from qwen_tui_diagnostics.checkpoint.hashing import Digest, HashJob, hash_files
    from qwen_tui_diagnostics.checkpoint.records import MANIFEST_NAME
    from qwen_tui_diagnostics.checkpoint.source import FileKind, open_folder

    folder = Path(path).expanduser()
    source = open_folder(folder)
    files = {
        name: file
        for name, file in source.files().items()
        if file.kind is FileKind.FILE and name != MANIFEST_NAME and not name.startswith(".")
    }
    if progress is not None:
        progress.begin(sum(file.size for file in files.values()))
    cache = StoredHashes(paths.cache / "hashes.json")
    try:
        digests = hash_files(
            [HashJob(name, folder / name) for name in files],
            workers=workers or default_workers(),
            cache=cache,
            on_bytes=None if progress is None else progress.add,
        )
    finally:
        cache.save()
    entries: dict[str, dict[str, object]] = {}
    for name in sorted(digests):
        digest = digests[name]
        if not isinstance(digest, Digest):
            raise InputError(
                t("{name} cannot be read: {cause}.", name=clean(name),
                  cause=digest.strerror or str(digest)),
                t("A manifest of half a folder would prove nothing: repair the file first."),
            )  # fmt: skip
        entries[name] = {"sha256": digest.sha256, "size": files[name].size}
    target = folder / MANIFEST_NAME
    try:
        write_private(target, json.dumps({"files": entries}, indent=1).encode() + b"\n")
    except OSError as error:
        raise ConfigError(
            t("{path} cannot be written: {cause}.", path=clean(str(target)),
              cause=error.strerror or "I/O error"),
            t("Make the folder writable."),
        ) from error  # fmt: skip
    return target, len(entries)


def engine_of(spec: str | None) -> tuple[str, str | None]:
    """Read ``sglang==0.5.17``; without a version the newest known one is meant.

    Raises:
        UsageError: Another engine.
        InputError: An unreadable version.
    """
    if spec is None:
        return "sglang", None
    name, separator, version = spec.partition("==")
    engine = name.strip().lower()
    if engine not in NEWEST:
        raise UsageError(
            t("{spec} is not an engine.", spec=repr(clean(spec)[:60])),
            t("Write sglang==0.5.17, vllm==0.33.0, or the name alone."),
        )
    return engine, str(Version.parse(version)) if separator else None
