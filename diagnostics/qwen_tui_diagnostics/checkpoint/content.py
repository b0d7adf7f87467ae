"""The content pass: files against what was recorded about them (rules H)."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from qwen_tui_diagnostics.checkpoint.hashing import Digest, HashCache, HashJob, hash_files
from qwen_tui_diagnostics.checkpoint.index import INDEX_NAME
from qwen_tui_diagnostics.checkpoint.records import Record, Records, read_manifest, read_records
from qwen_tui_diagnostics.checkpoint.report import Reach
from qwen_tui_diagnostics.checkpoint.source import FileKind
from qwen_tui_profiles.errors import InputError
from qwen_tui_profiles.findings import Severity
from qwen_tui_profiles.foreign import clean
from qwen_tui_profiles.text import t

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from qwen_tui_diagnostics.checkpoint.judge import Judgement

__all__ = ["ContentPass", "check_records", "content_files", "default_workers"]

_NEEDED = frozenset({"config.json", INDEX_NAME, "tokenizer.json", "tokenizer_config.json"})
_SKIPPED = (".lock", ".metadata", ".incomplete", ".md", ".gitattributes", ".txt")
# A file system keeps times more coarsely than the clock that the note was made with.
_SLACK_S = 1.0


def content_files(j: Judgement) -> list[str]:
    """Return the files whose content matters: weights that are loaded, configs, tokenizer."""
    names = list(j.index.loaded)
    names += [
        name
        for name, file in sorted(j.source.files().items())
        if name not in names
        and file.kind is FileKind.FILE
        and name.endswith((".json", ".jinja", ".model", ".py"))
        and not name.endswith(_SKIPPED)
    ]
    return [n for n in names if n in j.source.files()]


def check_records(j: Judgement) -> None:
    """Compare sizes and revisions with what the Hub's client noted; nothing is hashed."""
    folder = j.source.folder
    if folder is None:
        return
    records = read_records(folder)
    files = j.source.files()
    wrong = []
    for name in content_files(j):
        record = records.of(name)
        if record is None or record.size is None or files[name].kind is not FileKind.FILE:
            continue
        if files[name].size != record.size and not _edited(folder / name, record):
            wrong.append((name, files[name].size, record.size))
    if wrong:
        name, have, want = wrong[0]
        j.found.add(
            "H01",
            evidence=f"{name}: {have:,} bytes, recorded {want:,}",
            files=[name for name, _, _ in wrong],
        )
    commits = {
        commit
        for name, commit in records.commits.items()
        if name in files and (name in j.index.loaded or name == "config.json")
    }
    if len(commits) > 1:
        j.found.add(
            "H03",
            evidence=", ".join(sorted(commit[:12] for commit in commits)),
            count=len(commits),
        )
    _check_listed(j, records)


def _check_listed(j: Judgement, records: Records) -> None:
    """Files that the release has and the folder has not."""
    if not records.listed or j.found.has("N02", "F01"):
        return
    files = j.source.files()
    absent = [n for n in records.listed if "/" not in n and n not in files]
    weights = [n for n in absent if n.endswith(".safetensors")]
    # An index that names none of them says that they are not needed.
    serious = [n for n in weights if j.index.weight_map is None] + [
        n for n in absent if n in {"config.json", "tokenizer.json"}
    ]
    if INDEX_NAME in absent and weights:
        serious.append(INDEX_NAME)
    if serious:
        j.found.add("H05", evidence=", ".join(serious[:3]), files=serious)
    elif weights:
        j.found.add(
            "H05",
            severity=Severity.INFO,
            evidence=", ".join(weights[:3]),
            consequence=t("The index does not name them: a download by pattern left them out."),
            remedy=t("Nothing to do."),
            files=weights,
        )


def _edited(path: Path, record: Record) -> bool:
    """Whether a file was changed after the download noted it."""
    if record.noted is None:
        return False
    try:
        return path.stat().st_mtime - _SLACK_S > record.noted
    except OSError:
        return False


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
        edited = [name for name, record in known.items() if _edited(folder / name, record)]
        if edited:
            j.found.add("H04", evidence=", ".join(edited[:3]), files=edited)
        jobs = [
            HashJob(name, folder / name, git=record.sha256 is None)
            for name, record in known.items()
            if name not in edited and j.source.files()[name].kind is FileKind.FILE
        ]
        if self.manifest is not None:
            _say_absent(j, records)
        if not jobs:
            j.found.add("H06", evidence=f"{len(names)} files", count=len(names))
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
