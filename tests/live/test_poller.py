"""The poller against scripted servers: recorded scrapes, and peers that misbehave."""

from __future__ import annotations

import asyncio
import contextlib
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from qwen_tui.services.live import MetricPoller, Pace
from qwen_tui_profiles.errors import UsageError
from support.metrics_server import Request, document, serve

if TYPE_CHECKING:
    from qwen_tui.services.snapshots import LiveSnapshot

DATA = Path(__file__).with_name("data")
H200 = (DATA / "sglang-h200-0.5.17.prom").read_text()
H200_INFO = (DATA / "sglang-h200-0.5.17_server_info.json").read_bytes()
QUICK = Pace(busy_s=0.01, idle_s=0.02, timeout_s=0.3, back_off_max_s=0.05)


async def polls(url: str, n: int, pace: Pace = QUICK) -> list[LiveSnapshot]:
    out = []
    stream = MetricPoller(url, pace=pace).stream()
    async with contextlib.aclosing(stream):
        async for snapshot in stream:
            out.append(snapshot)
            if len(out) == n:
                break
    return out


async def test_a_recorded_h200_is_read_right() -> None:
    async with serve(
        {"/metrics": document(H200), "/server_info": document(H200_INFO, kind="application/json")}
    ) as server:
        first, second = await polls(server.url, 2)
    assert first.source == "sglang"
    assert first.error is None
    assert first.stale_s is None
    # The recording's README: 840,736 tokens, asked 4 and got 2, context 159,776 (usable: 6 less).
    assert first.kv_tokens == 840_736
    assert first.max_running_requests == 2
    assert first.context_usable == 159_770
    assert first.mamba_slots == 8
    assert (first.running, first.queue) == (0, 0)
    # Idle: no speed, no rate, no percentile is made up.
    assert second.decode_tok_s is None
    assert second.cache_hit_rate is None
    assert second.ttft is None
    assert "/health" not in server.paths()


async def test_server_info_is_read_rarely() -> None:
    async with serve({"/metrics": document(H200), "/server_info": document(H200_INFO)}) as server:
        await polls(server.url, 6)
    assert server.paths().count("/metrics") == 6
    assert server.paths().count("/server_info") == 1


async def test_the_pace_slows_when_nothing_happens() -> None:
    pace = Pace(busy_s=0.02, idle_s=0.4, linger=3, timeout_s=1)
    async with serve({"/metrics": document(H200), "/server_info": document(H200_INFO)}) as server:
        poller = MetricPoller(server.url, pace=pace)
        waits = []
        for _ in range(6):
            await poller.poll()
            waits.append(poller.wait_s())
    # The first scrape cannot know; three quiet ones later the pace is the idle one.
    assert waits[:3] == [0.02] * 3
    assert waits[-1] == 0.4


async def test_a_server_that_goes_away_leaves_aged_figures() -> None:
    async with serve({"/metrics": document(H200), "/server_info": document(H200_INFO)}) as server:
        poller = MetricPoller(server.url, pace=QUICK)
        fresh = await poller.poll()
        del server.routes["/metrics"]

        async def drop(_: Request, writer: asyncio.StreamWriter) -> None:
            writer.transport.abort()

        server.routes["/metrics"] = drop
        stale = await poller.poll()
        again = await poller.poll()
    assert fresh.stale_s is None
    assert stale.kv_tokens == fresh.kv_tokens
    assert stale.error is not None
    assert stale.stale_s is not None
    assert again.stale_s is not None
    assert again.stale_s >= stale.stale_s
    assert poller.wait_s() > QUICK.busy_s


async def test_nobody_there() -> None:
    async with serve({}) as server:
        url = server.url
    (snapshot,) = await polls(url, 1)
    assert snapshot.source == "unknown"
    assert snapshot.error is not None
    assert "Nobody listens" in str(snapshot.error)
    assert snapshot.running is None


async def test_a_server_without_metrics_is_not_a_server_at_zero() -> None:
    async with serve({"/server_info": document(H200_INFO)}) as server:
        (snapshot,) = await polls(server.url, 1)
    assert snapshot.source == "sglang"
    assert "--enable-metrics" in str(snapshot.error)
    assert snapshot.running is None
    assert snapshot.max_running_requests == 2


@pytest.mark.parametrize(
    ("route", "word"),
    [
        (document("python_gc_objects_collected_total 5\n"), "no figures"),
        (document("<html>hello</html>"), "no figures"),
        (document("secret", 401), "API key"),
        (document("oops", 500), "500"),
        (document("", 200), "no figures"),
    ],
)
async def test_something_else_is_said_to_be_something_else(route: object, word: str) -> None:
    async with serve({"/metrics": route}) as server:  # type: ignore[dict-item]
        (snapshot,) = await polls(server.url, 1)
    assert snapshot.source == "other"
    assert word in str(snapshot.error)
    assert snapshot.running is None
    assert snapshot.kv_used is None


async def stalled(_: Request, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nsglang:x 1\n")
    await writer.drain()
    await asyncio.sleep(30)


async def silent(_: Request, __: asyncio.StreamWriter) -> None:
    await asyncio.sleep(30)


async def half_closed(_: Request, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nsglang:x 1\n")
    writer.write_eof()
    await asyncio.sleep(30)


async def endless(_: Request, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    block = b"sglang:flood 1\n" * 4096
    for _i in range(2000):
        writer.write(f"{len(block):x}\r\n".encode() + block + b"\r\n")
        await writer.drain()


async def huge(_: Request, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 52428800\r\n\r\n")
    for _i in range(800):
        writer.write(b"a" * 65536)
        await writer.drain()


async def not_http(_: Request, writer: asyncio.StreamWriter) -> None:
    writer.write(b"SSH-2.0-OpenSSH_9.6\r\n\r\n")


async def lying_length(_: Request, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 99999\r\n\r\nsglang:num_running_reqs 1\n")


async def broken_chunks(_: Request, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nhello\r\n0\r\n\r\n")


@pytest.mark.parametrize(
    "route",
    [stalled, silent, half_closed, endless, huge, not_http, lying_length, broken_chunks],
    ids=lambda f: f.__name__,
)
async def test_a_misbehaving_peer_costs_one_bounded_attempt(route: object) -> None:
    async with serve({"/metrics": route}) as server:  # type: ignore[dict-item]
        poller = MetricPoller(server.url, pace=QUICK)
        began = time.monotonic()
        slowest_turn = 0.0

        async def heartbeat() -> None:
            nonlocal slowest_turn
            while True:
                before = time.monotonic()
                await asyncio.sleep(0.01)
                slowest_turn = max(slowest_turn, time.monotonic() - before)

        beat = asyncio.ensure_future(heartbeat())
        snapshot = await poller.poll()
        beat.cancel()
        took = time.monotonic() - began
    assert snapshot.error is not None
    assert snapshot.running is None
    assert took < 2.0
    assert slowest_turn < 0.5, "the event loop, and with it the screen, must keep turning"


async def test_nan_ridden_metrics_are_unknown_not_zero() -> None:
    text = "".join(
        line.rpartition(" ")[0] + " NaN\n" if line and line[0] != "#" else line + "\n"
        for line in H200.splitlines()
    )
    async with serve({"/metrics": document(text)}) as server:
        first, second = await polls(server.url, 2)
    for snapshot in (first, second):
        assert snapshot.source == "sglang"
        for name in (
            "running",
            "queue",
            "kv_used",
            "kv_tokens",
            "mamba_slots",
            "decode_tok_s",
            "cache_hit_rate",
            "accept_length",
            "ttft",
            "context_usable",
        ):
            assert getattr(snapshot, name) is None, name


async def test_leaving_the_stream_while_it_waits_is_immediate() -> None:
    async with serve({"/metrics": silent}) as server:
        poller = MetricPoller(server.url, pace=Pace(timeout_s=30))

        async def watch() -> None:
            async for _ in poller.stream():
                pass

        task = asyncio.ensure_future(watch())
        await asyncio.sleep(0.05)
        began = time.monotonic()
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        assert time.monotonic() - began < 0.5


async def test_the_key_is_sent_and_never_in_the_error() -> None:
    async with serve({"/metrics": document("no", 401)}) as server:
        poller = MetricPoller(server.url, "sk-very-secret", pace=QUICK)
        snapshot = await poller.poll()
    assert server.seen[0].headers["authorization"] == "Bearer sk-very-secret"
    assert "secret" not in str(snapshot.error)


@pytest.mark.parametrize("url", ["", "ftp://x", "http://", "http://h:99999", "http://a b"])
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(UsageError):
        MetricPoller(url)
