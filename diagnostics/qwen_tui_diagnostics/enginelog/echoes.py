"""Lines that say *that* something died, never why."""

from __future__ import annotations

import re
from dataclasses import dataclass

__all__ = ["CORE_GONE", "ECHOES", "Echo"]

CORE_GONE = "core_gone"
"""vLLM's front end found its engine core gone; an exception of the core stands above, if any."""


@dataclass(frozen=True, slots=True)
class Echo:
    """A death mark: a consequence, never a cause."""

    name: str
    needle: str
    pattern: re.Pattern[str]
    engine: str


def _echo(name: str, needle: str, pattern: str, engine: str) -> Echo:
    return Echo(name, needle, re.compile(pattern), engine)


ECHOES: tuple[Echo, ...] = (
    _echo(
        "scheduler_exception", "Scheduler hit an exception", r"Scheduler hit an exception", "sglang"
    ),
    _echo(
        "manager_exception",
        "Manager hit an exception",
        r"(?:Detokenizer|Tokenizer)Manager hit an exception",
        "sglang",
    ),
    _echo(
        "sigquit",
        "eceived sigquit from a child",
        r"Received sigquit from a child process",
        "sglang",
    ),
    _echo("sigquit", "SIGQUIT received", r"SIGQUIT received\.", "sglang"),
    _echo(
        "subprocess",
        "crashed with exit code",
        r"Subprocess \S+ \(pid=\d+\) crashed with exit code (?P<code>-?\d+)",
        "sglang",
    ),
    _echo(
        "rank_died",
        "scheduler died during init",
        r"Rank \d+ scheduler died during initialization \(exit code: (?P<code>-?\d+)",
        "sglang",
    ),
    _echo("rank_died", "scheduler is dead", r"Rank \d+ scheduler is dead", "sglang"),
    _echo("init_failed", "Initialization failed.", r"Initialization failed\.", "sglang"),
    _echo(
        "graph_failed",
        "raph failed: ",
        r"^(?:Exception|RuntimeError): Capture .*(?i:cuda) graph failed: ",
        "sglang",
    ),
    _echo("core_failed", "EngineCore failed to start", r"EngineCore failed to start", "vllm"),
    _echo(
        "core_fatal",
        "EngineCore encountered a fatal error",
        r"EngineCore encountered a fatal error",
        "vllm",
    ),
    _echo(
        "core_issue", "EngineCore encountered an issue", r"EngineCore encountered an issue", "vllm"
    ),
    _echo(
        "worker_failed", "WorkerProc ", r"WorkerProc (?:failed to start|hit an exception)", "vllm"
    ),
    _echo(
        "core_init",
        "Engine core initialization failed",
        r"Engine core initialization failed",
        "vllm",
    ),
    _echo(
        "worker_died",
        "died unexpectedly",
        r"(?:Worker|Engine core) proc(?:ess)? \S+ died unexpectedly(?:.*exit code: "
        r"(?P<code>-?\d+))?",
        "vllm",
    ),
    _echo(CORE_GONE, "engine core exited unexpectedly", r"engine core exited unexpectedly", "vllm"),
    _echo("dead_error", "EngineDeadError", r"EngineDeadError", "vllm"),
)
