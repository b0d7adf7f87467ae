"""The main job on a real vLLM: doctor, up, watch under load, probe, swap, a core that dies."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from qwen_tui.services.live import LiveContext
from qwen_tui.services.live.target import Target
from qwen_tui.services.probe import probe
from qwen_tui.services.probe.stream import chat_body, record_chat
from real_engine.recording import RecordingPoller, quantile_ms, total

if TYPE_CHECKING:
    from qwen_tui.services.snapshots import LiveSnapshot
    from real_engine.conftest import RealEngine

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(1500)]

STREAMS, ROUNDS, TOKENS, AT_ONCE = 8, 2, 800, 4
REQUESTS = STREAMS * ROUNDS
LONG, SHORT = 1024, 512


async def watch_under_load(url: str) -> tuple[list[str], list[LiveSnapshot]]:
    """Eight streams on a server that runs four, while the poller looks once a second."""
    poller = RecordingPoller(url, context=lambda: LiveContext(requests_a_replica=AT_ONCE))
    poller.scrapes = []
    target = Target.parse(url)
    body = chat_body(
        "tiny-gpt2",
        [{"role": "user", "content": "The tide rises, the tide falls. " * 10}],
        max_tokens=TOKENS,
        sglang=False,
        extra={"ignore_eos": True, "temperature": 0},
    )
    snapshots = [await poller.poll()]

    async def client() -> None:
        for _ in range(ROUNDS):
            await record_chat(target, body)

    streams = [asyncio.create_task(client()) for _ in range(STREAMS)]
    while not all(s.done() for s in streams):
        await asyncio.sleep(0.4)
        snapshots.append(await poller.poll())
    await asyncio.sleep(1.5)
    snapshots.append(await poller.poll())
    return [text for _, text in poller.scrapes], snapshots


def check_figures(url: str) -> None:
    """Every figure against arithmetic on the first and the last raw scrape."""
    scrapes, snapshots = asyncio.run(watch_under_load(url))
    first, last = scrapes[0], scrapes[-1]
    final = snapshots[-1]
    window = final.windows[1]

    def grew(name: str, **labels: str) -> float:
        return total(last, f"vllm:{name}", **labels) - total(first, f"vllm:{name}", **labels)

    assert window.requests == grew("request_success_total") == REQUESTS
    assert window.output_tokens == grew("generation_tokens_total") == REQUESTS * TOKENS
    assert window.prompt_tokens == grew("prompt_tokens_total")
    assert final.cache_hit_rate == pytest.approx(
        grew("prefix_cache_hits_total") / grew("prefix_cache_queries_total")
    )
    assert window.prefill_tok_s == pytest.approx(
        grew("request_prefill_kv_computed_tokens_sum") / grew("request_prefill_time_seconds_sum")
    )
    assert window.stream_tok_s == pytest.approx(
        (REQUESTS * TOKENS - REQUESTS) / grew("inter_token_latency_seconds_sum")
    )
    for shown, name in (
        (window.ttft, "time_to_first_token_seconds"),
        (window.itl, "inter_token_latency_seconds"),
        (window.e2e, "e2e_request_latency_seconds"),
        (window.queue_time, "request_queue_time_seconds"),
    ):
        assert shown is not None
        assert shown.n == grew(f"{name}_count")
        assert shown.mean_ms == pytest.approx(1000 * grew(f"{name}_sum") / shown.n)
        for q, value in ((0.5, shown.p50_ms), (0.9, shown.p90_ms), (0.99, shown.p99_ms)):
            assert value == pytest.approx(quantile_ms(q, first, last, f"vllm:{name}"))
    assert (window.aborted, window.retracted) == (None, 0)
    assert (final.running, final.queue, final.decode_tok_s) == (0, 0, None)
    assert final.accept_length is None
    assert final.engine_version is not None
    for text, snapshot in zip(scrapes, snapshots, strict=True):
        assert snapshot.running == total(text, "vllm:num_requests_running")
        assert snapshot.queue == total(text, "vllm:num_requests_waiting")
        assert snapshot.kv_used == pytest.approx(total(text, "vllm:kv_cache_usage_perc"))
    said = {s.bound.kind for s in snapshots if s.bound is not None}
    assert "request_limit" in said, said


def check_probes(url: str) -> None:
    prose = asyncio.run(probe(url))
    assert prose.outcome in {"ok", "empty"}, str(prose.error)
    assert prose.ttft_ms is not None
    assert prose.cached_tokens is not None, "--enable-prompt-tokens-details"
    assert prose.accept_length is None
    long = asyncio.run(probe(url, kind="long"))
    assert long.outcome in {"ok", "empty", "wrong_answer"}, str(long.error)
    assert long.prompt_tokens is not None
    assert LONG / 4 < long.prompt_tokens < LONG
    boundary = asyncio.run(probe(url, kind="boundary"))
    assert boundary.outcome == "ok", str(boundary.error)
    assert "1,025 refused with 400" in str(boundary.detail)
    tool = asyncio.run(probe(url, kind="tool"))
    assert tool.outcome == "refused"
    assert "--enable-auto-tool-choice" in str(tool.error)


def explain(engine: RealEngine, *, ready: bool) -> dict[str, Any]:
    log = Path(engine.status()["log"])
    document: dict[str, Any] = json.loads(engine.cli("explain-log", "--json", str(log)).stdout)
    assert document["ready"] is ready
    return document


def test_main_job(real_vllm: RealEngine) -> None:
    engine = real_vllm
    engine.write_vllm_profile("long", context=LONG, mode="context", pair="short")
    engine.write_vllm_profile("short", context=SHORT, mode="speed", pair="long")
    url = f"http://127.0.0.1:{engine.port}"

    doctor = engine.cli("doctor", "--profile", "long", "--ask-engine")
    assert doctor.returncode == 0, doctor.stdout
    plan = engine.cli("plan", "long")
    assert plan.returncode == 2, "nothing could be judged"
    assert "does not know the class GPT2LMHeadModel" in plan.stdout

    up = engine.cli("up", "long")
    assert up.returncode == 0, up.stderr
    facts = explain(engine, ready=True)["facts"]
    assert facts["context_len_requested"] == facts["context_usable"] == LONG
    assert facts["max_running_requests_effective"] == AT_ONCE
    assert facts["available_kv_gib"] == 1.0
    limits = engine.status()["limits"]
    assert limits == {"context_usable": LONG, "max_running_requests": AT_ONCE}

    check_figures(url)
    check_probes(url)

    swap = engine.cli("swap", "--yes")
    assert swap.returncode == 0, swap.stderr
    assert engine.status()["limits"]["context_usable"] == SHORT

    main = psutil.Process(engine.status()["pid"])
    core = next(p for p in main.children() if "EngineCore" in " ".join(p.cmdline()))
    core.kill()
    main.wait(60)
    crashed = engine.status()
    assert crashed["state"] == "fatal", crashed
    fatal = explain(engine, ready=True)["fatal"]
    assert fatal["class"] == "scheduler_crash"
    assert "ended without an exception of its own" in fatal["summary"]

    again = engine.cli("up", "short")
    assert again.returncode == 0, again.stderr
    down = engine.cli("down")
    assert down.returncode == 0, down.stderr
    assert explain(engine, ready=True)["fatal"] is None
    assert engine.status()["state"] == "stopped"
