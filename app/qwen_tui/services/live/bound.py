"""What limits the server right now: rows of data, the first that holds is shown.

Each row names its evidence in the sentence, so that the reader can check it, and the knob that
would move the limit. The price of turning it comes from the boot's own asked → got table.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from qwen_tui.services.snapshots import Bound
from qwen_tui_profiles.text import Text, t

if TYPE_CHECKING:
    from collections.abc import Callable

    from qwen_tui.services.live.evidence import Evidence
    from qwen_tui.services.snapshots import GpuSnapshot

__all__ = ["RULES", "BoundRule", "find_bound"]

_THERMAL = frozenset({"thermal", "hardware thermal"})
_POWER = frozenset({"power cap", "power brake"})


@dataclass(frozen=True, slots=True)
class BoundRule:
    """One possible limit."""

    kind: str
    holds: Callable[[Evidence], bool]
    say: Callable[[Evidence], Text]
    knob: Text | None = None
    args: tuple[str, ...] = ()
    """Arguments whose clamp, if there is one, tells the price."""
    vllm_knob: Text | None = None


def find_bound(evidence: Evidence) -> Bound | None:
    """Return the first rule that holds; ``None`` when too little is known to say."""
    if evidence.live.running is None:
        return None
    for rule in RULES:
        if rule.holds(evidence):
            clamp = evidence.clamp(*rule.args)
            knob = rule.knob
            if evidence.reading.engine == "vllm" and rule.vllm_knob is not None:
                knob = rule.vllm_knob
            return Bound(
                rule.kind,
                rule.say(evidence),
                knob,
                None if clamp is None else clamp.remedy,
            )
    return None


def _state_slots(e: Evidence) -> bool:
    if not e.at_limit or e.live.mamba_slots is None:
        return False
    clamped = e.asked is not None and e.limit is not None and e.asked > e.limit
    return clamped or (e.live.mamba_used or 0.0) >= 0.99


def _kv_pool(e: Evidence) -> bool:
    if not (e.running or e.queue):
        return False
    retracted = e.grew("retracted", minutes=1)
    starved = e.queue >= 1 or (e.reading.gauges.get("queue_capacity") or 0) >= 1
    return retracted > 0 or ((e.live.kv_used or 0.0) >= 0.9 and starved)


def _say_kv_pool(e: Evidence) -> Text:
    share, n = _kv_share(e), round(e.grew("retracted", minutes=1))
    if e.reading.engine == "vllm":
        return t(
            "KV pool: {share} used, {n} preemptions in the last minute, {queue} waiting",
            share=share,
            n=n,
            queue=e.queue,
        )
    return t(
        "KV pool: {share} used, {n} retractions in the last minute, {queue} waiting",
        share=share,
        n=n,
        queue=e.queue,
    )


def _kv_share(e: Evidence) -> str:
    return "—" if e.live.kv_used is None else f"{e.live.kv_used:.0%}"


def _waits_untold(e: Evidence) -> bool:
    """Tell whether requests wait behind others on a server that does not tell its limit."""
    return e.reading.engine == "vllm" and e.limit is None and e.queue >= 1 and e.running >= 1


def _throttled(e: Evidence, reasons: frozenset[str]) -> GpuSnapshot | None:
    if e.grew("decoded") <= 0 and e.grew("prefilled") <= 0:
        return None
    return next((g for g in e.context.gpus if reasons.intersection(g.throttle_reasons)), None)


def _say_thermal(e: Evidence) -> Text:
    gpu = _throttled(e, _THERMAL)
    assert gpu is not None
    return t(
        "heat: GPU {index} at {degrees} °C runs at {clock} of {full} MHz",
        index=gpu.index,
        degrees="—" if gpu.temperature_c is None else round(gpu.temperature_c),
        clock=gpu.clock_sm_mhz or "—",
        full=gpu.clock_sm_max_mhz or "—",
    )


def _say_power(e: Evidence) -> Text:
    gpu = _throttled(e, _POWER)
    assert gpu is not None
    return t(
        "power: GPU {index} at {watts} of {limit} W",
        index=gpu.index,
        watts="—" if gpu.power_w is None else round(gpu.power_w),
        limit="—" if gpu.power_limit_w is None else round(gpu.power_limit_w),
    )


def _scheduler_cpu(e: Evidence) -> bool:
    load = e.gpu_load
    if load is None or load >= 0.6 or e.ten is None or not e.ten.seconds:
        return False
    return e.grew("decoded") > 0 and e.grew("scheduler_cpu_s") / e.ten.seconds >= 0.95


def _say_scheduler(e: Evidence) -> Text:
    assert e.ten is not None
    return t(
        "scheduler CPU: {share} of a core while the GPU is at {load}",
        share=f"{e.grew('scheduler_cpu_s') / (e.ten.seconds or 1.0):.0%}",
        load=f"{e.gpu_load or 0.0:.0%}",
    )


def _say_decode(e: Evidence) -> Text:
    if e.live.decode_tok_s is None:
        return t("decode: {n} running", n=e.running)
    return t(
        "decode: {speed} tok/s over {n} running", speed=f"{e.live.decode_tok_s:,.0f}", n=e.running
    )


def _client(e: Evidence) -> bool:
    share = e.busy_share()
    return e.queue == 0 and share is not None and 0 < share < 0.5


RULES: Final = (
    BoundRule(
        "state_slots",
        _state_slots,
        lambda e: t(
            "state slots: {running} of {limit} requests, {queue} waiting",
            running=e.running,
            limit=e.limit,
            queue=e.queue,
        ),
        t("more state slots (--max-mamba-cache-size); each costs room for KV tokens"),
        ("--max-running-requests", "--max-mamba-cache-size"),
    ),
    BoundRule(
        "kv_pool",
        _kv_pool,
        _say_kv_pool,
        t("a larger pool (--mem-fraction-static, fp8 KV) or shorter requests"),
        ("--max-total-tokens", "--context-length"),
        t("a larger pool (--gpu-memory-utilization, fp8 KV) or shorter requests"),
    ),
    BoundRule(
        "request_limit",
        lambda e: e.at_limit,
        lambda e: t(
            "request limit: {running} of {limit} running, {queue} waiting",
            running=e.running,
            limit=e.limit,
            queue=e.queue,
        ),
        t("--max-running-requests"),
        ("--max-running-requests",),
        t("--max-num-seqs"),
    ),
    BoundRule(
        "queue",
        _waits_untold,
        lambda e: t(
            "{queue} waiting behind {running} running, KV pool {share} used "
            "(vLLM does not tell its request limit)",
            queue=e.queue,
            running=e.running,
            share=_kv_share(e),
        ),
        t("--max-num-seqs if no more may run at once, else --max-num-batched-tokens"),
    ),
    BoundRule(
        "thermal",
        lambda e: _throttled(e, _THERMAL) is not None,
        _say_thermal,
        t("cooling: dust, fans, room, or a lower power limit"),
    ),
    BoundRule(
        "prefill",
        lambda e: (e.prefill_share() or 0.0) > 0.5,
        lambda e: t(
            "prefill: {share} of the last minute, {tokens} new prompt tokens",
            share=f"{e.prefill_share() or 0.0:.0%}",
            tokens=f"{e.grew('prefilled', minutes=1):,.0f}",
        ),
        t("stable prompt beginnings, so that the prefix cache hits; then --chunked-prefill-size"),
    ),
    BoundRule(
        "scheduler_cpu",
        _scheduler_cpu,
        _say_scheduler,
        t(
            "a faster or freer core for the scheduler: CPU governor, what else runs there, CUDA "
            "graphs for the batch sizes that run"
        ),
    ),
    BoundRule(
        "power",
        lambda e: _throttled(e, _POWER) is not None and (e.gpu_load or 0.0) >= 0.9,
        _say_power,
        t("the power limit (nvidia-smi -pl, as root); little is lost some way below the maximum"),
    ),
    BoundRule(
        "decode",
        lambda e: e.running > 0 and e.grew("decoded") > 0 and not _client(e),
        _say_decode,
        t("speculation or a smaller format for one stream; more streams for the total"),
    ),
    BoundRule(
        "client",
        _client,
        lambda e: t(
            "the client: generating {share} of the last minute, nothing waiting",
            share=f"{e.busy_share() or 0.0:.0%}",
        ),
        t("more requests at once, if there is work for them"),
    ),
    BoundRule(
        "idle",
        lambda e: e.live.running == 0 and e.queue == 0,
        lambda _: t("nothing: idle"),
    ),
)
"""In order of precedence: a full house explains a slow client, not the other way round."""
