"""The Hub's own client finds a normal folder and a normal cache after us, and we after it."""

from __future__ import annotations

import asyncio
import hashlib
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from qwen_tui_diagnostics.checkpoint import verify
from qwen_tui_diagnostics.checkpoint.content import ContentPass

if TYPE_CHECKING:
    from support.download_bench import Bench

MODEL = "model.safetensors"


async def hub_client(bench: Bench, code: str) -> Any:
    """Run a line of Python with ``huggingface_hub`` at the fake hub; return what it prints."""
    env = bench.environment(HF_ENDPOINT=bench.hub.endpoint, HF_HUB_DISABLE_XET="1")
    prelude = "import json, huggingface_hub as h\n"
    done = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-c", prelude + code],
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def served(bench: Bench) -> int:
    return sum(s.sent for s in bench.hub.seen if s.path in bench.hub.files)


async def test_a_folder_of_ours_is_a_local_dir(bench: Bench) -> None:
    assert (await bench.download()).status == "complete"
    before = served(bench)
    path = await hub_client(
        bench, f"print(json.dumps(h.snapshot_download('org/model', local_dir={str(bench.dest)!r})))"
    )
    assert path == str(bench.dest)
    assert served(bench) == before
    assert bench.whole()


async def test_a_cache_of_ours_is_the_hubs_cache(bench: Bench) -> None:
    assert (await bench.download(dest=None)).status == "complete"
    before = served(bench)
    path = await hub_client(bench, "print(json.dumps(h.snapshot_download('org/model')))")
    offline = await hub_client(
        bench, "print(json.dumps(h.snapshot_download('org/model', local_files_only=True)))"
    )
    assert path == offline
    assert served(bench) == before
    scan = await hub_client(
        bench,
        "c = h.scan_cache_dir()\n"
        "seen = [[r.repo_id, r.nb_files] for r in c.repos]\n"
        "print(json.dumps(seen + [str(w) for w in c.warnings]))",
    )
    assert scan == [["org/model", 2]]


async def test_its_folder_is_ours(bench: Bench) -> None:
    await hub_client(
        bench, f"print(json.dumps(h.snapshot_download('org/model', local_dir={str(bench.dest)!r})))"
    )
    before = served(bench)
    run = await bench.download()
    assert run.status == "complete"
    assert run.plan["fetch_bytes"] == 0
    assert served(bench) == before


async def test_its_cache_is_ours(bench: Bench) -> None:
    await hub_client(bench, "print(json.dumps(h.snapshot_download('org/model')))")
    before = served(bench)
    run = await bench.download(dest=None)
    assert run.status == "complete"
    assert run.plan["fetch_bytes"] == 0
    assert served(bench) == before


@pytest.mark.parametrize("dest", [True, False])
async def test_equal_files_are_whole_in_both_layouts(bench: Bench, dest: bool) -> None:
    content = b"same" * 1000
    bench.hub.files |= {"a.bin": content, "sub/b.bin": content}
    run = await bench.download(**({} if dest else {"dest": None}))
    assert run.status == "complete"
    for name in ("a.bin", "sub/b.bin"):
        with open(f"{run.result['folder']}/{name}", "rb") as file:  # noqa: ASYNC230, PTH123
            assert file.read() == content


async def test_verify_cache_agrees(bench: Bench) -> None:
    """``hf cache verify`` compares every hash with the Hub's tree."""
    has = await hub_client(bench, "print(json.dumps(hasattr(h.HfApi, 'verify_repo_checksums')))")
    if not has:
        pytest.skip("this hub client cannot verify")
    await bench.download()
    bad = await hub_client(
        bench,
        "v = h.HfApi().verify_repo_checksums('org/model', local_dir="
        f"{str(bench.dest)!r}, revision={bench.hub.commit!r})\n"
        "print(json.dumps([len(v.mismatches), len(v.missing_paths)]))",
    )
    assert bad == [0, 0]


async def test_each_commit_in_the_cache_keeps_its_own_record(bench: Bench) -> None:
    """The manifest of a newer commit must not accuse the files of an older one."""
    old = (await bench.download(dest=None)).result
    bench.hub.commit = "a" * 40
    bench.hub.files["config.json"] = b"{}"
    run = await bench.download(dest=None)
    new = run.result
    # The weights are the same blob: proven by the older record, neither fetched nor hashed.
    assert new["fetched_bytes"] == 2
    assert run.of("checking") == []
    for result, text in ((old, '{"architectures"'), (new, "{}")):
        folder = Path(result["folder"])
        manifest = json.loads((folder / result["manifest"]).read_bytes())
        assert manifest["commit"] == folder.name
        assert (folder / "config.json").read_text().startswith(text)
        entry = manifest["files"]["config.json"]
        assert entry["sha256"] == hashlib.sha256((folder / "config.json").read_bytes()).hexdigest()
        assert set(manifest["files"]) == {"config.json", MODEL}
        report = verify(folder, content=ContentPass(workers=1))
        assert not {f.rule for f in report.findings} & {"H01", "H02", "H03"}, report.findings


async def test_the_manifest_alone_finds_a_changed_byte(bench: Bench) -> None:
    """Offline, and without the Hub's own metadata."""
    await bench.download()
    shutil.rmtree(bench.dest / ".cache/huggingface")
    for damaged in (False, True):
        report = verify(bench.dest, content=ContentPass(workers=1))
        assert report.judged.content == "full"
        found = {f.rule: tuple(f.files) for f in report.findings if f.rule.startswith("H")}
        assert found.get("H02") == ((MODEL,) if damaged else None)
        with (bench.dest / MODEL).open("r+b") as file:
            file.seek(700_000)
            file.write(b"damaged")
