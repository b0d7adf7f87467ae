"""Whole downloads against scripted faults: what is kept, what is fetched again, what is said."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import socket
import ssl
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from qwen_tui.services.download import session as session_module
from support.fake_hub import COMMIT, Fault

if TYPE_CHECKING:
    from qwen_tui.services.download import DownloadSession
    from support.download_bench import Bench

MODEL = "model.safetensors"
SIZE = 1 << 20


def starts(bench: Bench) -> list[int]:
    return [s.start for s in bench.hub.ranges(MODEL)]


def after_probe(bench: Bench, *faults: Fault) -> None:
    """Script the storage; the plan's one-byte probe takes the first slot."""
    bench.hub.fail(f"storage:{MODEL}", Fault(), *faults)


async def test_a_quiet_download(bench: Bench, tmp_path: Path) -> None:
    bench.dest = tmp_path / "on a disk"
    run = await bench.download()
    assert run.status == "complete"
    assert bench.whole()
    assert run.of("ready")[0]["xet"] == "off"
    assert run.plan["fetch_bytes"] == run.plan["total_bytes"] == SIZE + 54
    assert run.result["fetched_bytes"] == SIZE + 54
    roles = {h["host"]: h["roles"] for h in run.result["hosts"]}
    assert roles == {
        f"127.0.0.1:{bench.hub.ports['hub']}": ["files", "listing"],
        f"localhost:{bench.hub.ports['storage']}": ["storage"],
    }
    manifest = json.loads((bench.dest / ".cache/qwen-tui/manifest.json").read_bytes())
    assert manifest["commit"] == COMMIT
    assert manifest["files"][MODEL]["sha256"] == bench.hub.sha256(MODEL)


async def test_the_second_time_nothing_is_fetched_or_hashed(bench: Bench) -> None:
    await bench.download()
    before = len(bench.hub.seen)
    run = await bench.download()
    assert run.status == "complete"
    assert {f["state"] for f in run.plan["files"]} == {"here"}
    assert [s.host for s in bench.hub.seen[before:]] == ["hub"]


async def test_drops_are_continued_from_the_last_byte(bench: Bench) -> None:
    after_probe(bench, Fault(drop_after=400_000), Fault(drop_after=300_000))
    run = await bench.download()
    assert run.status == "complete"
    assert bench.whole()
    assert starts(bench) == [0, 400_000, 700_000]
    assert sum(s.sent for s in bench.hub.ranges(MODEL)) == SIZE
    assert [e["code"] for e in run.of("retry")] == ["dropped", "dropped"]
    etag = f'"{bench.hub.sha256(MODEL)}"'
    assert [s.if_range for s in bench.hub.ranges(MODEL)] == [None, etag, etag]


async def test_progress_resets_the_patience(bench: Bench) -> None:
    after_probe(bench, *[Fault(drop_after=100_000) for _ in range(9)])
    assert (await bench.download(attempts=2)).status == "complete"


async def test_without_progress_the_patience_ends_and_the_bytes_stay(bench: Bench) -> None:
    after_probe(bench, Fault(drop_after=400_000), *[Fault(drop_after=0) for _ in range(9)])
    run = await bench.download(attempts=3)
    assert run.status == "failed"
    assert run.result["failures"][0]["path"] == MODEL
    assert not (bench.dest / MODEL).exists()
    again = await bench.download(attempts=9)
    assert again.plan["kept_bytes"] == 400_000
    assert again.status == "complete"


async def test_another_process_goes_on(bench: Bench) -> None:
    after_probe(bench, Fault(silence_after=600_000))

    def stop(session: DownloadSession, event: dict[str, Any]) -> None:
        if event["event"] == "progress" and event["done_bytes"] >= 600_000:
            session.cancel()

    first = await bench.download(stop)
    assert first.status == "cancelled"
    second = await bench.download()
    assert second.plan["kept_bytes"] == 600_000
    assert second.status == "complete"
    assert starts(bench)[-1] == 600_000
    assert bench.whole()


async def test_a_changed_etag_restarts_that_file(bench: Bench) -> None:
    after_probe(bench, Fault(drop_after=400_000), Fault(etag='"another"'))
    run = await bench.download()
    assert run.status == "complete"
    assert bench.whole()
    assert [(e["why"], e["lost_bytes"]) for e in run.of("restarted")] == [("changed", 400_000)]


async def test_a_server_without_ranges_restarts_that_file(bench: Bench) -> None:
    after_probe(bench, Fault(drop_after=400_000), Fault(ignore_range=True))
    run = await bench.download()
    assert run.status == "complete"
    assert bench.whole()
    assert [e["why"] for e in run.of("restarted")] == ["no_ranges"]


async def test_a_wrong_hash_is_kept_aside_and_fetched_once_more(bench: Bench) -> None:
    after_probe(bench, Fault(corrupt=True))
    run = await bench.download()
    assert run.status == "complete"
    assert bench.whole()
    mismatch = run.of("mismatch")[0]
    assert mismatch["expected"] == bench.hub.sha256(MODEL)
    kept = bench.dest / ".cache/qwen-tui/aside" / MODEL
    assert mismatch["kept"] == str(kept)
    assert kept.stat().st_size == SIZE
    assert starts(bench) == [0, 0]


async def test_a_second_wrong_hash_is_the_end(bench: Bench) -> None:
    after_probe(bench, Fault(corrupt=True), Fault(corrupt=True))
    run = await bench.download()
    assert run.status == "failed"
    assert [f["code"] for f in run.result["failures"]] == ["hash_mismatch"]
    assert not (bench.dest / MODEL).exists()
    assert (bench.dest / "config.json").exists()


async def test_a_damaged_kept_part_is_found_by_the_hash(bench: Bench) -> None:
    after_probe(bench, Fault(drop_after=400_000), *[Fault(drop_after=0)] * 3)
    await bench.download(attempts=2)
    part = bench.dest / ".cache/qwen-tui/incoming" / f"{MODEL}.incomplete"
    with part.open("r+b") as file:
        file.seek(1000)
        byte = file.read(1)
        file.seek(1000)
        file.write(bytes([byte[0] ^ 0xFF]))
    run = await bench.download()
    assert run.status == "complete"
    assert len(run.of("mismatch")) == 1
    assert bench.whole()


async def test_small_files_are_proven_by_their_blob_id(bench: Bench) -> None:
    bench.hub.fail("hub:config.json", Fault(corrupt=True), Fault(corrupt=True))
    run = await bench.download()
    assert [f["code"] for f in run.result["failures"]] == ["hash_mismatch"]


async def test_silence_is_called_out_and_left(bench: Bench) -> None:
    after_probe(bench, Fault(silence_after=500_000))
    began = time.monotonic()
    run = await bench.download(stall_s=1.5)  # longer than a busy machine takes for an answer
    assert run.status == "complete"
    assert [e["code"] for e in run.of("retry")] == ["stalled"]
    assert time.monotonic() - began < 10
    assert starts(bench)[-1] == 500_000


async def test_a_drip_is_no_connection(bench: Bench) -> None:
    after_probe(bench, Fault(drip_s=0.05))
    run = await bench.download(stall_s=1.5)
    assert run.status == "complete"
    assert [e["code"] for e in run.of("retry")] == ["stalled"]


@pytest.mark.parametrize(
    ("where", "status", "headers"),
    [
        ("api", 429, {"Retry-After": "0"}),
        ("api", 503, {}),
        (f"hub:{MODEL}", 500, {}),
        (f"storage:{MODEL}", 429, {"Retry-After": "0"}),
        (f"storage:{MODEL}", 503, {}),
    ],
)
async def test_busy_servers_are_asked_again(
    bench: Bench, where: str, status: int, headers: dict[str, str]
) -> None:
    if where != "api":
        bench.hub.fail(where, Fault())
    bench.hub.fail(where, Fault(status=status, headers=headers))
    run = await bench.download()
    assert run.status == "complete"
    assert bench.whole()


async def test_retry_after_is_obeyed(bench: Bench) -> None:
    after_probe(bench, Fault(status=429, headers={"Retry-After": "1"}))
    began = time.monotonic()
    run = await bench.download()
    assert run.status == "complete"
    assert run.of("retry")[0]["wait_s"] == 1
    assert time.monotonic() - began > 1


async def test_a_wait_of_hours_is_not_sat_out(bench: Bench) -> None:
    after_probe(bench, Fault(status=429, headers={"Retry-After": "7200"}))
    run = await bench.download()
    assert [f["code"] for f in run.result["failures"]] == ["rate_limited"]


def read(path: str) -> str:
    return Path(path).read_text(encoding="utf-8")


def error_of(run: Any) -> str:
    assert run.error is not None
    return str(run.error.message)


async def test_a_gated_repository(bench: Bench) -> None:
    bench.hub.gated = True
    run = await bench.download()
    assert "gated" in error_of(run)
    assert "Accept its terms" in str(run.error.remedy if run.error else "")
    assert run.of("plan") == []


async def test_a_private_repository_wants_a_token(bench: Bench) -> None:
    bench.hub.token = "hf_rightrightright"
    assert "wants a token (401)" in error_of(await bench.download())
    run = await bench.download(env={"HF_TOKEN": "hf_rightrightright"})
    assert run.status == "complete"
    assert run.of("ready")[0]["token"] == {"present": True, "from": "HF_TOKEN"}
    assert not any("hf_right" in json.dumps(e) for e in run.events)


async def test_the_token_goes_to_the_hub_only(bench: Bench) -> None:
    await bench.download(env={"HF_TOKEN": "hf_secretsecret"})
    tokens = {s.host: {t.token for t in bench.hub.seen if t.host == s.host} for s in bench.hub.seen}
    assert tokens == {"hub": {"hf_secretsecret"}, "storage": {None}}


async def test_an_invalid_token(bench: Bench) -> None:
    headers = {"X-Error-Message": "Invalid credentials in Authorization header"}
    bench.hub.fail("api", *[Fault(status=401, headers=headers)] * 4)
    run = await bench.download(env={"HF_TOKEN": "hf_oldoldoldold"})
    assert "does not accept the token" in error_of(run)


async def test_unknown_names(bench: Bench) -> None:
    assert "no such repository" in error_of(await bench.download(repo="org/other"))
    assert "not the revision" in error_of(await bench.download(revision="v9"))
    assert "no repository name" in error_of(await bench.download(repo="a/b/c"))


async def test_a_redirect_to_xets_storage_that_refuses(bench: Bench) -> None:
    """The host is told apart by name, so the redirect goes through a proxy that knows it."""
    target = "http://cas-server.xethub.hf.co/reconstruction/0"
    bench.hub.fail(f"hub:{MODEL}", Fault(redirect=target))
    bench.hub.fail("xet", Fault(status=401))
    proxy = bench.hub.url("xet")
    env = {"http_proxy": proxy, "no_proxy": "127.0.0.1"}
    run = await bench.download(env=env)
    assert "Xet's storage cas-server.xethub.hf.co, which refuses (401)" in error_of(run)
    assert "mirror" in str(run.error.remedy if run.error else "")


async def test_a_redirect_to_xets_storage_that_cannot_be_reached(bench: Bench) -> None:
    target = "http://cas-bridge.xethub.hf.co.invalid/x"
    bench.hub.fail(f"hub:{MODEL}", Fault(redirect=target))
    run = await bench.download()
    assert "cannot be reached" in error_of(run)


async def test_a_redirect_ring(bench: Bench) -> None:
    here = f"{bench.hub.endpoint}/{bench.hub.repo}/resolve/{COMMIT}/{MODEL}"
    bench.hub.fail(f"hub:{MODEL}", *[Fault(redirect=here)] * 12)
    assert "redirects without an end" in error_of(await bench.download())


async def test_listing_and_file_host_are_reported_apart(bench: Bench) -> None:
    run = await bench.download()
    listing, files = run.plan["probes"]
    assert listing["host"] == f"127.0.0.1:{bench.hub.ports['hub']}"
    assert files["content_host"] == f"localhost:{bench.hub.ports['storage']}"
    assert files["ranges"] is True


async def test_a_mirror_that_lists_but_does_not_serve(bench: Bench) -> None:
    bench.hub.fail(f"storage:{MODEL}", Fault(status=403))
    run = await bench.download()
    assert "storage host" in error_of(run)
    assert run.of("probed")[0]["probes"][0]["what"] == "listing"


async def test_a_host_that_is_not_there(bench: Bench) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
    run = await bench.download(endpoint=f"http://127.0.0.1:{port}")
    assert f"127.0.0.1:{port} refuses connections" in error_of(run)


async def test_a_proxy_that_is_not_there(bench: Bench) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
    proxy = f"http://me:sekretpw@127.0.0.1:{port}"
    run = await bench.download(endpoint="http://hub.invalid", env={"http_proxy": proxy})
    assert error_of(run).startswith(f"The proxy 127.0.0.1:{port} on the way to hub.invalid cannot")


async def test_a_proxy_that_refuses(bench: Bench) -> None:
    """The stand-in answers every request for another host with 407, as a proxy does."""
    bench.hub.fail("xet", *[Fault(status=407)] * 9)
    env = {"http_proxy": bench.hub.url("xet")}
    run = await bench.download(endpoint="http://hub.invalid", env=env)
    assert error_of(run).startswith("The proxy did not lead to hub.invalid (407")


async def test_a_certificate_that_is_not_trusted(bench: Bench, tmp_path: Any) -> None:
    key, cert = tmp_path / "k.pem", tmp_path / "c.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1"]
    command += ["-keyout", str(key), "-out", str(cert), "-subj", "/CN=localhost"]
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    await asyncio.to_thread(subprocess.run, command, check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    server = await asyncio.start_server(lambda _r, w: w.close(), "127.0.0.1", 0, ssl=context)
    port = server.sockets[0].getsockname()[1]
    run = await bench.download(endpoint=f"https://localhost:{port}")
    server.close()
    assert f"The certificate of localhost:{port} is not trusted" in error_of(run)


async def test_a_size_that_is_not_the_listed_one(bench: Bench) -> None:
    bench.hub.listed_sizes[MODEL] = SIZE + 1
    run = await bench.download()
    assert [f["code"] for f in run.result["failures"]] == ["size_mismatch"]


async def test_files_over_the_http_limit_are_named_before_anything_is_fetched(
    bench: Bench,
) -> None:
    bench.hub.listed_sizes[MODEL] = 50 * 10**9 + 1
    run = await bench.download()
    assert MODEL in error_of(run)
    assert run.plan["too_large"] == [MODEL]
    assert bench.hub.ranges(MODEL) == []


async def test_more_than_the_disk_holds_is_refused_before(bench: Bench) -> None:
    bench.hub.large_from = 1
    for n in range(40):
        bench.hub.files[f"w{n:02}.bin"] = b"x" * 2000
        bench.hub.listed_sizes[f"w{n:02}.bin"] = 49 * 10**9
    run = await bench.download()
    assert "have to come" in error_of(run)
    assert run.plan["free_after_bytes"] < 0


async def test_a_file_somebody_edited_is_kept(bench: Bench) -> None:
    await bench.download()
    (bench.dest / "config.json").write_text("my own")
    run = await bench.download()
    assert run.status == "complete"
    states = {f["path"]: f["state"] for f in run.plan["files"]}
    assert states == {"config.json": "differs", MODEL: "here"}
    kept = run.of("displaced")[0]["kept"]
    assert read(kept) == "my own"
    assert bench.whole()


async def test_present_files_of_unknown_origin_are_hashed_once(bench: Bench) -> None:
    bench.dest.mkdir()
    content = bench.hub.files[MODEL]
    assert isinstance(content, bytes)
    (bench.dest / MODEL).write_bytes(content)
    run = await bench.download()
    assert run.plan["here_bytes"] == SIZE
    assert bench.hub.ranges(MODEL) == []


async def test_one_writer_per_folder(bench: Bench) -> None:
    bench.hub.rate_bytes_s = 300_000
    inner: list[Any] = []

    async def second() -> None:
        inner.append(await bench.download())

    tasks: list[asyncio.Task[None]] = []

    def begin(session: DownloadSession, event: dict[str, Any]) -> None:
        if event["event"] == "plan":
            tasks.append(asyncio.create_task(second()))
        if tasks and tasks[0].done():
            session.cancel()

    await bench.download(begin)
    await tasks[0]
    assert "Another download writes to" in error_of(inner[0])


async def test_pause_and_resume(bench: Bench) -> None:
    bench.hub.rate_bytes_s = 2_000_000
    seen: list[bool] = []

    def act(session: DownloadSession, event: dict[str, Any]) -> None:
        if event["event"] != "progress":
            return
        seen.append(event["paused"])
        if len(seen) == 1:
            session.pause()
        elif event["paused"]:
            session.resume()

    bench.hub.files[MODEL] = os.urandom(3 << 20)
    run = await bench.download(act)
    assert run.status == "complete"
    assert True in seen
    assert run.of("retry") == []
    assert bench.whole()
    sent = sum(s.sent for s in bench.hub.ranges(MODEL))
    # What was on its way when the connections were closed is all that may come twice.
    assert sent <= (3 << 20) + (3 << 20)


async def test_the_speed_limit_holds(bench: Bench) -> None:
    run = await bench.download(limit_bytes_s=1_000_000)
    assert run.status == "complete"
    # A second's worth may come at once, so a MiB takes no time less than 5 % of a second more.
    assert run.result["seconds"] > (SIZE - 1_000_000) / 1_000_000


async def test_offline_mode_is_respected(bench: Bench) -> None:
    run = await bench.download(env={"HF_HUB_OFFLINE": "1"})
    assert "HF_HUB_OFFLINE" in error_of(run)


async def test_nothing_matches(bench: Bench) -> None:
    run = await bench.download(include=("*.gguf",))
    assert "None of the 2 files" in error_of(run)


async def test_weights_that_are_not_loaded_are_left_out(bench: Bench) -> None:
    bench.hub.files["pytorch_model.bin"] = b"x" * 5000
    bench.hub.files["model.safetensors.index.json"] = json.dumps(
        {"weight_map": {"a": MODEL}}
    ).encode()
    run = await bench.download(loaded_only=True)
    assert run.status == "complete"
    assert [f["path"] for f in run.plan["left_out"]] == ["pytorch_model.bin"]
    assert not (bench.dest / "pytorch_model.bin").exists()
    assert (bench.dest / "model.safetensors.index.json").exists()


async def test_a_worker_with_xet_on_refuses_to_work(bench: Bench) -> None:
    """The environment is the parent's business; the worker trusts what the library has read."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "qwen_tui.services.download.worker",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env=bench.environment(),
    )
    out, _ = await process.communicate(bench.request().to_json().encode() + b"\n")
    event = json.loads(out.splitlines()[0])
    assert (event["event"], event["code"]) == ("error", "xet_on")
    assert bench.hub.seen == []


async def test_cancel_does_not_wait_for_a_silent_host(
    cold_bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_module, "CANCEL_GRACE_S", 0.3)
    cold_bench.hub.fail("api", *[Fault(silence_after=0)] * 3)
    began = time.monotonic()
    tasks: list[asyncio.Task[None]] = []

    async def stop_in_silence(session: DownloadSession) -> None:
        await asyncio.to_thread(cold_bench.hub.silent.wait)
        session.cancel()

    def stop(session: DownloadSession, event: dict[str, Any]) -> None:
        if event["event"] == "ready":
            tasks.append(asyncio.create_task(stop_in_silence(session)))

    run = await cold_bench.download(stop)
    await tasks[0]
    assert "ended with -9" in error_of(run)
    assert time.monotonic() - began < 7
