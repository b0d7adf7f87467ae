"""Where the records of a download are found."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from qwen_tui_diagnostics.checkpoint.records import read_records

if TYPE_CHECKING:
    from pathlib import Path

COMMIT, OTHER = "a" * 40, "b" * 40


def _manifest(folder: Path, digest: str) -> None:
    folder.mkdir(parents=True)
    document = {"files": {"model.safetensors": {"sha256": digest, "size": 5}}}
    (folder / "manifest.json").write_text(json.dumps(document), encoding="utf-8")


def test_a_snapshot_of_the_cache_has_its_own_commits_manifest(tmp_path: Path) -> None:
    storage = tmp_path / "models--org--name"
    snapshot = storage / "snapshots" / COMMIT
    snapshot.mkdir(parents=True)
    _manifest(storage / ".qwen-tui" / COMMIT, "1" * 64)
    _manifest(storage / ".qwen-tui" / OTHER, "2" * 64)
    assert read_records(snapshot).files["model.safetensors"].sha256 == "1" * 64


def test_a_plain_folder_has_it_beside_its_files(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    _manifest(folder / ".cache" / "qwen-tui", "3" * 64)
    assert read_records(folder).files["model.safetensors"].sha256 == "3" * 64
