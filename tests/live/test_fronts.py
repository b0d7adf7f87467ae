"""Routers, a gateway and data-parallel ranks as real ones wrote them, beside arithmetic by hand.

See ``data/README.md`` for what ran. The figures behind each expected value were read off the raw
scrapes; they stand in the arithmetic.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from live.test_poller import polls
from qwen_tui.services.live import MetricPoller, Pace
from qwen_tui.services.live.fronts import front_words
from qwen_tui.services.live.serverinfo import read_server_info
from support.live_watch import Watcher
from support.metrics_server import Request, document, serve

if TYPE_CHECKING:
    import asyncio

    from qwen_tui.services.snapshots import LiveSnapshot

DATA = Path(__file__).with_name("data") / "fronts"
QUICK = Pace(busy_s=0.01, idle_s=0.02, timeout_s=20, back_off_max_s=0.05, loads_s=0.0)
LITELLM_401 = (
    '"Unauthorized access to metrics endpoint: No connected db. To allow unauthenticated access, '
    'set `litellm_settings.require_auth_for_metrics_endpoint: false` in your proxy_config.yaml."'
)


def recorded(name: str) -> str:
    return gzip.decompress((DATA / f"{name}.prom.gz").read_bytes()).decode()


def show(watcher: Watcher, name: str, after_s: float) -> LiveSnapshot:
    watcher.at += after_s
    reading = watcher.read(recorded(name))
    assert reading.broken_lines == 0
    watcher.history.feed(reading, watcher.at)
    return watcher.figures.snapshot(
        reading, watcher.history, watcher.limits, watcher.context, at=1_000_000 + watcher.at
    )


def test_litellm_between_two_scrapes() -> None:
    watcher = Watcher()
    show(watcher, "litellm-0", 0)
    shown = show(watcher, "litellm-1", 3.098)
    assert shown.source == "litellm"
    # The gauge says 2: one request, and the scrape itself.
    assert shown.running == 1
    assert shown.replicas == ()
    window = shown.windows[0]
    # Four that were answered, one whose engine was dead (500), one without such a model (400); not
    # the refused looks at /v1/models and /metrics in between.
    assert window.requests == 6
    assert window.prompt_tokens == (218 - 207) + (368 - 296)
    assert window.output_tokens == (2030 - 2010) + (1492 - 1432)
    assert window.cache_hit_rate is None
    assert window.e2e is not None
    assert window.e2e.n == (10 - 9) + (10 - 7)
    e2e_s = (21.492250260 - 21.279862280) + (33.086691321 - 31.580352418)
    assert window.e2e.mean_ms == pytest.approx(e2e_s / 4 * 1000, abs=0.01)
    assert window.queue_time is not None
    queue_s = (0.258373260 - 0.251646280) + (0.074253321 - 0.052836418)
    assert window.queue_time.mean_ms == pytest.approx(queue_s / 4 * 1000, abs=0.001)
    assert window.ttft is not None
    assert window.ttft.n == 3
    assert window.ttft.mean_ms == pytest.approx((1.697799 - 1.383120) / 3 * 1000, abs=0.001)
    # Only the request that did not stream has an overhead.
    assert window.overhead is not None
    assert window.overhead.n == 1
    assert window.overhead.mean_ms == pytest.approx((0.0497437 - 0.0135477) * 1000, abs=0.001)
    words = str(front_words(shown))
    assert words.startswith("LiteLLM: 1 in flight; in the last 3 s 6 ended")
    assert show(watcher, "litellm-2", 2.47).running == 0


@pytest.mark.parametrize(("router", "running"), [("router-0.3.2", None), ("smg-1.13.0", 1)])
def test_a_router_at_its_own_metrics_port(router: str, running: int | None) -> None:
    watcher = Watcher()
    show(watcher, f"{router}-own-0", 0)
    busy = show(watcher, f"{router}-own-1", 4.7)
    assert busy.source == "smg"
    # The older one does not count what streams when it balances by the power of two.
    assert busy.running == running
    window = busy.windows[0]
    assert window.requests == 4  # and not /workers and /engine_metrics
    assert window.e2e is None  # its clock stops at the head of a stream
    assert [r.healthy for r in busy.replicas] == [True, True]
    assert busy.alarms == ()
    show(watcher, f"{router}-own-2", 4)
    down = show(watcher, f"{router}-own-3", 19)
    assert [(r.rank, r.healthy) for r in down.replicas] == [
        ("http://127.0.0.1:19101", True),
        ("http://127.0.0.1:19102", False),
    ]
    assert [a.kind for a in down.alarms] == ["worker_down"]
    assert "1 of 2 workers healthy" in str(front_words(down))


def test_workers_through_a_router_add_up_and_one_that_goes_restarts_nothing() -> None:
    watcher = Watcher()
    show(watcher, "router-0.3.2-workers-0", 0)
    shown = show(watcher, "router-0.3.2-workers-2", 8.7)
    assert shown.source == "sglang"
    assert shown.kv_tokens == 2 * 48_644
    window = shown.windows[0]
    # Streaming requests were the second worker's first: its series is new and counts from zero.
    assert window.output_tokens == (9097 - 8585) + 512
    assert window.requests == (35 - 31) + 4
    assert window.prompt_tokens == (779 - 707) + 72
    gone = show(watcher, "router-0.3.2-workers-3", 19.3)
    assert gone.boots == 1
    assert gone.windows[1].output_tokens == 1024
    assert gone.kv_tokens == 48_644


def test_both_routers_write_the_same_under_two_spellings() -> None:
    colons = Watcher().read(recorded("smg-1.13.0-workers-2"))
    underscores = Watcher().read(recorded("router-0.3.2-workers-2"))
    assert recorded("router-0.3.2-workers-2").count("sglang:") == 0
    assert colons.gauges == underscores.gauges
    clocks = {"scheduler_idle_s", "scheduler_cpu_s"}  # they went on between the two scrapes
    for key in colons.counters.keys() - clocks:
        assert colons.counters[key] == underscores.counters[key], key


def test_two_data_parallel_ranks() -> None:
    watcher = Watcher()
    watcher.limits = read_server_info((DATA / "sglang-dp2_server_info.json").read_bytes())
    show(watcher, "sglang-dp2-0", 0)
    shown = show(watcher, "sglang-dp2-1", 60)
    assert (shown.running, shown.queue) == (2, 0)
    # Side by side: one rank works, the other idles.
    assert [(r.rank, r.running, r.queue) for r in shown.replicas] == [("0", 2, 0), ("1", 0, 0)]
    assert shown.replicas[0].kv_used == pytest.approx(498 / 8192)
    assert shown.kv_used == pytest.approx(498 / 8192)  # the fuller of the two, not their mean
    assert (shown.kv_used_tokens, shown.kv_tokens) == (498, 2 * 8192)
    assert shown.max_running_requests == 2 * 4
    assert shown.context_usable == 4090
    reading = watcher.history.window(60)
    assert reading is not None
    # Decode steps are counted by each rank, finished requests once for both.
    assert reading.get("decoded") == (495 - 7) + (306 - 7)
    window = shown.windows[1]
    assert window.requests == 1
    assert window.prompt_tokens == 32
    assert window.output_tokens == 300
    assert window.queue_time is not None
    assert window.queue_time.n == (3 - 1) + (2 - 1)
    after = show(watcher, "sglang-dp2-2", 120)
    assert after.boots == 1
    assert after.windows[1].cached_tokens == 93
    assert after.windows[1].cache_hit_rate == pytest.approx(93 / (192 - 32))


async def look(url: str, api_key: str | None = None, n: int = 1) -> list[LiveSnapshot]:
    return await polls(url, n, QUICK, api_key)


@pytest.mark.parametrize("router", ["router-0.3.2", "smg-1.13.0"])
async def test_a_router_at_its_main_address(router: str) -> None:
    workers = (DATA / f"{router}_workers.json").read_text()
    routes = {
        "/metrics": document("", 404),
        "/engine_metrics": document(recorded("router-0.3.2-workers-3")),
        "/workers": document(workers, kind="application/json"),
        # SMG answers this for one of its workers, whose limits are not those of all.
        "/get_server_info": document('{"version": "0.5.23", "max_total_num_tokens": 48644}'),
    }
    async with serve(routes) as server:
        _, shown = await look(server.url, n=2)
    assert (shown.source, shown.error) == ("sglang", None)
    assert [(r.rank, r.running, r.healthy) for r in shown.replicas] == [
        ("http://127.0.0.1:19101", 0, True),
        ("http://127.0.0.1:19102", None, False),
    ]
    assert [a.kind for a in shown.alarms] == ["worker_down"]
    assert "1 of its 2 workers" in str(shown.notes[-1])
    assert "--prometheus-port" in str(shown.notes[-1])
    # The pool is that of the worker that answers: half of it would be a wrong number.
    assert (shown.kv_tokens, shown.context_usable) == (48_644, 48_644 - 6)
    assert shown.max_running_requests is None
    assert "/get_server_info" not in server.paths()


async def test_an_address_that_passes_from_an_engine_to_a_router_and_back() -> None:
    engine = {
        "/metrics": document(recorded("sglang-dp2-1")),
        "/server_info": document((DATA / "sglang-dp2_server_info.json").read_bytes()),
    }
    router = {
        "/metrics": document("", 404),
        "/engine_metrics": document(recorded("router-0.3.2-workers-2")),
        "/workers": document((DATA / "router-0.3.2_workers.json").read_text()),
    }
    async with serve(dict(engine)) as server:
        poller = MetricPoller(server.url, pace=QUICK)
        assert (await poller.poll()).kv_tokens == 2 * 8192
        for routes, kv_tokens, context in (
            (router, 2 * 48_644, 48_644 - 6),
            (engine, 2 * 8192, 4090),
        ):
            server.routes.clear()
            server.routes.update(routes)
            shown = await poller.poll()
            assert (shown.error, shown.kv_tokens, shown.stale_s) == (None, kv_tokens, None)
            assert shown.context_usable == context
            assert any("router" in str(note) for note in shown.notes) is (routes is router)


async def test_workers_that_run_several_replicas_are_counted_once() -> None:
    ranks = "".join(
        f'sglang:num_running_reqs{{worker_addr="http://{host}:1",dp_rank="{rank}"}} 1\n'
        for host in "ab"
        for rank in "01"
    )
    rows = [{"url": f"http://{host}:1", "is_healthy": host != "c"} for host in "abc"]
    routes = {
        "/metrics": document("", 404),
        "/engine_metrics": document(ranks),
        "/workers": document(json.dumps({"workers": rows, "total": 3})),
    }
    async with serve(routes) as server:
        _, shown = await look(server.url, n=2)
    assert [r.rank for r in shown.replicas if r.healthy] == [
        f"http://{host}:1 {rank}" for host in "ab" for rank in "01"
    ]
    assert "2 of its 3 workers" in str(shown.notes[-1])
    (alarm,) = shown.alarms
    assert str(alarm.text).startswith("1 of 3 workers")


async def test_a_router_that_does_not_tell_health_is_not_said_to_be_down() -> None:
    routes = {
        "/metrics": document("", 404),
        "/engine_metrics": document("", 500),
        "/workers": document(json.dumps({"workers": [{"url": "http://a:1"}], "total": 1})),
    }
    async with serve(routes) as server:
        (shown,) = await look(server.url)
    assert "— of 1 workers healthy" in str(shown.error)


async def test_a_router_whose_workers_show_no_metrics() -> None:
    workers = (DATA / "router-0.3.2_workers.json").read_text()
    routes = {
        "/metrics": document("", 404),
        "/engine_metrics": document("All backend requests failed", 500),
        "/workers": document(workers, kind="application/json"),
    }
    async with serve(routes) as server:
        (shown,) = await look(server.url)
        assert shown.source == "smg"
        assert shown.error is not None
        assert "1 of 2 workers healthy" in str(shown.error)
        assert "--enable-metrics" in str(shown.error)
        assert [r.healthy for r in shown.replicas] == [True, False]
        # With an API key set, the router lists its workers only to those who have it.
        routes["/workers"] = document('{"error": "unauthorized"}', 401)
        (locked,) = await look(server.url)
    assert locked.source == "smg"
    assert "--prometheus-port" in str(locked.error)
    routes["/workers"] = document(
        json.dumps({"workers": [], "total": 0, "stats": {}}), kind="application/json"
    )
    async with serve(routes) as server:
        (empty,) = await look(server.url)
    assert str(empty.error) == "A router of SGLang without a worker."


async def test_a_router_that_loses_all_workers_keeps_the_figures_with_their_age() -> None:
    routes = {
        "/metrics": document("", 404),
        "/engine_metrics": document(recorded("smg-1.13.0-workers-2")),
    }
    async with serve(routes) as server:
        poller = MetricPoller(server.url, pace=QUICK)
        await poller.poll()
        routes["/engine_metrics"] = document("No available workers", 500)
        shown = await poller.poll()
    assert shown.source == "sglang"
    assert shown.stale_s is not None
    assert "from its workers" in str(shown.error)


async def test_litellm_with_and_without_its_key() -> None:
    async def metrics(request: Request, writer: asyncio.StreamWriter) -> None:
        right = request.headers.get("authorization") == "Bearer sk-master"
        answer = document(recorded("litellm-2")) if right else document(LITELLM_401, 401)
        await answer(request, writer)

    async with serve({"/metrics": metrics}) as server:
        (without,) = await look(server.url)
        (wrong,) = await look(server.url, "sk-other")
        (right,) = await look(server.url, "sk-master")
    assert (without.source, wrong.source, right.source) == ("litellm", "litellm", "litellm")
    assert str(without.error) == "The server wants an API key for its metrics."
    assert str(wrong.error) == "The server refuses this API key for its metrics."
    assert right.error is None


async def test_litellm_without_its_prometheus_callback() -> None:
    routes = {
        "/metrics": document('{"detail":"Not Found"}', 404),
        "/health/liveliness": document('"I\'m alive!"', kind="application/json"),
    }
    async with serve(routes) as server:
        first, *_, last = await look(server.url, n=4)
        asked = server.paths()
    assert first.source == last.source == "litellm"
    assert "callbacks: [prometheus]" in str(last.error)
    # What it is, is asked once; whether it has metrics by now, every time.
    assert asked.count("/health/liveliness") == 1
    assert asked.count("/metrics") == 4
    assert "/health" not in asked
