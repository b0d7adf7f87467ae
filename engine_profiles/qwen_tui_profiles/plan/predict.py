"""One entrance for every engine: what will this launch get?"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from qwen_tui_profiles.errors import UsageError
from qwen_tui_profiles.plan.backwards import solve_backwards
from qwen_tui_profiles.plan.knobs import price_knobs
from qwen_tui_profiles.plan.predict_sglang import arithmetic, predict_sglang
from qwen_tui_profiles.plan.predict_vllm import predict_vllm
from qwen_tui_profiles.plan.request import PlanRequest
from qwen_tui_profiles.profile import EngineKind
from qwen_tui_profiles.text import t

if TYPE_CHECKING:
    from qwen_tui_profiles.plan.result import Plan

__all__ = ["PlanRequest", "predict"]


def predict(request: PlanRequest) -> Plan:
    """Predict pools, clamps and fit of one launch; pure arithmetic, no I/O.

    Returns:
        A plan whose unknown figures are None, with a finding that says why.

    Raises:
        InputError: A file or number is unusable.
        UsageError: The arguments cannot be read, or no memory size is given.
    """
    if request.engine is EngineKind.SGLANG:
        return _with_prices(request, predict_sglang(request))
    if request.engine is EngineKind.VLLM:
        return predict_vllm(request)
    raise UsageError(
        t("The simulated engine takes no GPU memory; there is nothing to plan."),
        t("Plan a profile of SGLang or vLLM."),
    )


def _with_prices(request: PlanRequest, plan: Plan) -> Plan:
    """Add the price of each knob, and the answer to what was wanted."""
    wanted = request.want_context is not None or request.want_requests is not None
    for name, number in (
        ("--want-context", request.want_context),
        ("--want-requests", request.want_requests),
    ):
        if number is not None and not 0 < number <= 1 << 40:
            raise UsageError(
                t(
                    "{name} is {number}; a positive whole number is expected.",
                    name=name,
                    number=number,
                ),
                t("Name the tokens of one request, or the requests at once."),
            )
    if not (request.price_knobs or wanted) or (plan.kv_tokens.value is None and not wanted):
        return plan
    computed = arithmetic(request)
    if computed is None:
        return plan
    knobs = price_knobs(computed) if request.price_knobs else ()
    answer = None
    if wanted:
        answer = solve_backwards(
            computed, context=request.want_context, requests=request.want_requests
        )
    return replace(plan, knobs=knobs, wanted=answer)
