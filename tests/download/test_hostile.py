"""Mirrors, repositories and folders that mean harm: nothing is written, sent or run for them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from qwen_tui.services.download.hashing import Follower
from qwen_tui.services.download.listing import check_commit, check_path, git_id, sha256_id
from qwen_tui.services.download.lock import FolderLock
from qwen_tui.services.download.partial import Partial
from qwen_tui.services.download.problems import Problem
from qwen_tui.services.download.route import retry_after_s
from support.fake_hub import COMMIT, Fault

if TYPE_CHECKING:
    from support.download_bench import Bench, Run

MODEL = "model.safetensors"
TOKEN = "hf_secretsecret"


def error_of(run: Run) -> str:
    assert run.error is not None
    return str(run.error.message)


def read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "path",
    [
        *("../evil", "a/../../evil", "/etc/cron.d/evil", "a//b", "./a", "", ".cache/x"),
        *("a\x1b[31mb", "a\nb", "a\x00b", "a\x85b", "a\u202egpj.exe", "\ud800", "a\\b"),
        *("x" * 256, "a/" + "ü" * 128),
    ],
)
def test_paths_that_are_refused(path: str) -> None:
    with pytest.raises(Problem) as raised:
        check_path(path)
    assert raised.value.code == "unsafe_path"


async def test_a_listing_that_climbs_out_writes_nothing(bench: Bench) -> None:
    bench.hub.files["../evil.json"] = b"{}"
    run = await bench.download()
    assert "unsafe path: ../evil.json" in error_of(run)
    assert not bench.dest.exists()
    assert not (bench.dest.parent / "evil.json").exists()


@pytest.mark.parametrize("commit", ["../../../evil", "main", COMMIT[:-1], COMMIT.upper(), 5, None])
def test_what_is_no_commit(commit: object) -> None:
    with pytest.raises(Problem) as raised:
        check_commit(commit, "main", "org/model")
    assert raised.value.code == "bad_listing"


def test_another_commit_than_was_asked_for() -> None:
    other = "f" * 40
    with pytest.raises(Problem) as raised:
        check_commit(COMMIT, other, "org/model")
    assert raised.value.code == "other_commit"
    assert check_commit(COMMIT, COMMIT, "org/model") == COMMIT
    assert check_commit(COMMIT, "v1.0", "org/model") == COMMIT


@pytest.mark.parametrize("value", ["../../.bashrc", "", "0" * 63, "G" * 64, 7, ["a"]])
def test_what_is_no_hash(value: object) -> None:
    for read_id in (sha256_id, git_id):
        with pytest.raises(Problem):
            read_id(value, "x", "org/model")


@pytest.mark.parametrize("name", ["config.json", MODEL])
async def test_a_hash_cannot_name_a_file_outside_the_cache(bench: Bench, name: str) -> None:
    """In the cache a blob is named by what the listing says; such a blob was also never proven."""
    bench.hub.listed_hashes[name] = "../../../../evil"
    run = await bench.download(dest=None)
    assert "impossible hash of" in error_of(run)
    assert not list(bench.home.rglob("evil*"))
    assert bench.hub.ranges(MODEL) == []


async def test_a_commit_cannot_name_a_folder_outside_the_cache(bench: Bench) -> None:
    bench.hub.listed_commit = "../../../evil"
    assert "impossible commit" in error_of(await bench.download(dest=None))
    assert not list(bench.home.rglob("evil*"))


async def test_without_a_hash_nothing_is_called_proven(bench: Bench) -> None:
    bench.hub.hashless = True
    run = await bench.download()
    assert run.status == "complete"
    assert bench.whole()
    assert {e["proven"] for e in run.of("file")} == {False}
    assert sorted(run.result["unproven"]) == ["config.json", MODEL]


async def test_a_part_of_unknown_content_is_not_continued(bench: Bench) -> None:
    """No hash in the listing and no entity tag: nothing says that the rest belongs to it."""
    bench.hub.hashless = True
    weak = 'W/"x"'
    drop = [Fault(drop_after=400_000, etag=weak), *[Fault(drop_after=0, etag=weak)] * 3]
    bench.hub.fail(f"storage:{MODEL}", Fault(etag=weak), *drop)
    assert (await bench.download(attempts=2)).status == "failed"
    bench.hub.faults.clear()
    before = len(bench.hub.begun)
    assert (await bench.download()).status == "complete"
    assert [start for path, start in bench.hub.begun[before:] if path == MODEL] == [0]
    assert bench.whole()


@pytest.mark.parametrize("where", ["incoming", "lock", "metadata"])
async def test_a_link_in_our_place_does_not_cost_its_target(bench: Bench, where: str) -> None:
    victim = bench.home / "precious"
    victim.write_text("mine")
    link = {
        "incoming": bench.dest / ".cache/qwen-tui/incoming" / f"{MODEL}.incomplete",
        "lock": bench.dest / ".cache/qwen-tui/lock",
        "metadata": bench.dest / ".cache/huggingface/download" / f"{MODEL}.metadata",
    }[where]
    link.parent.mkdir(parents=True)
    link.symlink_to(victim)
    run = await bench.download()
    assert read(victim) == "mine"
    assert (run.error is None and run.status == "complete") == (where == "metadata")


async def test_a_link_in_the_files_place_is_replaced_not_followed(bench: Bench) -> None:
    victim = bench.home / "precious"
    victim.write_text("mine")
    bench.dest.mkdir()
    (bench.dest / MODEL).symlink_to(victim)
    assert (await bench.download()).status == "complete"
    assert read(victim) == "mine"
    assert not (bench.dest / MODEL).is_symlink()
    assert bench.whole()


@pytest.mark.parametrize("way", ["sub", ".cache"])
async def test_a_folder_that_leads_out_is_named_before_anything_is_fetched(
    bench: Bench, way: str
) -> None:
    bench.hub.files["sub/a.bin"] = b"x" * 5000
    outside = bench.home / "outside"
    outside.mkdir()
    bench.dest.mkdir()
    (bench.dest / way).symlink_to(outside)
    assert "leads out of the folder" in error_of(await bench.download())
    assert not (outside / "a.bin").exists()
    assert bench.hub.begun == []


async def test_a_link_within_the_folder_is_the_users_own(bench: Bench) -> None:
    bench.hub.files["sub/a.bin"] = b"x" * 5000
    (bench.dest / "real").mkdir(parents=True)
    (bench.dest / "sub").symlink_to("real")
    assert (await bench.download()).status == "complete"
    assert (bench.dest / "real/a.bin").stat().st_size == 5000


@pytest.mark.parametrize("folder", [True, False])
async def test_what_is_in_the_way_is_named_before_anything_is_fetched(
    bench: Bench, folder: bool
) -> None:
    bench.hub.files["sub/a.bin"] = b"x" * 5000
    if folder:
        (bench.dest / MODEL).mkdir(parents=True)
    else:
        bench.dest.mkdir()
        (bench.dest / "sub").write_text("a file")
    assert "is in the way" in error_of(await bench.download())
    assert bench.hub.begun == []


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("file:///etc/passwd", "kind file:"),
        ("ftp://127.0.0.1/x", "kind ftp:"),
        ("data:text/plain,x", "kind data:"),
        ("http://[bad", "redirects without an end or a target"),
        ("http://h:99999/", "redirects without an end or a target"),
    ],
)
async def test_redirects_that_are_not_followed(bench: Bench, target: str, words: str) -> None:
    bench.hub.fail(f"hub:{MODEL}", Fault(redirect=target))
    run = await bench.download()
    assert words in error_of(run)
    assert bench.hub.ranges(MODEL) == []


async def test_the_listing_takes_the_token_to_no_other_host(bench: Bench) -> None:
    away = {"Location": bench.hub.url("xet") + "/api/models/org/model"}
    bench.hub.fail("api", Fault(status=307, headers=away))
    run = await bench.download(env={"HF_TOKEN": TOKEN})
    assert run.error is not None
    assert [s.token for s in bench.hub.seen if s.host == "hub"] == [TOKEN]
    assert [s.token for s in bench.hub.seen if s.host == "xet"] == [None]


async def test_a_stored_token_stays_where_it_is_when_the_user_says_so(bench: Bench) -> None:
    env = {"HF_TOKEN": TOKEN, "HF_HUB_DISABLE_IMPLICIT_TOKEN": "1"}
    run = await bench.download(env=env)
    assert run.of("ready")[0]["token"] == {"present": False, "from": None}
    assert {s.token for s in bench.hub.seen} == {None}


async def test_a_password_in_the_endpoint_is_shown_nowhere(bench: Bench) -> None:
    endpoint = bench.hub.endpoint.replace("://", "://me:sekretpw@")
    run = await bench.download(endpoint=endpoint)
    assert run.of("ready")
    assert "sekretpw" not in json.dumps(run.events) + str(run.error)


async def test_no_argument_of_the_worker_holds_the_token(cold_bench: Bench) -> None:
    seen: list[bytes] = []

    def look(session: Any, event: dict[str, Any]) -> None:
        if event["event"] == "ready":
            seen.append(Path(f"/proc/{session.pid}/cmdline").read_bytes())

    run = await cold_bench.download(look, env={"HF_TOKEN": TOKEN})
    assert run.status == "complete"
    assert b"download.worker" in seen[0]
    assert TOKEN.encode() not in seen[0]


async def test_a_server_that_is_no_hub(bench: Bench) -> None:
    bench.hub.fail("api", Fault(status=200))
    assert "answers, but not as the Hub does" in error_of(await bench.download())


async def test_a_listing_that_asks_for_hours_is_not_waited_for(bench: Bench) -> None:
    bench.hub.fail("api", Fault(status=429, headers={"Retry-After": "7200"}))
    began = time.monotonic()
    run = await bench.download()
    assert "come back in 7,200 s" in error_of(run)
    assert time.monotonic() - began < 30


async def test_retries_of_the_listing_are_told(bench: Bench) -> None:
    bench.hub.fail("api", Fault(status=503), Fault(status=429, headers={"Retry-After": "0"}))
    run = await bench.download()
    assert run.status == "complete"
    assert [e["code"] for e in run.of("retry")] == ["server_error", "rate_limited"]


@pytest.mark.parametrize("value", ["²", "soon", "-5", "", "1e9"])
def test_what_retry_after_does_not_say(value: str) -> None:
    assert retry_after_s({"Retry-After": value}) is None


async def test_edits_are_kept_each_time(bench: Bench) -> None:
    kept = []
    for text in ("first edit", "second edit"):
        await bench.download()
        (bench.dest / "config.json").write_text(text)
        kept.append((await bench.download()).of("displaced")[0]["kept"])
    assert [read(Path(k)) for k in kept] == ["first edit", "second edit"]


def test_the_current_folder_is_not_imported_from(cold_bench: Bench) -> None:
    """Model folders hold Python files; one of them may be called like a library."""
    folder = cold_bench.home / "model_code"
    folder.mkdir()
    marker = folder / "ran"
    for name in ("huggingface_hub", "httpx2", "yaml", "qwen_tui", "json"):
        (folder / f"{name}.py").write_text(f"open({str(marker)!r}, 'w').close()\n")
    code = "import sys; from qwen_tui.cli import main; sys.exit(main())"
    argv = [sys.executable, "-P", "-c", code, "download", "org/model", "--dry-run"]
    done = subprocess.run(
        [*argv, "--dest", str(cold_bench.dest)],
        env=cold_bench.environment(HF_ENDPOINT=cold_bench.hub.endpoint),
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert not marker.exists()
    # A plan that nobody agreed to leaves no trace either.
    assert not cold_bench.dest.exists()


def test_a_dropped_plan_does_not_weaken_the_lock(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    with FolderLock(folder), pytest.raises(Problem), FolderLock(folder):
        pass
    assert not (tmp_path / "a").exists()
    with FolderLock(folder) as lock:
        lock.used = True
    assert (folder / "lock").exists()
    with FolderLock(folder):
        pass
    assert (folder / "lock").exists()


def test_a_part_that_another_program_cuts_short_does_not_spin(tmp_path: Path) -> None:
    part = Partial.open(tmp_path / "x.incomplete", "a" * 64, 100)
    part.write(b"x" * 50)
    os.truncate(part.path, 0)
    outcome: list[BaseException] = []

    def wait() -> None:
        try:
            Follower(part, 100, git=False).result()
        except OSError as error:
            outcome.append(error)

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    thread.join(5)
    assert [str(e) for e in outcome] == ["[Errno 5] cut short by another program"]
    part.close()
