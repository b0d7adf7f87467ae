"""From the state of a boot to its frozen report."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from qwen_tui_diagnostics.enginelog.boot import REPLICATED
from qwen_tui_diagnostics.enginelog.budget import budget_of
from qwen_tui_diagnostics.enginelog.clamps import (
    asked_requests,
    changes_of,
    safe_text,
    usable_context,
)
from qwen_tui_diagnostics.enginelog.death import Hit
from qwen_tui_diagnostics.enginelog.insights import insights_of
from qwen_tui_diagnostics.enginelog.report import PHASES, LogReport, PhaseSpan
from qwen_tui_diagnostics.enginelog.verdict import fatal_of, phase_at
from qwen_tui_profiles.versions import Version

if TYPE_CHECKING:
    from qwen_tui_diagnostics.enginelog.boot import Boot, Span
    from qwen_tui_diagnostics.enginelog.runtime import RuntimeFacts
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


_STATES = ("ready", "serving")
"""Phases of :data:`PHASES` that last as long as nobody asks or stops: no part of a boot's time."""


def build_report(boot: Boot, *, client: bool) -> LogReport:
    """Freeze what is known of ``boot``.

    Args:
        boot: the state to freeze.
        client: lines of a benchmark client were met.
    """
    facts: dict[str, Value] = dict.fromkeys(_STATED)
    facts.update({name: fact.value for name, fact in boot.facts.items()})
    _arguments(boot, facts)
    seen = boot.window.facts() if boot.window.lines else None
    if seen is not None:
        _runtime(seen, facts)
    fatal, root = fatal_of(boot)
    subject = _subject(boot, client=client, dead=fatal is not None)
    if subject == "client":
        fatal = root = None
    if root is not None:
        if isinstance(root, Hit):
            facts.update({k: v for k, v in root.fields.items() if facts.get(k) is None})
        facts["phase_at_failure"] = phase_at(boot, root)
    facts["context_usable"] = usable_context(boot)
    _replicas(boot, facts)
    changes = changes_of(boot)
    total = boot.engine_lines
    return LogReport(
        engine=None if subject == "client" else boot.printed_by,
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
        budget=budget_of(boot),
        findings=tuple(insights_of(boot, facts, seen)),
        version_range=_version_range(boot),
        subject=subject,
        boot=boot.index,
        first_line=boot.first_line,
        unread=tuple((n, safe_text(text, boot.secrets)) for n, text in boot.unread),
    )


def _replicas(boot: Boot, facts: dict[str, Value]) -> None:
    """Add what data-parallel replicas have together; each alone is told by the other facts."""
    replicas = max(len(boot.of_replicas(name)) for name in REPLICATED)
    if replicas < 2:
        return
    facts["dp_replicas"] = replicas
    for name, whole in REPLICATED.items():
        each = [fact.value for fact in boot.of_replicas(name)]
        same = facts.get(name)
        if not each and isinstance(same, int):
            # vLLM's --max-num-seqs is said once and holds for the scheduler of each.
            facts[whole] = same * replicas
        elif len(each) == replicas:
            facts[whole] = sum(value for value in each if isinstance(value, int))


def _subject(boot: Boot, *, client: bool, dead: bool) -> str | None:
    """Tell what printed the log; a web server that is no engine is none."""
    if client and not boot.worked:
        return "client"
    return "engine" if boot.printed_by is not None or dead else None


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
    if boot.printed_by == "vllm":
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
        if name.startswith("speculative") and args.get("speculative_algorithm") is None:
            continue
        if facts.get(name) is None and args.get(name) is not None:
            facts[name] = args[name]


def _vllm_arguments(boot: Boot, facts: dict[str, Value]) -> None:
    config = boot.args
    asked = boot.requested() or {}

    def known(name: str) -> Value:
        value = asked.get(name)
        return config.get(name) if value is None else value

    facts["model"] = known("model") or known("model_tag") or facts["model"]
    requested = known("max_model_len")
    if isinstance(requested, int) and requested > 0:
        facts["context_len_requested"] = requested
    elif boot.args_line is None:
        # The refusal itself names the context that the engine was started with.
        root = boot.root()
        if isinstance(root, Hit):
            facts["context_len_requested"] = root.fields.get("context_len")
    if facts["context_len"] is None:
        facts["context_len"] = config.get("max_seq_len")
    seqs = known("max_num_seqs")
    if isinstance(seqs, int):
        # vLLM never lowers it: what does not fit waits, or refuses to boot.
        facts["max_running_requests_asked"] = seqs
        facts["max_running_requests_effective"] = seqs
    if facts["chunked_prefill_size"] is None and known("enable_chunked_prefill") is not False:
        facts["chunked_prefill_size"] = asked.get("max_num_batched_tokens")
    facts["num_speculative_tokens"] = boot.drafted()
    facts["tp_size"] = known("tensor_parallel_size")
    facts["kv_dtype"] = config.get("kv_cache_dtype") or asked.get("kv_cache_dtype")
    for name in (
        "quantization", "gpu_memory_utilization", "enable_prefix_caching", "enforce_eager",
        "max_num_batched_tokens", "served_model_name",
    ):  # fmt: skip
        if facts.get(name) is None and known(name) is not None:
            facts[name] = known(name)


def _runtime(seen: RuntimeFacts, facts: dict[str, Value]) -> None:
    facts.update(
        accept_len_last=seen.accept_len_last,
        prefix_hit_last=seen.prefix_hit_last,
        gen_tps_last=seen.gen_tps_last,
        cached_tokens_last=seen.cached_tokens_last,
        running_last=seen.running_last,
        waiting_last=seen.waiting_last,
        kv_usage_last=seen.kv_usage_last,
        mamba_usage_last=seen.mamba_usage_last,
        mamba_usage_max=seen.mamba_usage_max,
    )


def _timeline(boot: Boot) -> tuple[PhaseSpan, ...]:
    """Return the phases in order; a duration is the engine's own, else up to the next phase."""
    spans = sorted(boot.spans.items(), key=lambda item: PHASES.index(item[0]))
    out: list[PhaseSpan] = []
    for index, (phase, span) in enumerate(spans):
        seconds, clock = span.seconds, span.clock
        if seconds is None and clock is not None and phase not in _STATES:
            # (Without a year, New Year runs backwards.)
            later = (s.clock for s in _followers(spans[index:]) if s.clock is not None)
            end = next(later, None)
            seconds = end - clock if end is not None and end >= clock else None
        out.append(
            PhaseSpan(
                phase,
                clock if span.has_year else None,
                None if seconds is None else round(seconds, 3),
            )
        )
    return tuple(out)


def _followers(spans: list[tuple[str, Span]]) -> list[Span]:
    """Return what follows the first phase; a draft that loads after the graphs is left out."""
    here, *rest = spans
    if here[0] == "load_weights" and len(rest) > 1 and rest[0][0] == "load_draft":
        draft, pool = rest[0][1].clock, rest[1][1].clock
        if draft is not None and pool is not None and pool < draft:
            rest = rest[1:]
    return [span for _, span in rest]


def _version_range(boot: Boot) -> tuple[str | None, str | None] | None:
    """Return the releases whose wording fits; ``None`` when it says nothing, or contradicts."""
    if boot.version is not None:
        return None
    since = max(boot.since, key=Version.parse, default=None)
    until = min(boot.until, key=Version.parse, default=None)
    if since is None and until is None:
        return None
    if since is not None and until is not None and Version.parse(since) > Version.parse(until):
        return None
    return since, until
