"""SGLang's own arithmetic: from free memory to slots, tokens and requests, by release.

A re-statement in bytes of ``_profile_available_bytes``, ``_handle_max_mamba_cache`` and
``resolve_max_num_reqs`` (0.5.14 and later) and of ``profile_max_num_token`` (0.5.13 and earlier),
checked against every recorded boot. Everything here is exact once its inputs are; what is assumed
about the inputs is the business of :mod:`qwen_tui_profiles.plan.predict`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from qwen_tui_profiles.plan.gdn import NEWEST_CHECKED, clamp_requests
from qwen_tui_profiles.text import Text, t
from qwen_tui_profiles.versions import in_range

__all__ = ["BudgetRule", "Failure", "PoolInputs", "Pools", "budget_rule", "solve"]


@dataclass(frozen=True, slots=True)
class BudgetRule:
    """How one range of releases budgets the pools."""

    since: str | None
    until: str | None
    padding_slot: bool
    """Whether the pool's padding slot is charged (allocated it is in all of them)."""
    clamped_intermediates: bool
    """Whether rollback states are charged for the clamped request count; else for the asked one
    (48 where none was asked)."""
    joint_slots: bool
    """Whether automatic slots and rollback states share the ``--mamba-full-memory-ratio`` part."""
    draft_before_pools: bool
    """Whether the draft's weights are on the card when the pools are sized."""
    request_cap: str
    """Upper bound of requests from the token pool: ``none``, ``estimate`` or ``half``."""
    evidence: str


BUDGET_RULES: tuple[BudgetRule, ...] = (
    BudgetRule(None, "0.5.12", False, False, False, False, "none", "source of 0.5.9 and 0.5.12"),
    BudgetRule("0.5.13", "0.5.13", False, True, True, False, "estimate", "source of 0.5.13"),
    BudgetRule("0.5.14", "0.5.16", False, True, True, True, "half", "source of 0.5.14 and 0.5.16"),
    BudgetRule("0.5.17", None, True, True, True, True, "half", "source and boots of 0.5.17"),
)


def budget_rule(engine_version: str | None) -> BudgetRule:
    """Return the rule of a release; the newest one for None."""
    version = engine_version or NEWEST_CHECKED
    for rule in BUDGET_RULES:
        if in_range(version, rule.since, rule.until):
            return rule
    return BUDGET_RULES[-1]


@dataclass(frozen=True, slots=True)
class PoolInputs:
    """Everything that the engine's solver looks at; sizes in bytes."""

    free_after_load: float
    """Free memory when the pools are sized."""
    free_before_load: float
    """Free memory at the end of the distributed init, which the fraction refers to."""
    fraction: float
    """``--mem-fraction-static`` in force."""
    reserve: float
    """Kept back for multimodal buffers (0.5.18 and later)."""
    cell: int
    """Bytes that the solver charges for one token."""
    page: int
    context: int
    max_total_tokens: int | None
    requests_asked: int | None
    """``--max-running-requests``, or 48 where speculative decoding sets it."""
    slot: int
    """Bytes of one state slot; 0 for a model without recurrent state."""
    slots_asked: int | None
    slots_per_request: int
    ratio: float
    """``--mamba-full-memory-ratio`` in force."""
    draft_tokens: int
    """Tokens verified per step; 0 without speculative decoding."""
    radix_cache: bool
    intermediates: bool = True
    """False where ReplaySSM keeps no rollback states."""
    extra_per_slot: int = 0
    """Bytes charged with every slot on top of its state (PLE convolution, ReplaySSM window)."""
    fixed_state: int = 0
    """Bytes charged once for all requests (ReplaySSM ring of 0.5.20 and later)."""


@dataclass(frozen=True, slots=True)
class Failure:
    """The engine refuses to start with these pools."""

    kind: str
    """Fatal class of the log reader: ``kv_pool_no_memory`` or ``mamba_pool_too_small``."""
    why: Text
    minimum_fraction: float | None = None
    """Smallest fraction at which it would start, where raising it is the cure."""


@dataclass(frozen=True, slots=True)
class Pools:
    """What the solver comes to; sizes in bytes."""

    static: float
    """What the fraction leaves for state and KV cache together."""
    slots: int | None
    main: float
    """Charged for the state pool."""
    intermediate: float
    """Charged for rollback states."""
    kv: float
    """Left for the KV cache."""
    profiled_tokens: int
    """Tokens before ``--max-total-tokens``."""
    tokens: int
    requests: int
    """Concurrent requests after every clamp."""
    limited_by: str | None
    """A key of ``plan.result.LIMITS``; None where the asked number is kept."""
    failure: Failure | None = None


def solve(inputs: PoolInputs, rule: BudgetRule) -> Pools:
    """Size the pools as the engine does."""
    static = (
        inputs.free_after_load - inputs.free_before_load * (1 - inputs.fraction) - inputs.reserve
    )
    if inputs.slot == 0:
        return _finish(inputs, rule, static, None, 0.0, 0.0)
    slots, intermediate = _state_pool(inputs, rule, static)
    padding = 1 if rule.padding_slot else 0
    main = float((slots + padding) * (inputs.slot + inputs.extra_per_slot) + inputs.fixed_state)
    if slots <= 0:
        return _failed(static, slots, main, intermediate, _no_slots(inputs, slots))
    return _finish(inputs, rule, static, slots, main, intermediate)


def _state_pool(inputs: PoolInputs, rule: BudgetRule, static: float) -> tuple[int, float]:
    """Return the number of slots and the bytes charged for rollback states."""
    drafts = inputs.draft_tokens if inputs.intermediates else 0
    asked = inputs.requests_asked
    per_request = inputs.slots_per_request
    padding = 1 if rule.padding_slot else 0
    rollback = inputs.slot * drafts
    unclamped = 0.0
    if not rule.clamped_intermediates:
        unclamped = float(rollback * (asked or 0))
    if inputs.slots_asked is not None:
        slots = inputs.slots_asked
    elif not inputs.radix_cache and asked is not None:
        slots = asked
    else:
        slots = _automatic_slots(inputs, rule, static - unclamped, drafts)
    if not rule.clamped_intermediates:
        return slots, unclamped
    if not inputs.radix_cache and inputs.slots_asked is None and asked is not None:
        return slots, float(rollback * (slots + padding))
    # The floor division of a negative slot count is the engine's, too: it then refuses to start.
    running = slots // per_request if asked is None else min(asked, slots // per_request)
    return slots, float(rollback * (running + padding))


def _automatic_slots(inputs: PoolInputs, rule: BudgetRule, static: float, drafts: int) -> int:
    budget = static * inputs.ratio / (1 + inputs.ratio)
    slot = inputs.slot
    padding = 1 if rule.padding_slot else 0
    extra = inputs.extra_per_slot
    if drafts and rule.joint_slots:
        fixed = padding * (slot * (1 + drafts) + extra)
        return math.floor(
            (budget - fixed) / (slot * (1 + drafts / inputs.slots_per_request) + extra)
        )
    return math.floor((budget - inputs.fixed_state - padding * (slot + extra)) / (slot + extra))


def _finish(
    inputs: PoolInputs,
    rule: BudgetRule,
    static: float,
    slots: int | None,
    main: float,
    intermediate: float,
) -> Pools:
    kv = static - main - intermediate
    if kv <= 0:
        return _failed(static, slots, main, intermediate, _no_kv(inputs, main + intermediate))
    profiled = int(kv) // inputs.cell // inputs.page * inputs.page
    tokens = profiled
    if inputs.max_total_tokens is not None:
        tokens = min(profiled, inputs.max_total_tokens) // inputs.page * inputs.page
    if tokens <= 0:
        return _failed(static, slots, main, intermediate, _no_kv(inputs, main + intermediate))
    requests, limited_by = _requests(inputs, rule, tokens, slots)
    failure = None
    if requests <= 0:
        failure = Failure(
            "mamba_pool_too_small",
            t(
                "{slots} state slots serve no request: one takes {per_request}.",
                slots=slots or 0,
                per_request=inputs.slots_per_request,
            ),
        )
    return Pools(
        static, slots, main, intermediate, kv, profiled, tokens, requests, limited_by, failure
    )


def _requests(
    inputs: PoolInputs, rule: BudgetRule, tokens: int, slots: int | None
) -> tuple[int, str | None]:
    estimate = max(min(int(tokens / inputs.context * 512), 4096), 2048)
    asked = inputs.requests_asked
    if rule.request_cap == "none":
        wanted = estimate if asked is None else asked
    elif rule.request_cap == "estimate" and asked is not None:
        wanted = min(asked, estimate)
    else:
        wanted = min(estimate if asked is None else asked, tokens // 2)
    admitted = clamp_requests(wanted, slots, inputs.slots_per_request) if slots else wanted
    if admitted is not None and admitted < wanted:
        return admitted, "mamba state slots"
    return wanted, "KV pool" if asked is not None and wanted < asked else None


def _failed(
    static: float, slots: int | None, main: float, intermediate: float, failure: Failure
) -> Pools:
    return Pools(static, slots, main, intermediate, 0.0, 0, 0, 0, None, failure)


def _no_slots(inputs: PoolInputs, slots: int) -> Failure:
    return Failure(
        "mamba_pool_too_small",
        t(
            "The state pool would get {slots} slots; one request takes {per_request}.",
            slots=slots,
            per_request=inputs.slots_per_request,
        ),
        _minimum_fraction(inputs, inputs.slot * (1 + inputs.draft_tokens) * 3),
    )


def _no_kv(inputs: PoolInputs, state: float) -> Failure:
    return Failure(
        "kv_pool_no_memory",
        t(
            "Weights and state leave no memory for the KV cache at a fraction of {fraction}.",
            fraction=f"{inputs.fraction:g}",
        ),
        _minimum_fraction(inputs, state),
    )


def _minimum_fraction(inputs: PoolInputs, state: float) -> float | None:
    used = inputs.free_before_load - inputs.free_after_load + inputs.reserve + max(state, 0.0)
    fraction = math.ceil(used / inputs.free_before_load * 1000) / 1000
    # Where less than what is set would do, the fraction is not what is wrong.
    return fraction if inputs.fraction < fraction < 1 else None
