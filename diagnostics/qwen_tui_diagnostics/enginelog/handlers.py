"""What each kind of line changes in what is known of a boot."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from qwen_tui_diagnostics.enginelog.arguments import is_open, parse_repr
from qwen_tui_diagnostics.enginelog.boot import Load, Pool

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from qwen_tui_diagnostics.enginelog.boot import Boot
    from qwen_tui_diagnostics.enginelog.grammar import Row
    from qwen_tui_diagnostics.enginelog.lines import LogLine
    from qwen_tui_profiles.findings import Value

__all__ = ["apply", "continue_args"]

_DRAFT_TYPE = re.compile(r"MTP$|NextN$|Eagle3?$|Draft|Medusa|DFlash")
_TIMED = {"load_end", "graph"}
"""vLLM's rows whose ``seconds`` are those of their phase."""
_MAX_RANKS = 64
_MAX_ARGS = 64 * 1024
_NO_CONTINUATION = re.compile(r"\s\s|Traceback|/\S+:\d+: \w+Warning|[\w.]+Error\b|.*\d%\||$")


def apply(boot: Boot, row: Row, fields: Mapping[str, Value], line: LogLine) -> None:
    """Apply one recognised line."""
    if row.engine is not None and row.name != "known":
        boot.engine = boot.engine or row.engine
        if row.since is not None:
            boot.since.add(row.since)
        if row.until is not None:
            boot.until.add(row.until)
    if row.boot and row.name != "known":
        boot.has_boot_lines = True
    handler = _HANDLERS.get(row.name)
    if handler is not None:
        handler(boot, fields, line)
    for name, fact in row.facts.items():
        if name in fields:
            boot.state(fact, fields[name], line, last=row.last_wins, engine=row.engine)
    if row.phase is not None and not (row.phase == "distributed" and boot.loads):
        stated = fields.get("elapsed", fields.get("seconds") if row.name in _TIMED else None)
        boot.enter(row.phase, line, _number(stated))


def _number(value: Value) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _int(value: Value) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


# --- handlers of rows that need more than a fact --------------------------------------------


def _server_args(boot: Boot, _: Mapping[str, Value], line: LogLine) -> None:
    boot.args_line = line
    _take_args(boot, line.message.partition("server_args=")[2])


def _non_default(boot: Boot, _: Mapping[str, Value], line: LogLine) -> None:
    boot.args_line = line
    boot.asked_known = True
    _take_args(boot, line.message.partition("non-default args: ")[2])


def _namespace(boot: Boot, _: Mapping[str, Value], line: LogLine) -> None:
    boot.args_line = line
    _take_args(boot, line.message.partition("args: ")[2])


def _take_args(boot: Boot, text: str) -> None:
    found = parse_repr(text, boot.secrets)
    if boot.asked_known:
        boot.asked = found
    else:
        boot.args = found
    boot.open_args = text if is_open(text) else None


def continue_args(boot: Boot, line: LogLine) -> bool:
    """Take a line without head that continues an argument dump which a terminal wrapped."""
    text = boot.open_args
    if text is None:
        return False
    if (
        line.engine is not None
        or len(text) > _MAX_ARGS
        or _NO_CONTINUATION.match(line.text) is not None
    ):
        _take_args(boot, text)  # what came of it
        boot.open_args = None
        return False
    text += line.text
    if text.endswith((")", "}")):
        _take_args(boot, text)
    else:
        boot.open_args = text
    return True


def _version(boot: Boot, fields: Mapping[str, Value], _: LogLine) -> None:
    version = fields.get("version")
    if version is not None and boot.version is None:
        boot.version = str(version)


def _engine_config(boot: Boot, fields: Mapping[str, Value], line: LogLine) -> None:
    _version(boot, fields, line)
    head, config, body = line.message.partition("with config: ")
    if config and head:
        boot.config_line = boot.config_line or line
        boot.args.update(parse_repr(f"config({body},)", boot.secrets, bare_words=True))


def _rank_loads(boot: Boot, line: LogLine) -> list[Load] | None:
    if line.rank not in boot.loads and len(boot.loads) >= _MAX_RANKS:
        return None
    loads = boot.loads.setdefault(line.rank, [])
    return loads if len(loads) < 8 else None


def _load_begin(boot: Boot, fields: Mapping[str, Value], line: LogLine) -> None:
    loads = _rank_loads(boot, line)
    if loads is None or boot.engine == "vllm":
        return
    draft = any(load.end is not None for load in loads)
    avail = _number(fields.get("avail"))
    loads.append(Load(begin=line, avail_before=avail, draft=draft))
    _avail(boot, "load begin", avail, line)
    if avail is not None and not draft:
        boot.state("free_before_load_gib", avail, line)
    boot.enter("load_draft" if draft else "load_weights", line)


def _draft_begins(boot: Boot, _: Mapping[str, Value], line: LogLine) -> None:
    boot.enter("load_draft", line)


def _load_over(boot: Boot, _: Mapping[str, Value], line: LogLine) -> None:
    """End the loading where its engine states no time: what follows is compilation."""
    span = boot.spans.get(boot.phase or "")
    if boot.phase not in {"load_weights", "load_draft"} or span is None or span.clock is None:
        return
    if span.seconds is None and line.clock is not None:
        span.seconds = max(0.0, line.clock - span.clock)


def _load_end(boot: Boot, fields: Mapping[str, Value], line: LogLine) -> None:
    if boot.engine == "vllm":
        return
    loads = _rank_loads(boot, line)
    if loads is None:
        return
    kind = str(fields.get("type") or "")
    earlier = any(load.end is not None for load in loads)
    draft = _DRAFT_TYPE.search(kind) is not None or (earlier and _speculates(boot))
    if earlier and not draft:
        return  # a second line about the same model
    if not loads or loads[-1].end is not None:
        loads.append(Load())
    load = loads[-1]
    load.end, load.type, load.draft = line, kind, draft
    load.avail_after = _number(fields.get("avail"))
    load.usage = _number(fields.get("usage"))
    load.elapsed = _number(fields.get("elapsed"))
    if (
        load.usage is None
        and load.avail_before is not None
        and load.avail_after is not None
        and not line.cut
    ):
        # 0.4.x prints no usage.
        load.usage = round(load.avail_before - load.avail_after, 2)
    if load.usage is not None:
        boot.state("draft_mem_usage_gb" if draft else "mem_usage_gb", load.usage, line)
    if kind and not draft:
        boot.state("architecture", kind, line)
    for name in ("quant", "bits"):
        value = fields.get(name)
        if value is not None and not draft:
            boot.state("quantization" if name == "quant" else "quantization_bits", value, line)
    if load.elapsed is None and load.begin is not None:
        load.elapsed = _between(load.begin, line)  # printed from 0.5.9 on
    _avail(boot, "draft loaded" if draft else "weights loaded", load.avail_after, line)
    boot.enter("load_draft" if draft else "load_weights", line, load.elapsed)


def _between(begin: LogLine, end: LogLine) -> float | None:
    if begin.clock is None or end.clock is None or end.clock < begin.clock:
        return None
    return end.clock - begin.clock


def _speculates(boot: Boot) -> bool:
    return not boot.args or boot.args.get("speculative_algorithm") is not None


def _avail(boot: Boot, where: str, gib: float | None, line: LogLine) -> None:
    if gib is not None and line.first_rank and len(boot.avail) < 64:
        boot.avail.append((where, gib, line))


def _mamba(boot: Boot, fields: Mapping[str, Value], line: LogLine) -> None:
    slots = fields.get("slots")
    if slots is not None:
        boot.state("mamba_slots", slots, line)
    for name, fact in (
        ("conv_gb", "mamba_conv_gb"),
        ("ssm_gb", "mamba_ssm_gb"),
        ("inter_ssm_gb", "mamba_intermediate_ssm_gb"),
        ("inter_conv_gb", "mamba_intermediate_conv_gb"),
    ):
        if name in fields:
            boot.state(fact, fields[name], line)


def _kv_pool(boot: Boot, fields: Mapping[str, Value], line: LogLine) -> None:
    keys, values, gib = (_number(fields.get(name)) for name in ("k_gb", "v_gb", "kv_gb"))
    if keys is not None and values is not None:
        gib = round(keys + values, 4)
    draft = (
        line.first_rank
        and any(p.line.rank == line.rank for p in boot.pools)
        and boot.pool_end is not None
    )
    if len(boot.pools) < 64:
        boot.pools.append(Pool(line, _int(fields.get("tokens")), gib, draft))
    if draft:
        if gib is not None:
            boot.state("draft_kv_gb", gib, line)
        return
    if fields.get("tokens") is not None:
        boot.state("kv_tokens", fields["tokens"], line)
    if fields.get("dtype") is not None:
        boot.state("kv_dtype", fields["dtype"], line)
    if gib is not None:
        boot.state("kv_gb", gib, line)


def _kv_resized(boot: Boot, fields: Mapping[str, Value], line: LogLine) -> None:
    if fields.get("tokens") is not None:
        boot.state("kv_tokens", fields["tokens"], line, last=True)
    if fields.get("kv_gb") is not None:
        boot.state("kv_gb", fields["kv_gb"], line, last=True)


def _pool_end(boot: Boot, fields: Mapping[str, Value], line: LogLine) -> None:
    if line.first_rank or boot.pool_end is None:
        boot.pool_end = line
    avail = _number(fields.get("avail"))
    if avail is not None:
        boot.state("pool_end_avail_gb", avail, line, last=True)
    _avail(boot, "pools allocated", avail, line)


def _graph(boot: Boot, fields: Mapping[str, Value], line: LogLine) -> None:
    edge = fields.get("edge")
    _avail(boot, f"graph capture {edge}", _number(fields.get("avail")), line)
    usage = _number(fields.get("usage"))
    if usage is not None and line.first_rank:
        boot.graphs_gib = round((boot.graphs_gib or 0.0) + usage, 4)
        boot.graph_line = boot.graph_line or line


def _tree_cache(boot: Boot, _: Mapping[str, Value], line: LogLine) -> None:
    if "impl=" in line.message:
        boot.tree_line = line


def _memory_summary(boot: Boot, _: Mapping[str, Value], line: LogLine) -> None:
    if boot.memory_line is None or (line.first_rank and not boot.memory_line.first_rank):
        boot.memory_line = line


def _launcher(boot: Boot, _: Mapping[str, Value], __: LogLine) -> None:
    boot.launcher_seen = True


def _ready(boot: Boot, _: Mapping[str, Value], line: LogLine) -> None:
    boot.ready_line = boot.ready_line or line


def _uvicorn_ready(boot: Boot, _: Mapping[str, Value], line: LogLine) -> None:
    boot.uvicorn_ready = boot.uvicorn_ready or line
    if boot.engine == "vllm":
        boot.enter("ready", line)
        span = boot.spans["ready"]
        if span.clock is None and boot.clock is not None:
            # uvicorn's line carries no clock: it came right after the engine's last one.
            span.clock, span.has_year = boot.clock


_HANDLERS: Mapping[str, Callable[[Boot, Mapping[str, Value], LogLine], None]] = {
    "launcher": _launcher,
    "server_args": _server_args,
    "non_default_args": _non_default,
    "args": _namespace,
    "version": _version,
    "logo": _version,
    "engine_config": _engine_config,
    "load_begin": _load_begin,
    "draft_format": _draft_begins,
    "load_end": _load_end,
    "load_over": _load_over,
    "mamba_pool": _mamba,
    "kv_pool": _kv_pool,
    "kv_resized": _kv_resized,
    "pool_end": _pool_end,
    "graph": _graph,
    "memory_summary": _memory_summary,
    "tree_cache": _tree_cache,
    "ready": _ready,
    "uvicorn_ready": _uvicorn_ready,
}
