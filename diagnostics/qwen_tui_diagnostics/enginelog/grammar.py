"""The shape of a grammar row: one kind of engine line, as data.

A row is a needle (a substring that most lines lack, so a miss costs nothing), an opening that must
stand at the start of the message, and independent scans for its fields. Fields that a version does
not print are simply not found: absent is not zero.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from qwen_tui_diagnostics.enginelog.lines import LogLine
    from qwen_tui_profiles.findings import Value

__all__ = ["Row", "compile_rows", "number", "row", "scan"]


@dataclass(frozen=True, slots=True)
class Row:
    """One kind of line that an engine prints."""

    name: str
    """What the reader calls it; several rows may share a name (wordings of other versions)."""
    engine: str | None
    """``sglang`` or ``vllm``; ``None`` = both print it."""
    needle: str
    """A substring of every such line."""
    opening: re.Pattern[str]
    """Matched at the start of the message; its named groups are fields."""
    meaning: str
    """What the line says, for people who extend the table."""
    since: str | None = None
    """First release that prints it (of those looked at); ``None`` = the oldest known."""
    until: str | None = None
    """Last release that prints it; ``None`` = the newest known."""
    phase: str | None = None
    """Boot phase that the line belongs to."""
    facts: Mapping[str, str] = field(default_factory=dict)
    """Field → fact of the report that it states."""
    scans: Mapping[str, re.Pattern[str]] = field(default_factory=dict)
    """Field → pattern searched in the whole message (order and presence vary)."""
    last_wins: bool = False
    """Whether a later line of this kind overrides the fact (default: the first one stands)."""
    boot: bool = True
    """Whether the line can only stand in a boot (not while serving)."""

    @property
    def start(self) -> re.Pattern[str]:
        """The pattern that must match at the start of the message."""
        return self.opening

    def read(self, line: LogLine) -> dict[str, Value] | None:
        """Return the fields of ``line``, or ``None`` when it is not of this kind."""
        message = line.message
        if self.needle not in message:
            return None
        match = self.opening.match(message)
        if match is None:
            return None
        found: dict[str, Value] = {}
        for name, text in match.groupdict().items():
            if text is not None and not (line.cut and _at_end(message, match.end(name))):
                found[name] = number(text)
        for name, pattern in self.scans.items():
            hit = pattern.search(message)
            if hit is not None and not (line.cut and _at_end(message, hit.end(1))):
                found[name] = number(hit[1])
        return found


def _at_end(message: str, end: int) -> bool:
    """Tell whether nothing but punctuation follows: the value itself may go on."""
    return not message[end:].strip(" .,")


def row(
    name: str,
    engine: str | None,
    needle: str,
    opening: str | None,
    meaning: str,
    *,
    since: str | None = None,
    until: str | None = None,
    phase: str | None = None,
    facts: Mapping[str, str] | None = None,
    scans: Iterable[str] = (),
    last_wins: bool = False,
    boot: bool = True,
) -> Row:
    """Build a row; ``opening=None`` means that the line starts with the needle itself.

    ``scans`` are names of :data:`SCANS`.
    """
    return Row(
        name=name,
        engine=engine,
        needle=needle,
        opening=re.compile(re.escape(needle) if opening is None else opening),
        meaning=meaning,
        since=since,
        until=until,
        phase=phase,
        facts=dict(facts or {}),
        scans={key: SCANS[key] for key in scans},
        last_wins=last_wins,
        boot=boot,
    )


def scan(label: str, value: str = r"-?[\d.,]*\d") -> re.Pattern[str]:
    """Compile ``label`` followed by ``=`` or ``:`` and a value."""
    return re.compile(rf"(?<![\w#]){label} ?[=:] ?({value})")


_WORD = r"[^\s,]+?(?=[,.]?(?:\s|$)|,)"
SCANS: Mapping[str, re.Pattern[str]] = {
    "elapsed": re.compile(r"(?:elapsed=|Time elapsed: )([\d.]+)(?= ?s)"),
    "avail": re.compile(r"avail mem=(-?[\d.]+)(?= GB)"),
    "usage": re.compile(r"(?<!\w)mem usage=(-?[\d.]+)(?= GB)"),
    "type": scan("type", r"[\w.]+\w"),
    "quant": scan("quant", r"[\w.-]+\w"),
    "bits": scan("bits", r"\d+"),
    "dtype": scan("dtype", r"[\w.]+\w"),
    "tokens": re.compile(r"#tokens: ([\d,]*\d)"),
    "k_gb": re.compile(r"(?<!\w)K size: ([\d.]+)(?= ?GB)"),
    "v_gb": re.compile(r"(?<!\w)V size: ([\d.]+)(?= ?GB)"),
    "kv_gb": re.compile(r"KV size: ([\d.]+)(?= ?GB)"),
    "slots": re.compile(r"max_mamba_cache_size: (\d+)"),
    "conv_gb": re.compile(r"(?<!\w)conv_state size: ([\d.]+)(?= ?GB)"),
    "ssm_gb": re.compile(r"(?<!\w)ssm_state size: ([\d.]+)(?= ?GB)"),
    "inter_ssm_gb": re.compile(r"intermediate_ssm_state_cache size: ([\d.]+)(?= ?GB)"),
    "inter_conv_gb": re.compile(r"intermediate_conv_window_cache size: ([\d.]+)(?= ?GB)"),
    "max_total_num_tokens": scan("max_total_num_tokens"),
    "chunked_prefill_size": scan("chunked_prefill_size"),
    "max_prefill_tokens": scan("max_prefill_tokens"),
    "max_running_requests": scan("max_running_requests"),
    "context_len": scan("context_len"),
    "available_gpu_mem": re.compile(r"available_gpu_mem=(-?[\d.]+)(?= GB)"),
    "available_cpu_mem": re.compile(r"available_cpu_mem=(-?[\d.]+)(?= GB)"),
}

_INT = re.compile(r"-?\d{1,3}(?:,\d{3})+|-?\d+")
_FLOAT = re.compile(r"-?\d*\.\d+|-?\d+\.")


def number(text: str) -> Value:
    """Return an int or float where ``text`` is one (``129,472`` too), else the text."""
    if _INT.fullmatch(text):
        return int(text.replace(",", "")) if len(text) < 25 else text
    if _FLOAT.fullmatch(text):
        return float(text)
    return text


def compile_rows(rows: Iterable[Row]) -> tuple[Row, ...]:
    """Check and freeze a table.

    Raises:
        ValueError: a row's needle is empty.
    """
    table = tuple(rows)
    for entry in table:
        if not entry.needle:
            raise ValueError(entry.name)
    return table
