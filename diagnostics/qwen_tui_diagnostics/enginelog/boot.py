"""What is known of one boot while its lines come in."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from qwen_tui_diagnostics.enginelog.arguments import parse_argv, parse_repr
from qwen_tui_diagnostics.enginelog.death import DeathTracker
from qwen_tui_diagnostics.enginelog.report import PHASES
from qwen_tui_diagnostics.enginelog.runtime import RuntimeWindow

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from qwen_tui_diagnostics.enginelog.changes import ChangeSeen
    from qwen_tui_diagnostics.enginelog.grammar import Row
    from qwen_tui_diagnostics.enginelog.lines import LogLine
    from qwen_tui_profiles.findings import Value

__all__ = ["Boot", "Load", "Pool"]

_ORDER = {phase: index for index, phase in enumerate(PHASES)}
_DRAFT_TYPE = re.compile(r"MTP$|NextN$|Eagle3?$|Draft|Medusa|DFlash")
_DRAFTED = re.compile(r"""num_spec(?:ulative)?_tokens['"]?\s*[=:]\s*(\d{1,6})""")
_MAX_CHANGES = 64
_MAX_UNREAD = 200
_MAX_RANKS = 64


@dataclass(slots=True)
class Fact:
    """A value, the line that states it, and whether rank 0 said so."""

    value: Value
    line: LogLine
    first_rank: bool


@dataclass(slots=True)
class Load:
    """One model's weights on one rank."""

    begin: LogLine | None = None
    end: LogLine | None = None
    avail_before: float | None = None
    avail_after: float | None = None
    usage: float | None = None
    elapsed: float | None = None
    type: str = ""
    draft: bool = False


@dataclass(slots=True)
class Pool:
    """One KV pool as it was allocated."""

    line: LogLine
    tokens: int | None
    gib: float | None
    draft: bool


@dataclass(slots=True)
class Span:
    """When a phase ran."""

    started: float | None
    seconds: float | None = None
    """As the engine states it."""
    rank: str = ""


@dataclass(slots=True)
class Boot:
    """One start of an engine, from its arguments to its end."""

    index: int
    first_line: int
    asked_argv: Sequence[str] | None = None
    engine: str | None = None
    version: str | None = None
    args: dict[str, Value] = field(default_factory=dict)
    """SGLang: resolved arguments. vLLM: the engine's configuration line."""
    asked: dict[str, Value] = field(default_factory=dict)
    """vLLM: non-default arguments."""
    asked_known: bool = False
    """Whether the log shows what was asked apart from the defaults."""
    args_line: LogLine | None = None
    facts: dict[str, Fact] = field(default_factory=dict)
    phase: str | None = None
    spans: dict[str, Span] = field(default_factory=dict)
    loads: dict[str, list[Load]] = field(default_factory=dict)
    pools: list[Pool] = field(default_factory=list)
    pool_end: LogLine | None = None
    avail: list[tuple[str, float, LogLine]] = field(default_factory=list)
    """Free memory along the boot on rank 0: (where, GiB, line)."""
    graphs_gib: float | None = None
    graph_line: LogLine | None = None
    memory_line: LogLine | None = None
    """vLLM's summary of all terms."""
    secrets: set[str] = field(default_factory=set)
    """Values that must not come out, as the arguments show them."""
    changes: list[ChangeSeen] = field(default_factory=list)
    death: DeathTracker = field(default_factory=DeathTracker)
    window: RuntimeWindow = field(default_factory=RuntimeWindow)
    ready_line: LogLine | None = None
    uvicorn_ready: LogLine | None = None
    has_boot_lines: bool = False
    served: int = 0
    """Generation requests answered with 200."""
    prefills: int = 0
    decodes: int = 0
    engine_lines: int = 0
    read_lines: int = 0
    unread: list[tuple[int, str]] = field(default_factory=list)
    since: set[str] = field(default_factory=set)
    until: set[str] = field(default_factory=set)

    # --- reading ---------------------------------------------------------------------------------

    def take(self, row: Row, fields: Mapping[str, Value], line: LogLine) -> None:
        """Apply one recognised line."""
        if row.engine is not None:
            self.engine = self.engine or row.engine
            if row.since is not None:
                self.since.add(row.since)
            if row.until is not None:
                self.until.add(row.until)
        if row.boot and row.name != "known":
            self.has_boot_lines = True
        handler = _HANDLERS.get(row.name)
        if handler is not None:
            handler(self, fields, line)
        for name, fact in row.facts.items():
            if name in fields:
                self.state(fact, fields[name], line, last=row.last_wins)
        if row.phase is not None and not (row.phase == "distributed" and self.loads):
            self.enter(row.phase, line, _number(fields.get("elapsed")))

    def state(self, name: str, value: Value, line: LogLine, *, last: bool = False) -> None:
        """Record a fact; rank 0 outranks the others, then the first (or last) word stands."""
        known = self.facts.get(name)
        first_rank = line.first_rank
        if (
            known is None
            or (first_rank and not known.first_rank)
            or (last and first_rank == known.first_rank)
        ):
            self.facts[name] = Fact(value, line, first_rank)

    def enter(self, phase: str, line: LogLine, seconds: float | None = None) -> None:
        """Move on to ``phase`` (never backwards, but for a draft that loads after the graphs)."""
        here = _ORDER.get(self.phase or "", -1)
        target = _ORDER[phase]
        if self.phase == "stopping":
            return
        if target > here or (phase == "load_draft" and here < _ORDER["tree_cache"]):
            self.phase = phase
        clock = line.clock if line.has_year else None
        span = self.spans.get(phase)
        if span is None:
            span = self.spans[phase] = Span(clock, rank=line.rank)
        elif span.started is None:
            span.started = clock
        if seconds is not None and line.rank == span.rank:
            span.seconds = (span.seconds or 0.0) + seconds

    def change(self, seen: ChangeSeen) -> None:
        """Record an announced change; ranks repeat it."""
        key = (seen.change.arg, seen.change.name, seen.asked, seen.got)
        self.engine = self.engine or seen.change.engine
        if seen.change.since is not None:
            self.since.add(seen.change.since)
        if seen.change.until is not None:
            self.until.add(seen.change.until)
        self.has_boot_lines = True
        if seen.change.args_phase:
            self.enter("args", seen.line)
        if len(self.changes) < _MAX_CHANGES and all(
            (c.change.arg, c.change.name, c.asked, c.got) != key for c in self.changes
        ):
            self.changes.append(seen)
        if seen.change.name == "mamba_cap":
            self.state("mamba_slots", seen.groups.get("slots"), seen.line)
            self.state("mamba_slots_per_request", seen.groups.get("per"), seen.line)

    def batch(self, number: int, line: str) -> None:
        """Count a prefill or decode line and keep it in the window (this runs very often)."""
        self.engine_lines += 1
        self.read_lines += 1
        self.window.lines.append((number, line))
        if "Decode batch" in line:
            self.decodes += 1
        else:
            self.prefills += 1
        if self.death.pending:
            self.death.progress()

    def runtime(self, line: LogLine) -> None:
        """Keep a line of vLLM's running averages."""
        self.window.lines.append((line.number, line.text))
        self.decodes += 1

    def drafted(self) -> int | None:
        """Return vLLM's number of speculative tokens, from either argument line."""
        for text in (self.asked.get("speculative_config"), self.args.get("speculative_config")):
            match = _DRAFTED.search(str(text)) if text is not None else None
            if match is not None:
                return int(match[1])
        tokens = self.asked.get("num_speculative_tokens")
        return tokens if isinstance(tokens, int) else None

    def miss(self, line: LogLine) -> None:
        """Keep a line of the engine that nothing recognised."""
        if len(self.unread) < _MAX_UNREAD:
            self.unread.append((line.number, line.text[:2000]))

    # --- what was asked --------------------------------------------------------------------------

    def requested(self) -> dict[str, Value] | None:
        """Return what the operator typed, by field; ``None`` when that is not known."""
        if self.asked_argv is not None:
            return parse_argv(self.asked_argv, self.engine)
        if self.engine == "vllm" and self.args_line is not None and self.asked_known:
            return self.asked
        return None

    @property
    def serving(self) -> bool:
        """Whether requests are known to be served (its lines need no closer look)."""
        return self.phase == "serving" and self.engine is not None

    @property
    def over(self) -> bool:
        """Whether this boot came to an end, or so far that its arguments cannot come again."""
        return self.ready_line is not None or self.death.dead or self.death.stop is not None

    @property
    def ready(self) -> bool:
        """Whether this boot reached readiness, or is seen serving."""
        if self.ready_line is not None:
            return True
        if self.engine == "vllm" and self.uvicorn_ready is not None:
            return True
        if self.has_boot_lines or self.uvicorn_ready is not None:
            return False
        # A log that begins after the boot: one prefill or one answer may still be the warm-up.
        return self.decodes > 0 or self.prefills > 1 or self.served > 1


def _number(value: Value) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _int(value: Value) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


# --- handlers of rows that need more than a fact -------------------------------------------------


def _server_args(boot: Boot, _: Mapping[str, Value], line: LogLine) -> None:
    boot.args = parse_repr(line.message.partition("server_args=")[2], boot.secrets)
    boot.args_line = line


def _non_default(boot: Boot, _: Mapping[str, Value], line: LogLine) -> None:
    boot.asked = parse_repr(line.message.partition("non-default args: ")[2], boot.secrets)
    boot.asked_known = True
    boot.args_line = line


def _namespace(boot: Boot, _: Mapping[str, Value], line: LogLine) -> None:
    boot.args = parse_repr(line.message.partition("args: ")[2], boot.secrets)
    boot.args_line = line


def _version(boot: Boot, fields: Mapping[str, Value], _: LogLine) -> None:
    version = fields.get("version")
    if version is not None and boot.version is None:
        boot.version = str(version)


def _engine_config(boot: Boot, fields: Mapping[str, Value], line: LogLine) -> None:
    _version(boot, fields, line)
    head, config, body = line.message.partition("with config: ")
    if config and head:
        boot.args.update(parse_repr("config(" + body + ",)", boot.secrets))


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
    if load.usage is None and load.avail_before is not None and load.avail_after is not None:
        load.usage = round(load.avail_before - load.avail_after, 2)
    if load.usage is not None:
        boot.state("draft_mem_usage_gb" if draft else "mem_usage_gb", load.usage, line)
    if kind and not draft:
        boot.state("architecture", kind, line)
    for name in ("quant", "bits"):
        value = fields.get(name)
        if value is not None and not draft:
            boot.state("quantization" if name == "quant" else "quantization_bits", value, line)
    _avail(boot, "draft loaded" if draft else "weights loaded", load.avail_after, line)
    boot.enter("load_draft" if draft else "load_weights", line, load.elapsed)


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
    parts = [_number(fields.get(name)) for name in ("k_gb", "v_gb", "kv_gb")]
    known = [p for p in parts if p is not None]
    gib = round(sum(known), 4) if known else None
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


def _memory_summary(boot: Boot, _: Mapping[str, Value], line: LogLine) -> None:
    if boot.memory_line is None or (line.first_rank and not boot.memory_line.first_rank):
        boot.memory_line = line


def _ready(boot: Boot, _: Mapping[str, Value], line: LogLine) -> None:
    boot.ready_line = boot.ready_line or line


def _uvicorn_ready(boot: Boot, _: Mapping[str, Value], line: LogLine) -> None:
    boot.uvicorn_ready = boot.uvicorn_ready or line
    if boot.engine == "vllm":
        boot.enter("ready", line)


_HANDLERS: Mapping[str, Callable[[Boot, Mapping[str, Value], LogLine], None]] = {
    "server_args": _server_args,
    "non_default_args": _non_default,
    "args": _namespace,
    "version": _version,
    "logo": _version,
    "engine_config": _engine_config,
    "load_begin": _load_begin,
    "draft_format": _draft_begins,
    "load_end": _load_end,
    "mamba_pool": _mamba,
    "kv_pool": _kv_pool,
    "kv_resized": _kv_resized,
    "pool_end": _pool_end,
    "graph": _graph,
    "memory_summary": _memory_summary,
    "ready": _ready,
    "uvicorn_ready": _uvicorn_ready,
}
