"""What a serving engine's lines say: kept raw in a bounded window, read for a report."""

from __future__ import annotations

import re
from collections import deque
from dataclasses import dataclass

from qwen_tui_diagnostics.enginelog.lines import LogLine, parse_line

__all__ = ["PINNED_MINIMUM", "RuntimeFacts", "RuntimeWindow"]

WINDOW = 96
"""Lines kept. A report reads all of them, ten times a second at most."""

PINNED_MINIMUM = 5
"""Decode lines at an accept length of 1.00 before the draft head is called broken."""

_IDLE_S = 10.0

_RUNNING = re.compile(r"#running-req: (\d+)")
_QUEUE = re.compile(r"#queue-req: (\d+)")
_GEN = re.compile(r"gen throughput \(token/s\): ([\d.]+)(?=,|$)")
_ACCEPT = re.compile(r"accept len: (\d+\.\d+)")
_USAGE = re.compile(r"(?<!swa )(?:full )?token usage: (\d+\.\d+)")
_MAMBA = re.compile(r"mamba usage: (\d+\.\d+)")
_NEW = re.compile(r"#new-token: (\d+)(?=,)")
_CACHED = re.compile(r"#cached-token: (\d+)(?=,)")

_V_GEN = re.compile(r"Avg generation throughput: ([\d.]+) tokens/s")
_V_RUNNING = re.compile(r"Running: (\d+) reqs?")
_V_WAITING = re.compile(r"(?:Waiting|Pending): (\d+) reqs?")
_V_KV = re.compile(r"(?:GPU|CPU|XPU) KV cache usage: ([\d.]+)%")
_V_HIT = re.compile(r"Prefix cache hit rate: (?:GPU: )?([\d.]+)%")
_V_ACCEPT = re.compile(r"Mean acceptance length: (\d+\.\d+)")
_V_LINE = re.compile(r"throughput|cceptance|Prefix cache hit rate")


@dataclass(slots=True)
class RuntimeFacts:
    """Last values and window values of the runtime lines; ``None`` = not stated."""

    accept_len_last: float | None = None
    prefix_hit_last: float | None = None
    """Percent: vLLM as printed; SGLang's last prefill batch, cached ÷ (cached + new)."""
    gen_tps_last: float | None = None
    """Never a line whose interval holds idle time."""
    cached_tokens_last: int | None = None
    """Of the last prefill batch."""
    running_last: int | None = None
    waiting_last: int | None = None
    kv_usage_last: float | None = None
    """Share, 0 to 1."""
    mamba_usage_last: float | None = None
    """Share, 0 to 1."""
    mamba_usage_max: float | None = None
    """Largest of the window."""
    accept_pinned: bool = False
    """At least :data:`PINNED_MINIMUM` decode lines in the window, all at 1.00."""
    decode_lines: int = 0
    """Decode lines in the window."""
    evidence: LogLine | None = None
    """The last decode line (or speculation line)."""


class RuntimeWindow:
    """The last :data:`WINDOW` runtime lines, and counts of all of them."""

    def __init__(self) -> None:
        self.lines: deque[tuple[int, str]] = deque(maxlen=WINDOW)

    def facts(self) -> RuntimeFacts:
        """Read the window."""
        out = RuntimeFacts()
        state = _Reading()
        # A window that is full begins in the middle of service: nothing is known to be idle.
        for line_number, raw in self.lines:
            line = parse_line(raw, line_number)
            message = line.message
            if message.startswith("Decode batch"):
                _decode(line, message, out, state)
            elif message.startswith("Prefill batch"):
                _prefill(line, message, out, state)
            elif _V_LINE.search(message) is not None:
                _vllm(line, message, out)
        lengths = state.accept_lengths
        out.accept_pinned = len(lengths) >= PINNED_MINIMUM and max(lengths) <= 1.0
        return out


class _Reading:
    """Where each rank is while the window is read."""

    def __init__(self) -> None:
        self.idle: dict[str, bool] = {}
        self.clock: dict[str, float] = {}
        self.accept_lengths: list[float] = []


def _decode(line: LogLine, message: str, out: RuntimeFacts, state: _Reading) -> None:
    rank = line.rank
    edge = state.idle.pop(rank, False)
    if line.clock is not None:
        before = state.clock.get(rank)
        edge = edge or (before is not None and line.clock - before > _IDLE_S)
        state.clock[rank] = line.clock
    if not line.first_rank:
        return
    out.decode_lines += 1
    speed = _float(_GEN, message)
    if speed is not None and not edge:
        out.gen_tps_last = speed
    accept = _float(_ACCEPT, message)
    if accept is not None:
        out.accept_len_last = accept
        state.accept_lengths.append(accept)
        out.evidence = line
    _usage(message, out)


def _prefill(line: LogLine, message: str, out: RuntimeFacts, state: _Reading) -> None:
    running = _int(_RUNNING, message)
    if running == 0:
        state.idle[line.rank] = True
    if line.clock is not None:
        state.clock[line.rank] = line.clock
    if not line.first_rank:
        return
    new, cached = _int(_NEW, message), _int(_CACHED, message)
    if cached is not None:
        out.cached_tokens_last = cached
    if new is not None and cached is not None and new + cached:
        out.prefix_hit_last = round(100.0 * cached / (new + cached), 2)
    _usage(message, out)


def _usage(message: str, out: RuntimeFacts) -> None:
    out.running_last = _or(_int(_RUNNING, message), out.running_last)
    out.waiting_last = _or(_int(_QUEUE, message), out.waiting_last)
    usage = _float(_USAGE, message)
    out.kv_usage_last = usage if usage is not None else out.kv_usage_last
    mamba = _float(_MAMBA, message)
    if mamba is not None:
        out.mamba_usage_last = mamba
        out.mamba_usage_max = max(mamba, out.mamba_usage_max or 0.0)


def _vllm(line: LogLine, message: str, out: RuntimeFacts) -> None:
    speed = _float(_V_GEN, message)
    running = _int(_V_RUNNING, message)
    if speed is not None and (speed > 0 or running):
        # An average over ten seconds that were idle is no speed.
        out.gen_tps_last = speed
    out.running_last = _or(running, out.running_last)
    out.waiting_last = _or(_int(_V_WAITING, message), out.waiting_last)
    usage = _float(_V_KV, message)
    if usage is not None:
        out.kv_usage_last = round(usage / 100.0, 4)
    hit = _float(_V_HIT, message)
    out.prefix_hit_last = hit if hit is not None else out.prefix_hit_last
    accept = _float(_V_ACCEPT, message)
    if accept is not None:
        out.accept_len_last = accept
        out.evidence = line


def _float(pattern: re.Pattern[str], text: str) -> float | None:
    match = pattern.search(text)
    if match is None:
        return None
    try:
        return float(match[1])
    except ValueError:
        return None


def _int(pattern: re.Pattern[str], text: str) -> int | None:
    match = pattern.search(text)
    return int(match[1]) if match is not None and len(match[1]) < 20 else None


def _or(value: int | None, fallback: int | None) -> int | None:
    return fallback if value is None else value
