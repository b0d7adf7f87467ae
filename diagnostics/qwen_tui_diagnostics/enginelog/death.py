"""Follows tracebacks and death marks of one boot and names the root cause, not its echoes."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from qwen_tui_diagnostics.enginelog.causes_config import CONFIG_CAUSES
from qwen_tui_diagnostics.enginelog.causes_gpu import GPU_CAUSES
from qwen_tui_diagnostics.enginelog.causes_memory import MEMORY_CAUSES
from qwen_tui_diagnostics.enginelog.causes_process import PROCESS_CAUSES
from qwen_tui_diagnostics.enginelog.echoes import CORE_GONE, ECHOES, Echo
from qwen_tui_diagnostics.enginelog.grammar import number

if TYPE_CHECKING:
    from qwen_tui_diagnostics.enginelog.causes import Cause
    from qwen_tui_diagnostics.enginelog.lines import LogLine
    from qwen_tui_profiles.findings import Value

__all__ = ["DeathTracker", "EchoSeen", "Hit", "Trace"]

_CAUSES = (*MEMORY_CAUSES, *GPU_CAUSES, *CONFIG_CAUSES, *PROCESS_CAUSES)

# Every cause and every echo holds one of these: without it nothing else is looked for.
_GATE = (
    "rror", "xcept", "ailed", "illed", "died", "dead", "imeout", "imed out", "igquit", "SIGQUIT",
    "crash", "exit", "eak ", "ptxas", "supported", "memory", "mamba", "erminate", "ncountered",
    "odule named",
)  # fmt: skip
_MAX_KEPT = 64
_MAX_SEARCHED = 8192
"""Characters of a message in which a cause is looked for: the texts stand at its beginning."""

_TRACEBACK = "Traceback (most recent call last):"
_EXCEPTION = re.compile(
    r"^(?:[A-Za-z_]\w*\.)*[A-Za-z_]\w*(?:Error|Exception|Interrupt|Exit|OutOfResources|Timeout)\b"
    r"(?:[:(]|$)"
)
_FRAME = re.compile(r'^\s+File "(?P<file>[^"]*)", line \d+, in (?P<name>\S+)')
_CHAIN = ("During handling of the above exception", "The above exception was the direct cause")
_PROCESS = re.compile(r"^Process [\w.:-]+:$")
# The outermost frame of a traceback that nobody caught.
_UNCAUGHT = re.compile(
    r"<frozen runpy>|multiprocessing/(?:process|spawn)\.py|/bin/(?:sglang|vllm)$"
)
# Request logging quotes what people ask, which may be a log of a death.
_QUOTES = (
    "Receive: ", "Receive OpenAI", "Finish: ", "Finish OpenAI", "ReqTimeStats(", '{"',
    "Received request ", "Added request ", "Generated response ",
)  # fmt: skip
# Where an engine resolves and checks its arguments.
_ARGUMENTS = re.compile(
    r"/sglang/.*(?:\bserver_args\.py|/arg_groups/)|/vllm/(?:engine/arg_utils\.py|config[/.])"
)
_REFUSAL = re.compile(r"(?:Assertion|Value|Type|NotImplemented)Error\b")
_PACKAGE = re.compile(r"/(sglang|vllm)/")
_STOP = (
    "SIGTERM received",
    "Received signal SIGTERM",
    "Gracefully exiting",
    "[shutdown] API server: ",
    "[shutdown] EngineCore: trigger received signal=SIGTERM",
    "Shutting down FastAPI HTTP server",
    "Received signal to stop",
)
_CORE_GONE = "engine core exited unexpectedly"
"""vLLM 0.23 and later say so as a warning, whatever ended the core."""
_UVICORN_STOP = re.compile(r"(?:INFO:\s+)?Shutting down$")


@dataclass(slots=True)
class Trace:
    """A traceback that is being read."""

    hard: bool
    """Whether it ends the process (else it may have been caught)."""
    frames: list[str] = field(default_factory=list)
    """Function names, outermost first (the last ones are kept)."""
    script: bool = False
    """Whether it begins in a script's own code: uncaught, unless the engine goes on after it."""
    arguments: bool = False
    """Whether it passes through the engine's checks of its arguments."""


@dataclass(slots=True)
class Hit:
    """A line that names a cause."""

    cause: Cause | None
    """``None``: an exception that the table does not know."""
    line: LogLine
    fields: dict[str, Value]
    phase: str | None
    """The boot's phase when the line came."""
    hard: bool
    trace: Trace | None
    groups: dict[str, str] = field(default_factory=dict)
    """What the text names, for the summary."""
    stale: bool = False
    """The engine went on after it: it was caught."""

    @property
    def refusal(self) -> bool:
        """Whether it is an exception of the engine's checks of its arguments."""
        checks = self.trace is not None and self.trace.arguments
        return checks and _REFUSAL.match(self.line.message) is not None


@dataclass(frozen=True, slots=True)
class EchoSeen:
    """A line that says that something died."""

    echo: Echo
    line: LogLine
    code: int | None
    phase: str | None


class DeathTracker:
    """Everything about the end of one boot. Bounded: the first causes are what counts."""

    def __init__(self) -> None:
        self.hits: list[Hit] = []
        self.unknown: list[Hit] = []
        self.echoes: list[EchoSeen] = []
        self.stop: LogLine | None = None
        self.package: str | None = None
        """The engine whose files the first traceback names."""
        self._trace: Trace | None = None
        self._hard_next = False

    @property
    def pending(self) -> bool:
        """Whether something was met that a line of progress would refute."""
        return bool(self.hits or self.unknown)

    @property
    def closed(self) -> bool:
        """Whether the main process has ended or is ending."""
        return self.stop is not None or any(
            e.echo.name in {"sigquit", "core_init", "core_issue", CORE_GONE} for e in self.echoes
        )

    def progress(self) -> None:
        """The engine went on: what was met so far was caught, unless it was marked as a death."""
        for hit in self.hits:
            if not hit.hard:
                hit.stale = True
        for hit in self.unknown:
            if not hit.hard:
                hit.stale = True

    def see(self, line: LogLine, phase: str | None) -> bool:
        """Take one line; return whether it was recognised as part of a death."""
        message = line.message
        if message.startswith(_QUOTES):
            return False
        in_trace = self._follow(line)
        if not in_trace and not any(text in message for text in _GATE):
            return self._see_stop(line)
        harmless = line.level in {"INFO", "DEBUG", "WARNING"} and _CORE_GONE not in message
        if harmless and line.engine == "vllm":
            return self._see_stop(line) or in_trace
        echo = self._see_echo(line, phase)
        if echo:
            # vLLM says that a process failed, then prints the traceback on lines of its own.
            self._hard_next = line.engine == "vllm"
            if self._trace is not None and self.dead:
                self._trace.hard = True
        hit = self._see_cause(line, phase)
        # vLLM's front end raises an exception that only says that the core is gone.
        only_echo = echo is not None and echo.engine == "vllm"
        if not (hit or only_echo) and in_trace and _EXCEPTION.match(message) is not None:
            self._see_unknown(line, phase)
        return echo is not None or hit or in_trace or self._see_stop(line)

    def _follow(self, line: LogLine) -> bool:
        """Keep track of tracebacks; return whether the line belongs to one."""
        message = line.message
        if _TRACEBACK in message:
            # SGLang logs a traceback under its own head only when the process is lost.
            marked = line.engine == "sglang" or any(e.needle in message for e in ECHOES)
            previous = self._trace
            self._trace = Trace(hard=marked or self._hard_next or bool(previous and previous.hard))
            self._hard_next = False
            return True
        if _PROCESS.match(message) is not None:
            self._hard_next = True
            return True
        trace = self._trace
        if trace is None:
            return False
        if line.engine == "sglang" or (line.engine == "vllm" and line.level != "ERROR"):
            if line.engine == "sglang":
                self._trace = None
            return False
        frame = _FRAME.match(message)
        if frame is not None:
            file = frame["file"]
            if not trace.frames:
                trace.hard = trace.hard or _UNCAUGHT.search(file) is not None
                trace.script = frame["name"] == "<module>"
            trace.arguments = trace.arguments or _ARGUMENTS.search(file) is not None
            package = _PACKAGE.search(file) if self.package is None else None
            if package is not None:
                self.package = package[1]
            trace.frames.append(frame["name"])
            if len(trace.frames) > _MAX_KEPT:
                del trace.frames[1]
        return True

    def _see_echo(self, line: LogLine, phase: str | None) -> Echo | None:
        message = line.message
        for echo in ECHOES:
            if echo.needle in message:
                match = echo.pattern.search(message)
                if match is None:
                    continue
                text = match.groupdict().get("code")
                code = int(text) if text else None
                if code == -15 and self.stop is None and not self.hits and not self.unknown:
                    # Somebody signalled the group: a stop, whatever the parent calls it.
                    self.stop = line
                elif len(self.echoes) < _MAX_KEPT:
                    self.echoes.append(EchoSeen(echo, line, code, phase))
                return echo
        return None

    def _see_cause(self, line: LogLine, phase: str | None) -> bool:
        message = line.message[:_MAX_SEARCHED]
        for cause in _CAUSES:
            if cause.needle not in message:
                continue
            match = cause.pattern.search(message)
            if match is None:
                continue
            if len(self.hits) < _MAX_KEPT:
                fields = {
                    cause.facts[name]: _field(text)
                    for name, text in match.groupdict().items()
                    if text is not None
                    and name in cause.facts
                    and not (line.cut and match.end(name) == len(message))
                }
                hard = line.level == "ERROR" or bool(self._trace and self._trace.hard)
                groups = {k: v for k, v in match.groupdict().items() if v is not None}
                self.hits.append(Hit(cause, line, fields, phase, hard, self._trace, groups))
            return True
        return False

    def _see_unknown(self, line: LogLine, phase: str | None) -> None:
        if line.message.startswith("KeyboardInterrupt"):
            if self.stop is None and not self.hits and not self.unknown:
                self.stop = line
                self.echoes.clear()  # they announced this interrupt
            return
        trace = self._trace
        if trace is not None and len(self.unknown) < _MAX_KEPT:
            self.unknown.append(Hit(None, line, {}, phase, trace.hard, trace))

    def _see_stop(self, line: LogLine) -> bool:
        message = line.message
        stop = message.startswith(_STOP) or (
            "Shutting down" in message and _UVICORN_STOP.match(message) is not None
        )
        if stop and self.stop is None and not self.dead:
            self.stop = line
        return stop

    @property
    def dead(self) -> bool:
        """Whether a death mark stands in the log (not after a deliberate stop)."""
        return bool(self.echoes) or any(h.hard for h in (*self.hits, *self.unknown))

    def root(self, *, seen_before: bool) -> Hit | EchoSeen | None:
        """Return what killed the engine; ``None`` when nothing did, or somebody stopped it.

        Args:
            seen_before: the log shows the engine at work. Without that a lone signal mark proves
                nothing: a deliberate stop, of which the beginning is cut off, ends with it too.
        """
        stop = self.stop.number if self.stop is not None else None
        marked = any(stop is None or e.line.number < stop for e in self.echoes)
        for hit in (*self.hits, *self.unknown):
            if hit.stale or (stop is not None and hit.line.number > stop):
                continue
            firm = hit.cause is not None and hit.cause.firm
            if hit.hard or marked or firm or (hit.trace is not None and hit.trace.script):
                return self._specific(hit)
        for echo in self.echoes:
            if stop is not None and echo.line.number > stop:
                continue
            if echo.echo.name != "sigquit" or seen_before:
                return echo
        return None

    def _specific(self, hit: Hit) -> Hit:
        """Return what stands in the lines of an exception whose first line only frames it."""
        if hit.cause is None or not hit.cause.frame:
            return hit
        after = range(hit.line.number + 1, hit.line.number + 20)
        inner = (h for h in self.hits if h.line.number in after and h.cause is not hit.cause)
        return next(inner, hit)


def _field(text: str) -> Value:
    size = re.fullmatch(r"([\d.]+) (bytes|[KMG]iB)", text)
    if size is None:
        return number(text)
    scale = {"bytes": 1 / (1 << 20), "KiB": 1 / 1024, "MiB": 1.0, "GiB": 1024.0}[size[2]]
    return round(float(size[1]) * scale, 4)
