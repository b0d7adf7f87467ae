"""What the arithmetic alone gives reason to say about a launch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qwen_tui_profiles.findings import Finding, Severity
from qwen_tui_profiles.plan.weights import GIB
from qwen_tui_profiles.text import t
from qwen_tui_profiles.versions import in_range

if TYPE_CHECKING:
    from qwen_tui_profiles.plan.budget import Allocation
    from qwen_tui_profiles.plan.predict_sglang import Computed

__all__ = ["sglang_findings", "unknown_finding"]

_HEADROOM_GIB = 1.5
"""Seed 000: 0.93 GiB left (0.97 without drafts) died at the first request, 3.1 GiB worked."""


def sglang_findings(computed: Computed, allocated: Allocation) -> tuple[Finding, ...]:
    """Return the findings of one planned launch."""
    found: list[Finding] = []
    cell, settings, pools = computed.cell, computed.settings, computed.value
    if cell.overcharged and pools.failure is None:
        idle = pools.tokens * (cell.charged - cell.target - cell.draft) / GIB
        found.append(
            Finding(
                "plan-draft-overcharge",
                Severity.WARN,
                t(
                    "The draft path makes every token count {charged} B instead of {real} B: "
                    "{idle} GiB of the pool stay idle.",
                    charged=f"{cell.charged:,}",
                    real=f"{cell.target:,}",
                    idle=f"{idle:.1f}",
                ),
                "--speculative-draft-model-path",
                "seed 004; recorded boot cg27-draftpath (0.5.17); sglang PR #8482",
                "0.5.14",
                "0.5.17",
                t("Take the flag away: the draft loads from the target's folder without it."),
            )
        )
    if settings.device_transport and in_range(settings.version, "0.5.17", "0.5.17"):
        found.append(
            Finding(
                "plan-feature-pool",
                Severity.INFO,
                t(
                    "Image features get a pool of 1 GiB on the card, in a process with a CUDA "
                    "context of its own (about 0.5 GiB)."
                ),
                t("{flag} (not given)", flag="--mm-feature-transport"),
                "source of 0.5.17; recorded boots: 137.58 against 139.11 GiB free",
                "0.5.17",
                "0.5.17",
                t("Serve text only? Add --mm-feature-transport cpu."),
            )
        )
    if settings.own_head and not computed.drafts:
        found.append(
            Finding(
                "plan-no-draft-head",
                Severity.ERROR,
                t("Speculative decoding is on, but the checkpoint has no MTP head."),
                "--speculative-algorithm",
                "config.json: mtp_num_hidden_layers; no mtp.* tensors",
                None,
                None,
                t("Take a release with its MTP head, or switch speculative decoding off."),
            )
        )
    if pools.failure is None and allocated.slack < _HEADROOM_GIB:
        found.append(
            Finding(
                "plan-little-headroom",
                Severity.WARN if allocated.slack > 0 else Severity.ERROR,
                t(
                    "Only {slack} GiB are left for graphs, activations and workspaces.",
                    slack=f"{allocated.slack:.2f}",
                ),
                f"--mem-fraction-static {computed.fraction:g}",
                "seed 000: 0.9 GiB left died at the first request",
                None,
                None,
                t("Lower --mem-fraction-static; 0.90 works without speculative decoding."),
            )
        )
    if not computed.weights.scheme_known:
        found.append(
            Finding(
                "plan-quantization-unknown",
                Severity.WARN,
                t(
                    "The planner does not know the sizes of {method}; weights count as bfloat16.",
                    method=computed.weights.quantization,
                ),
                "config.json: quantization_config",
                "the planner's table of schemes",
                None,
                None,
                t("Plan on the downloaded files (--model DIR), whose headers give the sizes."),
            )
        )
    replicas = computed.arguments.dp_size or 1
    if replicas > 1:
        found.append(
            Finding(
                "plan-one-replica",
                Severity.INFO,
                t(
                    "This is the plan of the first of {replicas} replicas: each has its own GPUs, "
                    "pools and limits.",
                    replicas=str(replicas),
                ),
                f"--dp-size {replicas}",
                "recorded boot boot-dp2, 0.5.17",
                None,
                None,
                None,
            )
        )
    if computed.request.env.get("SGLANG_ENABLE_POST_CAPTURE_KV_SIZING") in {"1", "true", "True"}:
        found.append(
            Finding(
                "plan-post-capture",
                Severity.INFO,
                t("The pool is sized again after graph capture; it can only get smaller."),
                "SGLANG_ENABLE_POST_CAPTURE_KV_SIZING=1",
                "source of 0.5.16 and later; not confirmed by a recorded boot",
                "0.5.16",
                None,
                None,
            )
        )
    return tuple(found)


def unknown_finding(reason: str, name: str) -> Finding:
    """Return why nothing could be predicted.

    Args:
        reason: ``architecture``, ``weights``, ``draft-size``, ``draft`` or ``parallelism``.
        name: The class that ``config.json`` names.
    """
    texts = {
        "architecture": (
            t("The planner does not know the class {name} and does not guess.", name=name),
            t("Watch the first boot (qwen-tui up); its pool is then read from the log."),
        ),
        "weights": (
            t("The weights of {name} cannot be derived from its dimensions.", name=name),
            t("Name the folder with the downloaded files, or give --weights-gib."),
        ),
        "draft-size": (
            t("The size of the MTP head of {name} cannot be derived.", name=name),
            t("Name the folder with the downloaded files, or give --draft-gib as well."),
        ),
        "parallelism": (
            t("Pipeline parallelism and data-parallel attention are not part of the plan."),
            t("Watch the first boot (qwen-tui up); its pool is then read from the log."),
        ),
        "draft": (
            t("The draft model is another checkpoint, which the planner cannot see."),
            t("Give its size with --draft-gib."),
        ),
    }
    title, remedy = texts[reason]
    return Finding(
        f"plan-{reason}-unknown",
        Severity.INFO,
        title,
        f"config.json: {name}",
        "the planner's table of classes",
        None,
        None,
        remedy,
    )
