"""Every row of every table has an example: adding a line is one row and one test."""

from __future__ import annotations

import re
from functools import cache

import pytest

from enginelog.reading import DATA, read_text
from qwen_tui_diagnostics.enginelog.causes_config import CONFIG_CAUSES
from qwen_tui_diagnostics.enginelog.causes_gpu import GPU_CAUSES
from qwen_tui_diagnostics.enginelog.causes_memory import MEMORY_CAUSES
from qwen_tui_diagnostics.enginelog.causes_process import PROCESS_CAUSES
from qwen_tui_diagnostics.enginelog.echoes import ECHOES
from qwen_tui_diagnostics.enginelog.index import StartIndex
from qwen_tui_diagnostics.enginelog.lines import LogLine, parse_line
from qwen_tui_diagnostics.enginelog.report import PHASES
from qwen_tui_diagnostics.enginelog.sglang_args import SGLANG_ARGUMENT_CHANGES
from qwen_tui_diagnostics.enginelog.sglang_boot import SGLANG_BOOT
from qwen_tui_diagnostics.enginelog.sglang_choices import SGLANG_CHOICES
from qwen_tui_diagnostics.enginelog.sglang_known import SGLANG_KNOWN
from qwen_tui_diagnostics.enginelog.sglang_pools import SGLANG_POOL_CHANGES
from qwen_tui_diagnostics.enginelog.shared_rows import SHARED_ROWS
from qwen_tui_diagnostics.enginelog.vllm_boot import VLLM_BOOT
from qwen_tui_diagnostics.enginelog.vllm_changes import VLLM_CHANGES
from qwen_tui_diagnostics.enginelog.vllm_known import VLLM_KNOWN
from qwen_tui_profiles.versions import Version

ROWS = (*SGLANG_BOOT, *VLLM_BOOT, *SHARED_ROWS)
CHANGES = (*SGLANG_ARGUMENT_CHANGES, *SGLANG_POOL_CHANGES, *SGLANG_CHOICES, *VLLM_CHANGES)
CAUSES = (*MEMORY_CAUSES, *GPU_CAUSES, *CONFIG_CAUSES, *PROCESS_CAUSES)


@cache
def wordings() -> tuple[tuple[str, str], ...]:
    lines = (DATA / "wordings.txt").read_text().splitlines()
    pairs = (line.split("\t", 1) for line in lines if line and not line.startswith("#"))
    return tuple((kind, text) for kind, text in pairs)


@cache
def corpus() -> tuple[LogLine, ...]:
    """Every line of the recorded logs, and every wording."""
    texts = [text for _, text in wordings()]
    for path in sorted(DATA.rglob("*.log")):
        texts += re.split("[\r\n]+", path.read_text(errors="replace"))
    return tuple(parse_line(text, 1) for text in dict.fromkeys(texts))


@pytest.mark.parametrize("row", ROWS, ids=lambda r: f"{r.engine}-{r.name}-{r.needle.strip()}")
def test_every_row_has_an_example(row: object) -> None:
    assert any(row.needle in e.message and row.read(e) is not None for e in corpus())  # type: ignore[attr-defined]


@pytest.mark.parametrize("change", CHANGES, ids=lambda c: f"{c.engine}-{c.name}-{c.needle.strip()}")
def test_every_change_has_an_example(change: object) -> None:
    assert any(change.read(e) is not None for e in corpus())  # type: ignore[attr-defined]


@pytest.mark.parametrize("cause", CAUSES, ids=lambda c: f"{c.kind}-{c.needle.strip()}")
def test_every_cause_has_an_example(cause: object) -> None:
    assert any(
        cause.needle in e.message and cause.pattern.search(e.message)  # type: ignore[attr-defined]
        for e in corpus()
    )


@pytest.mark.parametrize("echo", ECHOES, ids=lambda e: f"{e.name}-{e.needle}")
def test_every_echo_has_an_example(echo: object) -> None:
    assert any(
        echo.needle in e.message and echo.pattern.search(e.message)  # type: ignore[attr-defined]
        for e in corpus()
    )


VLLM_ONLY = re.compile(r"vLLM|model_max_length|gpu_memory_utilization|max_num_seqs|KV cache size")


def headed(text: str) -> str:
    return f"[2026-11-29 14:00:00 TP0] {text}\n"


def headed_vllm(text: str, level: str = "INFO") -> str:
    return f"(EngineCore pid=9) {level} 09-01 10:01:00 [core.py:700] {text}\n"


@pytest.mark.parametrize(
    "text", [t for k, t in wordings() if k in {"line", "change"}], ids=lambda t: t[:60]
)
def test_every_wording_is_recognised_under_a_head(text: str) -> None:
    one, other = read_text(headed(text)), read_text(headed_vllm(text, "WARNING"))
    assert max(one.coverage or 0.0, other.coverage or 0.0) == 1.0
    assert one.fatal is None
    assert other.fatal is None
    line = parse_line(headed(text).rstrip(), 1)
    if any(c.read(line) for c in SGLANG_POOL_CHANGES if c.name != "max_num_reqs"):
        assert one.clamps + one.adjustments


@pytest.mark.parametrize(
    ("kind", "text"),
    [(k, t) for k, t in wordings() if k not in {"line", "change", "echo"}],
    ids=lambda v: v[:60],
)
def test_every_death_in_a_traceback(kind: str, text: str) -> None:
    trace = (
        "Traceback (most recent call last):\n"
        '  File "/opt/venv/lib/python3.12/x.py", line 4931, in run_scheduler_process\n'
        "    scheduler = Scheduler(\n"
        "                ^^^^^^^^^^\n"
    )
    sglang = (
        headed("Load weight begin. avail mem=20.00 GB")
        + headed("Scheduler hit an exception: ").rstrip("\n")
        + trace
        + text
        + "\n\n"
        + headed("Received sigquit from a child process. It usually means the child failed.")
    )
    report = read_text(sglang)
    assert report.fatal is not None
    assert report.fatal.kind == kind
    assert text[:40] in report.fatal.evidence[0].text
    failed = headed_vllm("EngineCore failed to start.", "ERROR")
    vllm = failed + "".join(headed_vllm(line, "ERROR") for line in (trace + text).split("\n"))
    report = read_text(vllm)
    assert report.fatal is not None
    assert report.fatal.kind == kind
    assert not report.ready


@pytest.mark.parametrize("text", [t for k, t in wordings() if k == "echo"], ids=lambda t: t[:60])
def test_an_echo_never_names_a_cause(text: str) -> None:
    report = read_text(headed("Load weight begin. avail mem=20.00 GB") + headed(text))
    assert report.fatal is not None
    assert report.fatal.kind in {"scheduler_crash", "engine_start_failed"}


def test_tables_are_well_formed() -> None:
    ranges = [(r.name, r.since, r.until) for r in (*ROWS, *SGLANG_KNOWN, *VLLM_KNOWN)]
    ranges += [(c.name, c.since, c.until) for c in CHANGES]
    for name, since, until in ranges:
        versions = [Version.parse(v) for v in (since, until) if v is not None]
        assert versions == sorted(versions), name
    for row in (*ROWS, *SGLANG_KNOWN, *VLLM_KNOWN):
        assert row.needle
        assert row.meaning
        assert row.phase is None or row.phase in PHASES
    for cause in CAUSES:
        assert cause.phase is None or cause.phase in PHASES
        assert cause.remedy is not None or cause.kind == "cuda_oom"


def test_the_index_finds_what_a_plain_search_finds() -> None:
    index = StartIndex(ROWS)
    for line in corpus():
        plain = [r for r in ROWS if r.needle in line.message and r.read(line) is not None]
        found = [r for r in index.candidates(line.message) if r.read(line) is not None]
        assert found == plain, line.message[:80]
