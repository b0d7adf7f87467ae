"""From the arithmetic of one SGLang launch to the plan that is shown."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from qwen_tui_profiles.findings import Clamp
from qwen_tui_profiles.plan.advice import sglang_findings, unknown_finding
from qwen_tui_profiles.plan.budget import allocation, budget_lines, weight_lines
from qwen_tui_profiles.plan.gdn import NEWEST_CHECKED
from qwen_tui_profiles.plan.host import host_lines
from qwen_tui_profiles.plan.refusals import refused
from qwen_tui_profiles.plan.result import LIMITS, Interval, Plan, StatePlan
from qwen_tui_profiles.plan.solve_sglang import budget_rule, solve
from qwen_tui_profiles.plan.tokens import usable_context
from qwen_tui_profiles.plan.weights import GIB
from qwen_tui_profiles.text import Text, t

if TYPE_CHECKING:
    from qwen_tui_profiles.plan.model import ModelFacts
    from qwen_tui_profiles.plan.predict_sglang import Computed
    from qwen_tui_profiles.plan.solve_sglang import Failure

__all__ = ["build_plan", "unknown_plan"]


_LOOK_UP = 256
"""How far above the admitted requests a remedy looks for what fits."""


def build_plan(computed: Computed) -> Plan:
    """Assemble the plan of one launch."""
    pools, settings, facts = computed.value, computed.settings, computed.facts
    refusal = refused(settings, facts, computed.request.env)
    failure: Text | None = None
    kind: str | None = None
    minimum: float | None = None
    if refusal is not None:
        failure, kind = refusal.why, refusal.kind
    elif pools.failure is not None:
        failure, kind = _why_not(computed, pools.failure), pools.failure.kind
        minimum = pools.failure.minimum_fraction
    allocated = allocation(computed)
    sized = pools.failure is None
    tokens = [p.tokens for p in (computed.low, pools, computed.high) if p.failure is None]
    state = None
    if facts.state is not None:
        state = StatePlan(
            pools.slots if pools.slots is not None and pools.slots > 0 else None,
            settings.slots_per_request,
            allocated.main if sized else None,
            allocated.intermediate if sized else None,
            facts.state.slot_bytes(settings.state_dtype) / settings.tp / (1 << 20),
            settings.strategy.name if settings.radix_cache else "radix cache off",
        )
    usable = usable_context(settings.context, pools.tokens) if sized else None
    return Plan(
        fits=failure is None and allocated.slack > 0,
        failure=failure,
        failure_class=kind,
        failure_certain=refusal is not None or computed.high.failure is not None,
        minimum_fraction=minimum,
        kv_tokens=Interval(
            pools.tokens if sized else None,
            min(tokens) if sized and computed.low.failure is None else None,
            max(tokens) if sized else None,
        ),
        requests_asked=settings.requests_asked,
        requests=pools.requests if sized else None,
        limited_by=pools.limited_by if sized else None,
        state=state,
        weights_gib=computed.weights.target / GIB,
        draft_gib=computed.weights.draft / GIB if computed.drafts else None,
        kv_gib=allocated.kv if sized else None,
        context_declared=settings.context,
        context_usable=usable,
        slack_gib=allocated.slack if sized else None,
        budget=(*budget_lines(computed, allocated), *host_lines(computed, allocated))
        if sized
        else weight_lines(computed),
        clamps=settings.clamps + (_pool_clamps(computed) if sized and refusal is None else ()),
        adjustments=settings.adjustments
        + (_pool_adjustments(computed) if sized and refusal is None else ()),
        findings=sglang_findings(computed, allocated),
        assumed=computed.assumed,
        engine="sglang",
        engine_version=settings.version,
        fraction=computed.fraction,
        cell_bytes=computed.cell.charged,
        calibration=None
        if computed.request.calibration is None
        else computed.request.calibration.as_json(),
    )


def _why_not(computed: Computed, failure: Failure) -> Text:
    loaded = computed.weights.target + (computed.weights.draft if computed.drafts else 0.0)
    free = computed.free.value
    if loaded / GIB > free:
        return t(
            "The weights take {loaded} GiB, {free} GiB are free.",
            loaded=f"{loaded / GIB:.1f}",
            free=f"{free:.1f}",
        )
    return failure.why


def unknown_plan(version: str | None, facts: ModelFacts, reason: str) -> Plan:
    """Return a plan that says why nothing is predicted."""
    return Plan(
        fits=None,
        failure=None,
        failure_class=None,
        minimum_fraction=None,
        kv_tokens=Interval(None, None, None),
        requests_asked=None,
        requests=None,
        limited_by=None,
        state=None,
        weights_gib=None,
        draft_gib=None,
        kv_gib=None,
        context_declared=facts.context or None,
        context_usable=None,
        slack_gib=None,
        budget=(),
        clamps=(),
        adjustments=(),
        findings=(unknown_finding(reason, facts.architecture or "no architecture"),),
        assumed=(),
        engine="sglang",
        engine_version=version or NEWEST_CHECKED,
    )


def _pool_clamps(computed: Computed) -> tuple[Clamp, ...]:
    pools, settings = computed.value, computed.settings
    clamps: list[Clamp] = []
    asked = settings.requests_asked
    if asked is not None and pools.requests < asked:
        if pools.limited_by == "mamba state slots":
            clamps.append(
                Clamp(
                    "--max-running-requests",
                    asked,
                    pools.requests,
                    t("mamba state cache"),
                    t(
                        "{slots} state slots, {per_request} a request.",
                        slots=pools.slots or 0,
                        per_request=settings.slots_per_request or 1,
                    ),
                    _slots_remedy(computed, asked),
                    None,
                )
            )
        else:
            clamps.append(
                Clamp(
                    "--max-running-requests",
                    asked,
                    pools.requests,
                    t("KV pool"),
                    t("The pool of {tokens} tokens admits no more.", tokens=f"{pools.tokens:,}"),
                    t("Raise --mem-fraction-static, or free memory."),
                    None,
                )
            )
    limit = settings.max_total_tokens
    if limit is not None and limit > pools.profiled_tokens:
        clamps.append(
            Clamp(
                "--max-total-tokens",
                limit,
                pools.profiled_tokens,
                t("KV pool"),
                t("The flag only lowers the pool; there is no memory for more."),
                t("Take the flag away."),
                None,
            )
        )
    if settings.context > pools.tokens:
        usable = usable_context(settings.context, pools.tokens)
        clamps.append(
            Clamp(
                "--context-length",
                settings.context,
                usable,
                t("KV pool"),
                t(
                    "The pool holds {tokens} tokens; a longer request is refused.",
                    tokens=f"{pools.tokens:,}",
                ),
                t(
                    "Tell the client {usable} tokens; --want-context {context} says what it takes "
                    "to have more.",
                    usable=f"{usable:,}",
                    context=settings.context,
                ),
                None,
            )
        )
    return tuple(clamps)


def _slots_remedy(computed: Computed, asked: int) -> Text:
    """Say how many slots the asked requests need, and what those cost in tokens of the pool."""
    pools = computed.value
    per_request = computed.settings.slots_per_request or 1
    rule = budget_rule(computed.settings.version)
    for wanted in range(min(asked, pools.requests + _LOOK_UP), pools.requests, -1):
        # One above the admission rule: a chunk boundary can need it for a moment (sglang #37066).
        slots = wanted * per_request + 1
        after = solve(replace(computed.inputs, slots_asked=slots), rule)
        if after.failure is None and after.requests == wanted:
            return t(
                "To get {got}: --max-mamba-cache-size {slots}, {tokens} tokens "
                "(slots and their rollback states).",
                got=wanted,
                slots=slots,
                tokens=f"{after.tokens - pools.tokens:+,}",
            )
    return t(
        "{asked} need {slots} slots, for which there is no room here: "
        "ask for --max-running-requests {got}.",
        asked=asked,
        slots=asked * per_request + 1,
        got=pools.requests,
    )


def _pool_adjustments(computed: Computed) -> tuple[Clamp, ...]:
    pools, settings = computed.value, computed.settings
    out: list[Clamp] = []
    if pools.slots is not None and settings.slots_asked is None:
        out.append(
            Clamp(
                "--max-mamba-cache-size",
                None,
                pools.slots,
                t("mamba state cache"),
                t(
                    "Not given: solved from --mamba-full-memory-ratio {ratio}.",
                    ratio=f"{settings.ratio:g}",
                ),
                None,
                None,
            )
        )
    if settings.requests_asked is None and settings.requests != pools.requests:
        out.append(
            Clamp(
                "--max-running-requests",
                None,
                pools.requests,
                LIMITS[pools.limited_by or "KV pool"],
                t("Not given: what state slots and KV pool admit."),
                None,
                None,
            )
        )
    return tuple(out)
