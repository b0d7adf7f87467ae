"""Solving backwards: what each knob buys, and which of them reach a wanted context or concurrency.

Nothing is linearized: every price is the difference between two full solutions, because slots,
requests and pages make the pool jump.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from qwen_tui_profiles.plan.budget import allocation
from qwen_tui_profiles.plan.knobs import (
    FRACTION_STEP,
    HEADROOM_GIB,
    Change,
    both,
    free_changes,
    knob_of,
    recompute,
    set_flag,
    without_drafts,
)
from qwen_tui_profiles.plan.result import Wanted
from qwen_tui_profiles.text import Text, t

if TYPE_CHECKING:
    from qwen_tui_profiles.plan.predict_sglang import Computed
    from qwen_tui_profiles.plan.result import Knob

__all__ = ["solve_backwards"]

_HIGHEST_FRACTION = 0.97


def solve_backwards(computed: Computed, *, context: int | None, requests: int | None) -> Wanted:
    """Find changes that give one request ``context`` tokens, or ``requests`` at once.

    The cheapest changes come first: those that cost nothing in quality, then the fraction, then
    speculative decoding. Each step is kept only if it helps.
    """
    state = _State(computed, context, requests)
    longest = computed.facts.context
    why = None
    if context is not None and context > longest:
        why = t("The checkpoint declares {longest} tokens at most.", longest=longest)
    else:
        state.try_all()
    best = state.computed
    pools = best.value
    sized = pools.failure is None
    return Wanted(
        context=context,
        requests=requests,
        reached=state.reached(best),
        args=tuple(best.request.args),
        steps=tuple(state.steps),
        tokens=pools.tokens if sized else None,
        got_requests=pools.requests if sized else None,
        slack_gib=allocation(best).slack if sized else None,
        why=why or (None if state.reached(best) else _not_enough(best)),
    )


def _not_enough(best: Computed) -> Text:
    return t(
        "Every change together comes to {tokens} tokens and {requests} requests.",
        tokens=best.value.tokens,
        requests=best.value.requests,
    )


class _State:
    """The best launch so far, and the steps that led to it."""

    def __init__(self, computed: Computed, context: int | None, requests: int | None) -> None:
        self.computed = computed
        self.context = context
        self.requests = requests
        self.steps: list[Knob] = []

    def reached(self, computed: Computed) -> bool:
        pools = computed.value
        if pools.failure is not None or allocation(computed).slack < HEADROOM_GIB:
            return False
        enough = self.context is None or (
            pools.tokens >= self.context and computed.settings.context >= self.context
        )
        return enough and (self.requests is None or pools.requests >= self.requests)

    def try_all(self) -> None:
        if self.context is not None and self.computed.settings.context < self.context:
            self.take(
                Change(
                    "--context-length",
                    t("declare {tokens} tokens", tokens=self.context),
                    set_flag(("--context-length",), self.context),
                ),
                always=True,
            )
        if self.requests is not None:
            self.ask_requests(self.requests)
        for change in free_changes(self.computed):
            if self.reached(self.computed):
                return
            self.take(change)
        if not self.reached(self.computed):
            self.serve_one()
        before, steps = self.computed, list(self.steps)
        if not self.reached(self.computed):
            self.raise_fraction()
        if not self.reached(self.computed) and self.computed.settings.own_head:
            # Without drafts the fraction has other limits: it starts again where it was.
            self.computed, self.steps = before, steps
            self.take(without_drafts())
            self.keep_headroom()
            if not self.reached(self.computed):
                self.raise_fraction()

    def serve_one(self) -> None:
        """Keep the state of one request only, where nobody asked for more at once."""
        settings = self.computed.settings
        if self.computed.facts.state is None or self.requests is not None:
            return
        if settings.requests_asked is not None or settings.slots_asked is not None:
            return
        slots = (settings.slots_per_request or 1) + 1
        self.take(
            Change(
                "--max-running-requests",
                t("one at once, with {slots} state slots", slots=slots),
                both(
                    set_flag(("--max-running-requests",), 1),
                    set_flag(("--max-mamba-cache-size",), slots),
                ),
            )
        )

    def ask_requests(self, requests: int) -> None:
        settings = self.computed.settings
        if settings.requests is None or settings.requests < requests:
            self.take(
                Change(
                    "--max-running-requests",
                    t("ask for {requests}", requests=requests),
                    set_flag(("--max-running-requests",), requests),
                ),
                always=True,
            )
        slots = requests * (settings.slots_per_request or 1)
        if self.computed.facts.state is not None and (
            self.computed.value.slots is None or self.computed.value.slots < slots + 1
        ):
            self.take(
                Change(
                    "--max-mamba-cache-size",
                    t(
                        "{slots} slots: {per_request} a request and one to spare",
                        slots=slots + 1,
                        per_request=settings.slots_per_request or 1,
                    ),
                    set_flag(("--max-mamba-cache-size",), slots + 1),
                ),
                always=True,
            )

    def take(self, change: Change, *, always: bool = False) -> None:
        after = recompute(self.computed, change)
        if after is None:
            return
        if not always and not _better(self.computed, after, self.requests):
            return
        self.steps.append(knob_of(self.computed, after, change))
        self.computed = after

    def keep_headroom(self) -> None:
        """Lower the fraction until there is room to run."""
        start = self.computed
        last: tuple[Computed, Change] | None = None
        while self.computed.value.failure is None:
            fraction = round(self.computed.fraction - FRACTION_STEP, 4)
            if allocation(self.computed).slack >= HEADROOM_GIB or fraction <= 0:
                break
            change = self.fraction_change(start.fraction, fraction)
            after = recompute(self.computed, change)
            if after is None or after.value.failure is not None:
                break
            last = (after, change)
            self.computed = after
        if last is not None:
            self.steps.append(knob_of(start, *last))

    def fraction_change(self, before: float, after: float) -> Change:
        return Change(
            "--mem-fraction-static",
            t("{before} to {after}", before=f"{before:g}", after=f"{after:g}"),
            set_flag(("--mem-fraction-static",), f"{after:g}"),
        )

    def raise_fraction(self) -> None:
        """Take the smallest fraction that reaches the goal and leaves room to run."""
        start = self.computed.fraction
        fraction = start
        last: tuple[Computed, Change] | None = None
        while fraction + FRACTION_STEP <= _HIGHEST_FRACTION + 1e-9:
            fraction = round(fraction + FRACTION_STEP, 4)
            change = self.fraction_change(start, fraction)
            after = recompute(self.computed, change)
            if after is None or (
                after.value.failure is None and allocation(after).slack < HEADROOM_GIB
            ):
                break
            last = (after, change)
            if self.reached(after):
                break
        if last is not None and _better(self.computed, last[0], self.requests):
            self.steps.append(knob_of(self.computed, *last))
            self.computed = last[0]


def _better(before: Computed, after: Computed, requests: int | None) -> bool:
    if after.value.failure is not None:
        return False
    if before.value.failure is not None:
        return True
    if requests is not None and after.value.requests < min(requests, before.value.requests):
        return False
    return after.value.tokens > before.value.tokens
