"""Every live figure has its place in the console, and none of them shows before it has news."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType

import pytest

from qwen_tui.services.snapshots import LatencySummary, LiveSnapshot, LiveWindow, ReplicaSnapshot
from qwen_tui.ui.app import ConsoleApp
from qwen_tui.ui.curves import ALWAYS, CURVES, curves_with_news
from qwen_tui.ui.state import Series, View
from qwen_tui.ui.widgets.gpu import GpuPanel
from qwen_tui.ui.widgets.live import live_lines
from qwen_tui.ui.window_lines import ROWS, window_lines
from support.console_pilot import opened, settled, shown, view_of
from support.fake_console import NOW, ONE_GPU, FakeConsole, running

ITL = LatencySummary(8.5, 21.0, 60.0, 500, p90_ms=20.0, p99_ms=40.0)
QUEUE = LatencySummary(
    50.0,
    95.0,
    60.0,
    8,
    p90_ms=90.0,
    p99_ms=7000.0,
    p50_bucket_ms=(0.0, 100.0),
    p90_bucket_ms=(0.0, 100.0),
    p99_bucket_ms=(5000.0, None),
)
MINUTE = LiveWindow(
    60.0,
    prefill_tok_s=4100.0,
    prompt_tokens=12_000,
    cached_tokens=9000,
    cache_hit_rate=0.75,
    accept_at=(0.8, 0.55, 0.3),
    requests=34,
    retracted=2,
    itl=ITL,
    queue_time=QUEUE,
)


def busy(**changes: object) -> LiveSnapshot:
    live = LiveSnapshot(
        at=NOW,
        source="sglang",
        running=2,
        queue=0,
        decode_tok_s=120.0,
        prefill_tok_s=4100.0,
        windows=(
            replace(MINUTE, window_s=10.0),
            MINUTE,
            replace(MINUTE, window_s=300.0),
            replace(MINUTE, window_s=None),
        ),
        peaks=MappingProxyType({"prefill_tok_s": 5200.0}),
        mamba_slots=8,
        mamba_used_slots=4,
        mamba_evictable_slots=3,
        hicache_used_tokens=2000,
        hicache_tokens=80_000,
    )
    return replace(live, **changes)  # type: ignore[arg-type]


def series(*lives: LiveSnapshot) -> Series:
    out = Series()
    for live in lives:
        out.add(live)
    return out


def text(live: LiveSnapshot | None, width: int) -> dict[str, list[str]]:
    """Return the table's rows by label."""
    lines = [line.plain for line in window_lines(live, width)]
    assert all(len(line) <= width for line in lines)
    return {line[:20].strip(): line[20:].split("  ") for line in lines}


def cells(row: list[str]) -> list[str]:
    return [cell.strip() for cell in row if cell.strip()]


@pytest.mark.parametrize("width", [74, 96])
def test_the_table_says_every_figure_that_has_news_by_windows(width: int) -> None:
    rows = text(busy(), width)
    head = " ".join(window_lines(busy(), width)[0].plain.split())
    assert head == "10 s 60 s 5 min this boot peak"
    assert cells(rows["ITL p90"]) == ["20 ms"] * 4
    assert cells(rows["ITL p99"]) == ["40 ms"] * 4
    # All that the histogram knows: in its first bucket, and beyond its last bound.
    assert cells(rows["in queue p90"]) == ["< 100 ms"] * 4
    assert cells(rows["in queue p99"]) == ["> 5.00 s"] * 4
    assert cells(rows["prefill tok/s"]) == ["4,100"] * 4 + ["5,200"]
    assert cells(rows["accepted at 1/2/… %"]) == ["80/55/30"] * 4
    assert cells(rows["requests ended"]) == ["34"] * 4
    assert cells(rows["retracted"]) == ["2"] * 4
    assert cells(rows["hit rate"]) == ["75 %"] * 4
    assert cells(rows["state slots"]) == ["4 of 8 used, 3 evictable"]
    assert cells(rows["HiCache tokens"]) == ["2,000 of 80,000 used"]


def test_what_has_no_news_has_no_row() -> None:
    rows = text(busy(), 96)
    for absent in ("TTFT p50", "aborted", "J per 1,000 tokens", "gateway adds p50", "KV tokens"):
        assert absent not in rows
    empty = text(busy(windows=(LiveWindow(10.0), LiveWindow(None)), peaks={}), 96)
    assert not {row.label.template for row in ROWS} & set(empty)
    assert text(None, 60)


def test_a_window_that_is_no_longer_than_the_one_before_is_left_out() -> None:
    young = replace(MINUTE, window_s=7.0)
    rows = text(busy(windows=(young, young, young, replace(MINUTE, window_s=None))), 96)
    assert cells(rows["ITL p99"]) == ["40 ms"] * 2


def test_replicas_stand_below_the_table() -> None:
    rows = text(busy(replicas=(ReplicaSnapshot("0", 2, 1, 0.5), ReplicaSnapshot("1", 0, 0, 0))), 96)
    assert cells(rows["0"]) == ["2 running, 1 waiting, KV 50 %"]


def test_a_curve_appears_with_its_first_value() -> None:
    quiet = busy(windows=(), prefill_tok_s=None)
    assert curves_with_news(series(quiet)) == CURVES[:ALWAYS]
    names = [c.series for c in curves_with_news(series(quiet, busy()))[ALWAYS:]]
    assert names == ["itl_ms", "prefill_tok_s", "queue_time_ms"]
    stale = replace(busy(), stale_s=3.0)
    assert curves_with_news(series(quiet, stale)) == CURVES[:ALWAYS]


@pytest.mark.parametrize(
    ("height", "expected"),
    [
        (4, ["TTFT", "accept"]),
        (12, ["TTFT", "accept", "ITL"]),
        (24, ["TTFT", "accept", "ITL", "in queue"]),
    ],
)
def test_as_many_curves_as_there_is_room_for(height: int, expected: list[str]) -> None:
    view = View(live=busy(), series=series(*[busy()] * 5))
    lines = [line.plain for line in live_lines(view, 100, height)]
    assert [line.split()[0] if line.split() else "" for line in lines].count("KV") == 1
    heads = [label for label in ("TTFT", "accept", "ITL", "in queue") if _has(lines, label)]
    assert heads == expected
    assert len(lines) <= max(height, 4)


def _has(lines: list[str], label: str) -> bool:
    return any(line.startswith(label) for line in lines)


def test_rare_events_are_said_with_their_window_and_a_bound_has_no_peak() -> None:
    view = View(live=busy(), series=series(busy()))
    lines = [line.plain for line in live_lines(view, 120, 24)]
    (also,) = (line for line in lines if line.startswith("also"))
    assert (
        "in 5 min 00 s · retracted: 2 · evictable slots: 3 · HiCache: 2,000/80,000 tokens" in also
    )
    (itl,) = (line for line in lines if line.startswith("ITL"))
    assert "8.5 ms p50  21 ms p95  peak 8.5 ms" in itl
    (queue,) = (line for line in lines if line.startswith("in queue"))
    assert "< 100 ms p50" in queue
    assert "peak" not in queue


async def test_the_figures_open_over_home_and_go_on() -> None:
    async with opened(FakeConsole(running()), (120, 40)) as pilot:
        await pilot.press("w")
        await settled(pilot, lambda: "Figures of" in shown(pilot))
        app = pilot.app
        assert isinstance(app, ConsoleApp)
        app.change(live=busy())
        await settled(pilot, lambda: "requests ended" in shown(pilot))
        app.change(live=busy(queue=0, windows=(replace(MINUTE, requests=777),)))
        await settled(pilot, lambda: "777" in shown(pilot))
        await pilot.press("escape")
        await settled(pilot, lambda: "Figures of" not in shown(pilot))
        assert view_of(pilot).live is not None


@pytest.mark.parametrize(
    ("url", "whose"),
    [
        ("http://127.0.0.1:30000", ""),
        ("http://192.0.2.7:30000", "of this machine, not of the server"),
    ],
)
async def test_gpus_of_this_machine_are_not_taken_for_those_of_a_server_elsewhere(
    url: str, whose: str
) -> None:
    panel = GpuPanel()
    panel.view = replace(View(), gpu=ONE_GPU, server=replace(running(), url=url))
    assert panel.titles()[1] == whose
