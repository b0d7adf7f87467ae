"""Live figures and probes against a real SGLang: every number by hand from the raw scrapes."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from qwen_tui.services.live.target import Target
from qwen_tui.services.probe import probe
from qwen_tui.services.probe.stream import chat_body, record_chat
from real_engine.recording import RecordingPoller, total

if TYPE_CHECKING:
    from qwen_tui.services.snapshots import LiveSnapshot
    from real_engine.conftest import RealEngine

pytestmark = [pytest.mark.sglang, pytest.mark.timeout(900)]


async def watch_under_load(url: str) -> tuple[list[tuple[float, str]], list[LiveSnapshot]]:
    """Two streams of 600 tokens side by side while the poller looks once a second."""
    poller = RecordingPoller(url)
    poller.scrapes = []
    target = Target.parse(url)
    body = chat_body(
        "tiny-gpt2",
        [{"role": "user", "content": "The tide rises, the tide falls. " * 30}],
        max_tokens=600,
        sglang=True,
        extra={"ignore_eos": True, "temperature": 0},
    )
    snapshots = [await poller.poll()]
    streams = [asyncio.create_task(record_chat(target, body)) for _ in range(2)]
    while not all(s.done() for s in streams):
        await asyncio.sleep(1)
        snapshots.append(await poller.poll())
    await asyncio.sleep(1.5)
    snapshots.append(await poller.poll())
    return poller.scrapes, snapshots


def test_figures_and_probes(real_engine: RealEngine) -> None:
    real_engine.write_profile("live", tokens=8192, mode="speed", pair="live")
    up = real_engine.cli("up", "live")
    assert up.returncode == 0, up.stderr
    url = f"http://127.0.0.1:{real_engine.port}"

    one = asyncio.run(probe(url))
    two = asyncio.run(probe(url))
    assert one.outcome in {"ok", "empty"}, str(one.error)
    assert one.ttft_ms is not None
    # The second time all of the prompt but its last token is cached (page size 1).
    assert one.prompt_tokens == two.prompt_tokens
    assert two.cached_tokens == (two.prompt_tokens or 0) - 1
    assert one.accept_length is None, "no speculation here, and none is made up"

    scrapes, snapshots = asyncio.run(watch_under_load(url))
    (first_at, first), (last_at, last) = scrapes[0], scrapes[-1]
    assert last_at - first_at < 60
    final = snapshots[-1]
    window = final.windows[1]

    def grew(name: str, **labels: str) -> float:
        return total(last, name, **labels) - total(first, name, **labels)

    assert window.requests == grew("sglang:num_requests_total") == 2
    assert window.output_tokens == grew("sglang:generation_tokens_total") == 1200
    assert window.prompt_tokens == grew("sglang:prompt_tokens_total")
    assert final.cache_hit_rate == pytest.approx(
        grew("sglang:cached_tokens_total") / grew("sglang:prompt_tokens_total")
    )
    assert window.ttft is not None
    assert window.ttft.n == grew("sglang:time_to_first_token_seconds_count")
    assert window.ttft.mean_ms == pytest.approx(
        1000 * grew("sglang:time_to_first_token_seconds_sum") / window.ttft.n
    )
    assert (final.running, final.queue) == (0, 0)
    assert final.decode_tok_s is None, "nothing runs: no speed is shown"
    assert final.kv_tokens == 8192
    assert final.max_running_requests == 4
    assert final.context_usable == 4090

    # In the middle: tokens between two raw scrapes over the time between them.
    busy = [i for i, s in enumerate(snapshots) if s.decode_tok_s is not None]
    assert busy
    middle = busy[-1]
    at, text = scrapes[middle]
    ago = max((i for i, (t, _) in enumerate(scrapes[:middle]) if t <= at - 9.75), default=0)
    tokens = total(text, "sglang:realtime_tokens_total", mode="decode") - total(
        scrapes[ago][1], "sglang:realtime_tokens_total", mode="decode"
    )
    shown = snapshots[middle].decode_tok_s
    assert shown is not None
    assert shown == pytest.approx(tokens / (at - scrapes[ago][0]), rel=0.15)
    stream = snapshots[middle].windows[1].stream_tok_s
    itl = "sglang:inter_token_latency_seconds"
    assert stream == pytest.approx(
        (total(text, f"{itl}_count") - total(first, f"{itl}_count"))
        / (total(text, f"{itl}_sum") - total(first, f"{itl}_sum"))
    )

    boundary = asyncio.run(probe(url, kind="boundary"))
    assert boundary.outcome == "ok", str(boundary.error)
    assert str(boundary.detail).startswith("4,082 tokens answered, 4,091 refused with 400")

    watched = real_engine.cli("watch", "--count", "1", "--no-gpu")
    assert watched.returncode == 0, watched.stderr
    assert "nothing: idle" in watched.stdout
    down = real_engine.cli("down")
    assert down.returncode == 0, down.stderr
