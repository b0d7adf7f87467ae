"""Peers that answer well-formed nonsense: no crash, no invented number, figures kept with age."""

from __future__ import annotations

import asyncio
import gzip
import json
import math
import socket
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from qwen_tui.services.live import MetricPoller, Pace
from qwen_tui.services.live.document import live_json
from qwen_tui.services.live.http1 import FetchError, Target, get
from qwen_tui.services.live.normalise import Buckets, Reading
from qwen_tui.services.live.windows import History
from support.exporter import Exporter
from support.live_watch import Watcher
from support.metrics_server import Request, document, serve

if TYPE_CHECKING:
    from collections.abc import Iterable

    from qwen_tui.services.snapshots import LiveSnapshot

H200 = (Path(__file__).with_name("data") / "sglang-h200-0.5.17.prom").read_text()
QUICK = Pace(busy_s=0.01, idle_s=0.02, timeout_s=0.3, back_off_max_s=0.05)
S1 = (("dp_rank", "0"),)


def with_every_value(value: str) -> str:
    return "".join(
        f"{line.rpartition(' ')[0]} {value}\n" if line and line[0] != "#" else line + "\n"
        for line in H200.splitlines()
    )


@pytest.mark.parametrize("value", ["1.7e308", "-1.7e308", "-7", "+Inf", "-Inf", "NaN"])
async def test_a_value_that_no_engine_counts_to_is_unknown(value: str) -> None:
    async with serve({"/metrics": document(with_every_value(value))}) as server:
        poller = MetricPoller(server.url, pace=QUICK)
        shown = [await poller.poll() for _ in range(3)]
    for snapshot in shown:
        assert snapshot.source == "sglang"
        for name in ("running", "queue", "kv_used", "kv_tokens", "mamba_slots", "ttft"):
            assert getattr(snapshot, name) is None, name
        json.dumps(live_json(snapshot), allow_nan=False)


def test_the_sum_of_huge_replicas_is_still_a_number() -> None:
    out = Exporter({"model_name": "m"})
    for rank in "012":
        for name in ("num_running_reqs", "kv_used_tokens", "max_total_num_tokens"):
            out.set(f"sglang:{name}", 1.7e308, dp_rank=rank)
        out.set("sglang:num_requests_total", 1.7e308, dp_rank=rank)
        out.observe("sglang:time_to_first_token_seconds", 1e308, [1.0], n=10**300, dp_rank=rank)
    watcher = Watcher()
    watcher.scrape(out)
    json.dumps(live_json(watcher.scrape(out)), allow_nan=False)


def itl_sums(sums: Iterable[float]) -> list[LiveSnapshot]:
    """Ten samples of 10 ms a second; ``sums`` are what the peer says of their sum."""
    out = Exporter({"model_name": "m"})
    out.set("sglang:num_running_reqs", 1)
    watcher, shown = Watcher(), []
    for second, said in enumerate(sums, 1):
        for le in ("0.02", "+Inf"):
            out.set("sglang:inter_token_latency_seconds_bucket", 10.0 * second, le=le)
        out.set("sglang:inter_token_latency_seconds_sum", said)
        out.set("sglang:realtime_tokens_total", 10.0 * second, mode="decode")
        shown.append(watcher.scrape(out))
    return shown


def test_one_broken_sum_spoils_its_windows_and_no_later_one() -> None:
    said = [0.1 * second for second in range(1, 31)]
    said[2] = math.nan
    said[4] = math.inf
    said[6] = 0.1  # falls although samples came
    shown = itl_sums(said)
    for snapshot in shown:
        json.dumps(live_json(snapshot), allow_nan=False)
    itl = shown[7].windows[0].itl
    assert itl is not None
    assert itl.mean_ms is None
    assert itl.p50_ms == pytest.approx(10)  # of the buckets, which were good: middle of 0 to 20 ms
    last = shown[-1].windows
    assert last[0].itl is not None
    assert last[0].itl.mean_ms == pytest.approx(10)
    assert last[0].stream_tok_s == pytest.approx(100)
    assert last[1].itl is not None
    assert last[1].itl.mean_ms is None, "the minute still holds the broken scrapes"


@pytest.mark.parametrize(("status", "words"), [(503, "503"), (401, "API key")])
async def test_a_refusal_in_between_keeps_the_figures_with_their_age(
    status: int, words: str
) -> None:
    async with serve({"/metrics": document(H200)}) as server:
        poller = MetricPoller(server.url, pace=QUICK)
        fresh = await poller.poll()
        server.routes["/metrics"] = document("bad gateway", status)
        refused = await poller.poll()
        wait = poller.wait_s()
        server.routes["/metrics"] = document(H200)
        again = await poller.poll()
    assert refused.source == "sglang"
    assert refused.kv_tokens == fresh.kv_tokens
    assert refused.stale_s is not None
    assert words in str(refused.error)
    assert wait <= QUICK.back_off_max_s
    assert again.stale_s is None
    assert again.error is None
    assert again.boots == 1


async def test_a_compressed_answer_is_said_to_be_one() -> None:
    body = gzip.compress(H200.encode())

    async def zipped(_: Request, writer: asyncio.StreamWriter) -> None:
        head = f"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: {len(body)}\r\n\r\n"
        writer.write(head.encode() + body)
        await writer.drain()

    async with serve({"/metrics": zipped}) as server:
        snapshot = await MetricPoller(server.url, pace=QUICK).poll()
    assert "compressed (gzip)" in str(snapshot.error)


async def test_an_answer_cut_in_its_head_and_one_that_does_not_begin_are_told_apart() -> None:
    async def cut(_: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Le")
        await writer.drain()

    async with serve({"/metrics": cut}) as server:
        with pytest.raises(FetchError) as caught:
            await get(Target.parse(server.url), "/metrics", timeout_s=1, limit_bytes=1000)
    assert caught.value.kind == "cut"


async def test_a_scrape_of_very_many_series_leaves_the_loop_turning() -> None:
    text = "".join(f'sglang:num_running_reqs{{tp_rank="0",x="{i}"}} 1\n' for i in range(60_000))
    longest_s, beats = 0.0, 0

    async def heartbeat() -> None:
        # The loop's own work: on a busy machine the wall clock tells of others as well.
        nonlocal longest_s, beats
        while True:
            began = time.thread_time()
            await asyncio.sleep(0.005)
            longest_s, beats = max(longest_s, time.thread_time() - began), beats + 1

    async with serve({"/metrics": document(text)}) as server:
        beat = asyncio.ensure_future(heartbeat())
        snapshot = await MetricPoller(server.url, pace=Pace(timeout_s=10)).poll()
        beat.cancel()
    assert snapshot.running == 60_000
    assert longest_s < 0.4
    assert beats > 5, "the loop turned while the scrape was read"


async def test_a_name_server_that_does_not_answer_is_left_behind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The thread that waits for it is a daemon: neither the loop nor the program waits for it."""
    answered = threading.Event()

    def slow(*_: object, **__: object) -> list[object]:
        answered.wait(20)
        raise OSError("nobody answered")

    monkeypatch.setattr(socket, "getaddrinfo", slow)
    before = set(threading.enumerate())
    try:
        with pytest.raises(FetchError) as caught:
            await get(Target.parse("http://slow.example:1"), "/", timeout_s=0.1, limit_bytes=1000)
        assert caught.value.kind == "timeout"
        waiting = [thread for thread in threading.enumerate() if thread not in before]
        assert waiting
        assert all(thread.daemon for thread in waiting)
    finally:
        answered.set()


def test_tokens_that_are_counted_later_do_not_make_decoding_faster() -> None:
    """100 tok/s, of which the counter hears in lumps: the seconds without news were busy too."""
    history = History()
    for second in range(21):
        counted = 100.0 * (second - second % 2)
        history.feed(
            Reading(
                "sglang",
                gauges={"running": 1.0},
                counters={"decoded": {S1: counted}},
                histograms={
                    "itl": {
                        S1: Buckets((0.1, math.inf), (100.0 * second,) * 2, float(second)),
                    }
                },
            ),
            float(second),
        )
    window = history.window(10)
    assert window is not None
    assert window.totals["busy_tokens"] / window.totals["busy_s"] == pytest.approx(100, rel=0.02)
