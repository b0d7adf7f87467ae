"""The argument phase: what SGLang makes of a command line before anything is loaded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from qwen_tui.demo_engine import ENGINE_VERSION
from qwen_tui.demo_engine.arguments import server_args_template
from qwen_tui_profiles.plan.gdn import resolve_strategy, slots_per_request

if TYPE_CHECKING:
    from qwen_tui.demo_engine.arguments import ParsedCommand

__all__ = ["ARCHITECTURE", "CARD_TOTAL_MIB", "DERIVED_CONTEXT", "Refused", "Settings", "resolve"]

ARCHITECTURE = "Qwen3_5ForConditionalGeneration"
DERIVED_CONTEXT = 262144
"""``max_position_embeddings`` of Qwen3.8-27B."""
CARD_TOTAL_MIB = 32607
"""Total memory of the simulated card, as an RTX 5090 reports it."""


class Refused(Exception):  # noqa: N818 - it carries the engine's own last words, not an error of ours
    """The engine refuses the command line; ``str()`` is the last line of its traceback."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Resolved arguments that the simulation acts on."""

    model_path: str
    served_name: str
    host: str
    port: int
    context_len: int
    context_asked: int | None
    max_running: int | None
    """Asked or defaulted (48 with speculation); ``None`` = the engine's own choice."""
    max_queued: int | None
    algorithm: str | None
    num_steps: int
    draft_tokens: int
    """Tokens per verify step (D); 0 without speculation."""
    draft_path: str | None
    strategy: str
    overlap: bool
    radix_cache: bool
    slots_per_request: int
    mamba_slots: int | None
    mamba_ratio: float
    ssm_dtype: str
    kv_dtype: str
    page_size: int
    chunk: int
    mem_fraction: float
    max_total_tokens: int | None
    api_key: str | None
    admin_api_key: str | None
    metrics: bool
    cache_report: bool
    reasoning_parser: str | None
    tool_parser: str | None
    decode_log_interval: int
    skip_warmup: bool
    stream_interval: int
    server_args: dict[str, Any]
    """What the ``server_args=`` line prints and ``/server_info`` returns."""

    @property
    def speculative(self) -> bool:
        """Whether a draft head runs."""
        return self.algorithm is not None


def resolve(command: ParsedCommand) -> tuple[Settings, list[str]]:
    """Resolve a command line as SGLang 0.5.23 does on one card with a hybrid GDN model.

    Returns:
        The settings, and the lines that SGLang prints while it resolves them.

    Raises:
        Refused: SGLang asserts or raises on this combination.
    """
    get = command.get
    lines: list[str] = []
    algorithm = _algorithm(get("speculative_algorithm"))
    steps, draft_tokens = _speculation(command, algorithm, lines)
    max_running = get("max_running_requests")
    if max_running is None and algorithm is not None:
        max_running = 48
        lines.append(
            "Max running requests is reset to 48 for speculative decoding. You can override this "
            "by explicitly setting --max-running-requests."
        )
    if get("enable_mixed_chunk") and algorithm is not None:
        lines.append(
            f"Mixed chunked prefill is disabled: {algorithm} speculative decoding does not "
            "support it."
        )
    page = int(get("page_size", 1))
    chunk = int(get("chunked_prefill_size", 4096))
    if chunk > 0 and chunk % page:
        message = "AssertionError: chunked_prefill_size must be divisible by page_size"
        raise Refused(message)
    context = _context(get("context_length"))
    radix = not get("disable_radix_cache", False)
    if not radix and get("enable_hierarchical_cache"):
        message = (
            "ValueError: The arguments enable-hierarchical-cache and disable-radix-cache are "
            "mutually exclusive and cannot be used at the same time. Please use only one of them."
        )
        raise Refused(message)
    strategy, overlap = _strategy(command, algorithm is not None, page)
    slots = slots_per_request(
        engine_version=ENGINE_VERSION,
        strategy=strategy,
        radix_cache=radix,
        overlap=overlap,
        speculative=algorithm is not None,
    )
    if slots is None:
        message = f"ValueError: unknown mamba radix cache strategy {strategy}"
        raise Refused(message)
    if get("attention_backend") is None:
        lines.append("Attention backend not specified. Use flashinfer backend by default.")
    fraction = get("mem_fraction_static") or _auto_fraction(chunk, max_running)
    settings = Settings(
        model_path=get("model_path"),
        served_name=get("served_model_name", get("model_path")),
        host=get("host", "127.0.0.1"),
        port=get("port", 30000),
        context_len=context,
        context_asked=get("context_length"),
        max_running=max_running,
        max_queued=get("max_queued_requests"),
        algorithm=algorithm,
        num_steps=steps,
        draft_tokens=draft_tokens,
        draft_path=get("speculative_draft_model_path"),
        strategy=strategy,
        overlap=overlap,
        radix_cache=radix,
        slots_per_request=slots,
        mamba_slots=get("max_mamba_cache_size"),
        mamba_ratio=get("mamba_full_memory_ratio", 0.9),
        ssm_dtype=get("mamba_ssm_dtype", "float32"),
        kv_dtype=_kv_dtype(get("kv_cache_dtype", "auto")),
        page_size=page,
        chunk=chunk if chunk > 0 else 1 << 30,
        mem_fraction=fraction,
        max_total_tokens=get("max_total_tokens"),
        api_key=get("api_key"),
        admin_api_key=get("admin_api_key"),
        metrics=get("enable_metrics", False),
        cache_report=get("enable_cache_report", False),
        reasoning_parser=get("reasoning_parser"),
        tool_parser=get("tool_call_parser"),
        decode_log_interval=max(1, get("decode_log_interval", 40)),
        skip_warmup=get("skip_server_warmup", False),
        stream_interval=max(1, get("stream_interval", 1)),
        server_args={},
    )
    settings.server_args.update(_fields(command, settings, max_running))
    return settings, lines


def _algorithm(asked: str | None) -> str | None:
    if asked is None:
        return None
    name = asked.upper()
    return "EAGLE" if name == "NEXTN" else name


def _speculation(
    command: ParsedCommand, algorithm: str | None, lines: list[str]
) -> tuple[int, int]:
    if algorithm is None:
        return 0, 0
    steps = command.get("speculative_num_steps")
    topk = command.get("speculative_eagle_topk")
    asked = command.get("speculative_num_draft_tokens")
    if steps is None:
        if topk is not None or asked is not None:
            message = "AssertionError: speculative_num_steps must be set with topk or draft tokens"
            raise Refused(message)
        return 3, 4
    if (topk or 1) == 1 and asked is not None and asked != steps + 1:
        lines.append(
            "speculative_num_draft_tokens is adjusted to speculative_num_steps + 1 when "
            "speculative_eagle_topk == 1"
        )
    return steps, steps + 1 if (topk or 1) == 1 else asked or steps + 1


def _context(asked: int | None) -> int:
    if asked is not None and asked > DERIVED_CONTEXT:
        message = (
            f"ValueError: Warning: User-specified context_length ({asked}) is greater than the "
            f"derived context_length ({DERIVED_CONTEXT}). This may lead to incorrect model outputs "
            "or CUDA errors. Note that the derived context_length may differ from "
            "max_position_embeddings in the model's config. To allow overriding this maximum, set "
            "the env var SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN=1"
        )
        raise Refused(message)
    return asked or DERIVED_CONTEXT


def _strategy(command: ParsedCommand, speculative: bool, page: int) -> tuple[str, bool]:
    overlap = not command.get("disable_overlap_schedule", False)
    resolved = resolve_strategy(
        command.get("mamba_radix_cache_strategy"),
        engine_version=ENGINE_VERSION,
        architecture=ARCHITECTURE,
        speculative=speculative,
        overlap=overlap,
        linear_backend=command.get("linear_attn_backend"),
        page_size=page,
    )
    if resolved.name == "no_buffer" and page != 1:
        message = "AssertionError: no_buffer only supports page_size=1."
        raise Refused(message)
    if resolved.name == "no_buffer" and resolved.overlap:
        message = (
            "AssertionError: no_buffer do not support overlap schedule. "
            "Try to set disable_overlap_schedule=True."
        )
        raise Refused(message)
    if resolved.name == "extra_buffer_lazy" and not resolved.overlap:
        message = (
            "AssertionError: Lazy extra buffer requires overlap schedule "
            "(--disable-overlap-schedule is incompatible)"
        )
        raise Refused(message)
    return resolved.name, resolved.overlap


def _kv_dtype(asked: str) -> str:
    names = {
        "auto": "torch.bfloat16",
        "bf16": "torch.bfloat16",
        "bfloat16": "torch.bfloat16",
        "fp8_e4m3": "torch.float8_e4m3fn",
        "fp8_e5m2": "torch.float8_e5m2",
    }
    if asked not in names:
        message = f"ValueError: the simulated card keeps no KV cache of dtype {asked}"
        raise Refused(message)
    return names[asked]


def _auto_fraction(chunk: int, max_running: int | None) -> float:
    # The engine's own default, without its further reduction for vision towers.
    graphs = 2 * min(48, max_running or 48)
    reserved = 512 + 1.5 * max(chunk, 2048) + 128 + graphs
    return round((CARD_TOTAL_MIB - reserved) / CARD_TOTAL_MIB, 3)


def _fields(command: ParsedCommand, s: Settings, max_running: int | None) -> dict[str, Any]:
    fields = server_args_template()
    fields.update({k: v for k, v in command.given.items() if k in fields})
    graph_bs = [b for b in range(1, 49) if b <= (max_running or 48)]
    fields.update(
        tokenizer_path=command.get("tokenizer_path", s.model_path),
        served_model_name=s.served_name,
        host=s.host,
        port=s.port,
        context_length=s.context_asked,
        max_running_requests=max_running,
        mem_fraction_static=s.mem_fraction,
        chunked_prefill_size=command.get("chunked_prefill_size", 4096),
        attention_backend=command.get("attention_backend", "flashinfer"),
        disable_overlap_schedule=not s.overlap,
        mamba_radix_cache_strategy=s.strategy,
        uses_mamba_radix_cache=s.radix_cache,
        speculative_algorithm=s.algorithm,
        speculative_num_steps=s.num_steps or None,
        speculative_eagle_topk=command.get("speculative_eagle_topk", 1) if s.algorithm else None,
        speculative_num_draft_tokens=s.draft_tokens or None,
        cuda_graph_config={
            "decode": {"backend": "full", "max_bs": graph_bs[-1], "bs": graph_bs},
            "prefill": {"backend": "disabled", "max_bs": None, "bs": []},
        },
    )
    if s.algorithm is not None:
        fields["enable_mixed_chunk"] = False
    return fields
