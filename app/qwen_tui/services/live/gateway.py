"""Finds a gateway that logs every request in full: the most expensive line in a config file.

Measured by the seed on a 63,000-token prompt: 39.5 tok/s with LiteLLM's detailed debugging and
81.8 without. The gateway's own overhead metric does not show it, so its command line has to.
"""

from __future__ import annotations

import contextlib
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from qwen_tui_profiles.errors import InputError
from qwen_tui_profiles.findings import Finding, Severity
from qwen_tui_profiles.foreign import clean, redact, redact_argv
from qwen_tui_profiles.text import t

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import psutil

__all__ = ["GatewayProcess", "compose_findings", "debug_findings", "running_gateways"]

_FLAG: Final = "--detailed_debug"
"""``--debug`` beside it is LiteLLM's INFO: a line a request, not the request (1.108.7)."""
_CONFIG: Final = frozenset({"--config", "-c"})
_VARIABLES: Final = ("LITELLM_LOG", "DETAILED_DEBUG")
_NAME: Final = re.compile(r"(?:^|[/\\])litellm(?:$|[-_.]|/)|\blitellm\b", re.IGNORECASE)
_DEBUG: Final = re.compile(
    r"--detailed_debug\b|LITELLM_LOG\W+DEBUG|DETAILED_DEBUG\W+(?:true|1)|set_verbose\W+true",
    re.IGNORECASE,
)
_MAX_COMPOSE_BYTES: Final = 1024 * 1024
SOURCE: Final = "seed 000: +107 % at 63,000 tokens without it"


@dataclass(frozen=True, slots=True)
class GatewayProcess:
    """One LiteLLM process, as far as we may look at it."""

    pid: int
    argv: tuple[str, ...]
    variables: tuple[str, ...] = ()
    """Those of its environment that set how much is logged, as ``NAME=value``."""
    folder: Path | None = None
    """Working folder."""
    ports: frozenset[int] = frozenset()
    """Where it listens (inside a container: the container's own ports)."""


def running_gateways() -> list[GatewayProcess]:
    """Return every LiteLLM process that may be looked at."""
    import psutil

    found: list[GatewayProcess] = []
    for process in psutil.process_iter(["pid", "cmdline"]):
        argv = process.info["cmdline"] or []
        # The program or the module, not an argument that happens to hold the word.
        if any(_NAME.search(part) for part in argv[:3]):
            found.append(_look(process, tuple(argv)))
    return found


def _look(process: psutil.Process, argv: tuple[str, ...]) -> GatewayProcess:
    import psutil

    variables: tuple[str, ...] = ()
    folder: Path | None = None
    ports: frozenset[int] = frozenset()
    try:
        environment: Mapping[str, str] = process.environ()
        variables = tuple(f"{n}={environment[n]}" for n in _VARIABLES if n in environment)
        folder = Path(process.cwd())
        ports = frozenset(
            c.laddr.port
            for c in process.net_connections("tcp")
            if c.status == psutil.CONN_LISTEN and c.laddr
        )
    except (psutil.Error, OSError):
        pass  # somebody else's process: its arguments are all that is seen
    return GatewayProcess(process.pid, argv, variables, folder, ports)


def debug_findings(gateways: Iterable[GatewayProcess], port: int | None = None) -> list[Finding]:
    """Return a finding for each gateway that logs its requests: by argument, variable or config.

    Args:
        gateways: What runs.
        port: Where the gateway in question listens. When one of them does, only that one counts;
            else all do, as the port of a container is not seen from outside.
    """
    known = list(gateways)
    there = [g for g in known if port in g.ports] or known
    return [finding for gateway in there for finding in _of(gateway)]


def _of(gateway: GatewayProcess) -> list[Finding]:
    if _FLAG in gateway.argv:
        shown = " ".join(redact_argv([clean(a) for a in gateway.argv]))[:300]
        return [_finding(f"pid {gateway.pid}: {shown}")]
    # With --debug LiteLLM does not look at LITELLM_LOG.
    asked = () if "--debug" in gateway.argv else gateway.variables
    found = [
        _finding(f"pid {gateway.pid}: {clean(variable)[:100]}")
        for variable in asked
        if _DEBUG.search(variable)
    ]
    config = _config(gateway)
    with contextlib.suppress(InputError, OSError):  # in a container, or not ours to read
        # A pipe has no end as long as nobody writes it.
        if config is not None and config.is_file():
            found += compose_findings(config)
    return found


def _config(gateway: GatewayProcess) -> Path | None:
    for at, argument in enumerate(gateway.argv):
        name, equals, value = argument.partition("=")
        if name not in _CONFIG:
            continue
        if not equals:
            value = gateway.argv[at + 1] if at + 1 < len(gateway.argv) else ""
        if value:
            return (gateway.folder or Path()) / value
    return None


def compose_findings(path: Path) -> list[Finding]:
    """Return a finding for each debug switch in LiteLLM's configuration or compose file.

    Raises:
        InputError: the file cannot be read.
    """
    try:
        if path.stat().st_size > _MAX_COMPOSE_BYTES:
            raise InputError(
                t("{path} is too large for a compose file.", path=str(path)),
                t("Name the compose file of the gateway."),
            )
        text = path.read_text("utf-8", "replace")
    except OSError as error:
        raise InputError(
            t(
                "Cannot read {path}: {reason}.",
                path=str(path),
                reason=error.strerror or type(error).__name__,
            ),
            t("Name the compose file of the gateway."),
        ) from error
    if not re.search("litellm", text, re.IGNORECASE):
        return []
    return [
        _finding(f"{path}:{number}: {redact(clean(line.strip()))[:200]}")
        for number, line in enumerate(text.splitlines(), 1)
        if _DEBUG.search(line.split("#", 1)[0])
    ]


def _finding(evidence: str) -> Finding:
    return Finding(
        rule="gateway_debug_logging",
        severity=Severity.WARN,
        title=t("The gateway writes every request to its log; long prompts wait for that."),
        evidence=evidence,
        source=SOURCE,
        since=None,
        until=None,
        remedy=t("Start it without debug logging and probe again through it."),
    )
