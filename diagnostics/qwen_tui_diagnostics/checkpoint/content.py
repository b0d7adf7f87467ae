"""The content pass: files against what was recorded about them (rules H)."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from qwen_tui_diagnostics.checkpoint.hashing import Digest, HashCache, HashJob, hash_files
from qwen_tui_diagnostics.checkpoint.index import INDEX_NAME
from qwen_tui_diagnostics.checkpoint.recorded import content_files, edited
from qwen_tui_diagnostics.checkpoint.records import Record, Records, read_manifest, read_records
from qwen_tui_diagnostics.checkpoint.report import Reach
from qwen_tui_diagnostics.checkpoint.source import FileKind
from qwen_tui_profiles.errors import InputError
from qwen_tui_profiles.foreign import clean
from qwen_tui_profiles.text import t

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from qwen_tui_diagnostics.checkpoint.judge import Judgement

__all__ = ["ContentPass", "default_workers"]

_NEEDED = frozenset({"config.json", INDEX_NAME, "tokenizer.json", "tokenizer_config.json"})


@dataclass(slots=True)
class ContentPass:
    """Hashes every file that matters and compares it with what is recorded.

    Attributes:
        cache: Digests from earlier runs.
        workers: Files at a time.
        manifest: A manifest to compare with instead of the Hub's records.
        begin: Told the bytes that will be read.
        on_bytes: Told the bytes that passed.
        drop_cache: Keep the page cache clean.
    """

    cache: HashCache | None = None
    workers: int = 2
    manifest: Path | None = None
    begin: Callable[[int], None] | None = None
    on_bytes: Callable[[int], None] | None = None
    drop_cache: bool = False

    def __call__(self, j: Judgement) -> Reach:
        """Run the pass.

        Raises:
            InputError: The manifest cannot be read.
        """
        folder = j.source.folder
        if folder is None:
            return Reach.NONE
        records = self._records(folder)
        names = content_files(j)
        known = {name: record for name in names if (record := records.of(name)) and record.hashed}
        changed = [name for name, record in known.items() if edited(folder / name, record)]
        if changed:
            j.found.add("H04", evidence=", ".join(changed[:3]), files=changed)
        jobs = [
            HashJob(name, folder / name, git=record.sha256 is None)
            for name, record in known.items()
            if name not in changed and j.source.files()[name].kind is FileKind.FILE
        ]
        if self.manifest is not None:
            _say_absent(j, records)
        if not jobs:
            j.found.add("H06", evidence=t("{count} files", count=len(names)), count=len(names))
            return Reach.NONE
        if self.begin is not None:
            self.begin(sum(j.source.files()[job.name].size for job in jobs))
        digests = hash_files(
            jobs,
            workers=self.workers,
            cache=self.cache,
            on_bytes=self.on_bytes,
            drop_cache=self.drop_cache,
        )
        self._compare(j, known, digests)
        compared = {name for name, digest in digests.items() if isinstance(digest, Digest)}
        needed = {*j.index.loaded, *(_NEEDED & set(names))}
        return Reach.FULL if needed <= compared else Reach.PARTIAL

    def _records(self, folder: Path) -> Records:
        if self.manifest is None:
            return read_records(folder)
        found = read_manifest(self.manifest)
        if found is None:
            raise InputError(
                t("{path} is not a manifest.", path=clean(str(self.manifest))),
                t("Write one with qwen-tui verify DIR --manifest write."),
            )
        return Records(files=found)

    def _compare(
        self, j: Judgement, known: dict[str, Record], digests: dict[str, Digest | OSError]
    ) -> None:
        wrong: list[str] = []
        evidence = ""
        for name, digest in digests.items():
            record = known[name]
            if isinstance(digest, OSError):
                j.found.add("F10", evidence=digest.strerror or str(digest), files=[name])
                continue
            want = record.sha256 or record.blob_id or ""
            have = digest.sha256 if record.sha256 is not None else digest.blob_id or ""
            if have != want:
                wrong.append(name)
                evidence = evidence or f"{name}: {have[:16]}…, recorded {want[:16]}…"
        if wrong:
            j.found.add("H02", evidence=evidence, files=sorted(wrong))


def _say_absent(j: Judgement, records: Records) -> None:
    absent = [name for name in records.files if not j.source.exists(name)]
    if absent:
        j.found.add("H05", evidence=", ".join(absent[:3]), files=absent)


def default_workers() -> int:
    """Return how many files to hash at a time: the cores, four at most."""
    try:
        cores = len(os.sched_getaffinity(0))
    except AttributeError:
        cores = os.cpu_count() or 1
    return max(1, min(4, cores))
