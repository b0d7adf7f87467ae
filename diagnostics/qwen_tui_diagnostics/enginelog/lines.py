"""From bytes to log lines: decoding, progress bars, prefixes of tools, heads of the two engines.

Two layers: :class:`RawLines` (bytes → text lines, cheap enough for hundreds of megabytes) and
:func:`parse_line` (text line → :class:`LogLine`, for the lines that matter).
"""

from __future__ import annotations

import codecs
import json
import re
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from qwen_tui_profiles.foreign import clean

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = [
    "MAX_LINE",
    "LineSplitter",
    "LogLine",
    "RawLines",
    "learn_prefix",
    "parse_line",
    "stream_of",
]

MAX_LINE = 256 * 1024
"""Characters kept of one line; an argument dump has about 25,000."""

_MAX_PREFIX = 160
_ANSI = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b[ -/]*[0-~]?|\x9b[0-?]*[ "
    r"-/]*[@-~]"
)

_SGLANG_HEAD = re.compile(
    r"\[(?P<ts>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)(?:[.,]\d{1,6})?(?P<rank>(?: [A-Z][A-Z_]*\d+)*)\] ?"
)
_LEVELS = "DEBUG|INFO|WARNING|ERROR|CRITICAL"
_VLLM_HEAD = re.compile(
    r"(?:\((?P<proc>[\w.=: -]+?) pid=(?P<pid>\d+)(?:, ip=[\d.]+)?\) ?)?"
    rf"(?P<level>{_LEVELS}) (?:(?P<ts>\d\d-\d\d \d\d:\d\d:\d\d) "
    rf")?(?:(?P<src>\[?[\w./-]+\.py):\d+\] ?)"
)
_PROC = re.compile(r"\((?:(?P<proc>[\w.=: -]+?) )?pid=\d+(?:, ip=[\d.]+)?\) ?")
_REPLICA = re.compile(r"(?<![A-Z])DP(?P<number>\d+)")
_VLLM_RANK = re.compile(r"rank=\d+|_(?:TP|PP|DP|EP|PCP|DCP)\d+")
_YEAR = re.compile(r"\b(20\d\d)-\d\d-\d\d[T ]")
_PROGRESS = re.compile(r"it/s[\]\s]|s/it[\]\s]|%\||% Completed \|")

# What tools put in front of an engine's line; each is stripped at most a few times, in any order.
_STREAM = re.compile(r"([\w.@-]{1,100}) {0,100}\| |\[(pod/[^\]]{1,200})\]")
_PREFIXES = (
    # docker/k8s clocks, Docker Desktop ("… | "), CRI ("… stdout F "), journalctl -o short-iso
    re.compile(
        r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?"
        r"(?: (?:stdout|stderr) [FP](?= |$))?(?: \| ?| |$)"
    ),
    # docker compose, foreman
    re.compile(r"(?:\d\d:\d\d:\d\d )?[\w.@-]+ *\| ?"),
    # syslog, journald
    re.compile(r"[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d(?:\.\d+)? [\w.-]+ [^\s\[:]+(?:\[\d+\])?: ?"),
    re.compile(r"[\w.-]+ [\w.@-]+\[\d+\]: ?"),
    # kubectl logs --prefix, mpirun --tag-output, torchrun
    re.compile(r"\[pod/[^\]]+\] ?"),
    re.compile(r"\[\d+,\d+\]<std(?:err|out)>:? ?"),
    re.compile(r"\[default\d+\]: ?"),
    # supervisor-style "name: " (exceptions begin with a capital, argparse says "error:")
    re.compile(r"(?!args: )(?:[\w-]+[./@])*[a-z][\w-]*(?:\[\d+\])?: (?!error:)"),
    # "clock - logger - LEVEL - ", a common format of users' own logging configurations
    re.compile(rf"(?:- )?(?:[\w.]+ - )?(?:{_LEVELS}) - "),
)
_JSON_TEXT = ("log", "message", "msg", "MESSAGE")
# SGLang before its logger is set up, in some releases: "] INFO server_args.py:1565: …"
_LEVEL_WORD = re.compile(rf"(?P<level>{_LEVELS}) (?:[\w./]+\.py:\d+: )?(?=\S)")
_LOGGER = re.compile(rf"(?P<level>{_LEVELS}):(?P<name>[\w.]+):(?! )")


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line of an engine's log, without control characters."""

    number: int
    """1-based physical line of the input."""
    text: str
    """The whole line, cleaned (not redacted)."""
    message: str
    """The text after the prefixes of tools and the engine's own head; indentation is kept."""
    clock: float | None = None
    """The engine's own clock, in seconds since the epoch (read as local time)."""
    has_year: bool = True
    """False for a bare vLLM clock: it has no year, so only differences of ``clock`` count."""
    rank: str = ""
    """``TP0 EP0``, ``Worker_TP0``, … ; empty without one."""
    level: str = ""
    """vLLM prints one; SGLang does only where a user's logging configuration adds it."""
    engine: str | None = None
    """By the shape of the head: ``sglang``, ``vllm`` or ``None`` (no head)."""
    cut: bool = False
    """The input ended inside this line: a number at its very end may lack digits."""

    @property
    def first_rank(self) -> bool:
        """Whether this is rank 0 of each kind, or a line without rank."""
        digits = re.findall(r"\d+", self.rank)
        return all(d == "0" for d in digits)

    @property
    def replica(self) -> str | None:
        """Number of the data-parallel replica that says it; ``None`` for a line without one."""
        found = _REPLICA.search(self.rank)
        return None if found is None else found["number"]


class RawLines:
    r"""Bytes to text lines: UTF-8 or UTF-16 with a BOM, ``\r`` progress collapsed, ANSI out.

    Memory is bounded by :data:`MAX_LINE` whatever the input is.
    """

    def __init__(self) -> None:
        self.replaced = 0
        """Broken characters met (they read as U+FFFD)."""
        self.cut_lines = 0
        """Lines longer than :data:`MAX_LINE`, of which the rest was dropped."""
        self._decoder: codecs.IncrementalDecoder | None = None
        self._start = b""
        self._carry = ""
        self._skipping = False

    def feed(self, data: bytes) -> list[str]:
        """Return the lines that ``data`` completes."""
        return self._take(self._decode(data, final=False))

    def finish(self) -> tuple[list[str], bool]:
        """Return what is left, and whether its last line was complete."""
        lines = self._take(self._decode(b"", final=True))
        tail, self._carry = self._carry, ""
        if self._skipping or not tail:
            self._skipping = False
            return lines, True
        return [*lines, _last_state(tail)], False

    def _decode(self, data: bytes, *, final: bool) -> str:
        if self._decoder is None:
            data = self._start + data
            if len(data) < 3 and not final:
                self._start = data
                return ""
            self._start = b""
            utf16 = data[:2] in {b"\xff\xfe", b"\xfe\xff"}
            self._decoder = codecs.getincrementaldecoder("utf-16" if utf16 else "utf-8-sig")(
                "replace"
            )
        text = self._decoder.decode(data, final)
        if not text.isascii():
            self.replaced += text.count("\ufffd")
        return text

    def _take(self, text: str) -> list[str]:
        if self._skipping:
            _, newline, text = text.partition("\n")
            if not newline:
                return []
            self._skipping = False
            self._carry = ""
        elif self._carry:
            text = self._carry + text
        lines = text.split("\n")
        carry = lines.pop()
        if len(carry) > MAX_LINE or "\r" in carry[:-1]:
            carry = _last_state(carry, keep_return=True)
        if len(carry) > MAX_LINE:
            # The head of an endless line is worth reading; the rest is not worth keeping.
            self.cut_lines += 1
            self._skipping = True
            lines.append(carry[:MAX_LINE])
            carry = ""
        self._carry = carry
        if "\r" in text:
            lines = [_last_state(line) if "\r" in line else line for line in lines]
        if "\x1b" in text or "\x9b" in text:
            lines = [_ANSI.sub("", line) for line in lines]
        return lines


def _last_state(line: str, *, keep_return: bool = False) -> str:
    body = line.rstrip("\r")
    last = body.rpartition("\r")[2]
    return last + "\r" if keep_return and len(body) != len(line) else last


class LineSplitter:
    """Bytes to cleaned :class:`LogLine`; empty lines are skipped but counted."""

    def __init__(self) -> None:
        self._raw = RawLines()
        self._number = 0

    def feed(self, data: bytes) -> list[LogLine]:
        """Return the lines that ``data`` completes."""
        return list(self._parse(self._raw.feed(data), cut=False))

    def finish(self) -> list[LogLine]:
        """Return the last line when the input did not end with a newline."""
        lines, complete = self._raw.finish()
        return list(self._parse(lines, cut=not complete))

    def _parse(self, lines: list[str], *, cut: bool) -> Iterator[LogLine]:
        for line in lines:
            self._number += 1
            parsed = parse_line(line, self._number, cut=cut)
            if parsed.text:
                yield parsed


def parse_line(line: str, number: int, *, cut: bool = False, learned: str = "") -> LogLine:
    """Split one raw line into prefix, head and message.

    Args:
        line: the line without its newline.
        number: its place in the input.
        cut: the input ended inside it.
        learned: a literal prefix seen before on headed lines; stripped from a line without head.
    """
    if line.startswith('{"') and line.endswith("}"):
        line = _json_record(line)
    text = clean(line[:MAX_LINE]).rstrip()
    head = _find(_SGLANG_HEAD, text, "[20")
    if head is not None:
        word = _LEVEL_WORD.match(text, head.end())
        return LogLine(
            number=number,
            text=text,
            message=text[(head if word is None else word).end() :],
            clock=_clock(head["ts"]),
            rank=head["rank"].strip(),
            level="" if word is None else word["level"],
            engine="sglang",
            cut=cut,
        )
    head = _find(_VLLM_HEAD, text, ".py:")
    if head is not None:
        before = text[: head.start()]
        proc = head["proc"] or _process(before)
        year = _YEAR.search(before)  # a container's clock has one, vLLM's has none
        return LogLine(
            number=number,
            text=text,
            message=text[head.end() :],
            clock=_clock(f"{year[1] if year else 2000}-{head['ts']}") if head["ts"] else None,
            has_year=year is not None,
            rank=_rank(proc),
            level=head["level"],
            engine="vllm",
            cut=cut,
        )
    bare = text.removeprefix(learned) if learned else text
    proc = ""
    for _ in range(4):
        start = bare
        for prefix in _PREFIXES:
            match = prefix.match(bare)
            if match is not None:
                bare = bare[match.end() :]
        match = _PROC.match(bare)
        if match is not None:
            proc = match["proc"] or proc
            bare = bare[match.end() :]
        if bare == start:
            break
    logger = _LOGGER.match(bare)
    level = ""
    if logger is not None:
        level = logger["level"]
        bare = bare[logger.end() :]
    return LogLine(number=number, text=text, message=bare, rank=_rank(proc), level=level, cut=cut)


def stream_of(text: str) -> str:
    """Return the name that docker compose or kubectl puts before a line; empty without one."""
    match = _STREAM.match(text)
    name = (match[1] or match[2]) if match is not None else ""
    return name if any(map(str.isalpha, name)) else ""


def learn_prefix(line: LogLine) -> str:
    """Return the literal text before the head of a headed line (to be stripped from bare ones)."""
    if line.engine is None:
        return ""
    prefix = line.text[: len(line.text) - len(line.message)]
    head = (_SGLANG_HEAD if line.engine == "sglang" else _VLLM_HEAD).search(prefix)
    return prefix[: head.start()] if head is not None else ""


def _find(pattern: re.Pattern[str], text: str, needle: str) -> re.Match[str] | None:
    """Find a head at the start or behind a plausible prefix (a tool's, or a progress bar)."""
    if needle not in text:
        return None
    match = pattern.match(text)
    if match is not None:
        return match
    for match in pattern.finditer(text):
        before = text[: match.start()]
        if _PROGRESS.search(before) is not None:
            return match
        if len(before) <= _MAX_PREFIX and not set(before.replace("<std", "")) & set("'\"{<"):
            return match
        return None
    return None


def _json_record(line: str) -> str:
    """Return the text of a JSON record (docker's json-file, journald, JSON loggers)."""
    try:
        entry = json.loads(line[:MAX_LINE])
    except (ValueError, RecursionError):
        return line
    for key in _JSON_TEXT if isinstance(entry, dict) else ():
        text = entry.get(key)
        if isinstance(text, str):
            return _last_state(text.rstrip("\n"))
    return line


def _process(before: str) -> str:
    found = ""
    for match in _PROC.finditer(before):
        found = match["proc"] or found
    return found


def _rank(process: str | None) -> str:
    """Return the part of a process name that says which rank it is."""
    if not process or _VLLM_RANK.search(process) is None:
        return ""
    return process


_LAST_CLOCK: list[tuple[str, float | None]] = [("", None)]


def _clock(text: str) -> float | None:
    """Return the seconds since the epoch of a clock without zone, read as local time."""
    known, value = _LAST_CLOCK[0]
    if known == text:
        return value
    try:
        value = datetime.fromisoformat(text).timestamp()  # the log's local time
    except (ValueError, OverflowError, OSError):
        value = None
    _LAST_CLOCK[0] = (text, value)
    return value
