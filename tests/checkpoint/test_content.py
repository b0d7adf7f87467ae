"""Content against what the Hub recorded, manifests, samples of the data."""

from __future__ import annotations

import hashlib
import json
import os
import struct
import threading
import time
from typing import TYPE_CHECKING

import pytest

from qwen_tui.services.verify_cache import StoredHashes
from qwen_tui_diagnostics.checkpoint import Reach, Verdict, verify
from qwen_tui_diagnostics.checkpoint.content import ContentPass
from qwen_tui_diagnostics.checkpoint.hashing import Digest, HashJob, hash_files
from qwen_tui_diagnostics.checkpoint.sampling import check_samples
from support.checkpoints import PREFIX, healthy

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

COMMIT = "0123456789abcdef0123456789abcdef01234567"


def _etag(path: Path) -> str:
    data = path.read_bytes()
    if path.suffix == ".safetensors":
        return hashlib.sha256(data).hexdigest()
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


def record_local_dir(folder: Path, commit: str = COMMIT) -> None:
    """Write what ``hf download --local-dir`` leaves."""
    hub = folder / ".cache" / "huggingface"
    (hub / "download").mkdir(parents=True)
    (hub / "trees").mkdir()
    files = {}
    for path in sorted(folder.iterdir()):
        if path.is_file():
            etag = _etag(path)
            (hub / "download" / f"{path.name}.metadata").write_text(
                f"{commit}\n{etag}\n{time.time() + 1}\n"
            )
            entry: dict[str, object] = {"size": path.stat().st_size, "blob_id": etag}
            if path.suffix == ".safetensors":
                entry = {"size": 134, "blob_id": "f" * 40, "lfs_sha256": etag,
                         "lfs_size": path.stat().st_size}  # fmt: skip
            files[path.name] = entry
    (hub / "trees" / f"{commit}.json").write_text(json.dumps({"format_version": 1, "files": files}))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = healthy("ct-int4").write(tmp_path / "x")
    record_local_dir(made)
    return made


def test_recorded_and_whole(folder: Path) -> None:
    report = verify(folder, content=ContentPass())
    assert not report.findings, [(f.rule, f.evidence) for f in report.findings]
    assert (report.verdict, report.judged.content) == (Verdict.OK, Reach.FULL)


def test_one_flipped_bit_is_found(folder: Path) -> None:
    path = folder / "model.safetensors"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    facts = path.stat()
    path.write_bytes(bytes(data))
    os.utime(path, ns=(facts.st_atime_ns, facts.st_mtime_ns))
    assert verify(folder).verdict is Verdict.OK
    report = verify(folder, content=ContentPass())
    assert [(f.rule, f.files) for f in report.findings] == [("H02", ("model.safetensors",))]


def test_a_changed_config_is_not_compared(folder: Path) -> None:
    path = folder / "config.json"
    path.write_text(path.read_text() + " ")
    os.utime(path, (time.time() + 60, time.time() + 60))
    report = verify(folder, content=ContentPass())
    assert [f.rule for f in report.findings] == ["H04"]
    assert report.judged.content is Reach.PARTIAL
    assert report.verdict is Verdict.OK


def test_a_small_file_goes_by_its_git_id(folder: Path) -> None:
    path = folder / "config.json"
    facts = path.stat()
    path.write_text(path.read_text().replace("qwen3_5", "qwen3_6"))
    os.utime(path, ns=(facts.st_atime_ns, facts.st_mtime_ns))
    report = verify(folder, content=ContentPass())
    assert [(f.rule, f.files) for f in report.findings] == [("H02", ("config.json",))]


def test_sizes_are_compared_without_hashing(folder: Path) -> None:
    path = folder / "tokenizer.json"
    facts = path.stat()
    path.write_text('{"version": "1.0", "cut": 1}')
    os.utime(path, ns=(facts.st_atime_ns, facts.st_mtime_ns))
    assert [f.rule for f in verify(folder).findings] == ["H01"]


def test_mixed_revisions(folder: Path) -> None:
    path = folder / ".cache" / "huggingface" / "download" / "model.safetensors.metadata"
    path.write_text(path.read_text().replace(COMMIT, "f" * 40))
    report = verify(folder)
    assert [(f.rule, f.severity.value) for f in report.findings] == [("H03", "warn")]


def test_what_is_listed_and_absent(folder: Path) -> None:
    tree = folder / ".cache" / "huggingface" / "trees" / f"{COMMIT}.json"
    document = json.loads(tree.read_text())
    document["files"]["original.safetensors"] = {"size": 3, "blob_id": "a" * 40}
    tree.write_text(json.dumps(document))
    report = verify(folder)
    assert [(f.rule, f.severity.value) for f in report.findings] == [("H05", "info")]
    (folder / "model.safetensors.index.json").unlink()
    report = verify(folder)
    assert report.findings[0].rule == "H05"
    assert report.verdict is Verdict.ERROR


def test_the_hubs_cache_names_content_by_links(tmp_path: Path) -> None:
    made = healthy("bf16").write(tmp_path / "made")
    storage = tmp_path / "models--org--name"
    snapshot = storage / "snapshots" / COMMIT
    snapshot.mkdir(parents=True)
    (storage / "blobs").mkdir()
    for path in made.iterdir():
        etag = _etag(path)
        path.rename(storage / "blobs" / etag)
        (snapshot / path.name).symlink_to(f"../../blobs/{etag}")
    report = verify(snapshot, content=ContentPass())
    assert not report.findings
    assert report.judged.content is Reach.FULL
    blob = (snapshot / "model_mtp.safetensors").resolve()
    data = bytearray(blob.read_bytes())
    data[-1] ^= 1
    blob.write_bytes(bytes(data))
    report = verify(snapshot, content=ContentPass())
    assert [f.rule for f in report.findings] == ["H02"]


def test_nothing_recorded_is_no_tick(tmp_path: Path) -> None:
    report = verify(healthy("bf16").write(tmp_path / "x"), content=ContentPass())
    assert [f.rule for f in report.findings] == ["H06"]
    assert report.judged.content is Reach.NONE


def test_damaged_records_count_as_none(folder: Path) -> None:
    hub = folder / ".cache" / "huggingface"
    for path in (hub / "download").iterdir():
        path.write_bytes(b"\xff\n")
    (hub / "trees" / f"{COMMIT}.json").write_text("[" * 100_000)
    report = verify(folder, content=ContentPass())
    assert [f.rule for f in report.findings] == ["H06"]


def test_digests_are_remembered_and_forgotten(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"one")
    store = tmp_path / "home" / "cache" / "hashes.json"
    cache = StoredHashes(store)
    passed: list[int] = []
    jobs = [HashJob("file", path)]
    first = hash_files(jobs, workers=1, cache=cache)["file"]
    cache.save()
    assert isinstance(first, Digest)
    assert first.sha256 == hashlib.sha256(b"one").hexdigest()
    assert store.stat().st_mode & 0o777 == 0o600
    assert [p.stat().st_mode & 0o777 for p in (store.parent, store.parent.parent)] == [0o700] * 2
    # The same file again: not one byte is read (its content would now betray it).
    again = StoredHashes(store)
    known = hash_files(jobs, workers=1, cache=again, on_bytes=passed.append)["file"]
    assert isinstance(known, Digest)
    assert known.sha256 == first.sha256
    assert passed == [3]
    path.write_bytes(b"two")
    os.utime(path, ns=(1, 1))
    changed = hash_files(jobs, workers=1, cache=again)["file"]
    assert isinstance(changed, Digest)
    assert changed.sha256 == hashlib.sha256(b"two").hexdigest()
    store.write_text("{broken")
    assert StoredHashes(store).get(path.stat()) is None


def test_an_interrupt_stops_the_workers(tmp_path: Path) -> None:
    path = tmp_path / "big"
    with path.open("wb") as file:
        file.truncate(2 << 30)
    seen = threading.Event()

    def stop(_: int) -> None:
        seen.set()
        raise KeyboardInterrupt

    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        hash_files([HashJob("big", path), HashJob("again", path)], workers=2, on_bytes=stop)
    assert seen.is_set()
    assert time.monotonic() - started < 5


def test_unreadable_files_are_findings(folder: Path) -> None:
    report = verify(
        folder,
        content=ContentPass(begin=lambda _: (folder / "tokenizer.json").unlink()),
    )
    assert [f.rule for f in report.findings] == ["F10"]


def _poke(name: str, change: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    def apply(folder: Path) -> None:
        for path in folder.glob("*.safetensors"):
            data = path.read_bytes()
            length = struct.unpack("<Q", data[:8])[0]
            entry = json.loads(data[8 : 8 + length]).get(name)
            if entry is not None:
                begin, end = (8 + length + x for x in entry["data_offsets"])
                path.write_bytes(data[:begin] + change(data[begin:end]) + data[end:])
                return
        raise AssertionError(name)

    return apply


DOWN = f"{PREFIX}layers.1.mlp.down_proj"


@pytest.mark.parametrize(
    ("kind", "name", "change", "rule", "say"),
    [
        ("ct-int4", f"{DOWN}.weight_scale", lambda b: b[:-2] + b"\x80\x7f", "S01", "infinite"),
        ("ct-int4", f"{DOWN}.weight_scale", lambda b: b"\0" * len(b), "S01", "zero"),
        ("mo-nvfp4", f"{DOWN}.weight_scale", lambda b: b"\x7f" + b[1:], "S01", "NaN"),
        ("mo-nvfp4", f"{DOWN}.weight_scale_2", lambda _: struct.pack("<f", float("nan")), "S01",
         "NaN"),
        ("awq", f"{DOWN}.scales", lambda b: struct.pack("<e", float("inf")) + b[2:], "S01",
         "infinite"),
        ("ct-int4", f"{DOWN}.weight_packed", lambda b: b"\0" * len(b), "S02", "down_proj"),
    ],
)  # fmt: skip
def test_samples(
    kind: str, name: str, change: Callable[[bytes], bytes], rule: str, say: str, tmp_path: Path
) -> None:
    folder = healthy(kind).write(tmp_path / "x")
    assert not verify(folder, sampling=check_samples).findings
    _poke(name, change)(folder)
    report = verify(folder, sampling=check_samples)
    assert [f.rule for f in report.findings] == [rule]
    assert say in str(report.findings[0].evidence) + str(report.findings[0].detail)
    assert report.findings[0].tensors == (name,)
