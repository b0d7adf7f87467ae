"""The poller against scripted servers: recorded scrapes, and peers that misbehave."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import time
from dataclasses import replace
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
QUICK = Pace(busy_s=0.01, idle_s=0.02, timeout_s=20, back_off_max_s=0.05)


async def polls(
    url: str, n: int, pace: Pace = QUICK, api_key: str | None = None
) -> list[LiveSnapshot]:
    out = []
    stream = MetricPoller(url, api_key, pace=pace).stream()
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
    assert snapshot.kv_tokens == json.loads(H200_INFO)["max_total_num_tokens"]
    two = json.dumps({**json.loads(H200_INFO), "dp_size": 2})
    async with serve({"/server_info": document(two)}) as server:
        (snapshot,) = await polls(server.url, 1)
    assert snapshot.kv_tokens is None, "it tells the first replica's pool alone"


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
        poller = MetricPoller(server.url, pace=replace(QUICK, timeout_s=0.3))
        began = time.monotonic()
        slowest_turn = 0.0

        async def heartbeat() -> None:
            # The loop's own work: on a busy machine the wall clock tells of others as well.
            nonlocal slowest_turn
            while True:
                before = time.thread_time()
                await asyncio.sleep(0.01)
                slowest_turn = max(slowest_turn, time.thread_time() - before)

        beat = asyncio.ensure_future(heartbeat())
        snapshot = await poller.poll()
        beat.cancel()
        took = time.monotonic() - began
    assert snapshot.error is not None
    assert snapshot.running is None
    assert took < 15, "half of what the peer would let us wait"
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
        assert time.monotonic() - began < 10, "well below the time limit of the request"


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


async def test_one_look_tells_what_the_engine_counted_since_its_start() -> None:
    async with serve({"/metrics": document(H200), "/server_info": document(H200_INFO)}) as server:
        snapshot = await MetricPoller(server.url, pace=QUICK).poll()
    # By hand from the recording: 1,792 of 3,691 prompt tokens cached; 456 tokens of 5 requests in
    # 451 verify steps, the first token of each from its prefill.
    assert snapshot.window_s is None
    assert snapshot.cache_hit_rate == pytest.approx(1792 / 3691)
    assert snapshot.accept_length == pytest.approx(1.0)
    assert snapshot.decode_tok_s is None
    # All five did not stream, and this version times those at their 50th token: no TTFT, and why.
    assert snapshot.ttft is None
    assert any("0.5.23" in str(note) for note in snapshot.notes)


async def test_prefill_speed_is_the_schedulers_own_clock() -> None:
    """Two looks at /v1/loads: 4,000 tokens computed in 2 s of prefill are 2,000 tok/s."""
    scrapes = {"n": 0}

    async def metrics(request: Request, writer: asyncio.StreamWriter) -> None:
        scrapes["n"] += 1
        text = H200.replace(
            'mode="decode",model_name="/models/hybrid-27b-cg",moe_ep_rank="0",pp_rank="0",'
            'tp_rank="0"} 456.0',
            'mode="decode",model_name="/models/hybrid-27b-cg",moe_ep_rank="0",pp_rank="0",'
            f'tp_rank="0"}} {456 + 10 * scrapes["n"]}',
        )
        assert text != H200
        await document(text)(request, writer)

    async def loads(request: Request, writer: asyncio.StreamWriter) -> None:
        step = server.paths().count("/v1/loads?include=core") - 1
        body = {
            "loads": [
                {
                    "total_prefill_uncached_tokens": 1000 + 4000 * step,
                    "total_prefill_busy_us": 500_000 + 2_000_000 * step,
                }
            ]
        }
        await document(json.dumps(body))(request, writer)

    routes = {
        "/metrics": metrics,
        "/server_info": document(H200_INFO),
        "/v1/loads?include=core": loads,
    }
    async with serve(routes) as server:
        poller = MetricPoller(server.url, pace=replace(QUICK, loads_s=0.0))
        for _ in range(3):
            snapshot = await poller.poll()
            await asyncio.sleep(0.02)
    assert snapshot.prefill_tok_s == pytest.approx(2000)


async def test_a_server_without_that_clock_is_not_asked_for_it_again() -> None:
    async with serve({"/metrics": document(H200), "/server_info": document(H200_INFO)}) as server:
        poller = MetricPoller(server.url, pace=replace(QUICK, loads_s=0.0))
        for _ in range(4):
            await poller.poll()
    assert server.paths().count("/v1/loads?include=core") == 1


async def test_a_router_is_read_where_it_shows_its_workers() -> None:
    text = (
        'sglang:num_running_reqs{tp_rank="0",worker_addr="http://a:1"} 2\n'
        'sglang:num_running_reqs{tp_rank="0",worker_addr="http://b:1"} 1\n'
    )
    async with serve({"/engine_metrics": document(text)}) as server:
        poller = MetricPoller(server.url, pace=QUICK)
        first = await poller.poll()
        await poller.poll()
    assert first.running == 3
    assert len(first.replicas) == 2
    assert server.paths().count("/metrics") == 1, "the place is remembered"


async def test_a_restart_clears_windows_peaks_and_limits() -> None:
    def boot(started: float, tokens: float) -> str:
        return (
            f'sglang:startup_time_seconds{{phase="load_weight"}} {started}\n'
            'sglang:num_running_reqs{tp_rank="0"} 1\n'
            f'sglang:realtime_tokens_total{{mode="decode",tp_rank="0"}} {tokens}\n'
        )

    now = 0.0
    async with serve({"/server_info": document(H200_INFO)}) as server:
        poller = MetricPoller(server.url, pace=QUICK, clock=lambda: now)
        for tokens in (0.0, 100.0, 200.0):
            server.routes["/metrics"] = document(boot(1.5, tokens))
            before = await poller.poll()
            now += 1
        server.routes["/metrics"] = document(boot(1.9, 900.0))
        after = await poller.poll()
    assert before.peaks["decode_tok_s"] > 0
    assert after.boots == 2
    assert "decode_tok_s" not in after.peaks
    assert after.decode_tok_s is None, "900 tokens of another boot are no speed"
    assert server.paths().count("/server_info") == 2


async def test_limits_behind_a_key_are_said_to_be_so() -> None:
    async with serve({"/metrics": document(H200), "/server_info": document("{}", 401)}) as server:
        snapshot = await MetricPoller(server.url, pace=QUICK).poll()
    assert snapshot.max_running_requests is None
    assert any("API key" in str(note) for note in snapshot.notes)
    # What the metrics tell is told all the same.
    assert snapshot.context_usable == 159_770


async def test_one_look_knows_the_prefill_speed_since_the_start() -> None:
    """All of the scheduler's clock belongs to this boot: 9,000 tokens in 3 s are 3,000 tok/s."""
    loads = {"loads": [{"total_prefill_uncached_tokens": 9000, "total_prefill_busy_us": 3_000_000}]}
    routes = {
        "/metrics": document(H200),
        "/server_info": document(H200_INFO),
        "/v1/loads?include=core": document(json.dumps(loads)),
    }
    async with serve(routes) as server:
        poller = MetricPoller(server.url, pace=QUICK)
        first = await poller.poll()
        second = await poller.poll()
    assert first.prefill_tok_s == pytest.approx(3000)
    assert second.windows[0].prefill_tok_s is None, "nothing was computed between the two looks"
    assert second.windows[-1].prefill_tok_s == pytest.approx(3000)


async def test_several_engines_behind_one_address_are_said_to_be_so() -> None:
    """A load balancer that takes turns: every scrape looks like another boot."""
    boot = 'sglang:startup_time_seconds{{phase="load_weight"}} {}\nsglang:num_running_reqs 1\n'
    turn = itertools.cycle((1.5, 1.9))

    async def metrics(request: Request, writer: asyncio.StreamWriter) -> None:
        await document(boot.format(next(turn)))(request, writer)

    async with serve({"/metrics": metrics, "/server_info": document(H200_INFO)}) as server:
        poller = MetricPoller(server.url, pace=QUICK)
        shown = [await poller.poll() for _ in range(6)]
    said = [any("in turn" in str(note) for note in snapshot.notes) for snapshot in shown]
    assert said == [False, False, False, True, True, True], "one restart is a restart"
    assert server.paths().count("/server_info") == 3, "not at every turn"
