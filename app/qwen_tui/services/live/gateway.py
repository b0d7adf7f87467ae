"""Finds a gateway that logs every request in full: the most expensive line in a config file.

Measured by the seed on a 63,000-token prompt: 39.5 tok/s with LiteLLM's detailed debugging and
81.8 without. The gateway's own overhead metric does not show it, so its command line has to.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from qwen_tui_profiles.errors import InputError
from qwen_tui_profiles.findings import Finding, Severity
from qwen_tui_profiles.foreign import clean, redact, redact_argv
from qwen_tui_profiles.text import t

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

__all__ = ["compose_findings", "debug_findings", "running_gateways"]

_FLAGS: Final = frozenset({"--detailed_debug", "--detailed-debug", "--debug"})
_NAME: Final = re.compile(r"(?:^|[/\\])litellm(?:$|[-_.]|/)|\blitellm\b", re.IGNORECASE)
_COMPOSE_DEBUG: Final = re.compile(
    r"--detailed[-_]debug|--debug\b|LITELLM_LOG\W+DEBUG|set_verbose\W+true", re.IGNORECASE
)
_MAX_COMPOSE_BYTES: Final = 1024 * 1024
SOURCE: Final = "seed 000: +107 % at 63,000 tokens without it"


def running_gateways() -> list[tuple[int, tuple[str, ...]]]:
    """Return (pid, argv) of every LiteLLM process that may be looked at."""
    import psutil

    found: list[tuple[int, tuple[str, ...]]] = []
    for process in psutil.process_iter(["pid", "cmdline"]):
        argv = process.info["cmdline"] or []
        # The program or the module, not an argument that happens to hold the word.
        if any(_NAME.search(part) for part in argv[:3]):
            found.append((process.info["pid"], tuple(argv)))
    return found


def debug_findings(gateways: Iterable[tuple[int, Sequence[str]]]) -> list[Finding]:
    """Return a finding for each gateway process that was started with debug logging."""
    findings = []
    for pid, argv in gateways:
        flag = next((a for a in argv if a.split("=", 1)[0] in _FLAGS), None)
        if flag is not None:
            shown = " ".join(redact_argv([clean(a) for a in argv]))[:300]
            findings.append(_finding(f"pid {pid}: {shown}"))
    return findings


def compose_findings(path: Path) -> list[Finding]:
    """Return a finding for each debug switch in a compose file that runs LiteLLM.

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
        if _COMPOSE_DEBUG.search(line.split("#", 1)[0])
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
