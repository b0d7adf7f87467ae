"""Sizes and revisions against what the Hub's client noted; nothing is hashed (rules H)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qwen_tui_diagnostics.checkpoint.index import INDEX_NAME
from qwen_tui_diagnostics.checkpoint.records import read_records
from qwen_tui_diagnostics.checkpoint.source import FileKind
from qwen_tui_profiles.findings import Severity
from qwen_tui_profiles.text import t

if TYPE_CHECKING:
    from pathlib import Path

    from qwen_tui_diagnostics.checkpoint.judge import Judgement
    from qwen_tui_diagnostics.checkpoint.records import Record, Records

__all__ = ["check_records", "content_files", "edited"]

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
        if files[name].size != record.size and not edited(folder / name, record):
            wrong.append((name, files[name].size, record.size))
    if wrong:
        name, have, want = wrong[0]
        j.found.add(
            "H01",
            evidence=t(
                "{name}: {have:,} bytes, recorded {want:,}", name=name, have=have, want=want
            ),
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


def edited(path: Path, record: Record) -> bool:
    """Whether a file was changed after the download noted it."""
    if record.noted is None:
        return False
    try:
        return path.stat().st_mtime - _SLACK_S > record.noted
    except OSError:
        return False
