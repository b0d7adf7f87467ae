"""The streaming reader: bytes in, a report of the last boot out, at any moment."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qwen_tui_diagnostics.enginelog.boot import Boot
from qwen_tui_diagnostics.enginelog.build import build_report
from qwen_tui_diagnostics.enginelog.handlers import apply, continue_args
from qwen_tui_diagnostics.enginelog.index import StartIndex
from qwen_tui_diagnostics.enginelog.lines import (
    LogLine,
    RawLines,
    learn_prefix,
    parse_line,
    stream_of,
)
from qwen_tui_diagnostics.enginelog.sglang_args import SGLANG_ARGUMENT_CHANGES
from qwen_tui_diagnostics.enginelog.sglang_boot import SGLANG_BOOT
from qwen_tui_diagnostics.enginelog.sglang_choices import SGLANG_CHOICES
from qwen_tui_diagnostics.enginelog.sglang_known import SGLANG_KNOWN
from qwen_tui_diagnostics.enginelog.sglang_pools import SGLANG_POOL_CHANGES
from qwen_tui_diagnostics.enginelog.shared_rows import SHARED_ROWS
from qwen_tui_diagnostics.enginelog.vllm_boot import VLLM_BOOT
from qwen_tui_diagnostics.enginelog.vllm_changes import VLLM_CHANGES
from qwen_tui_diagnostics.enginelog.vllm_known import VLLM_KNOWN

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qwen_tui_diagnostics.enginelog.changes import Change
    from qwen_tui_diagnostics.enginelog.grammar import Row
    from qwen_tui_diagnostics.enginelog.report import LogReport

__all__ = ["KEPT_BOOTS", "LogReader"]

KEPT_BOOTS = 64
"""Reports of earlier boots that are kept: the latest ones, and the one that was asked for."""

_MAX_LEARNED = 80
_MAX_STREAMS = 16
_ROWS: StartIndex[Row] = StartIndex((*SGLANG_BOOT, *VLLM_BOOT, *SHARED_ROWS))
_CHANGES = StartIndex(
    (*SGLANG_ARGUMENT_CHANGES, *SGLANG_POOL_CHANGES, *SGLANG_CHOICES, *VLLM_CHANGES)
)
_KNOWN: StartIndex[Row] = StartIndex((*SGLANG_KNOWN, *VLLM_KNOWN))
_ARGUMENT_ROWS = {"server_args", "non_default_args", "args"}
_RUNTIME_ROWS = {"stats", "spec_stats"}
_SERVED = ("/generate ", "/completions ", "/responses ", "/messages ")

# What a benchmark or evaluation client prints, and no server does.
_CLIENT = (
    "Serving Benchmark Result",
    "bench_serving.py",
    "Starting initial single prompt test run",
    "Output token throughput (tok/s)",
    "Benchmark duration (s)",
    "Traffic request rate:",
    "Mean TTFT (ms)",
    "lm_eval",
    "GuideLLM",
    "genai-perf",
)


class LogReader:
    """Reads an engine log as it grows.

    Feed bytes in chunks of any size; ask for :meth:`report` at any moment. Memory does not grow
    with the log.
    """

    def __init__(self, asked_argv: Sequence[str] | None = None, *, boot: int | None = None) -> None:
        """Start before the first byte.

        Args:
            asked_argv: the engine's command line where we launched it; it says what was asked.
            boot: a boot (from 1) whose report is kept however many follow.
        """
        self._argv = tuple(asked_argv) if asked_argv is not None else None
        self._wanted = boot
        self._raw = RawLines()
        self._number = 0
        self._learned = ""
        self._client = False
        self._finished: dict[int, LogReport] = {}
        self._count = 1
        self._boot = Boot(index=1, first_line=1, asked_argv=self._argv)
        """The boot that the last line belongs to."""
        self._streams: dict[str, Boot] = {}
        """Boots that go on, by the container or pod that prints them (mostly one, unnamed)."""
        self._cached: tuple[int, LogReport] | None = None

    @property
    def boots(self) -> int:
        """How many boots the log holds so far (1 until a second one begins)."""
        return self._count

    @property
    def lines(self) -> int:
        """Complete physical lines read so far."""
        return self._number

    @property
    def replaced(self) -> int:
        """Broken characters in the input, read as U+FFFD."""
        return self._raw.replaced

    def feed(self, data: bytes) -> None:
        """Take the next bytes of the log."""
        self._take(self._raw.feed(data), cut=False)

    def finish(self) -> None:
        """Say that the input has ended: a last line without newline is read too."""
        lines, complete = self._raw.finish()
        # One line alone is a paste, not a log that was cut inside a number.
        self._take(lines, cut=not complete and self._number + len(lines) > 1)

    def report(self, boot: int | None = None) -> LogReport:
        """Return what the last boot says so far, or an earlier one by its number.

        Raises:
            KeyError: there is no such boot, or its report is not kept (:data:`KEPT_BOOTS`).
        """
        number = self._count if boot is None else boot
        if number in self._finished:
            return self._finished[number]
        live = self._live()
        if number not in live:
            raise KeyError(number)
        if number == self._count and self._cached is not None and self._cached[0] == self._number:
            return self._cached[1]
        report = build_report(live[number], client=self._client)
        if number == self._count:
            self._cached = (self._number, report)
        return report

    def reports(self) -> tuple[LogReport, ...]:
        """Return the reports of all boots that are kept, oldest first."""
        numbers = sorted({*self._finished, *self._live()})
        return tuple(self.report(number) for number in numbers)

    def _live(self) -> dict[int, Boot]:
        """Return the boots that a line may still belong to."""
        return {boot.index: boot for boot in (*self._streams.values(), self._boot)}

    # --- lines -------------------------------------------------------------------------------

    def _take(self, lines: list[str], *, cut: bool) -> None:
        """Sort lines: the two kinds that fill a service's log cost almost nothing."""
        number = self._number
        boot = self._boot
        last = len(lines) - 1 if cut else -1
        for index, line in enumerate(lines):
            number += 1
            if index == last:
                self._number = number
                self._line(line, number, cut=True)
            elif 'HTTP/1.1" ' in line:
                if len(self._streams) > 1:
                    boot = self._switch(line)
                boot.engine_lines += 1
                boot.read_lines += 1
                if boot.served < 2 and "POST /" in line and '" 200' in line:
                    self._access(line)
            elif " batch" in line and ("Decode batch" in line or "Prefill batch" in line):
                if len(self._streams) > 1:
                    boot = self._switch(line)
                if boot.serving:
                    boot.batch(number, line)
                else:
                    self._number = number
                    self._first_batch(line, number)
                    boot = self._boot
            elif line:
                self._number = number
                self._line(line, number)
                boot = self._boot
        self._number = number

    def _access(self, line: str) -> None:
        if any(path in line for path in _SERVED):
            boot = self._boot
            boot.served += 1
            if boot.engine is None:
                vllm = "(APIServer" in line  # uvicorn's own lines carry no other sign of vLLM
                boot.engine = "vllm" if vllm else parse_line(line, 0).engine

    def _first_batch(self, line: str, number: int) -> None:
        """Take a runtime line of a boot that was not known to serve; look at it closely."""
        parsed = parse_line(line, number, learned=self._learned)
        if not parsed.message.startswith(("Decode batch", "Prefill batch")):
            self._line(line, number)
            return
        boot = self._boot
        boot.engine = boot.engine or "sglang"
        boot.batch(number, line)
        boot.enter("serving" if boot.ready else "warmup", parsed)

    def _line(self, text: str, number: int, *, cut: bool = False) -> None:
        line = parse_line(text, number, cut=cut, learned=self._learned)
        if not line.text or not self._belongs(line):
            return
        if 'HTTP/1.1" ' in line.message:  # inside a JSON record
            self._boot.engine_lines += 1
            self._boot.read_lines += 1
            if "POST /" in line.message and '" 200' in line.message:
                self._access(line.text)
            return
        if line.engine is not None and line.text[0] != "[":
            prefix = learn_prefix(line)
            if prefix and len(prefix) <= _MAX_LEARNED:
                self._learned = prefix
        read = self._boot.open_args is not None and continue_args(self._boot, line)
        read = read or self._match(line)
        boot = self._boot
        died = boot.death.see(line, boot.phase)
        if line.engine is not None:
            boot.heads[line.engine] = boot.heads.get(line.engine, 0) + 1
            if line.clock is not None:
                boot.clock = line.clock, line.has_year
        elif not read:
            if not self._client:
                self._client = any(mark in line.text for mark in _CLIENT)
            return
        boot.engine_lines += 1
        if read or died:
            boot.read_lines += 1
        else:
            boot.miss(line)

    def _match(self, line: LogLine) -> bool:
        """Apply what the tables say about ``line``; return whether they know it."""
        message = line.message
        known = line.engine is not None and not any(map(str.isalnum, message))  # the logo
        for row in _ROWS.candidates(message):
            fields = None if _foreign(row.engine, line) else row.read(line)
            if fields is None:
                continue
            if self._begins(row, line):
                self._next(line)
            boot = self._boot
            apply(boot, row, fields, line)
            if row.name in _RUNTIME_ROWS:
                boot.runtime(line)
            if row.phase is not None:
                boot.death.progress()
            known = True
            break
        for change in _CHANGES.candidates(message):
            seen = None if _foreign(change.engine, line) else change.read(line)
            if seen is None:
                continue
            if self._announces(change):
                self._next(line)
            self._boot.change(seen)
            return True
        if known:
            return True
        for row in _KNOWN.candidates(message):
            if not _foreign(row.engine, line) and (line.engine is not None or row.engine != "vllm"):
                apply(self._boot, row, {}, line)
                return True
        return False

    # --- boots -------------------------------------------------------------------------------

    def _begins(self, row: Row, line: LogLine) -> bool:
        """Tell whether ``line`` can only stand at the beginning of another boot."""
        boot, name = self._boot, row.name
        started = boot.phase not in {None, "args"}
        if name == "server_args":
            return boot.args_line is not None
        if name in _ARGUMENT_ROWS:
            return boot.args_line is not None and (started or boot.over)
        if name == "launcher":
            return boot.has_boot_lines or boot.over or boot.serving
        if name in {"version", "logo"}:
            return boot.version is not None and (started or boot.over)
        if name in {"dist_begin", "load_begin"}:
            return boot.death.closed or boot.ready_line is not None
        return False

    def _announces(self, change: Change) -> bool:
        """Tell whether an announced change belongs to a boot of which nothing was met yet."""
        boot = self._boot
        if boot.ready and boot.has_boot_lines:
            return True  # a server that is ready changes nothing any more
        return change.args_phase and boot.args_line is not None and boot.over

    def _next(self, line: LogLine) -> None:
        """Close the boot of this stream and begin another."""
        old = self._boot
        self._finished[old.index] = build_report(old, client=False)
        if len(self._finished) > KEPT_BOOTS:
            oldest = (number for number in self._finished if number != self._wanted)
            del self._finished[next(oldest)]
        self._begin(old.stream, line.number)

    def _begin(self, stream: str | None, first_line: int) -> None:
        self._count += 1
        self._boot = Boot(
            index=self._count, first_line=first_line, asked_argv=self._argv, stream=stream
        )
        if stream is not None:
            self._streams[stream] = self._boot
        self._cached = None

    # --- several containers in one log -----------------------------------------------------------

    def _belongs(self, line: LogLine) -> bool:
        """Go to the boot of whatever printed ``line``; False when that is no engine."""
        stream = stream_of(line.text)
        if self._boot.stream is None:
            if line.engine is not None:
                self._boot.stream = stream
                self._streams[stream] = self._boot
            return True
        if stream == self._boot.stream or not stream or "" in self._streams:
            # Bars and tracebacks may lack the name; a log that began without names has none.
            return True
        if stream in self._streams:
            self._boot = self._streams[stream]
        elif line.engine is not None and len(self._streams) < _MAX_STREAMS:
            self._begin(stream, line.number)
        else:
            return False
        return True

    def _switch(self, line: str) -> Boot:
        """Go to the boot of a line that is not looked at closely."""
        self._boot = self._streams.get(stream_of(line), self._boot)
        return self._boot


def _foreign(row: str | None, line: LogLine) -> bool:
    """Tell whether the head of ``line`` shows that another engine printed it."""
    return row is not None and line.engine is not None and row != line.engine
