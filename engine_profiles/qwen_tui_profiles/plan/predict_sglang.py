"""Predict what an SGLang launch gets: pools, clamps, usable context, and what is left."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from qwen_tui_profiles.errors import InputError, UsageError
from qwen_tui_profiles.plan.arguments import SglangArguments, read_sglang
from qwen_tui_profiles.plan.cards import assumed_total_gib
from qwen_tui_profiles.plan.gdn import NEWEST_CHECKED, replay_ring_bytes
from qwen_tui_profiles.plan.memory import FreeMemory, check_gib, free_memory
from qwen_tui_profiles.plan.model import ModelFacts, read_model
from qwen_tui_profiles.plan.report_sglang import build_plan, unknown_plan
from qwen_tui_profiles.plan.resolution import MTP_ALGORITHMS
from qwen_tui_profiles.plan.result import Assumption
from qwen_tui_profiles.plan.rotary import rotary_growth_bytes
from qwen_tui_profiles.plan.settings import Settings, resolve
from qwen_tui_profiles.plan.solve_sglang import (
    BudgetRule,
    PoolInputs,
    Pools,
    budget_rule,
    solve,
)
from qwen_tui_profiles.plan.tokens import Cell, token_cell
from qwen_tui_profiles.plan.weights import (
    GIB,
    Weights,
    weights_from_dims,
    weights_from_headers,
    weights_unknown,
    with_measured,
    with_published,
)
from qwen_tui_profiles.text import t
from qwen_tui_profiles.versions import in_range

if TYPE_CHECKING:
    from qwen_tui_profiles.plan.calibrate import Calibration
    from qwen_tui_profiles.plan.request import PlanRequest
    from qwen_tui_profiles.plan.result import Plan

__all__ = ["Computed", "arithmetic", "compute", "predict_sglang"]

_RECORDED = "0.5.17"
"""The release whose boots were recorded; others were read from the source only."""

_UNACCOUNTED_RECORDED_GIB = 0.02
_UNACCOUNTED_GIB = 0.30
"""Memory that a boot may use without a known cause: less than 0.01 GiB in the recorded boots of
0.5.17, and 0.02 from one run to the next; 0.30 GiB on the box of seed 000 (0.338, of which the
rotary caches are 0.04)."""


_INTERVAL_STEPS = 48
"""Points looked at between the ends of an interval where the engine chooses the slots."""


@dataclass(frozen=True, slots=True)
class Computed:
    """Everything between the request and the report; backwards solving reuses it."""

    request: PlanRequest
    arguments: SglangArguments
    facts: ModelFacts
    settings: Settings
    weights: Weights
    free: FreeMemory
    cell: Cell
    drafts: bool
    """The checkpoint's MTP head is loaded as draft model."""
    rotary_growth: int
    """Bytes that the rotary caches grow by between the load and the pools."""
    fraction: float
    inputs: PoolInputs
    value: Pools
    low: Pools
    high: Pools
    assumed: tuple[Assumption, ...]


def predict_sglang(request: PlanRequest) -> Plan:
    """Predict the launch.

    Returns:
        A plan whose unknown figures are None: for a class that the planner does not know, and for
        weights that cannot be derived from the dimensions.

    Raises:
        InputError: A file or number is unusable.
        UsageError: The arguments cannot be read, or no memory size is given.
    """
    facts = read_model(request.config)
    if facts.known is None:
        return unknown_plan(request.engine_version, facts, "architecture")
    arguments = read_sglang(request.args)
    # Plain data parallelism repeats the whole server: its plan is that of one replica.
    shares_attention = (arguments.dp_size or 1) > 1 and arguments.enable_dp_attention
    if (arguments.pp_size or 1) > 1 or shares_attention:
        return unknown_plan(request.engine_version, facts, "parallelism")
    if _foreign_draft(facts, arguments) and request.draft_gib is None:
        return unknown_plan(request.engine_version, facts, "draft")
    computed = compute(request, facts, arguments)
    if computed is None:
        return unknown_plan(request.engine_version, facts, "weights")
    sized = facts.known.dims or request.stored is not None or request.draft_gib is not None
    if computed.settings.own_head and facts.draft_layers and not sized:
        return unknown_plan(request.engine_version, facts, "draft-size")
    return build_plan(computed)


def _foreign_draft(facts: ModelFacts, arguments: SglangArguments) -> bool:
    """Whether the draft model is another checkpoint than the target."""
    name = (arguments.speculative_algorithm or "NONE").upper()
    if name in {"NONE", "NGRAM"}:
        return False
    if name in MTP_ALGORITHMS:
        return facts.draft_layers == 0 and arguments.speculative_draft_model_path is not None
    return True


def arithmetic(request: PlanRequest) -> Computed | None:
    """Return the arithmetic alone; None where nothing can be predicted."""
    facts = read_model(request.config)
    if facts.known is None:
        return None
    return compute(request, facts, read_sglang(request.args))


def compute(request: PlanRequest, facts: ModelFacts, arguments: SglangArguments) -> Computed | None:
    """Do the arithmetic of one launch; None where the weights cannot be sized."""
    assumed: list[Assumption] = []
    version = request.engine_version or NEWEST_CHECKED
    if request.engine_version is None:
        assumed.append(
            Assumption("engine_version", version, t("Not given: the newest release known."))
        )
    total_gib = request.total_gib
    given = request.free_gib if request.free_gib is not None else request.live_free_gib
    if total_gib is None and given is not None and arguments.mem_fraction_static is None:
        total_gib = assumed_total_gib(given)
        assumed.append(
            Assumption(
                "total_gib", total_gib, t("The smallest known card that has this much free.")
            )
        )
    settings = resolve(
        arguments,
        facts,
        engine_version=version,
        env=request.env,
        gpu_mib=None if total_gib is None else total_gib * 1024,
    )
    weights = _weights(request, facts, arguments)
    if weights is None:
        return None
    if weights.published:
        assumed.append(Assumption("weights_gib", request.published_gib, weights.basis))
    calibration = request.calibration
    free = free_memory(
        printed_gib=request.free_gib,
        live_gib=request.live_free_gib,
        total_gib=total_gib,
        device_transport=settings.device_transport,
        transport_before_load=in_range(version, None, "0.5.17"),
        gain_gib=None if calibration is None else calibration.gain_gib,
        overhead_gib=None if calibration is None else calibration.overhead_gib,
    )
    if free is None:
        raise UsageError(
            t("No GPU was found and no memory size was given."),
            t("Give --free-gib (from an engine log) or --total-gib (from the card's data sheet)."),
        )
    if settings.fraction is None:
        raise UsageError(
            t("--mem-fraction-static is not given and the card's total memory is not known."),
            t("Give --total-gib, or set the fraction."),
        )
    if free.assumed:
        assumed.append(Assumption("free_gib", round(free.value, 2), free.basis))
    if settings.slots_per_request is None and facts.state is not None:
        raise InputError(
            t(
                "SGLang {version} has no radix-cache strategy {strategy}.",
                version=version,
                strategy=settings.strategy.name,
            ),
            t("Use extra_buffer, or a newer release."),
        )
    foreign = _foreign_draft(facts, arguments)
    if foreign:
        # Its own embedding stays; its layers are taken for one of the target's size.
        weights = replace(weights, draft=(request.draft_gib or 0.0) * GIB, draft_late=0.0)
        assumed.append(Assumption("draft_layers", 1, t("The draft is another checkpoint.")))
    drafts = (settings.own_head or foreign) and weights.draft > 0
    cell = token_cell(
        facts,
        engine_version=version,
        kv_bytes=settings.kv_bytes,
        speculative=settings.own_head or foreign,
        draft_path=settings.draft_path,
        tp=settings.tp,
    )
    growth = rotary_growth_bytes(
        facts,
        settings.rotary_rows,
        vision=facts.multimodal and not arguments.language_model_only,
    )
    inputs = _inputs(settings, facts, weights, free, cell, drafts=drafts)
    inputs = replace(inputs, free_after_load=inputs.free_after_load - growth)
    unaccounted = 0.0 if calibration is None else calibration.unaccounted_gib
    inputs = replace(inputs, free_after_load=inputs.free_after_load - unaccounted * GIB)
    rule = budget_rule(version)
    doubt = _doubt_gib(version, calibration)
    low = replace(
        inputs,
        free_after_load=inputs.free_after_load
        - (free.value - free.low) * GIB
        - (weights.target_high - weights.target)
        - doubt * GIB,
        free_before_load=(free.low + free.gain_high) * GIB,
    )
    high = replace(
        inputs,
        free_after_load=inputs.free_after_load
        + (free.high - free.value) * GIB
        + (weights.target - weights.target_low),
        free_before_load=(free.high + free.gain_low) * GIB,
        fraction=settings.fraction_high or inputs.fraction,
    )
    fewest, most = _extremes(low, high, rule)
    return Computed(
        request=request,
        arguments=arguments,
        facts=facts,
        settings=settings,
        weights=weights,
        free=free,
        cell=cell,
        drafts=drafts,
        rotary_growth=growth,
        fraction=inputs.fraction,
        inputs=inputs,
        value=solve(inputs, rule),
        low=fewest,
        high=most,
        assumed=tuple(assumed),
    )


def _weights(request: PlanRequest, facts: ModelFacts, arguments: SglangArguments) -> Weights | None:
    if request.stored is not None:
        weights: Weights | None = weights_from_headers(facts, request.stored)
    else:
        weights = weights_from_dims(facts)
    calibration = request.calibration
    target = request.weights_gib
    draft = request.draft_gib
    if calibration is not None:
        target = calibration.target_gib if target is None else target
        draft = calibration.draft_gib if draft is None else draft
    for name, size in (("--weights-gib", target), ("--draft-gib", draft or None)):
        check_gib(name, size)
    if weights is None and target is not None:
        weights = weights_unknown(facts)
    if weights is None:
        return None
    if arguments.language_model_only and weights.vision:
        weights = replace(
            weights,
            target=weights.target - weights.vision,
            target_low=weights.target_low - weights.vision,
            target_high=weights.target_high - weights.vision,
            vision=0.0,
        )
    tp = arguments.tp_size or 1
    if tp > 1:
        weights = replace(
            weights,
            target=weights.target / tp,
            target_low=weights.target_low / tp,
            target_high=weights.target_high / tp * 1.05,
            draft=weights.draft / tp,
            draft_late=weights.draft_late / tp,
        )
    if target is None and request.published_gib is not None:
        weights = with_published(weights, request.published_gib / tp, request.published_source)
    return with_measured(weights, target_gib=target, draft_gib=draft)


def _inputs(
    settings: Settings,
    facts: ModelFacts,
    weights: Weights,
    free: FreeMemory,
    cell: Cell,
    *,
    drafts: bool,
) -> PoolInputs:
    rule = budget_rule(settings.version)
    loaded = weights.target + (weights.draft if drafts and rule.draft_before_pools else 0.0)
    slot = window = ring = 0
    if facts.state is not None:
        slot = facts.state.slot_bytes(settings.state_dtype) // settings.tp
        if not settings.rollback_states:
            window, per_request = replay_ring_bytes(
                facts.state,
                draft_tokens=settings.draft_tokens,
                cache_length=settings.replay_length,
                engine_version=settings.version,
            )
            ring = per_request * (max(1, settings.requests or 1) + 1)
    return PoolInputs(
        free_after_load=free.value * GIB - loaded,
        free_before_load=(free.value + free.gain) * GIB,
        fraction=settings.fraction or 0.0,
        reserve=float(settings.multimodal_reserve_bytes),
        cell=cell.charged,
        page=settings.page,
        context=settings.context,
        max_total_tokens=settings.max_total_tokens,
        requests_asked=settings.requests,
        slot=slot,
        slots_asked=settings.slots_asked,
        slots_per_request=settings.slots_per_request or 1,
        ratio=settings.ratio,
        draft_tokens=settings.draft_tokens,
        radix_cache=settings.radix_cache,
        intermediates=settings.rollback_states,
        extra_per_slot=window // settings.tp,
        fixed_state=ring // settings.tp,
    )


def _extremes(low: PoolInputs, high: PoolInputs, rule: BudgetRule) -> tuple[Pools, Pools]:
    """Return the smallest and the largest pool between two ends; a refusal is smaller than any.

    The ends themselves are not enough: where the engine chooses the slots, one more slot takes more
    from the KV cache than the memory that brought it, so that the pool runs like a saw.
    """
    steps = _INTERVAL_STEPS if low.slots_asked is None and low.slot else 1
    pools = [solve(_between(low, high, index / steps), rule) for index in range(steps + 1)]
    return (
        min(pools, key=lambda p: (p.failure is None, p.tokens)),
        max(pools, key=lambda p: (p.failure is None, p.tokens)),
    )


def _between(low: PoolInputs, high: PoolInputs, part: float) -> PoolInputs:
    return replace(
        low,
        free_after_load=low.free_after_load + part * (high.free_after_load - low.free_after_load),
        free_before_load=low.free_before_load
        + part * (high.free_before_load - low.free_before_load),
        fraction=low.fraction + part * (high.fraction - low.fraction),
    )


def _doubt_gib(version: str, calibration: Calibration | None) -> float:
    if calibration is not None:
        return calibration.noise_gib
    return _UNACCOUNTED_RECORDED_GIB if version == _RECORDED else _UNACCOUNTED_GIB
