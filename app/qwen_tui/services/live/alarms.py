"""What is wrong with how it serves: rows of data with the time that each must hold.

An alarm is shown from the moment that its condition has held long enough until some seconds after
it ended, so that a transient sample neither raises nor hides one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from qwen_tui.services.snapshots import Alarm
from qwen_tui_profiles.findings import Severity
from qwen_tui_profiles.text import Text, t

if TYPE_CHECKING:
    from collections.abc import Callable

    from qwen_tui.services.live.evidence import Evidence
    from qwen_tui.services.snapshots import GpuSnapshot, ProbeResult

__all__ = ["RULES", "AlarmBoard", "AlarmRule"]

_LINGER_S = 15.0
"""An alarm stays this long after its condition ended."""
_LEAST_STEPS = 50
"""Verify steps below which an accept length says nothing."""
_LEAST_TOKENS = 200
_LEAST_PROMPT = 2000
"""Prompt tokens below which a hit rate says nothing."""
VRAM_MARGIN_MIB: Final = 256
"""Free GPU memory below which kernels that allocate at run time are at risk."""


@dataclass(frozen=True, slots=True)
class AlarmRule:
    """One thing that can be wrong."""

    kind: str
    severity: Severity
    holds: Callable[[Evidence], bool]
    say: Callable[[Evidence], Text]
    remedy: Text | None
    after_s: float = 0.0
    """How long it must hold before it is raised."""


@dataclass(slots=True)
class _Episode:
    started: float
    last: float
    text: Text
    raised: bool = False


@dataclass(slots=True)
class AlarmBoard:
    """Remembers since when each condition holds."""

    _episodes: dict[str, _Episode] = field(default_factory=dict)
    _best_accept: dict[str, float] = field(default_factory=dict)
    _fallen: Alarm | None = None

    def update(self, evidence: Evidence) -> tuple[Alarm, ...]:
        """Look at one moment and return the alarms that stand."""
        now = evidence.live.at
        standing: list[Alarm] = []
        for rule in RULES:
            episode = self._episodes.get(rule.kind)
            if rule.holds(evidence):
                text = rule.say(evidence)
                if episode is None:
                    self._episodes[rule.kind] = episode = _Episode(now, now, text)
                episode.last, episode.text = now, text
                episode.raised = episode.raised or now - episode.started >= rule.after_s
            elif episode is not None and (not episode.raised or now - episode.last > _LINGER_S):
                del self._episodes[rule.kind]
                continue
            if episode is not None and episode.raised:
                # What lingers has figures that hold no more: it says so.
                text = episode.text
                if episode.last < now:
                    text = t("A moment ago: {text}", text=text)
                standing.append(Alarm(rule.kind, rule.severity, text, rule.remedy, episode.started))
        if self._fallen is not None:
            standing.append(self._fallen)
        return tuple(standing)

    def note_probe(self, result: ProbeResult, at: float) -> None:
        """Compare a probe's accept length with the best earlier one of the same kind of work."""
        length = result.accept_length
        if length is None:
            return
        best = self._best_accept.get(result.kind)
        self._fallen = None
        if best is not None and length <= best / 2:
            self._fallen = Alarm(
                "accept_fallen",
                Severity.WARN,
                t(
                    "Accept length of the {kind} probe fell from {best} to {now}.",
                    kind=result.kind,
                    best=f"{best:.2f}",
                    now=f"{length:.2f}",
                ),
                t("Compare what changed since: checkpoint, draft head, KV format, sampling."),
                at,
            )
        self._best_accept[result.kind] = max(best or 0.0, length)


def _pinned(e: Evidence) -> bool:
    length = e.live.accept_length
    if length is None or length > 1.02:
        return False
    steps = e.grew("verify_steps", minutes=1)
    if steps > 0:
        return steps >= _LEAST_STEPS
    return e.grew("decoded", minutes=1) >= _LEAST_TOKENS  # from the engine's last interval


def _spec_still(e: Evidence) -> bool:
    if e.live.draft_tokens is None and e.reading.engine == "sglang":
        return False
    if "verify_steps" not in e.reading.counters or e.grew("verify_steps", minutes=1) > 0:
        return False
    # SGLang counts steps and output tokens when a request ends, vLLM with every step.
    key = "output_tokens" if e.reading.engine == "sglang" else "decoded"
    return e.grew(key, minutes=1) >= _LEAST_TOKENS


def _hit_rates(e: Evidence) -> tuple[float, float] | None:
    """Return (hit rate of minutes 2 to 5, hit rate of the last minute) with enough tokens."""
    cached = "prefix_hits" if e.reading.engine == "vllm" else "cached_tokens"
    prompt = "prefix_queries" if e.reading.engine == "vllm" else "prompt_tokens"
    now_prompt = e.grew(prompt, minutes=1)
    before_prompt = e.grew(prompt, minutes=5) - now_prompt
    if now_prompt < _LEAST_PROMPT or before_prompt < _LEAST_PROMPT:
        return None
    now_cached = e.grew(cached, minutes=1)
    return (e.grew(cached, minutes=5) - now_cached) / before_prompt, now_cached / now_prompt


def _collapsed(e: Evidence) -> bool:
    rates = _hit_rates(e)
    return rates is not None and rates[0] >= 0.5 and rates[1] < rates[0] / 2


def _say_collapsed(e: Evidence) -> Text:
    before, now = _hit_rates(e) or (0.0, 0.0)
    return t(
        "The hit rate fell from {before} to {now} within five minutes.",
        before=f"{before:.0%}",
        now=f"{now:.0%}",
    )


def _at_clamp(e: Evidence) -> bool:
    return e.at_limit and e.asked is not None and e.limit is not None and e.asked > e.limit


def _longest(e: Evidence) -> float | None:
    """Return the length of the running request when there is exactly one, in tokens."""
    if e.live.running != 1 or e.grew("decoded") <= 0:
        return None
    return e.reading.gauges.get("decode_seq_tokens", e.alone_tokens)


def _context_near(e: Evidence) -> bool:
    longest, usable = _longest(e), e.live.context_usable
    return longest is not None and usable is not None and longest >= 0.9 * usable


def _tight(e: Evidence) -> GpuSnapshot | None:
    return next(
        (g for g in e.context.gpus if (f := _free_mib(g)) is not None and f < VRAM_MARGIN_MIB), None
    )


def _free_mib(gpu: GpuSnapshot) -> float | None:
    if gpu.unified or gpu.memory_total_bytes is None or gpu.memory_used_bytes is None:
        return None
    return (gpu.memory_total_bytes - gpu.memory_used_bytes) / 2**20


def _say_tight(e: Evidence) -> Text:
    gpu = _tight(e)
    assert gpu is not None
    return t(
        "GPU {index} has {free} MiB free; below {margin} MiB a kernel's workspace may not fit.",
        index=gpu.index,
        free=f"{_free_mib(gpu) or 0:,.0f}",
        margin=VRAM_MARGIN_MIB,
    )


def _workers(e: Evidence) -> dict[str, bool | None]:
    """Return which workers behind a router are healthy, by address."""
    return {r.worker: r.healthy for r in e.live.replicas}


def _down(e: Evidence) -> list[str]:
    return [address for address, healthy in _workers(e).items() if healthy is False]


def _eager(e: Evidence) -> bool:
    used_before = sum(e.reading.counters.get("graph_used", {}).values()) > 0
    return used_before and e.grew("graph_none") > e.grew("graph_used")


RULES: Final = (
    AlarmRule(
        "accept_pinned",
        Severity.ERROR,
        _pinned,
        lambda _: t(
            "No draft token is accepted (accept length 1.00): speculation costs and brings nothing."
        ),
        t("Check that the draft head belongs to this checkpoint: `qwen-tui verify DIR`."),
        after_s=5,
    ),
    AlarmRule(
        "spec_still",
        Severity.WARN,
        _spec_still,
        lambda e: t(
            "{n} tokens were generated in the last minute and not one draft was verified.",
            n=f"{max(e.grew('output_tokens', minutes=1), e.grew('decoded', minutes=1)):,.0f}",
        ),
        t("Speculation is configured and does not run; the engine's log tells why."),
    ),
    AlarmRule(
        "hit_collapse",
        Severity.WARN,
        _collapsed,
        _say_collapsed,
        t(
            "Compare the first lines of two requests: a clock, a session id or a reordered tool "
            "list at the top breaks the prefix."
        ),
    ),
    AlarmRule(
        "queue_at_clamp",
        Severity.WARN,
        _at_clamp,
        lambda e: t(
            "{queue} waiting at {limit} running: asked for {asked}, the engine allows {limit}.",
            queue=e.queue,
            limit=e.limit,
            asked=e.asked,
        ),
        t("The asked → got table says what more would cost."),
        after_s=10,
    ),
    AlarmRule(
        "context_near",
        Severity.WARN,
        _context_near,
        lambda e: t(
            "The running request is at {n} of {usable} usable tokens.",
            n=f"{_longest(e) or 0:,.0f}",
            usable=f"{e.live.context_usable or 0:,}",
        ),
        t("Compact the conversation, or swap to the context profile."),
    ),
    AlarmRule(
        "vram_low",
        Severity.WARN,
        lambda e: _tight(e) is not None,
        _say_tight,
        t("Lower --mem-fraction-static by 0.01 to 0.02, or end what else uses the card."),
        after_s=5,
    ),
    AlarmRule(
        "retraction",
        Severity.WARN,
        lambda e: e.grew("retracted", minutes=1) > 0,
        lambda e: t(
            "{n} requests were thrown out of the batch in the last minute and start again.",
            n=round(e.grew("retracted", minutes=1)),
        ),
        t("The KV pool is too small for what runs at once: fewer requests or shorter ones."),
    ),
    AlarmRule(
        "worker_down",
        Severity.ERROR,
        lambda e: bool(_down(e)),
        lambda e: t(
            "{n} of {all} workers behind the router do not answer: {names}.",
            n=len(_down(e)),
            all=len(_workers(e)),
            names=", ".join(_down(e)[:3]),
        ),
        t("The log of that worker tells; the router takes it in again when it answers."),
    ),
    AlarmRule(
        "eager",
        Severity.WARN,
        _eager,
        lambda _: t("Decoding runs without CUDA graphs."),
        t("More requests run than graphs were captured for: raise the graph batch size."),
        after_s=10,
    ),
)
