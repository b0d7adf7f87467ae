"""SGLang's argument phase, as far as it decides memory: from what was asked to what is in force."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from qwen_tui_profiles.plan.defaults import (
    automatic_sizes,
)
from qwen_tui_profiles.plan.gdn import (
    NEWEST_CHECKED,
    Strategy,
    resolve_strategy,
    slots_per_request,
)
from qwen_tui_profiles.plan.resolution import (
    MTP_ALGORITHMS,
    TRUE,
    Notes,
    algorithm,
    chosen_for_card,
    draft_tokens_in_force,
    fraction_in_force,
    kv_in_force,
    multimodal_in_force,
    page_in_force,
    requests_in_force,
    state_dtype_in_force,
)
from qwen_tui_profiles.plan.rotary import reserved_rows
from qwen_tui_profiles.text import t
from qwen_tui_profiles.versions import in_range

if TYPE_CHECKING:
    from collections.abc import Mapping

    from qwen_tui_profiles.findings import Clamp
    from qwen_tui_profiles.plan.arguments import SglangArguments
    from qwen_tui_profiles.plan.model import ModelFacts

__all__ = ["Settings", "resolve"]


_DEFAULT_RATIO = 0.9
_REPLAY_LENGTH = 16


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
    rotary_rows: int
    """Positions that the rotary caches are extended to after the load."""
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
    replay_length: int
    """Steps of ReplaySSM's ring."""
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
    notes = Notes()
    speculative = algorithm(asked)
    draft_tokens = draft_tokens_in_force(asked, speculative, notes)
    requests = requests_in_force(asked, speculative, notes)
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
    page = page_in_force(asked, facts, strategy, version, radix=radix, notes=notes)
    per_request = slots_per_request(
        engine_version=version,
        strategy=strategy.name,
        radix_cache=radix,
        overlap=strategy.overlap,
        speculative=speculative is not None,
    )
    if per_request is not None and radix and env.get("SGLANG_OPT_MAMBA_SKIP_DECODE_LOCK") in TRUE:
        per_request -= 0 if strategy.name == "no_buffer" else 1
    automatic = None if gpu_mib is None else automatic_sizes(version, gpu_mib, asked.tp_size or 1)
    chunk = asked.chunked_prefill_size
    if chunk is None and automatic is not None:
        chunk = automatic.chunked_prefill_size
        notes.adjust("--chunked-prefill-size", chunk, t("GPU memory"), chosen_for_card())
    fraction, fraction_high = asked.mem_fraction_static, asked.mem_fraction_static
    if fraction is None and gpu_mib is not None and automatic is not None and chunk is not None:
        fraction, fraction_high = fraction_in_force(
            asked, facts, version, gpu_mib, chunk, automatic, speculative is not None
        )
        notes.adjust(
            "--mem-fraction-static", round(fraction, 4), t("GPU memory"), chosen_for_card()
        )
    if asked.enable_mixed_chunk and speculative is not None:
        notes.clamp(
            "--enable-mixed-chunk",
            True,
            False,
            t("speculative decoding"),
            t("Mixed chunks are switched off while drafts are verified."),
            t("Take the flag away; it has no effect here."),
        )
    dtype, kv_bytes = kv_in_force(asked, facts)
    device_transport, reserve = multimodal_in_force(asked, facts, version, env)
    context = asked.context_length or facts.context
    steps = asked.speculative_num_steps or max(0, draft_tokens - 1)
    return Settings(
        version=version,
        fraction=fraction,
        fraction_high=fraction_high,
        fraction_automatic=asked.mem_fraction_static is None,
        chunk=chunk,
        page=page,
        context=context,
        context_asked=asked.context_length,
        kv_dtype=dtype,
        kv_bytes=kv_bytes,
        speculative=speculative,
        own_head=speculative in MTP_ALGORITHMS,
        draft_tokens=draft_tokens,
        rotary_rows=reserved_rows(context, steps, draft_tokens, env),
        requests=requests,
        requests_asked=asked.max_running_requests,
        max_total_tokens=asked.max_total_tokens,
        strategy=strategy,
        slots_per_request=per_request,
        slots_asked=asked.max_mamba_cache_size,
        ratio=asked.mamba_full_memory_ratio or _DEFAULT_RATIO,
        state_dtype=state_dtype_in_force(asked, env),
        radix_cache=radix,
        rollback_states=not asked.enable_replayssm_spec,
        replay_length=asked.replayssm_cache_len or _REPLAY_LENGTH,
        draft_path=asked.speculative_draft_model_path is not None,
        device_transport=device_transport,
        multimodal_reserve_bytes=reserve,
        tp=asked.tp_size or 1,
        clamps=tuple(notes.clamps),
        adjustments=tuple(notes.adjustments),
    )
