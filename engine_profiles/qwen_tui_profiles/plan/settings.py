"""SGLang's argument phase, as far as it decides memory: from what was asked to what is in force."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from qwen_tui_profiles.errors import UsageError
from qwen_tui_profiles.findings import Clamp, Value
from qwen_tui_profiles.foreign import clean
from qwen_tui_profiles.plan.architectures import Family
from qwen_tui_profiles.plan.defaults import (
    SPECULATIVE_REQUESTS,
    Automatic,
    automatic_fraction,
    automatic_sizes,
    prefill_graph_sizes,
)
from qwen_tui_profiles.plan.gdn import (
    NEWEST_CHECKED,
    Strategy,
    resolve_strategy,
    slots_per_request,
)
from qwen_tui_profiles.text import Text, t
from qwen_tui_profiles.versions import in_range

if TYPE_CHECKING:
    from collections.abc import Mapping

    from qwen_tui_profiles.plan.arguments import SglangArguments
    from qwen_tui_profiles.plan.model import ModelFacts

__all__ = ["Settings", "resolve"]

_MTP_ALGORITHMS = frozenset({"EAGLE", "NEXTN"})
_DRAFT_DEFAULTS = (3, 1, 4)
"""Steps, top-k and draft tokens that the engine picks for the Qwen line where none are given."""

_DEFAULT_RATIO = 0.9

_KV_BYTES = {
    "fp8_e4m3": 1,
    "fp8_e5m2": 1,
    "bf16": 2,
    "bfloat16": 2,
}


@dataclass(frozen=True, slots=True)
class Settings:
    """What the pool phase starts from."""

    version: str
    fraction: float | None
    """None where it is automatic and the card's total memory is not known."""
    fraction_high: float | None
    """Upper bound where the automatic value rests on an assumption."""
    fraction_automatic: bool
    chunk: int | None
    page: int
    context: int
    context_asked: int | None
    kv_dtype: str
    kv_bytes: int
    speculative: str | None
    """Algorithm in force; None = off."""
    own_head: bool
    """The draft is the checkpoint's own MTP head."""
    draft_tokens: int
    requests: int | None
    requests_asked: int | None
    max_total_tokens: int | None
    strategy: Strategy
    slots_per_request: int | None
    slots_asked: int | None
    ratio: float
    state_dtype: str | None
    radix_cache: bool
    rollback_states: bool
    draft_path: bool
    device_transport: bool
    """Image features travel through a pool on the card."""
    multimodal_reserve_bytes: int
    tp: int
    clamps: tuple[Clamp, ...]
    adjustments: tuple[Clamp, ...]


def resolve(
    asked: SglangArguments,
    facts: ModelFacts,
    *,
    engine_version: str | None,
    env: Mapping[str, str],
    gpu_mib: float | None,
) -> Settings:
    """Resolve the arguments as a release does.

    Args:
        asked: The arguments as typed.
        facts: The checkpoint.
        engine_version: SGLang release; None = the newest known.
        env: Environment of the launch (only ``SGLANG_*`` is read).
        gpu_mib: Total memory of the card in MiB; None = unknown, automatic values then are too.

    Raises:
        UsageError: The arguments contradict each other in a way that no release starts with.
    """
    version = engine_version or NEWEST_CHECKED
    notes = _Notes()
    speculative = _algorithm(asked)
    draft_tokens = _draft_tokens(asked, speculative, notes)
    requests = _requests(asked, speculative, notes)
    overlap = not asked.disable_overlap_schedule
    if speculative is not None and in_range(version, None, "0.5.10"):
        overlap = False
    strategy = resolve_strategy(
        asked.mamba_strategy,
        engine_version=version,
        architecture=facts.architecture,
        speculative=speculative is not None,
        overlap=overlap,
        linear_backend=asked.linear_attn_backend,
        page_size=asked.page_size,
    )
    radix = not asked.disable_radix_cache
    page = _page(asked, facts, strategy, version, radix=radix, notes=notes)
    per_request = slots_per_request(
        engine_version=version,
        strategy=strategy.name,
        radix_cache=radix,
        overlap=strategy.overlap,
        speculative=speculative is not None,
    )
    if per_request is not None and radix and env.get("SGLANG_OPT_MAMBA_SKIP_DECODE_LOCK") in _TRUE:
        per_request -= 0 if strategy.name == "no_buffer" else 1
    automatic = None if gpu_mib is None else automatic_sizes(version, gpu_mib, asked.tp_size or 1)
    chunk = asked.chunked_prefill_size
    if chunk is None and automatic is not None:
        chunk = automatic.chunked_prefill_size
        notes.adjust("--chunked-prefill-size", chunk, "GPU memory", _chosen_for_card())
    fraction, fraction_high = asked.mem_fraction_static, asked.mem_fraction_static
    if fraction is None and gpu_mib is not None and automatic is not None and chunk is not None:
        fraction, fraction_high = _fraction(
            asked, facts, version, gpu_mib, chunk, automatic, speculative is not None
        )
        notes.adjust("--mem-fraction-static", round(fraction, 4), "GPU memory", _chosen_for_card())
    if asked.enable_mixed_chunk and speculative is not None:
        notes.clamp(
            "--enable-mixed-chunk",
            True,
            False,
            "speculative decoding",
            t("Mixed chunks are switched off while drafts are verified."),
            t("Take the flag away; it has no effect here."),
        )
    dtype, kv_bytes = _kv(asked, facts)
    device_transport, reserve = _multimodal(asked, facts, version, env)
    return Settings(
        version=version,
        fraction=fraction,
        fraction_high=fraction_high,
        fraction_automatic=asked.mem_fraction_static is None,
        chunk=chunk,
        page=page,
        context=asked.context_length or facts.context,
        context_asked=asked.context_length,
        kv_dtype=dtype,
        kv_bytes=kv_bytes,
        speculative=speculative,
        own_head=speculative in _MTP_ALGORITHMS,
        draft_tokens=draft_tokens,
        requests=requests,
        requests_asked=asked.max_running_requests,
        max_total_tokens=asked.max_total_tokens,
        strategy=strategy,
        slots_per_request=per_request,
        slots_asked=asked.max_mamba_cache_size,
        ratio=asked.mamba_full_memory_ratio or _DEFAULT_RATIO,
        state_dtype=_state_dtype(asked, env),
        radix_cache=radix,
        rollback_states=not asked.enable_replayssm_spec,
        draft_path=asked.speculative_draft_model_path is not None,
        device_transport=device_transport,
        multimodal_reserve_bytes=reserve,
        tp=asked.tp_size or 1,
        clamps=tuple(notes.clamps),
        adjustments=tuple(notes.adjustments),
    )


_TRUE = frozenset({"1", "true", "True", "yes", "on"})


class _Notes:
    """Collects what was asked and changed, and what was chosen."""

    def __init__(self) -> None:
        self.clamps: list[Clamp] = []
        self.adjustments: list[Clamp] = []

    def clamp(
        self, arg: str, asked: Value, got: Value, by: str, why: Text, remedy: Text | None
    ) -> None:
        self.clamps.append(Clamp(arg, asked, got, by, why, remedy, None))

    def adjust(self, arg: str, got: Value, by: str, why: Text) -> None:
        self.adjustments.append(Clamp(arg, None, got, by, why, None, None))


def _chosen_for_card() -> Text:
    return t("Not given: the engine chooses it from the card's total memory.")


def _algorithm(asked: SglangArguments) -> str | None:
    name = asked.speculative_algorithm
    return None if name is None or name.upper() == "NONE" else name.upper()


def _draft_tokens(asked: SglangArguments, algorithm: str | None, notes: _Notes) -> int:
    if algorithm is None:
        return 0
    steps, topk, tokens = (
        asked.speculative_num_steps,
        asked.speculative_eagle_topk,
        asked.speculative_num_draft_tokens,
    )
    if algorithm not in _MTP_ALGORITHMS | {"EAGLE3", "STANDALONE"}:
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
            "speculative decoding",
            t("Not given: 3 steps, top-k 1, 4 draft tokens."),
        )
    if topk in {None, 1} and tokens != steps + 1:
        if tokens is not None:
            notes.clamp(
                "--speculative-num-draft-tokens",
                tokens,
                steps + 1,
                "speculative decoding",
                t("With a top-k of 1 a step drafts one token, and the bonus token is counted."),
                t("Write --speculative-num-draft-tokens {tokens}.", tokens=steps + 1),
            )
        tokens = steps + 1
    return tokens or steps + 1


def _requests(asked: SglangArguments, algorithm: str | None, notes: _Notes) -> int | None:
    if asked.max_running_requests is not None:
        return asked.max_running_requests
    if algorithm is None:
        return None
    notes.adjust(
        "--max-running-requests",
        SPECULATIVE_REQUESTS,
        "speculative decoding",
        t("Not given: speculative decoding sets it to 48."),
    )
    return SPECULATIVE_REQUESTS


def _page(
    asked: SglangArguments,
    facts: ModelFacts,
    strategy: Strategy,
    version: str,
    *,
    radix: bool,
    notes: _Notes,
) -> int:
    wanted = asked.page_size or 1
    got, by, why = wanted, "", None
    if facts.sparse_indexer:
        got, by = 64, "sparse attention"
        why = t("The compressed index addresses pages of 64 tokens.")
    elif asked.attention_backend == "trtllm_mha" and wanted not in {16, 32, 64, 128}:
        got, by = 64, "attention backend"
        why = t("The trtllm_mha backend works on pages of 16, 32 or 64 tokens.")
    elif asked.attention_backend == "fa4" and wanted != 128:
        got, by = 128, "attention backend"
        why = t("The fa4 backend works on pages of 128 tokens.")
    elif (
        facts.family is Family.HYBRID
        and radix
        and strategy.name == "no_buffer"
        and wanted != 1
        and in_range(version, None, "0.5.13")
    ):
        got, by = 1, "mamba radix cache"
        why = t("The no_buffer strategy works on pages of one token.")
    if got != wanted and why is not None:
        if asked.page_size is None:
            notes.adjust("--page-size", got, by, why)
        else:
            notes.clamp("--page-size", wanted, got, by, why, None)
    return got


def _kv(asked: SglangArguments, facts: ModelFacts) -> tuple[str, int]:
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


def _state_dtype(asked: SglangArguments, env: Mapping[str, str]) -> str | None:
    # The variable wins over the flag; without either the checkpoint's own declaration holds.
    if asked.enable_replayssm_spec:
        return "float32"
    return env.get("SGLANG_MAMBA_SSM_DTYPE") or asked.mamba_ssm_dtype


def _multimodal(
    asked: SglangArguments, facts: ModelFacts, version: str, env: Mapping[str, str]
) -> tuple[bool, int]:
    """Return whether features travel through a pool on the card, and what is kept back for them.

    0.5.17 alone puts the pool on the card unless told otherwise; from 0.5.18 it is opt-in, and
    what is allocated after the pools is kept back from them.
    """
    if not facts.multimodal or asked.language_model_only:
        return False, 0
    transport = asked.mm_feature_transport
    if transport is None and env.get("SGLANG_USE_CUDA_IPC_TRANSPORT") in _TRUE:
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


def _fraction(
    asked: SglangArguments,
    facts: ModelFacts,
    version: str,
    gpu_mib: float,
    chunk: int,
    automatic: Automatic,
    speculative: bool,
) -> tuple[float, float]:
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
