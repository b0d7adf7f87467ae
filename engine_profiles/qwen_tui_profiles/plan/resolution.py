"""The single decisions of SGLang's argument phase: what one argument becomes, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qwen_tui_profiles.errors import UsageError
from qwen_tui_profiles.findings import Clamp, Value
from qwen_tui_profiles.foreign import clean
from qwen_tui_profiles.plan.architectures import Family
from qwen_tui_profiles.plan.defaults import (
    SPECULATIVE_REQUESTS,
    Automatic,
    automatic_fraction,
    prefill_graph_sizes,
)
from qwen_tui_profiles.text import Text, t
from qwen_tui_profiles.versions import in_range

if TYPE_CHECKING:
    from collections.abc import Mapping

    from qwen_tui_profiles.plan.arguments import SglangArguments
    from qwen_tui_profiles.plan.gdn import Strategy
    from qwen_tui_profiles.plan.model import ModelFacts

__all__ = [
    "MTP_ALGORITHMS",
    "TRUE",
    "Notes",
    "algorithm",
    "chosen_for_card",
    "draft_tokens_in_force",
    "fraction_in_force",
    "kv_in_force",
    "multimodal_in_force",
    "page_in_force",
    "requests_in_force",
    "state_dtype_in_force",
]

MTP_ALGORITHMS = frozenset({"EAGLE", "NEXTN"})

_DRAFT_DEFAULTS = (3, 1, 4)
"""Steps, top-k and draft tokens that the engine picks for the Qwen line where none are given."""

_KV_BYTES = {
    "fp8_e4m3": 1,
    "fp8_e5m2": 1,
    "bf16": 2,
    "bfloat16": 2,
}

TRUE = frozenset({"1", "true", "True", "yes", "on"})


class Notes:
    """Collects what was asked and changed, and what was chosen."""

    def __init__(self) -> None:
        self.clamps: list[Clamp] = []
        self.adjustments: list[Clamp] = []

    def clamp(
        self, arg: str, asked: Value, got: Value, by: Text, why: Text, remedy: Text | None
    ) -> None:
        """Note a value that the engine does not take as asked."""
        self.clamps.append(Clamp(arg, asked, got, by, why, remedy, None))

    def adjust(self, arg: str, got: Value, by: Text, why: Text) -> None:
        """Note a default that the engine chooses."""
        self.adjustments.append(Clamp(arg, None, got, by, why, None, None))


def chosen_for_card() -> Text:
    """Say that a value was not given and follows from the card."""
    return t("Not given: the engine chooses it from the card's total memory.")


def algorithm(asked: SglangArguments) -> str | None:
    """Return the speculative algorithm in capitals; None = off."""
    name = asked.speculative_algorithm
    return None if name is None or name.upper() == "NONE" else name.upper()


def draft_tokens_in_force(asked: SglangArguments, algorithm: str | None, notes: Notes) -> int:
    """Return the tokens verified per step; 0 without speculative decoding.

    Raises:
        UsageError: A part of the three draft arguments is given, which the engine refuses.
    """
    if algorithm is None:
        return 0
    steps, topk, tokens = (
        asked.speculative_num_steps,
        asked.speculative_eagle_topk,
        asked.speculative_num_draft_tokens,
    )
    if algorithm not in MTP_ALGORITHMS | {"EAGLE3", "STANDALONE"}:
        return tokens or _DRAFT_DEFAULTS[2]
    if steps is None:
        if topk is not None or tokens is not None:
            raise UsageError(
                t(
                    "--speculative-eagle-topk and --speculative-num-draft-tokens need "
                    "--speculative-num-steps."
                ),
                t("Give all three (3, 1 and 4 is the default) or none of them."),
            )
        steps, topk, tokens = _DRAFT_DEFAULTS
        notes.adjust(
            "--speculative-num-steps",
            steps,
            t("speculative decoding"),
            t("Not given: 3 steps, top-k 1, 4 draft tokens."),
        )
    if topk in {None, 1} and tokens != steps + 1:
        if tokens is not None:
            notes.clamp(
                "--speculative-num-draft-tokens",
                tokens,
                steps + 1,
                t("speculative decoding"),
                t("With a top-k of 1 a step drafts one token, and the bonus token is counted."),
                t("Write --speculative-num-draft-tokens {tokens}.", tokens=steps + 1),
            )
        tokens = steps + 1
    return tokens or steps + 1


def requests_in_force(asked: SglangArguments, algorithm: str | None, notes: Notes) -> int | None:
    """Return the concurrent requests that the pool phase starts from; None = not asked."""
    if asked.max_running_requests is not None:
        return asked.max_running_requests
    if algorithm is None:
        return None
    notes.adjust(
        "--max-running-requests",
        SPECULATIVE_REQUESTS,
        t("speculative decoding"),
        t("Not given: speculative decoding sets it to 48."),
    )
    return SPECULATIVE_REQUESTS


def page_in_force(
    asked: SglangArguments,
    facts: ModelFacts,
    strategy: Strategy,
    version: str,
    *,
    radix: bool,
    notes: Notes,
) -> int:
    """Return the page size in tokens."""
    wanted = asked.page_size or 1
    got, by, why = wanted, t("engine"), None
    if facts.sparse_indexer:
        got, by = 64, t("sparse attention")
        why = t("The compressed index addresses pages of 64 tokens.")
    elif asked.attention_backend == "trtllm_mha" and wanted not in {16, 32, 64, 128}:
        got, by = 64, t("attention backend")
        why = t("The trtllm_mha backend works on pages of 16, 32 or 64 tokens.")
    elif asked.attention_backend == "fa4" and wanted != 128:
        got, by = 128, t("attention backend")
        why = t("The fa4 backend works on pages of 128 tokens.")
    elif (
        facts.family is Family.HYBRID
        and radix
        and strategy.name == "no_buffer"
        and wanted != 1
        and in_range(version, None, "0.5.13")
    ):
        got, by = 1, t("mamba radix cache")
        why = t("The no_buffer strategy works on pages of one token.")
    if got != wanted and why is not None:
        if asked.page_size is None:
            notes.adjust("--page-size", got, by, why)
        else:
            notes.clamp("--page-size", wanted, got, by, why, None)
    return got


def kv_in_force(asked: SglangArguments, facts: ModelFacts) -> tuple[str, int]:
    """Return name and bytes of one element of the KV cache.

    Raises:
        UsageError: The planner cannot size this type.
    """
    name = (asked.kv_cache_dtype or "auto").lower()
    if name == "auto":
        if facts.kv_declared_fp8:
            return "fp8_e4m3", 1
        return ("bfloat16" if facts.dtype_bytes == 2 else "auto"), facts.dtype_bytes
    if name not in _KV_BYTES:
        raise UsageError(
            t(
                "The memory plan cannot size a KV cache of type {dtype}.",
                dtype=clean(name)[:40],
            ),
            t("It knows auto, bf16, fp8_e4m3 and fp8_e5m2."),
        )
    return name, _KV_BYTES[name]


def state_dtype_in_force(asked: SglangArguments, env: Mapping[str, str]) -> str | None:
    """Return the dtype of the recurrent state; None = as the checkpoint declares."""
    # The variable wins over the flag; without either the checkpoint's own declaration holds.
    if asked.enable_replayssm_spec:
        return "float32"
    return env.get("SGLANG_MAMBA_SSM_DTYPE") or asked.mamba_ssm_dtype


def multimodal_in_force(
    asked: SglangArguments, facts: ModelFacts, version: str, env: Mapping[str, str]
) -> tuple[bool, int]:
    """Return whether features travel through a pool on the card, and what is kept back for them.

    0.5.17 alone puts the pool on the card unless told otherwise; from 0.5.18 it is opt-in, and
    what is allocated after the pools is kept back from them.
    """
    if not facts.multimodal or asked.language_model_only:
        return False, 0
    transport = asked.mm_feature_transport
    if transport is None and env.get("SGLANG_USE_CUDA_IPC_TRANSPORT") in TRUE:
        transport = "cuda_ipc"
    if transport is None and in_range(version, "0.5.17", "0.5.17"):
        transport = "cuda_ipc"
    on_card = transport in {"cuda_ipc", "cuda_vmm"} and in_range(version, "0.5.16", None)
    if not in_range(version, "0.5.18", None):
        return on_card, 0
    mib = _env_mib(env, "SGLANG_VLM_CACHE_SIZE_MB", 100)
    if on_card:
        mib += _env_mib(env, "SGLANG_MM_FEATURE_CACHE_MB", 1024)
    return on_card, mib << 20


def _env_mib(env: Mapping[str, str], name: str, default: int) -> int:
    value = env.get(name, "")
    return int(value) if value.isascii() and value.isdigit() and len(value) < 8 else default


def fraction_in_force(
    asked: SglangArguments,
    facts: ModelFacts,
    version: str,
    gpu_mib: float,
    chunk: int,
    automatic: Automatic,
    speculative: bool,
) -> tuple[float, float]:
    """Return the automatic fraction, and its upper bound where prefill graphs may be off."""
    graphs = asked.cuda_graph_max_bs or automatic.decode_graph_max_bs
    cap = asked.max_running_requests or (SPECULATIVE_REQUESTS if speculative else None)
    if asked.cuda_graph_max_bs is None and cap is not None and in_range(version, "0.5.21", None):
        graphs = min(graphs, cap)
    if asked.disable_cuda_graph or asked.cuda_graph_backend_decode == "disabled":
        # Up to 0.5.15 the decode batch is charged whether it is captured or not.
        graphs = 0 if in_range(version, "0.5.16", None) else graphs
    largest = chunk if chunk > 0 else 0
    if asked.max_total_tokens is not None:
        largest = min(largest, asked.max_total_tokens)
    off = (
        asked.disable_prefill_graph
        or asked.disable_cuda_graph
        or asked.cuda_graph_backend_prefill == "disabled"
        or in_range(version, None, "0.5.9")
        or (facts.multimodal and in_range(version, "0.5.14", "0.5.15"))
        or facts.family is Family.MLA
    )
    vision = facts.vision if facts.multimodal and not asked.language_only else None

    def fraction(prefill_graphs: int) -> float:
        return automatic_fraction(
            version,
            gpu_mib,
            chunk=chunk,
            max_prefill_tokens=asked.max_prefill_tokens or 16384,
            decode_graph_max_bs=graphs,
            prefill_graphs=prefill_graphs,
            tp=asked.tp_size or 1,
            pp=asked.pp_size or 1,
            speculative=speculative,
            vision=vision,
        )

    if off:
        return fraction(0), fraction(0)
    # Whether the prefill is captured depends on more than the arguments say: both ends are kept.
    return fraction(prefill_graph_sizes(largest)), fraction(0)
