"""What limits it, and what is wrong: every rule once holding, and once not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from qwen_tui.services.live import alarms, bound
from qwen_tui.services.live.context import LiveContext
from qwen_tui.services.live.serverinfo import ServerLimits
from qwen_tui.services.snapshots import GpuSnapshot, LiveSnapshot, ProbeResult
from qwen_tui_profiles.findings import Clamp
from qwen_tui_profiles.text import t
from support.exporter import Exporter
from support.live_watch import Watcher

LIMITS = ServerLimits(
    version="0.5.23",
    max_running_requests=2,
    max_running_requests_asked=4,
    context_usable=134_010,
    mamba_slots=8,
    speculative=True,
    draft_tokens=6,
)
CLAMP = Clamp(
    "--max-running-requests",
    4,
    2,
    t("mamba state cache"),
    t("8 slots, 4 a request"),
    t("to get 4: 17 slots, -21,500 tokens"),
    None,
)


def gpu(**values: object) -> GpuSnapshot:
    base: dict[str, object] = {
        "index": 0,
        "name": "RTX 5090",
        "memory_total_bytes": 32 * 2**30,
        "memory_used_bytes": 30 * 2**30,
        "memory_ours_bytes": None,
        "utilisation": 0.98,
        "power_w": 400.0,
        "power_limit_w": 575.0,
        "temperature_c": 70.0,
        "throttle": None,
    }
    return GpuSnapshot(**{**base, **values})  # type: ignore[arg-type]


class Engine:
    """A pretend SGLang with MTP that tests drive second by second."""

    def __init__(self, limits: ServerLimits = LIMITS) -> None:
        self.out = Exporter({"model_name": "m", "tp_rank": "0"})
        for name in ("num_running_reqs", "num_queue_reqs", "mamba_usage", "decode_sum_seq_lens"):
            self.out.set(f"sglang:{name}", 0)
        self.out.set("sglang:kv_used_tokens", 1000)
        self.out.set("sglang:max_total_num_tokens", 134_016)
        for name in (
            "prompt_tokens",
            "cached_tokens",
            "generation_tokens",
            "spec_verify_calls",
            "num_requests",
            "num_retracted_requests",
            "scheduler_process_cpu_seconds",
        ):
            self.out.set(f"sglang:{name}_total", 0)
        self.out.set("sglang:realtime_tokens_total", 0, mode="decode")
        self.out.set("sglang:realtime_tokens_total", 0, mode="prefill_compute")
        self.watcher = Watcher(limits=limits)
        self.watcher.scrape(self.out)

    def state(self, running: int, queue: int, **gauges: float) -> None:
        self.out.set("sglang:num_running_reqs", running)
        self.out.set("sglang:num_queue_reqs", queue)
        for name, value in gauges.items():
            self.out.set(f"sglang:{name}", value)

    def request(self, prompt: int, cached: int, tokens: int, steps: int) -> None:
        self.out.add("sglang:prompt_tokens_total", prompt)
        self.out.add("sglang:cached_tokens_total", cached)
        self.out.add("sglang:generation_tokens_total", tokens)
        self.out.add("sglang:spec_verify_calls_total", steps)
        self.out.add("sglang:num_requests_total", 1)

    def second(self, decoded: float = 0, n: int = 1, **more: float) -> LiveSnapshot:
        shown = None
        for _ in range(n):
            self.out.add("sglang:realtime_tokens_total", decoded, mode="decode")
            for name, value in more.items():
                self.out.add(f"sglang:{name}_total", value)
            shown = self.watcher.scrape(self.out)
        assert shown is not None
        return shown


def kinds(snapshot: LiveSnapshot) -> set[str]:
    return {alarm.kind for alarm in snapshot.alarms}


def test_state_slots_with_the_price_of_more() -> None:
    engine = Engine()
    engine.watcher.context = LiveContext(clamps=(CLAMP,))
    engine.state(2, 3, mamba_usage=1.0)
    shown = engine.second(decoded=150, n=3)
    assert shown.bound is not None
    assert shown.bound.kind == "state_slots"
    assert str(shown.bound_by) == "state slots: 2 of 2 requests, 3 waiting"
    assert str(shown.bound.price) == "to get 4: 17 slots, -21,500 tokens"
    assert "--max-mamba-cache-size" in str(shown.bound.knob)


def test_queue_at_the_cap_of_a_clamp_is_an_alarm_only_when_it_lasts() -> None:
    engine = Engine()
    engine.state(2, 3, mamba_usage=1.0)
    assert "queue_at_clamp" not in kinds(engine.second(decoded=150, n=9))
    shown = engine.second(decoded=150, n=3)
    assert "queue_at_clamp" in kinds(shown)
    alarm = next(a for a in shown.alarms if a.kind == "queue_at_clamp")
    assert str(alarm.text) == "3 waiting at 2 running: asked for 4, the engine allows 2."
    # Since it began, not since it was raised.
    assert shown.at - alarm.since == pytest.approx(11)


def test_a_transient_sample_raises_nothing() -> None:
    engine = Engine()
    for _ in range(10):
        engine.state(2, 1, mamba_usage=1.0)
        engine.second(decoded=150, n=5)
        engine.state(2, 0)
        assert "queue_at_clamp" not in kinds(engine.second(decoded=150))


def test_a_plain_request_limit() -> None:
    engine = Engine(replace(LIMITS, max_running_requests_asked=2, mamba_slots=None))
    engine.state(2, 5)
    shown = engine.second(decoded=150, n=3)
    assert shown.bound is not None
    assert shown.bound.kind == "request_limit"


def test_kv_pool_with_retractions() -> None:
    engine = Engine(replace(LIMITS, max_running_requests=8, max_running_requests_asked=8))
    engine.state(5, 2, kv_used_tokens=130_000)
    shown = engine.second(decoded=100, n=2, num_retracted_requests=1)
    assert shown.bound is not None
    assert shown.bound.kind == "kv_pool"
    assert str(shown.bound_by) == "KV pool: 97% used, 2 retractions in the last minute, 2 waiting"
    assert "retraction" in kinds(shown)


def test_prefill() -> None:
    engine = Engine()
    engine.state(1, 0)
    for _ in range(20):
        engine.watcher.history.add("prefill_busy_s", 0.8)
        engine.watcher.history.add("prefill_busy_tokens", 1600)
        engine.out.add("sglang:realtime_tokens_total", 1600, mode="prefill_compute")
        shown = engine.second(decoded=5)
    assert shown.bound is not None
    assert shown.bound.kind == "prefill"
    assert "80% of the last minute" in str(shown.bound_by)
    assert shown.prefill_tok_s == pytest.approx(2000)


@pytest.mark.parametrize(
    ("card", "kind"),
    [
        (
            gpu(
                throttle_reasons=("thermal",),
                temperature_c=91.0,
                clock_sm_mhz=900,
                clock_sm_max_mhz=2407,
            ),
            "thermal",
        ),
        (gpu(throttle_reasons=("power cap",), power_w=574.0), "power"),
        (gpu(throttle_reasons=("idle",)), "decode"),
        (gpu(utilisation=0.3), "decode"),
    ],
)
def test_what_the_gpu_says(card: GpuSnapshot, kind: str) -> None:
    engine = Engine()
    engine.watcher.context = LiveContext(gpus=(card,))
    engine.state(1, 0)
    shown = engine.second(decoded=150, n=5)
    assert shown.bound is not None
    assert shown.bound.kind == kind


def test_a_scheduler_starved_of_cpu() -> None:
    engine = Engine()
    engine.watcher.context = LiveContext(gpus=(gpu(utilisation=0.35),))
    engine.state(1, 0)
    shown = engine.second(decoded=40, n=5, scheduler_process_cpu_seconds=1.0)
    assert shown.bound is not None
    assert shown.bound.kind == "scheduler_cpu"
    assert str(shown.bound_by) == "scheduler CPU: 100% of a core while the GPU is at 35%"


def test_client_and_idle() -> None:
    engine = Engine()
    assert str(engine.second(n=3).bound_by) == "nothing: idle"
    engine.state(1, 0)
    engine.second(decoded=100, n=4)
    engine.state(0, 0)
    shown = engine.second(n=20)
    assert shown.bound is not None
    assert shown.bound.kind == "client"
    assert shown.decode_tok_s is None


def test_nothing_is_claimed_when_nothing_is_known() -> None:
    watcher = Watcher()
    shown = watcher.scrape(Exporter(values={("sglang:context_len", ()): 4096.0}))
    assert shown.source == "sglang"
    assert shown.bound is None
    assert shown.alarms == ()


def test_accept_length_pinned_at_one() -> None:
    engine = Engine()
    engine.state(1, 0)
    engine.request(100, 0, 121, 120)
    shown = engine.second(decoded=20, n=8)
    assert shown.accept_length == pytest.approx(1.0)
    assert "accept_pinned" in kinds(shown)


def test_a_healthy_draft_head_raises_nothing() -> None:
    engine = Engine()
    engine.state(1, 0)
    engine.request(100, 0, 409, 120)
    shown = engine.second(decoded=20, n=8)
    assert shown.accept_length == pytest.approx(3.4)
    assert shown.accept_rate == pytest.approx(2.4 / 5)
    assert kinds(shown) == set()


def test_speculation_that_stands_still() -> None:
    engine = Engine()
    engine.state(1, 0)
    engine.request(100, 0, 400, 0)
    assert "spec_still" in kinds(engine.second(decoded=20, n=2))


def test_hit_rate_collapse() -> None:
    engine = Engine()
    engine.state(1, 0)
    for _ in range(20):
        engine.request(50_000, 46_000, 100, 30)
        engine.second(decoded=20, n=8)
    assert "hit_collapse" not in kinds(engine.second(decoded=20))
    engine.second(decoded=20, n=60)
    engine.request(50_000, 0, 100, 30)
    shown = engine.second(decoded=20)
    assert "hit_collapse" in kinds(shown)
    alarm = next(a for a in shown.alarms if a.kind == "hit_collapse")
    assert str(alarm.text) == "The hit rate fell from 92% to 0% within five minutes."


def test_context_near_the_usable_one() -> None:
    engine = Engine()
    engine.state(1, 0, decode_sum_seq_lens=100_000)
    assert "context_near" not in kinds(engine.second(decoded=50, n=2))
    engine.state(1, 0, decode_sum_seq_lens=125_000)
    assert "context_near" in kinds(engine.second(decoded=50, n=2))
    # The gauge stays when the request has ended.
    engine.state(0, 0, decode_sum_seq_lens=125_000)
    assert "context_near" not in kinds(engine.second(n=40))


def test_little_gpu_memory_left() -> None:
    engine = Engine()
    tight = gpu(memory_used_bytes=32 * 2**30 - 100 * 2**20)
    engine.watcher.context = LiveContext(gpus=(tight,))
    shown = engine.second(n=7)
    assert "vram_low" in kinds(shown)
    # On unified memory the figure is the machine's, and another rule's business.
    engine = Engine()
    engine.watcher.context = LiveContext(gpus=(replace(tight, unified=True),))
    assert "vram_low" not in kinds(engine.second(n=7))


def test_decoding_without_graphs() -> None:
    engine = Engine()
    engine.out.set("sglang:cuda_graph_passes_total", 5000, mode="decode_cuda_graph")
    engine.out.set("sglang:cuda_graph_passes_total", 0, mode="decode_none")
    engine.state(1, 0)
    assert "eager" not in kinds(engine.second(decoded=50, n=12))
    for _ in range(15):
        engine.out.add("sglang:cuda_graph_passes_total", 40, mode="decode_none")
        shown = engine.second(decoded=50)
    assert "eager" in kinds(shown)


def test_a_worker_that_the_router_does_not_reach() -> None:
    router = Exporter()
    for worker, healthy in (("http://a:1", 1), ("http://b:1", 1)):
        router.set("smg_worker_health", healthy, worker=worker)
    watcher = Watcher()
    assert watcher.scrape(router).alarms == ()
    router.set("smg_worker_health", 0, worker="http://b:1")
    (alarm,) = watcher.scrape(router).alarms
    assert alarm.kind == "worker_down"
    assert "1 of 2" in str(alarm.text)
    assert "http://b:1" in str(alarm.text)


def test_an_alarm_lingers_and_then_goes() -> None:
    engine = Engine()
    engine.second(n=2, num_retracted_requests=1)
    now = engine.second()
    assert "retraction" in kinds(now)
    lingers = engine.second(n=65)  # one minute's window is over
    assert "retraction" in kinds(lingers)
    said, later = (
        next(str(a.text) for a in live.alarms if a.kind == "retraction") for live in (now, lingers)
    )
    assert not said.startswith("A moment ago")
    assert later.startswith("A moment ago: "), "its figures hold no more"
    assert "retraction" not in kinds(engine.second(n=20))


def probe_result(kind: str, accept: float | None) -> ProbeResult:
    return ProbeResult(
        ttft_ms=1,
        ttfo_ms=1,
        tokens=1,
        decode_tok_s=1,
        cached_tokens=0,
        prompt_tokens=1,
        accept_length=accept,
        kind=kind,
    )


def test_accept_length_of_a_kind_of_work_that_fell_by_half() -> None:
    engine = Engine()
    for kind, accept in (("tool", 3.5), ("prose", 1.3), ("tool", 3.2), ("prose", None)):
        engine.watcher.figures.note_probe(probe_result(kind, accept), 1.0)
    # 1.3 in prose is not half of 3.5: that was tool calls.
    assert "accept_fallen" not in kinds(engine.second())
    engine.watcher.figures.note_probe(probe_result("tool", 1.6), 2.0)
    shown = engine.second()
    assert "accept_fallen" in kinds(shown)
    engine.watcher.figures.note_probe(probe_result("tool", 3.4), 3.0)
    assert "accept_fallen" not in kinds(engine.second())


def test_every_rule_is_covered_by_a_test_above() -> None:
    """A new row needs a test: this list is the reminder."""
    assert {rule.kind for rule in bound.RULES} == {
        "state_slots",
        "kv_pool",
        "request_limit",
        "queue",
        "thermal",
        "prefill",
        "scheduler_cpu",
        "power",
        "decode",
        "client",
        "idle",
    }
    assert {rule.kind for rule in alarms.RULES} == {
        "accept_pinned",
        "spec_still",
        "hit_collapse",
        "queue_at_clamp",
        "context_near",
        "vram_low",
        "retraction",
        "worker_down",
        "eager",
    }


def test_energy_per_thousand_tokens() -> None:
    """Two cards at 300 and 200 W for ten busy seconds and 1,000 tokens: 5,000 J."""
    from qwen_tui.services.live import MetricPoller

    cards = (gpu(power_w=300.0), gpu(index=1, power_w=200.0))
    poller = MetricPoller("http://127.0.0.1:1", context=lambda: LiveContext(gpus=cards))
    engine = Engine()
    now = 100.0
    for _ in range(11):
        reading = engine.watcher.read(engine.out.text())
        poller._note_energy(LiveContext(gpus=cards), reading, now)
        poller.history.feed(reading, now)
        poller.reading, poller._scraped_at = reading, now
        engine.out.add("sglang:realtime_tokens_total", 100, mode="decode")
        now += 1
    window = poller.history.window(60)
    assert window is not None
    assert window.totals["energy_tokens"] == 1000
    assert window.totals["energy_j"] == pytest.approx(5000)


@pytest.mark.parametrize(
    ("host", "indices"),
    [("127.0.0.1", [1]), ("localhost", [1]), ("203.0.113.7", []), ("box.example", [])],
)
def test_gpus_of_this_machine_say_nothing_of_a_server_elsewhere(
    host: str, indices: list[int]
) -> None:
    """Of several cards here, those count on which the server has memory."""
    context = LiveContext(gpus=(gpu(), gpu(index=1, memory_ours_bytes=2**30)))
    assert [g.index for g in context.of_server_at(host).gpus] == indices
    one = LiveContext(gpus=(gpu(),))
    assert [g.index for g in one.of_server_at(host).gpus] == [0] * len(indices)
