"""What a boot's figures mean beyond clamps: idle memory, a dead draft, thin margins."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qwen_tui_diagnostics.enginelog.budget import late_freed
from qwen_tui_profiles.findings import Finding, Severity
from qwen_tui_profiles.text import t

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from qwen_tui_diagnostics.enginelog.boot import Boot
    from qwen_tui_diagnostics.enginelog.runtime import RuntimeFacts
    from qwen_tui_profiles.findings import Value

__all__ = ["insights_of"]

_SMALL_POOL = 32_768
"""Tokens: a pool below this while gigabytes stay idle is worth a word."""
_IDLE_GIB = 2.0
_CHARGED_GIB = 1.0


def insights_of(
    boot: Boot, facts: Mapping[str, Value], seen: RuntimeFacts | None
) -> Iterator[Finding]:
    """Yield findings, the most costly first."""
    if boot.printed_by != "vllm":
        yield from _draft_path(boot)
        yield from _late(boot)
        yield from _idle(boot, facts)
        yield from _margin(boot, facts)
        yield from _small_host_cache(boot, facts)
    if seen is not None:
        yield from _pinned(seen)
        yield from _full(boot, seen)


def _number(value: Value) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _draft_path(boot: Boot) -> Iterator[Finding]:
    """A draft path makes 0.5.14 to 0.5.17 charge the KV budget five times per token."""
    args = boot.args
    first = next((gib for where, gib, _ in boot.avail if where == "pools allocated"), None)
    free = boot.facts.get("free_before_load_gib")
    share = _number(args.get("mem_fraction_static"))
    if (
        args.get("speculative_draft_model_path") is None
        or args.get("max_total_tokens") is not None
        or first is None
        or share is None
        or free is None
        or not isinstance(free.value, int | float)
    ):
        return
    idle = round(first - float(free.value) * (1.0 - share), 1)
    if idle < _CHARGED_GIB:
        return
    yield Finding(
        rule="log.draft_path_charge",
        severity=Severity.WARN,
        title=t(
            "{idle} GiB stay idle: with --speculative-draft-model-path this version charges the KV "
            "budget for layers that the draft does not have.",
            idle=idle,
        ),
        evidence=t(
            "{after} GB free after the pools, {before} GB before the weights, {share}",
            after=first,
            before=free.value,
            share=share,
        ),
        source="recorded boots on an H200, SGLang 0.5.17",
        since="0.5.14",
        until="0.5.17",
        remedy=t(
            "Drop --speculative-draft-model-path (the head loads from the model itself), or use "
            "0.5.18 or later."
        ),
    )


def _late(boot: Boot) -> Iterator[Finding]:
    late = late_freed(boot)
    if late is None:
        return
    gib, before, after = late
    yield Finding(
        rule="log.late_freed",
        severity=Severity.INFO,
        title=t("{gib} GiB came back after the KV pool was sized: too late for it.", gib=gib),
        evidence=t("lines {first} and {last}", first=before.number, last=after.number),
        source="SGLang 0.5.14 to 0.5.23: the draft's own embedding and head are dropped late",
        since="0.5.14",
        until=None,
        remedy=t("It is head-room now: --mem-fraction-static can be raised by about that much."),
    )


def _idle(boot: Boot, facts: Mapping[str, Value]) -> Iterator[Finding]:
    free = boot.facts.get("available_gpu_mem_gb") or boot.facts.get("pool_end_avail_gb")
    tokens = _number(facts.get("kv_tokens"))
    gib = _number(free.value) if free is not None else None
    if free is None or gib is None or tokens is None or gib < _IDLE_GIB or tokens >= _SMALL_POOL:
        return
    if boot.args.get("max_total_tokens") is not None:
        return
    yield Finding(
        rule="log.idle_memory",
        severity=Severity.WARN,
        title=t(
            "{gib} GB stay free beside a KV pool of only {tokens} tokens.",
            gib=gib,
            tokens=f"{int(tokens):,}",
        ),
        evidence=t("line {number}", number=free.line.number),
        source="printed figures",
        since=None,
        until=None,
        remedy=t(
            "Raise --mem-fraction-static; with a draft path on 0.5.14 to 0.5.17, drop the path."
        ),
    )


def _margin(boot: Boot, facts: Mapping[str, Value]) -> Iterator[Finding]:
    slots, per = facts.get("mamba_slots"), facts.get("mamba_slots_per_request")
    running = facts.get("max_running_requests_effective")
    if not (isinstance(slots, int) and isinstance(per, int) and isinstance(running, int)):
        return
    if per < 2 or slots >= per * running + 1:
        return
    line = boot.facts["mamba_slots"].line
    yield Finding(
        rule="log.slot_margin",
        severity=Severity.WARN,
        title=t(
            "{slots} state slots for {running} requests of {per} leave none over: a prefix "
            "checkpoint may find none (\"Can not alloc mamba cache\"), and no prefix stays cached.",
            slots=slots,
            running=running,
            per=per,
        ),
        evidence=t("line {number}", number=line.number),
        source="sgl-project/sglang #37066, #37943",
        since="0.5.13",
        until=None,
        remedy=t("Give at least {slots} slots.", slots=per * running + 1),
    )  # fmt: skip


def _small_host_cache(boot: Boot, facts: Mapping[str, Value]) -> Iterator[Finding]:
    """A host pool below the GPU's holds little that the GPU does not hold as well."""
    host, tokens = boot.facts.get("hicache_host_tokens"), facts.get("kv_tokens")
    if host is None or not isinstance(host.value, int) or not isinstance(tokens, int):
        return
    if host.value >= tokens:
        return
    yield Finding(
        rule="log.hicache_small",
        severity=Severity.WARN,
        title=t(
            "HiCache holds {host} tokens in host memory, fewer than the {tokens} of the KV pool: "
            "it brings little.",
            host=f"{host.value:,}",
            tokens=f"{tokens:,}",
        ),
        evidence=t("line {number}", number=host.line.number),
        source="recorded boot tiny-hicache, 0.5.17",
        since="0.5.17",
        until=None,
        remedy=t("Raise --hicache-size (GB a rank) or --hicache-ratio, or turn HiCache off."),
    )


def _pinned(seen: RuntimeFacts) -> Iterator[Finding]:
    if not seen.accept_pinned:
        return
    yield Finding(
        rule="log.accept_pinned",
        severity=Severity.WARN,
        title=t(
            "The accept length stays at 1.00 over {count} lines: no drafted token is ever taken.",
            count=seen.decode_lines,
        ),
        evidence="" if seen.evidence is None else t("line {number}", number=seen.evidence.number),
        source="accept length counts the bonus token: 1.00 means nothing was accepted",
        since=None,
        until=None,
        remedy=t(
            "The draft head does not work with this checkpoint (missing or wrong mtp tensors, a "
            "quantised head): verify the checkpoint, or turn speculation off."
        ),
    )


def _full(boot: Boot, seen: RuntimeFacts) -> Iterator[Finding]:
    if not seen.waiting_last:
        return
    if seen.kv_usage_last is not None and seen.kv_usage_last >= 0.9:
        title = t(
            "{waiting} wait while the KV pool is {share} % full: the pool is the limit.",
            waiting=seen.waiting_last,
            share=round(seen.kv_usage_last * 100, 1),
        )
    elif seen.mamba_usage_last is not None and seen.mamba_usage_last >= 0.85:
        title = t(
            "{waiting} wait while {share} % of the state slots are taken: the slots are the limit.",
            waiting=seen.waiting_last,
            share=round(seen.mamba_usage_last * 100, 1),
        )
    else:
        return
    yield Finding(
        rule="log.bound",
        severity=Severity.INFO,
        title=title,
        evidence=boot.printed_by or "",
        source="the last runtime line",
        since=None,
        until=None,
        remedy=None,
    )
