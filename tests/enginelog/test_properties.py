"""Whatever is cut, mixed or broken: the reader never raises and never invents a fact."""

from __future__ import annotations

import random
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from enginelog.reading import DATA, load, read
from qwen_tui_diagnostics.enginelog import LineSplitter, LogReader

if TYPE_CHECKING:
    from qwen_tui_diagnostics.enginelog import LogReport

FILES = sorted(
    str(p.relative_to(DATA)) for p in DATA.rglob("*.log") if not p.name.startswith("gallery")
)
SMALL = [f for f in FILES if len(load(f)) < 20_000]
files = st.sampled_from(FILES)

# A cut can take away what shows that the server was idle before its first decode line.
IDLE = frozenset({"gen_tps_last"})
# vLLM prints EngineDeadError in a deliberate stop: a piece that begins after the stop was
# announced reads as a death whose cause is cut off.
AFTERMATH = frozenset({"vllm/cpu-0.32.0-sigterm.log"})
# A broken class name no longer says that the weights are a draft's.
DRAFT = frozenset({"architecture", "mem_usage_gb", "quantization"})


@cache
def clean(name: str) -> tuple[frozenset[str], bool, bool]:
    report = read(load(name))
    return known(report), report.ready, report.fatal is not None


def known(report: LogReport) -> frozenset[str]:
    return frozenset(k for k, v in report.facts.items() if v is not None)


def check(
    name: str, data: bytes, *, values: bool = False, allowed: frozenset[str] = frozenset()
) -> None:
    report = read(data)
    facts, ready, dead = clean(name)
    assert known(report) - facts - allowed == frozenset(), name
    assert ready or not report.ready, name
    assert dead or report.fatal is None or name in AFTERMATH, name
    assert report.coverage is None or 0.0 <= report.coverage <= 1.0
    if values:
        _same_values(name, report)


def _same_values(name: str, report: LogReport) -> None:
    """A part of a log states what the whole states, but for what later lines would replace."""
    whole = read(load(name)).facts
    moving = {"pool_end_avail_gb", "accept_len_last", "prefix_hit_last", "gen_tps_last",
              "running_last", "waiting_last", "kv_usage_last", "mamba_usage_last",
              "mamba_usage_max", "cached_tokens_last", "phase_at_failure",
              "context_usable"}  # fmt: skip
    for key, value in report.facts.items():
        if value is not None and key not in moving:
            assert value == whole[key], (name, key)


@settings(max_examples=60, deadline=None)
@given(files, st.floats(0, 1))
def test_any_prefix(name: str, share: float) -> None:
    data = load(name)
    part = data[: int(len(data) * share)]
    check(name, part, values=b"\n" in part)  # a single line is read as a paste, to its end


@settings(max_examples=60, deadline=None)
@given(files, st.floats(0, 1))
def test_any_suffix(name: str, share: float) -> None:
    data = load(name)
    check(name, data[int(len(data) * share) :], allowed=IDLE)


@settings(max_examples=40, deadline=None)
@given(files, st.floats(0, 1), st.floats(0, 1))
def test_any_middle(name: str, a: float, b: float) -> None:
    data = load(name)
    low, high = sorted((int(len(data) * a), int(len(data) * b)))
    check(name, data[low:high], allowed=IDLE)


@settings(max_examples=80, deadline=None)
@given(files, st.lists(st.tuples(st.floats(0, 1), st.integers(0, 255)), min_size=1, max_size=12))
def test_any_byte_flips(name: str, flips: list[tuple[float, int]]) -> None:
    data = bytearray(load(name))
    for place, value in flips:
        data[min(int(len(data) * place), len(data) - 1)] ^= value
    check(name, bytes(data), allowed=IDLE | DRAFT if "glm5next" in name else IDLE)


@settings(max_examples=40, deadline=None)
@given(files, st.integers(0, 2**32))
def test_interleaved_with_other_programs(name: str, seed: int) -> None:
    rng = random.Random(seed)
    noise = [
        b"nginx: [emerg] host not found", b"\x00\x01\x02", b"", b"{}", b'{"log":"hello\\n"}',
        b"Traceback (most recent call last):", b"10.0.0.1 - - GET / 404", b"\xff\xfe\xfd",
        b"[2026-11-29 14:00:00] something else that nobody knows", b"| | |", b"=====",
        b"ValueError: of another program", b"(other pid=9) INFO 01-01 00:00:00 [x.py:1] hello",
    ]  # fmt: skip
    out = []
    for line in load(name).split(b"\n"):
        while rng.random() < 0.15:
            out.append(rng.choice(noise))
        out.append(line)
    check(name, b"\n".join(out))


@settings(max_examples=40, deadline=None)
@given(files, st.integers(0, 2**32))
def test_ranks_in_any_order(name: str, seed: int) -> None:
    """Each line again as another rank prints it, up to a few lines earlier or later."""
    rng = random.Random(seed)
    lines = load(name).split(b"\n")
    out = [(i + rng.random() * 4, line.replace(b"] ", b" TP1] ", 1)) for i, line in enumerate(lines)
           if line.startswith(b"[2026") and b"server_args" not in line]  # fmt: skip
    out += [(float(i), line) for i, line in enumerate(lines)]
    check(name, b"\n".join(line for _, line in sorted(out, key=lambda item: item[0])))


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=3000), st.integers(1, 64))
def test_any_bytes(data: bytes, chunk: int) -> None:
    reader, splitter = LogReader(), LineSplitter()
    for start in range(0, len(data), chunk):
        reader.feed(data[start : start + chunk])
        splitter.feed(data[start : start + chunk])
    reader.finish()
    splitter.finish()
    report = reader.report()
    assert report.fatal is None
    assert not report.ready
    assert known(report) == frozenset()


_WORDS = st.sampled_from(
    [
        "[2026-11-29 14:00:00] ", "[2026-11-29 14:00:00 TP1] ", "(EngineCore pid=1) ", "\r", "\n",
        "INFO 08-21 18:43:57 [a.py:1] ", "server_args=ServerArgs(", "server_args={'", "a='", "b=[",
        "max_total_num_tokens=", "context_len=", "12", ", ", "KV Cache is allocated. #tokens: ",
        "Load weight end. ", "mem usage=1.5 GB", "non-default args: {'", "': ", "Decode batch, ",
        "Prefill batch", "accept len: ", "Scheduler hit an exception: ",
        "Traceback (most recent call last):\n", '  File "x.py", line 1, in f\n', "ValueError: ",
        "Capture cuda graph begin. avail mem=", "speculative_config=", "with config: ",
        "Initializing a V1 LLM engine (v", "version 0.1", ")", "}", "]", "'", '"', "\\",
    ]
)  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(st.lists(_WORDS, max_size=60))
def test_any_mix_of_the_engines_own_words(words: list[str]) -> None:
    report = read("".join(words).encode())
    report.as_json()


@pytest.mark.parametrize("name", SMALL)
def test_report_at_every_moment(name: str) -> None:
    """Facts only grow or move: none disappears while a log is followed line by line."""
    reader = LogReader()
    for line in load(name).splitlines(keepends=True):
        reader.feed(line)
        report: dict[str, Any] = reader.report().as_json()
        assert report["schema"] == "qwen-tui.log/1"
    reader.finish()
    assert reader.report().as_json() == read(load(name)).as_json()


def test_endless_line_does_not_fill_memory() -> None:
    reader = LogReader()
    for _ in range(200):
        reader.feed(b"x" * 100_000)
    assert len(reader._raw._carry) <= 256 * 1024
    reader.feed(b"\n[2026-11-29 13:47:08] Load weight begin. avail mem=1.5 GB\n")
    assert reader.report().facts["free_before_load_gib"] == 1.5
    assert reader.lines == 2 + 0


_UNITS = (
    "x", "a.", "a ", "(", "[", "'", '"', "1", "Error: ", "a-", "a@", "\\", "{", "=", "a=", "|",
    "a |", "█ ", "\x1b[", "\x9b", "[2026-11-29 14:00:00] ", "server_args={'a': ", "Capture a ",
    "pod/", "KV Cache is allocated ", "(a pid=1) ", "api_key=", "://a:b@", "ptxas ", "; ",
    " model  ",
    "Free memory on device (", "2026-11-29 14:00:00 ", "Nov 29 14:00:00 h p: ",
    "CUDA out of memory",
)  # fmt: skip


@pytest.mark.parametrize("unit", _UNITS)
def test_no_line_takes_long(unit: str) -> None:
    """A quarter of a megabyte of anything: a pattern that backtracks would take hours."""
    for head in ("", "[2026-11-29 14:00:00] ", "(EngineCore pid=9) ERROR 09-01 10:01:00 [c.py:7] "):
        report = read((head + unit * (256 * 1024 // len(unit)) + "\n").encode())
        assert not report.ready
