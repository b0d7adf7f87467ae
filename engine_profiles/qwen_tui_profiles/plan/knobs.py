"""What one step of each knob buys or costs: the difference between two full solutions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from qwen_tui_profiles.errors import QwenTuiError
from qwen_tui_profiles.plan.arguments import split_pairs
from qwen_tui_profiles.plan.budget import allocation
from qwen_tui_profiles.plan.predict_sglang import Computed, arithmetic
from qwen_tui_profiles.plan.result import Knob
from qwen_tui_profiles.plan.schemes import DENSE_BYTES, NVFP4
from qwen_tui_profiles.plan.solve_sglang import budget_rule, solve
from qwen_tui_profiles.plan.tokens import usable_context
from qwen_tui_profiles.plan.weights import GIB
from qwen_tui_profiles.text import Text, t

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from qwen_tui_profiles.plan.request import PlanRequest

__all__ = [
    "FRACTION_STEP",
    "HEADROOM_GIB",
    "Change",
    "both",
    "free_changes",
    "knob_of",
    "price_knobs",
    "recompute",
    "set_flag",
    "without_drafts",
]


HEADROOM_GIB = 1.5
"""Least memory that a wish leaves to run in (seed 000: 0.9 GiB died, 3.1 worked)."""

FRACTION_STEP = 0.005


@dataclass(frozen=True, slots=True)
class Change:
    """One change of the engine arguments."""

    flag: str
    text: Text
    apply: Callable[[Sequence[str]], list[str]]
    drops_drafts: bool = False


def price_knobs(computed: Computed) -> tuple[Knob, ...]:
    """Return what one step of each knob buys or costs, all else equal."""
    knobs = [
        knob for change in _changes(computed) if (knob := _price(computed, change)) is not None
    ]
    head = _quantized_head(computed)
    return (*knobs, head) if head is not None else tuple(knobs)


def _quantized_head(computed: Computed) -> Knob | None:
    """Price an NVFP4 output head where the checkpoint keeps it in bfloat16 (seed 000)."""
    facts, head = computed.facts, computed.weights.head
    dense = facts.vocab * facts.hidden * DENSE_BYTES
    if facts.tied or head < dense:
        return None
    quantized = NVFP4.bytes_of(facts.vocab, facts.hidden)
    saved = (head - quantized) / computed.settings.tp
    inputs = replace(computed.inputs, free_after_load=computed.inputs.free_after_load + saved)
    pools = solve(inputs, budget_rule(computed.settings.version))
    if pools.failure is not None:
        return None
    before = computed.value
    return Knob(
        "lm_head",
        t(
            "quantized to NVFP4: {before} to {after} GiB",
            before=f"{head / GIB:.2f}",
            after=f"{quantized / GIB:.2f}",
        ),
        pools.tokens - (before.tokens if before.failure is None else 0),
        pools.requests - (before.requests if before.failure is None else 0),
        usable_context(computed.settings.context, pools.tokens),
    )


def free_changes(computed: Computed) -> list[Change]:
    """Changes that cost no quality of service, cheapest first."""
    settings = computed.settings
    changes: list[Change] = []
    if settings.draft_path and settings.own_head:
        changes.append(
            Change(
                "--speculative-draft-model-path",
                t("take it away; the draft loads from the target's folder"),
                _drop("--speculative-draft-model-path", "--speculative-draft-model"),
            )
        )
    if settings.kv_bytes > 1:
        changes.append(_fp8())
    if computed.facts.state is not None and _state_is_wide(computed):
        changes.append(_narrow_state())
    slots = computed.value.slots
    needed = (settings.requests or 1) * (settings.slots_per_request or 1) + 1
    if slots is not None and slots > needed:
        changes.append(
            Change(
                "--max-mamba-cache-size",
                t("{before} to {after} slots", before=slots, after=needed),
                set_flag(("--max-mamba-cache-size",), needed),
            )
        )
    return changes


def _changes(computed: Computed) -> list[Change]:
    """One step of every knob."""
    settings, pools = computed.settings, computed.value
    changes = [
        change
        for change in free_changes(computed)
        if change.flag in {"--speculative-draft-model-path", "--kv-cache-dtype"}
    ]
    if settings.kv_bytes == 1:
        changes.append(
            Change(
                "--kv-cache-dtype",
                t("bfloat16 instead of fp8"),
                set_flag(("--kv-cache-dtype",), "bfloat16"),
            )
        )
    if computed.facts.state is not None and pools.slots is not None:
        changes.append(
            Change(
                "--max-mamba-cache-size",
                t("one slot more"),
                set_flag(("--max-mamba-cache-size",), pools.slots + 1),
            )
        )
        asked = pools.requests + 1
        per_request = settings.slots_per_request or 1
        slots = max(pools.slots, asked * per_request)
        changes.append(
            Change(
                "--max-running-requests",
                t("one request more, with the slots that it takes"),
                both(
                    set_flag(("--max-running-requests",), asked),
                    set_flag(("--max-mamba-cache-size",), slots),
                ),
            )
        )
        changes.append(_narrow_state() if _state_is_wide(computed) else _wide_state())
    if not settings.fraction_automatic and computed.fraction < 0.99:
        changes.append(
            Change(
                "--mem-fraction-static",
                t("0.01 more"),
                set_flag(("--mem-fraction-static",), f"{computed.fraction + 0.01:g}"),
            )
        )
    if settings.own_head:
        changes.append(without_drafts())
    if settings.device_transport and settings.version == "0.5.17":
        changes.append(
            Change(
                "--mm-feature-transport",
                t("cpu: no pool for image features on the card"),
                set_flag(("--mm-feature-transport",), "cpu"),
            )
        )
    return changes


def _fp8() -> Change:
    return Change(
        "--kv-cache-dtype",
        t("fp8_e4m3 instead of {before}", before="bfloat16"),
        set_flag(("--kv-cache-dtype",), "fp8_e4m3"),
    )


def _narrow_state() -> Change:
    return Change(
        "--mamba-ssm-dtype",
        t("bfloat16 instead of float32 state"),
        set_flag(("--mamba-ssm-dtype",), "bfloat16"),
    )


def _wide_state() -> Change:
    return Change(
        "--mamba-ssm-dtype",
        t("float32 instead of bfloat16 state"),
        set_flag(("--mamba-ssm-dtype",), "float32"),
    )


def without_drafts() -> Change:
    """Return the change that switches speculative decoding off."""
    names = [
        "--speculative-algorithm",
        "--speculative-num-steps",
        "--speculative-eagle-topk",
        "--speculative-num-draft-tokens",
        "--speculative-draft-model-path",
        "--speculative-draft-model",
    ]
    return Change(
        "--speculative-algorithm",
        t("off: about half the speed of one stream (seeds 000 and 004)"),
        _drop(*names),
        drops_drafts=True,
    )


def _state_is_wide(computed: Computed) -> bool:
    state = computed.facts.state
    if state is None:
        return False
    return state.ssm_bytes(computed.settings.state_dtype) > state.ssm_bytes("bfloat16")


def _price(computed: Computed, change: Change) -> Knob | None:
    if change.drops_drafts:
        return _price_without_drafts(computed, change)
    after = recompute(computed, change)
    return None if after is None else knob_of(computed, after, change)


def _price_without_drafts(computed: Computed, change: Change) -> Knob | None:
    """Price speculative decoding at a fraction that leaves room to run without it.

    With it, embedding and output head of the draft come back late and serve as room; without it the
    same fraction can leave too little (seed 000).
    """
    fraction = computed.fraction
    applied = change
    after = recompute(computed, applied)
    while (
        after is not None
        and after.value.failure is None
        and allocation(after).slack < HEADROOM_GIB
        and fraction > 2 * FRACTION_STEP
    ):
        fraction = round(fraction - FRACTION_STEP, 4)
        applied = Change(
            change.flag,
            t(
                "off, and --mem-fraction-static {fraction} to have room: about half the speed",
                fraction=f"{fraction:g}",
            ),
            both(change.apply, set_flag(("--mem-fraction-static",), f"{fraction:g}")),
        )
        after = recompute(computed, applied)
    return None if after is None else knob_of(computed, after, applied)


def knob_of(before: Computed, after: Computed, change: Change) -> Knob:
    """Return the price of a change: the difference between two solutions."""
    sized = after.value.failure is None
    was = before.value if before.value.failure is None else None
    return Knob(
        change.flag,
        change.text,
        after.value.tokens - (was.tokens if was else 0) if sized else None,
        after.value.requests - (was.requests if was else 0) if sized else None,
        usable_context(after.settings.context, after.value.tokens) if sized else None,
    )


def recompute(computed: Computed, change: Change) -> Computed | None:
    """Solve again with a change; None where the changed launch is not a launch."""
    request = computed.request
    changed: PlanRequest = replace(request, args=tuple(change.apply(request.args)))
    free = changed.free_gib
    if change.flag == "--mm-feature-transport" and free is not None:
        # The printed free memory already lacks the pool and the context of its process.
        changed = replace(changed, free_gib=free + 1.52)
    try:
        return arithmetic(changed)
    except QwenTuiError:
        return None


def set_flag(names: Sequence[str], value: object) -> Callable[[Sequence[str]], list[str]]:
    """Return an edit that replaces every spelling of a flag by its first name and a value."""
    drop = _drop(*names)
    return lambda args: [*drop(args), names[0], str(value)]


def both(
    first: Callable[[Sequence[str]], list[str]], second: Callable[[Sequence[str]], list[str]]
) -> Callable[[Sequence[str]], list[str]]:
    """Return one change of the arguments that makes two."""
    return lambda args: second(first(args))


def _drop(*names: str) -> Callable[[Sequence[str]], list[str]]:
    def apply(args: Sequence[str]) -> list[str]:
        gone: set[int] = set()
        for name, value, position in split_pairs(args):
            if name in names:
                gone.add(position)
                if value is not None and "=" not in args[position]:
                    gone.add(position + 1)
        return [item for index, item in enumerate(args) if index not in gone]

    return apply
