"""What is known of one boot while its lines come in."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, cast

from qwen_tui_diagnostics.enginelog.arguments import parse_argv
from qwen_tui_diagnostics.enginelog.death import DeathTracker
from qwen_tui_diagnostics.enginelog.report import PHASES
from qwen_tui_diagnostics.enginelog.runtime import RuntimeWindow

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from qwen_tui_diagnostics.enginelog.changes import ChangeSeen
    from qwen_tui_diagnostics.enginelog.death import EchoSeen, Hit
    from qwen_tui_diagnostics.enginelog.lines import LogLine
    from qwen_tui_profiles.findings import Value

__all__ = ["REPLICATED", "Boot", "Load", "Pool", "Span"]

REPLICATED: Mapping[str, str] = MappingProxyType(
    {
        "kv_tokens": "kv_tokens_all",
        "max_running_requests_effective": "max_running_requests_all",
    }
)
"""Facts that each data-parallel replica has for itself → what they are called all together."""

_ORDER = {phase: index for index, phase in enumerate(PHASES)}
_DRAFTED = re.compile(r"""num_spec(?:ulative)?_tokens['"]?\s*[=:]\s*(\d{1,6})""")
_MAX_CHANGES = 64
_MAX_REPLICAS = 1024
_MAX_UNREAD = 200


@dataclass(slots=True)
class Fact:
    """A value, the line that states it, and whether rank 0 said so."""

    value: Value
    line: LogLine
    first_rank: bool
    engine: str | None = None
    """Whose wording states it."""


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

    clock: float | None
    """When it began, by the log's clock."""
    has_year: bool = True
    seconds: float | None = None
    """As the engine states it."""
    rank: str | None = None
    """Whose ``seconds`` these are."""
    first_rank: bool = False


@dataclass(slots=True)
class Boot:
    """One start of an engine, from its arguments to its end."""

    index: int
    first_line: int
    asked_argv: Sequence[str] | None = None
    stream: str | None = None
    """Which container's or pod's lines these are; ``None`` until a line of an engine is met."""
    engine: str | None = None
    version: str | None = None
    args: dict[str, Value] = field(default_factory=dict)
    """SGLang: resolved arguments. vLLM: the engine's configuration line."""
    asked: dict[str, Value] = field(default_factory=dict)
    """vLLM: non-default arguments."""
    asked_known: bool = False
    """Whether the log shows what was asked apart from the defaults."""
    args_line: LogLine | None = None
    open_args: str | None = None
    """The argument dump so far, while a terminal's wrapping left it unfinished."""
    facts: dict[str, Fact] = field(default_factory=dict)
    replicas: dict[str, dict[str, Fact]] = field(default_factory=dict)
    """Number of a data-parallel replica → its own :data:`REPLICATED` facts."""
    phase: str | None = None
    spans: dict[str, Span] = field(default_factory=dict)
    clock: tuple[float, bool] | None = None
    """The newest clock of the engine's lines, and whether it has a year."""
    loads: dict[str, list[Load]] = field(default_factory=dict)
    pools: list[Pool] = field(default_factory=list)
    pool_end: LogLine | None = None
    avail: list[tuple[str, float, LogLine]] = field(default_factory=list)
    """Free memory along the boot on rank 0: (where, GiB, line)."""
    graphs_gib: float | None = None
    graph_line: LogLine | None = None
    tree_line: LogLine | None = None
    config_line: LogLine | None = None
    """vLLM's line with the effective configuration."""
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
    heads: dict[str, int] = field(default_factory=dict)
    """Lines by the engine whose head they carry."""
    launcher_seen: bool = False
    """Whether the log shows the very start of the process."""
    served: int = 0
    """Generation requests answered with 200."""
    prefills: int = 0
    decodes: int = 0
    engine_lines: int = 0
    read_lines: int = 0
    unread: list[tuple[int, str]] = field(default_factory=list)
    since: set[str] = field(default_factory=set)
    until: set[str] = field(default_factory=set)

    # --- reading -----------------------------------------------------------------------------

    def state(
        self,
        name: str,
        value: Value,
        line: LogLine,
        *,
        last: bool = False,
        engine: str | None = None,
    ) -> None:
        """Record a fact; rank 0 outranks the others, then the first (or last) word stands.

        Data-parallel replicas size their pools each for itself: of :data:`REPLICATED` the smallest
        one stands, since a request may be sent to any of them.
        """
        replica = line.replica if name in REPLICATED and isinstance(value, int) else None
        if replica not in self.replicas and len(self.replicas) >= _MAX_REPLICAS:
            replica = None
        facts = self.facts if replica is None else self.replicas.setdefault(replica, {})
        known = facts.get(name)
        first_rank = line.first_rank
        if (
            known is None
            or (first_rank and not known.first_rank)
            or (last and first_rank == known.first_rank)
        ):
            facts[name] = Fact(value, line, first_rank, engine)
        if replica is not None:
            self.facts[name] = min(self.of_replicas(name), key=lambda fact: cast("int", fact.value))

    def of_replicas(self, name: str) -> list[Fact]:
        """Return a fact of :data:`REPLICATED` as each data-parallel replica states it."""
        return [facts[name] for facts in self.replicas.values() if name in facts]

    @property
    def attention_replicas(self) -> int:
        """Among how many the limits are shared out: replicas of data-parallel attention only.

        Replicas of plain data parallelism get all of them, each (``attn_dp_size`` of the source;
        seen with ``--dp-size 2`` on two H200, 0.5.17).
        """
        replicas = self.args.get("dp_size")
        shared = self.args.get("enable_dp_attention") is True
        return replicas if shared and isinstance(replicas, int) and replicas > 1 else 1

    def enter(self, phase: str, line: LogLine, seconds: float | None = None) -> None:
        """Move on to ``phase`` (never backwards, but for a draft that loads after the graphs)."""
        here = _ORDER.get(self.phase or "", -1)
        target = _ORDER[phase]
        if self.phase == "stopping":
            return
        if target > here or (phase == "load_draft" and here < _ORDER["tree_cache"]):
            self.phase = phase
        span = self.spans.get(phase)
        if span is None:
            span = self.spans[phase] = Span(line.clock, line.has_year)
        elif span.clock is None:
            span.clock, span.has_year = line.clock, line.has_year
        if seconds is None:
            return
        if span.rank is None or (line.first_rank and not span.first_rank):
            # Ranks state the same phase each for itself: rank 0 counts, else the first to speak.
            span.seconds, span.rank, span.first_rank = seconds, line.rank, line.first_rank
        elif line.rank == span.rank:
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
        if seen.change.arg == "--max-model-len" and isinstance(seen.got, int):
            self.state("context_len", seen.got, seen.line, last=True)
        if seen.change.name == "context":
            self.state("kv_tokens", seen.groups.get("pool"), seen.line)
            self.state("context_len", seen.asked, seen.line)
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

    # --- what was asked ----------------------------------------------------------------------

    def requested(self) -> dict[str, Value] | None:
        """Return what the operator typed, by field; ``None`` when that is not known."""
        if self.asked_argv is not None:
            return parse_argv(self.asked_argv, self.printed_by)
        if self.printed_by == "vllm" and self.args_line is not None and self.asked_known:
            return self.asked
        return None

    @property
    def printed_by(self) -> str | None:
        """The engine: by what it said, else by the shape of most lines, else by how it died."""
        if self.engine is not None:
            return self.engine
        if self.heads:
            return max(self.heads, key=lambda name: self.heads[name])
        causes = (hit.cause.engine for hit in self.death.hits if hit.cause is not None)
        echoes = (seen.echo.engine for seen in self.death.echoes)
        named = next((name for name in (*causes, *echoes) if name is not None), None)
        return named or self.death.package

    def root(self) -> Hit | EchoSeen | None:
        """Return what killed the engine, if the log shows it."""
        return self.death.root(seen_before=self.worked)

    @property
    def worked(self) -> bool:
        """Whether an engine is seen booting or serving."""
        return self.has_boot_lines or self.decodes + self.prefills + self.served > 0

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
        if self.printed_by == "vllm" and self.uvicorn_ready is not None:
            return True
        if self.has_boot_lines or self.uvicorn_ready is not None or self.printed_by is None:
            return False
        # A log that begins after the boot: one prefill or one answer may still be the warm-up.
        return self.decodes > 0 or self.prefills > 1 or self.served > 1
