"""From the state of a boot to its frozen report."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from qwen_tui_diagnostics.enginelog.clamps import asked_requests, changes_of, usable_context
from qwen_tui_diagnostics.enginelog.report import PHASES, LogReport, PhaseSpan
from qwen_tui_diagnostics.enginelog.verdict import fatal_of, phase_at

if TYPE_CHECKING:
    from qwen_tui_diagnostics.enginelog.boot import Boot
    from qwen_tui_profiles.findings import Value

__all__ = ["build_report"]

_STATED = (
    "model", "context_len", "kv_tokens", "max_running_requests_effective",
    "max_running_requests_asked", "chunked_prefill_size", "mem_usage_gb", "draft_mem_usage_gb",
    "available_gpu_mem_gb", "mamba_slots", "mamba_slots_per_request", "kv_dtype", "tp_size",
    "mem_fraction_static", "context_len_requested", "available_kv_gib", "max_concurrency",
    "attention_block_size", "num_speculative_tokens", "accept_len_last", "prefix_hit_last",
    "gen_tps_last", "phase_at_failure", "oom_wanted_mib", "oom_free_mib", "smem_required",
    "smem_limit",
)  # fmt: skip
"""Facts of design §4; each is in the document, null when the log does not state it."""


def build_report(boot: Boot) -> LogReport:
    """Freeze what is known of ``boot``."""
    facts: dict[str, Value] = dict.fromkeys(_STATED)
    facts.update({name: fact.value for name, fact in boot.facts.items()})
    _arguments(boot, facts)
    _runtime(boot, facts)
    fatal, root = fatal_of(boot)
    if root is not None:
        facts.update(root.fields)
        facts["phase_at_failure"] = phase_at(boot, root)
    usable = usable_context(boot)
    facts["context_usable"] = None if fatal is not None and not boot.ready else usable
    changes = changes_of(boot)
    total = boot.engine_lines
    return LogReport(
        engine=boot.engine,
        engine_version=boot.version,
        ready=boot.ready,
        phase=_phase(boot, facts, failed=fatal is not None),
        facts=MappingProxyType(facts),
        clamps=tuple(changes.clamps),
        adjustments=tuple(changes.adjustments),
        timeline=_timeline(boot),
        fatal=fatal,
        unread_lines=total - boot.read_lines,
        coverage=round(boot.read_lines / total, 4) if total else None,
    )


def _phase(boot: Boot, facts: dict[str, Value], *, failed: bool) -> str | None:
    if boot.death.stop is not None and not failed:
        return "stopping"
    if failed:
        phase = facts["phase_at_failure"]
        return phase if isinstance(phase, str) else boot.phase
    if boot.ready and boot.phase not in {"serving", "ready"}:
        return "serving" if boot.decodes or boot.prefills or boot.served else "ready"
    return boot.phase


def _arguments(boot: Boot, facts: dict[str, Value]) -> None:
    args, asked = boot.args, boot.requested()
    if boot.engine == "vllm":
        _vllm_arguments(boot, facts)
        return
    facts["max_running_requests_asked"] = asked_requests(boot)
    facts["model"] = args.get("model_path") or (asked or {}).get("model_path")
    source = asked if asked is not None else args
    if source.get("context_length") is not None:
        facts["context_len_requested"] = source["context_length"]
    for name in ("tp_size", "mem_fraction_static"):
        value = args.get(name)
        facts[name] = value if value is not None else facts[name]
    for name in (
        "chunked_prefill_size", "page_size", "speculative_algorithm", "speculative_num_steps",
        "speculative_num_draft_tokens", "max_total_tokens", "attention_backend",
        "mamba_radix_cache_strategy", "mamba_ssm_dtype", "kv_cache_dtype", "port", "dp_size",
    ):  # fmt: skip
        if facts.get(name) is None and args.get(name) is not None:
            facts[name] = args[name]


def _vllm_arguments(boot: Boot, facts: dict[str, Value]) -> None:
    config = boot.args
    asked = boot.requested() or {}
    facts["model"] = asked.get("model") or asked.get("model_path") or config.get("model")
    requested = asked.get("max_model_len")
    if isinstance(requested, int) and requested > 0:
        facts["context_len_requested"] = requested
    elif boot.args_line is None and facts["context_len_requested"] is None:
        root = boot.death.root()
        fields = getattr(root, "fields", {})
        facts["context_len_requested"] = fields.get("context_len")
    if facts["context_len"] is None:
        facts["context_len"] = config.get("max_seq_len") or config.get("max_model_len")
    seqs = asked_requests(boot)
    if seqs is None:
        seqs = config.get("max_num_seqs")
    if seqs is not None:
        facts["max_running_requests_asked"] = seqs
        facts["max_running_requests_effective"] = seqs
    facts["tp_size"] = config.get("tensor_parallel_size") or asked.get("tensor_parallel_size")
    facts["kv_dtype"] = config.get("kv_cache_dtype") or asked.get("kv_cache_dtype")
    facts["quantization"] = config.get("quantization") or asked.get("quantization")
    facts["gpu_memory_utilization"] = asked.get("gpu_memory_utilization") or config.get(
        "gpu_memory_utilization"
    )


def _runtime(boot: Boot, facts: dict[str, Value]) -> None:
    if not boot.window.lines:
        return
    seen = boot.window.facts()
    facts.update(
        accept_len_last=seen.accept_len_last,
        prefix_hit_last=seen.prefix_hit_last,
        gen_tps_last=seen.gen_tps_last,
        running_last=seen.running_last,
        waiting_last=seen.waiting_last,
        kv_usage_last=seen.kv_usage_last,
        mamba_usage_last=seen.mamba_usage_last,
        mamba_usage_max=seen.mamba_usage_max,
    )


def _timeline(boot: Boot) -> tuple[PhaseSpan, ...]:
    spans = sorted(boot.spans.items(), key=lambda item: PHASES.index(item[0]))
    out: list[PhaseSpan] = []
    for index, (phase, span) in enumerate(spans):
        seconds = span.seconds
        following = spans[index + 1][1].started if index + 1 < len(spans) else None
        if seconds is None and span.started is not None and following is not None:
            seconds = max(round(following - span.started, 3), 0.0)
        out.append(PhaseSpan(phase, span.started, seconds))
    return tuple(out)
