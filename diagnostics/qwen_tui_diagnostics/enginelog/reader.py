"""The streaming reader: bytes in, a report of the last boot out, at any moment."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qwen_tui_diagnostics.enginelog.boot import Boot
from qwen_tui_diagnostics.enginelog.build import build_report
from qwen_tui_diagnostics.enginelog.lines import LogLine, RawLines, learn_prefix, parse_line
from qwen_tui_diagnostics.enginelog.report import LogReport
from qwen_tui_diagnostics.enginelog.sglang_boot import SGLANG_BOOT
from qwen_tui_diagnostics.enginelog.sglang_changes import SGLANG_CHANGES
from qwen_tui_diagnostics.enginelog.sglang_known import SGLANG_KNOWN
from qwen_tui_diagnostics.enginelog.shared_rows import SHARED_ROWS
from qwen_tui_diagnostics.enginelog.vllm_boot import VLLM_BOOT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qwen_tui_diagnostics.enginelog.grammar import Row

__all__ = ["LogReader"]

_KEPT_REPORTS = 32

_ROWS = (*SGLANG_BOOT, *VLLM_BOOT, *SHARED_ROWS)
_BOOT_ARGS = {"server_args", "non_default_args", "args"}


class LogReader:
    """Reads an engine log as it grows.

    Feed bytes in chunks of any size; ask for :meth:`report` at any moment. Memory does not grow
    with the log.
    """

    def __init__(self, asked_argv: Sequence[str] | None = None) -> None:
        """Start before the first byte.

        Args:
            asked_argv: the engine's command line where we launched it; it says what was asked.
        """
        self._argv = tuple(asked_argv) if asked_argv is not None else None
        self._raw = RawLines()
        self._number = 0
        self._learned = ""
        self._finished: list[LogReport] = []
        self._boot = Boot(index=1, first_line=1, asked_argv=self._argv)
        self._cached: tuple[int, LogReport] | None = None

    @property
    def boots(self) -> int:
        """How many boots the log holds so far (1 until a second one begins)."""
        return self._boot.index

    def feed(self, data: bytes) -> None:
        """Take the next bytes of the log."""
        self._take(self._raw.feed(data), cut=False)

    def finish(self) -> None:
        """Say that the input has ended: a last line without newline is read too."""
        lines, complete = self._raw.finish()
        self._take(lines, cut=not complete and self._number + len(lines) > 1)

    def report(self) -> LogReport:
        """Return what the last boot says so far."""
        if self._cached is not None and self._cached[0] == self._number:
            return self._cached[1]
        report = build_report(self._boot)
        self._cached = (self._number, report)
        return report

    # --- lines -----------------------------------------------------------------------------------

    def _take(self, lines: list[str], *, cut: bool) -> None:
        number = self._number
        boot = self._boot
        last = len(lines) - 1 if cut else -1
        for index, line in enumerate(lines):
            number += 1
            if index == last:
                self._number = number
                self._line(line, number, cut=True)
            elif 'HTTP/1.1" ' in line:
                boot.engine_lines += 1
                boot.read_lines += 1
                if boot.served < 2 and "POST /" in line and '" 200' in line:
                    self._access(line)
            elif " batch" in line and ("Decode batch" in line or "Prefill batch" in line):
                self._number = number
                self._batch(line, number)
            elif line:
                self._number = number
                self._line(line, number)
                boot = self._boot
        self._number = number

    def _access(self, line: str) -> None:
        if any(p in line for p in ("/generate ", "/completions ", "/responses ", "/messages ")):
            self._boot.served += 1
            if self._boot.engine is None:
                self._boot.engine = parse_line(line, 0).engine

    def _batch(self, line: str, number: int) -> None:
        boot = self._boot
        parsed: LogLine | None = None
        if boot.phase != "serving" or boot.engine is None:
            parsed = parse_line(line, number, learned=self._learned)
            if not parsed.message.startswith(("Decode batch", "Prefill batch")):
                self._line(line, number)
                return
        boot.engine_lines += 1
        boot.read_lines += 1
        boot.window.lines.append((number, line))
        if "Decode batch" in line:
            boot.decodes += 1
            boot.death.progress()
        else:
            boot.prefills += 1
        if parsed is not None:
            boot.engine = boot.engine or "sglang"
            boot.enter("serving" if boot.ready else "warmup", parsed)

    def _line(self, text: str, number: int, *, cut: bool = False) -> None:
        line = parse_line(text, number, cut=cut, learned=self._learned)
        if not line.text:
            return
        if line.engine is not None:
            prefix = learn_prefix(line)
            if prefix and len(prefix) <= 80:
                self._learned = prefix
        read = self._match(line)
        boot = self._boot
        died = boot.death.see(line, boot.phase)
        if line.engine is not None or read:
            if boot.engine is None and line.engine is not None:
                boot.engine = line.engine
            boot.engine_lines += 1
            if read or died:
                boot.read_lines += 1
            else:
                boot.miss(line)

    def _match(self, line: LogLine) -> bool:
        message = line.message
        for row in _ROWS:
            if row.needle in message:
                fields = row.read(line)
                if fields is None or _other(row.engine, line.engine):
                    continue
                self._maybe_next(row, line)
                boot = self._boot
                boot.take(row, fields, line)
                if row.name in {"stats", "spec_stats"}:
                    boot.window.lines.append((line.number, line.text))
                    boot.decodes += 1
                if row.phase is not None and row.name != "stats":
                    boot.death.progress()
                if row.name == "kv_size" or row.name not in {"stats"}:
                    return True
                return True
        for change in SGLANG_CHANGES:
            if change.needle in message:
                seen = change.read(line)
                if seen is not None:
                    boot = self._boot
                    if change.args_phase and boot.args_line is not None and self._over():
                        self._next(line)
                    self._boot.change(seen)
                    return True
        if line.engine != "vllm":
            for row in SGLANG_KNOWN:
                if message.startswith(row.needle):
                    self._boot.take(row, {}, line)
                    return True
        return False

    def _over(self) -> bool:
        boot = self._boot
        return boot.ready_line is not None or boot.death.dead or boot.death.stop is not None

    def _maybe_next(self, row: Row, line: LogLine) -> None:
        """Begin another boot where the line can only stand at the beginning of one."""
        boot = self._boot
        name = row.name
        started = boot.phase not in {None, "args"}
        if name in _BOOT_ARGS:
            again = boot.args_line is not None and (name == "server_args" or started)
        elif name == "launcher":
            again = boot.args_line is not None or boot.death.dead or boot.phase == "args"
        elif name in {"version", "logo"}:
            again = boot.version is not None and (started or self._over())
        elif name in {"dist_begin", "load_begin"}:
            again = boot.death.closed or boot.ready_line is not None
        else:
            again = False
        if again or (started and name == "launcher"):
            self._next(line)

    def _next(self, line: LogLine) -> None:
        self._finished.append(build_report(self._boot))
        del self._finished[:-_KEPT_REPORTS]
        self._boot = Boot(index=self._boot.index + 1, first_line=line.number, asked_argv=self._argv)


def _other(row: str | None, head: str | None) -> bool:
    return row is not None and head is not None and row != head
