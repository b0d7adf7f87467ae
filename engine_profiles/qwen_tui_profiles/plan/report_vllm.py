"""What is said about a planned vLLM launch: refusals, clamps, findings and the budget."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qwen_tui_profiles.findings import Clamp, Finding, Severity
from qwen_tui_profiles.plan.result import BudgetLine
from qwen_tui_profiles.plan.weights import GIB, Weights
from qwen_tui_profiles.text import Text, t
from qwen_tui_profiles.versions import in_range

if TYPE_CHECKING:
    from qwen_tui_profiles.plan.arguments import VllmArguments
    from qwen_tui_profiles.plan.model import ModelFacts
    from qwen_tui_profiles.plan.request import PlanRequest
    from qwen_tui_profiles.plan.solve_vllm import (
        BlockLayout,
        BlockPool,
    )

__all__ = ["budget_lines", "clamps_of", "failure_of", "findings_of", "fraction_of", "meaning"]


def meaning(version: str) -> str:
    """Say what the printed token count means in a release."""
    if in_range(version, "0.20.1", None):
        return "concurrency times max_model_len: depends on the context asked for"
    return "blocks of one layer group: far below what a hybrid model holds"


def failure_of(
    asked: VllmArguments,
    facts: ModelFacts,
    version: str,
    layout: BlockLayout,
    pool: BlockPool,
    context: int,
    sequences: int,
) -> tuple[Text | None, str | None]:
    """Return why the launch is refused, with its fatal class; two None where it starts."""
    if context > facts.context:
        return (
            t(
                "--max-model-len {asked} is more than the {derived} that the checkpoint declares.",
                asked=context,
                derived=facts.context,
            ),
            "context_too_long",
        )
    if pool.blocks <= 0:
        return t("Weights leave no memory for the KV cache."), "kv_pool_no_memory"
    automatic = asked.max_model_len is not None and asked.max_model_len.lower() in {"auto", "-1"}
    if pool.largest_context < context and not automatic:
        return (
            t(
                "One request of {context} tokens needs {needed} blocks of {have}; {largest} fit.",
                context=context,
                needed=layout.blocks_for(context),
                have=pool.blocks,
                largest=pool.largest_context,
            ),
            "context_exceeds_kv",
        )
    if facts.state is not None and sequences > pool.blocks and in_range(version, "0.20.0", None):
        return (
            t(
                "--max-num-seqs {asked} is more than the {blocks} state blocks.",
                asked=sequences,
                blocks=pool.blocks,
            ),
            "mamba_pool_too_small",
        )
    return None, None


def clamps_of(asked: VllmArguments, layout: BlockLayout) -> tuple[Clamp, ...]:
    """Return the values that the engine does not take as asked."""
    if asked.block_size is None or asked.block_size >= layout.block_tokens:
        return ()
    return (
        Clamp(
            "--block-size",
            asked.block_size,
            layout.block_tokens,
            t("state page"),
            t("A block must hold one page of recurrent state."),
            t("Take the flag away; prefixes are cached in blocks of this size."),
            None,
        ),
    )


def findings_of(
    asked: VllmArguments, version: str, pool: BlockPool, layout: BlockLayout, sequences: int
) -> tuple[Finding, ...]:
    """Return what the block arithmetic gives reason to say."""
    if not layout.state_groups or pool.at_once >= sequences or not pool.blocks:
        return ()
    return (
        Finding(
            "plan-vllm-state-blocks",
            Severity.WARN,
            t(
                "Every request pins {fixed} blocks whatever its length: {at_once} short ones run "
                "at once, not {sequences}.",
                fixed=layout.fixed_blocks,
                at_once=pool.at_once,
                sequences=sequences,
            ),
            "--max-num-seqs"
            if asked.max_num_seqs is not None
            else t("{value} (default)", value="max_num_seqs"),
            "block arithmetic; seed 003: 452 blocks hold 25 short requests",
            "0.9.2",
            None,
            t("Set --max-num-seqs {at_once}; more of them only wait.", at_once=pool.at_once),
        ),
    )


def budget_lines(
    request: PlanRequest,
    asked: VllmArguments,
    weights: Weights | None,
    version: str,
    available: tuple[float, float, float],
) -> tuple[BudgetLine, ...]:
    """Return where the memory goes."""
    lines: list[BudgetLine] = []
    if weights is not None:
        lines.append(
            BudgetLine("weights", weights.target / GIB, weights.basis, t("Weights on the card"))
        )
    spread = (available[2] - available[0]) / GIB
    lines.append(
        BudgetLine(
            "kv_cache",
            available[1] / GIB,
            t("given in bytes")
            if spread < 0.02
            else t(
                "{fraction} of the total, less weights and a profiling run of 1 to 4 GiB",
                fraction=f"{fraction_of(asked, version):g}",
            ),
            t("State and KV cache"),
        )
    )
    return tuple(lines)


def fraction_of(asked: VllmArguments, version: str) -> float:
    """Return ``--gpu-memory-utilization`` in force."""
    if asked.gpu_memory_utilization is not None:
        return asked.gpu_memory_utilization
    return 0.92 if in_range(version, "0.20.0", None) else 0.9
