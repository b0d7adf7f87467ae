"""Predict what a vLLM launch gets: an interval, since the pool follows a profiling run."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING

from qwen_tui_profiles.errors import UsageError
from qwen_tui_profiles.foreign import clean
from qwen_tui_profiles.plan.advice import unknown_finding
from qwen_tui_profiles.plan.arguments import VllmArguments, read_vllm
from qwen_tui_profiles.plan.cards import assumed_total_gib
from qwen_tui_profiles.plan.memory import check_gib
from qwen_tui_profiles.plan.model import ModelFacts, read_model
from qwen_tui_profiles.plan.report_vllm import (
    budget_lines,
    clamps_of,
    failure_of,
    findings_of,
    fraction_of,
    meaning,
)
from qwen_tui_profiles.plan.result import Assumption, Interval, Plan, StatePlan
from qwen_tui_profiles.plan.solve_vllm import (
    NEWEST_VLLM,
    BlockLayout,
    BlockPool,
    block_layout,
    block_pool,
)
from qwen_tui_profiles.plan.weights import GIB, Weights, weights_from_dims, weights_from_headers
from qwen_tui_profiles.text import t
from qwen_tui_profiles.versions import in_range

if TYPE_CHECKING:
    from qwen_tui_profiles.plan.request import PlanRequest

__all__ = ["predict_vllm"]

_OVERHEAD = (1.0, 2.0, 4.0)
"""GiB that profiling subtracts beside the weights (activations, workspaces, graphs): not
predictable; read it back from the memory summary line of the first boot."""

_TABLE_LENGTHS = (2_048, 8_192, 32_768)


def predict_vllm(request: PlanRequest) -> Plan:
    """Predict the launch.

    Raises:
        InputError: A file or number is unusable.
        UsageError: The arguments cannot be read, or no memory size is given.
    """
    facts = read_model(request.config)
    version = request.engine_version or NEWEST_VLLM
    if facts.known is None:
        return _nothing(version, facts, "architecture")
    asked = read_vllm(request.args)
    drafts = _drafts(asked)
    prefix = _prefix_caching(asked, facts, version)
    layout = block_layout(
        facts,
        engine_version=version,
        kv_bytes=_kv_bytes(asked, facts),
        state_dtype=asked.mamba_ssm_cache_dtype
        if asked.mamba_ssm_cache_dtype not in {None, "auto"}
        else None,
        drafts=drafts,
        prefix_caching=prefix,
        replay=asked.use_replayssm,
        asked_block=asked.block_size,
        tp=asked.tensor_parallel_size or 1,
    )
    assumed: list[Assumption] = []
    weights = _weights(request, facts)
    available = _available(request, asked, weights, version, assumed)
    if available is None:
        return _nothing(version, facts, "weights")
    context = _context(asked, facts)
    low, value, high = (
        block_pool(layout, size, context=context, engine_version=version) for size in available
    )
    return _plan(
        request, asked, facts, version, weights, layout, (low, value, high), available, context,
        tuple(assumed),
    )  # fmt: skip


def _target_gib(request: PlanRequest, weights: Weights | None) -> float | None:
    if request.weights_gib is not None:
        return request.weights_gib
    if request.published_gib is not None:
        return request.published_gib
    return None if weights is None else weights.target / GIB


def _drafts(asked: VllmArguments) -> int:
    if asked.speculative_config is not None:
        try:
            document = json.loads(asked.speculative_config)
        except ValueError:
            raise UsageError(
                t("--speculative-config is not valid JSON."),
                t('Write --speculative-config \'{{"method":"mtp","num_speculative_tokens":3}}\'.'),
            ) from None
        tokens = document.get("num_speculative_tokens") if isinstance(document, dict) else None
        return tokens if isinstance(tokens, int) and 0 < tokens < 64 else 1
    if asked.spec_method is not None:
        return asked.spec_tokens or 1
    return 0


def _prefix_caching(asked: VllmArguments, facts: ModelFacts, version: str) -> bool:
    if asked.no_enable_prefix_caching:
        return False
    if facts.state is None:
        return True
    if in_range(version, None, "0.10.2"):
        return False
    return asked.enable_prefix_caching or in_range(version, "0.28.0", None)


def _kv_bytes(asked: VllmArguments, facts: ModelFacts) -> int:
    name = (asked.kv_cache_dtype or "auto").lower()
    if name == "auto":
        return 1 if facts.kv_declared_fp8 else facts.dtype_bytes
    if name.startswith("fp8"):
        return 1
    if name in {"bfloat16", "float16", "bf16"}:
        return 2
    raise UsageError(
        t("The memory plan cannot size a KV cache of type {dtype}.", dtype=clean(name)[:40]),
        t("It knows auto, bfloat16 and fp8."),
    )


def _context(asked: VllmArguments, facts: ModelFacts) -> int:
    text = asked.max_model_len
    if text is None or text.lower() in {"auto", "-1"}:
        return facts.context
    factor = {"k": 1_000, "K": 1_024, "m": 1_000_000, "M": 1 << 20}.get(text[-1:], 1)
    digits = text[:-1] if factor != 1 else text
    try:
        value = int(float(digits) * factor)
    except (ValueError, OverflowError):
        value = 0
    if not 0 < value <= 1 << 40:
        raise UsageError(
            t("--max-model-len is {value}; a length in tokens is expected.", value=text[:40]),
            t("Write a number, 200k (decimal), 200K (binary) or auto."),
        )
    return value


def _weights(request: PlanRequest, facts: ModelFacts) -> Weights | None:
    if request.stored is not None:
        return weights_from_headers(facts, request.stored)
    return weights_from_dims(facts)


def _available(
    request: PlanRequest,
    asked: VllmArguments,
    weights: Weights | None,
    version: str,
    assumed: list[Assumption],
) -> tuple[float, float, float] | None:
    """Return low, nominal and high bytes for the KV cache."""
    if asked.kv_cache_memory_bytes is not None:
        size = float(asked.kv_cache_memory_bytes)
        return size, size, size
    if request.kv_memory_gib is not None:
        check_gib("--kv-memory-gib", request.kv_memory_gib)
        size = request.kv_memory_gib * GIB
        return size - 0.005 * GIB, size, size + 0.005 * GIB
    if weights is None and request.weights_gib is None and request.published_gib is None:
        return None
    total = request.total_gib
    check_gib("--total-gib", total)
    if total is None:
        given = request.free_gib if request.free_gib is not None else request.live_free_gib
        check_gib("--free-gib", given)
        if given is None:
            raise UsageError(
                t("No GPU was found and no memory size was given."),
                t("Give --total-gib: vLLM's share is of the card's total memory."),
            )
        total = assumed_total_gib(given)
        assumed.append(
            Assumption("total_gib", total, t("The smallest known card that has this much free."))
        )
    tp = asked.tensor_parallel_size or 1
    loaded = 0.0
    if request.weights_gib is not None:
        check_gib("--weights-gib", request.weights_gib)
        loaded = request.weights_gib
    elif request.published_gib is not None:
        loaded = request.published_gib
        assumed.append(
            Assumption(
                "weights_gib",
                loaded,
                t("published, not read: {source}", source=request.published_source),
            )
        )
    elif weights is not None:
        drafts = weights.draft - weights.draft_late if _drafts(asked) else 0.0
        loaded = (weights.target + drafts) / GIB / tp
    share = math.ceil(total * GIB * fraction_of(asked, version)) / GIB
    assumed.append(
        Assumption(
            "profiling_overhead_gib",
            _OVERHEAD[1],
            t("Activations, workspaces and graphs are measured at the boot; 1 to 4 GiB taken."),
        )
    )
    low, value, high = (share - loaded - overhead for overhead in reversed(_OVERHEAD))
    return low * GIB, value * GIB, high * GIB


def _sequences(asked: VllmArguments, total_gib: float | None) -> int:
    if asked.max_num_seqs is not None:
        return asked.max_num_seqs
    return 1024 if total_gib is not None and total_gib >= 70 else 256


def _plan(
    request: PlanRequest,
    asked: VllmArguments,
    facts: ModelFacts,
    version: str,
    weights: Weights | None,
    layout: BlockLayout,
    pools: tuple[BlockPool, BlockPool, BlockPool],
    available: tuple[float, float, float],
    context: int,
    assumed: tuple[Assumption, ...],
) -> Plan:
    low, value, high = pools
    sequences = _sequences(asked, request.total_gib)
    failures = [failure_of(asked, facts, version, layout, p, context, sequences) for p in pools]
    failure, kind = failures[1]
    requests = min(sequences, value.at_once)
    lengths = [length for length in (*_TABLE_LENGTHS, context) if length <= context]
    verdicts = {f is None for f, _ in failures}
    return Plan(
        # Where the unpredictable part of the boot decides, nobody can say before it.
        fits=verdicts.pop() if len(verdicts) == 1 else None,
        failure=failure,
        failure_class=kind,
        minimum_fraction=None,
        kv_tokens=Interval(
            value.printed_tokens or None, low.printed_tokens or None, high.printed_tokens or None
        ),
        requests_asked=asked.max_num_seqs,
        requests=requests if failure is None else None,
        limited_by="state blocks" if requests < sequences and facts.state is not None
        else ("KV pool" if requests < sequences else None),
        state=None
        if facts.state is None
        else StatePlan(None, None, None, None, None, "align" if layout.prefix_caching else "none"),
        weights_gib=_target_gib(request, weights),
        draft_gib=None
        if weights is None or not _drafts(asked)
        else (weights.draft - weights.draft_late) / GIB,
        kv_gib=available[1] / GIB,
        context_declared=context,
        context_usable=min(context, value.largest_context) if value.blocks else None,
        slack_gib=None,
        budget=budget_lines(request, asked, weights, version, available),
        clamps=clamps_of(asked, layout),
        adjustments=(),
        findings=findings_of(asked, version, value, layout, sequences),
        assumed=assumed,
        engine="vllm",
        engine_version=version,
        fraction=fraction_of(asked, version),
        cell_bytes=None,
        details={
            "vllm": {
                "block_tokens": layout.block_tokens,
                "block_bytes": layout.block_bytes,
                "blocks": {"value": value.blocks, "low": low.blocks, "high": high.blocks},
                "groups": layout.groups,
                "blocks_per_full_request": value.full_request,
                "fixed_blocks_per_request": layout.fixed_blocks,
                "concurrency": {
                    "value": round(value.concurrency, 2),
                    "low": round(low.concurrency, 2),
                    "high": round(high.concurrency, 2),
                },
                "prefix_caching": layout.prefix_caching,
                "at_once": {
                    str(length): max(0, (value.blocks - 1) // layout.blocks_for(length))
                    for length in lengths
                },
                "tokens_mean": meaning(version),
            }
        },
    )  # fmt: skip


def _nothing(version: str, facts: ModelFacts, reason: str) -> Plan:
    return Plan(
        None, None, None, None, Interval(None, None, None), None, None, None, None, None, None,
        None, facts.context or None, None, None, (), (), (),
        (unknown_finding(reason, facts.architecture or "no architecture"),), (), "vllm", version,
    )  # fmt: skip
