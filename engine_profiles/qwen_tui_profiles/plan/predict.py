"""One entrance for every engine: what will this launch get?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from qwen_tui_profiles.errors import UsageError
from qwen_tui_profiles.plan.predict_sglang import predict_sglang
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
        return predict_sglang(request)
    if request.engine is EngineKind.VLLM:
        return predict_vllm(request)
    raise UsageError(
        t("The simulated engine takes no GPU memory; there is nothing to plan."),
        t("Plan a profile of SGLang or vLLM."),
    )
