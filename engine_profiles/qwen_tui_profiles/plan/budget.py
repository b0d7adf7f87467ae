"""Where the GPU's memory goes: one line per part, each with its basis, and what is left."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from qwen_tui_profiles.plan.result import BudgetLine
from qwen_tui_profiles.plan.solve_sglang import budget_rule
from qwen_tui_profiles.plan.weights import GIB
from qwen_tui_profiles.text import t

if TYPE_CHECKING:
    from qwen_tui_profiles.plan.predict_sglang import Computed

__all__ = ["Allocation", "allocation", "budget_lines", "weight_lines"]


@dataclass(frozen=True, slots=True)
class Allocation:
    """What is really allocated, in GiB; the solver's charges differ a little."""

    main: float
    intermediate: float
    kv: float
    draft_kv: float
    late: float
    """Freed only after the pools are sized."""
    slack: float
    """Left for graphs, activations and workspaces."""


def allocation(computed: Computed) -> Allocation:
    """Return what the launch allocates for the predicted pools."""
    pools, facts, settings = computed.value, computed.facts, computed.settings
    main = intermediate = 0.0
    if facts.state is not None and pools.slots is not None and pools.slots > 0:
        state = facts.state
        main = state.main_bytes(pools.slots, settings.state_dtype) / GIB / settings.tp
        inputs = computed.inputs
        main += ((pools.slots + 1) * inputs.extra_per_slot + inputs.fixed_state) / GIB
        if settings.rollback_states:
            intermediate = (
                state.intermediate_bytes(
                    pools.requests,
                    settings.draft_tokens,
                    settings.state_dtype,
                    engine_version=settings.version,
                )
                / GIB
                / settings.tp
            )
    kv = pools.tokens * computed.cell.target / GIB
    draft_kv = pools.tokens * computed.cell.draft / GIB
    late = computed.weights.draft_late / GIB if computed.drafts else 0.0
    free = computed.inputs.free_after_load / GIB
    if computed.drafts and not budget_rule(settings.version).draft_before_pools:
        free -= computed.weights.draft / GIB
    return Allocation(
        main, intermediate, kv, draft_kv, late, free + late - main - intermediate - kv - draft_kv
    )


def budget_lines(computed: Computed, allocated: Allocation) -> tuple[BudgetLine, ...]:
    """Return the lines; those on the GPU add up to the free memory before the load."""
    pools, settings = computed.value, computed.settings
    lines = [*weight_lines(computed), *_rotary_line(computed)]
    if pools.slots is not None and computed.facts.state is not None:
        slot = computed.facts.state.slot_bytes(settings.state_dtype) / settings.tp
        lines.append(
            BudgetLine(
                "state",
                allocated.main,
                t(
                    "{slots} slots and one for padding, {mib} MiB each",
                    slots=pools.slots,
                    mib=f"{slot / (1 << 20):.1f}",
                ),
                t("State slots"),
            )
        )
        if allocated.intermediate:
            lines.append(
                BudgetLine(
                    "rollback_states",
                    allocated.intermediate,
                    t(
                        "{requests} requests and one for padding, {tokens} draft tokens each",
                        requests=pools.requests,
                        tokens=settings.draft_tokens,
                    ),
                    t("Rollback states of drafts"),
                )
            )
    lines.append(
        BudgetLine(
            "kv_cache",
            allocated.kv,
            t(
                "{tokens} tokens of {bytes} B ({dtype}); the engine charges {charged} B",
                tokens=f"{pools.tokens:,}",
                bytes=f"{computed.cell.target:,}",
                dtype=settings.kv_dtype,
                charged=f"{computed.cell.charged:,}",
            ),
            t("KV cache"),
        )
    )
    if allocated.draft_kv:
        lines.append(
            BudgetLine(
                "draft_kv_cache",
                allocated.draft_kv,
                t("{bytes} B a token, as many tokens", bytes=f"{computed.cell.draft:,}"),
                t("KV cache of the draft"),
            )
        )
    lines.append(
        BudgetLine(
            "left",
            allocated.slack,
            t(
                "kept back by --mem-fraction-static {fraction}, and what is freed late",
                fraction=f"{computed.fraction:g}",
            ),
            t("Left for graphs, activations and workspaces"),
        )
    )
    return tuple(lines)


def _rotary_line(computed: Computed) -> tuple[BudgetLine, ...]:
    if not computed.rotary_growth:
        return ()
    return (
        BudgetLine(
            "rotary_growth",
            computed.rotary_growth / GIB,
            t(
                "extended to {rows} positions after the load, the vision tower's too",
                rows=f"{computed.settings.rotary_rows:,}",
            )
            if computed.facts.multimodal
            else t(
                "extended to {rows} positions after the load",
                rows=f"{computed.settings.rotary_rows:,}",
            ),
            t("Growth of the rotary caches"),
        ),
    )


def weight_lines(computed: Computed) -> tuple[BudgetLine, ...]:
    """Return what the weights alone take; all that can be said where nothing is left for pools."""
    weights = computed.weights
    late = weights.draft_late / GIB if computed.drafts else 0.0
    lines = [
        BudgetLine("weights", weights.target / GIB, weights.basis, t("Target weights on the card"))
    ]
    if computed.drafts:
        lines.append(
            BudgetLine(
                "draft_weights",
                weights.draft / GIB - late,
                weights.draft_basis,
                t("Draft weights on the card"),
            )
        )
    return tuple(lines)
