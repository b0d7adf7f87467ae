"""What a person does with the console, key by key, over a scripted world."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from qwen_tui.services.console import LogChunk
from qwen_tui.services.snapshots import ServerState
from qwen_tui.ui.screens.cards import ConfirmCard, ErrorCard, LeaveCard
from qwen_tui.ui.screens.details import ClampCard, HelpCard
from qwen_tui.ui.screens.doctor import DoctorScreen
from qwen_tui.ui.screens.picker import PickProbe
from qwen_tui.ui.screens.probe import ProbeCard
from qwen_tui.ui.screens.swap import SwapCard
from qwen_tui.ui.widgets.log import LogPanel
from qwen_tui_profiles.errors import LaunchError
from qwen_tui_profiles.text import t
from support.console_pilot import opened, settled, shown, view_of
from support.fake_console import (
    NO_GPU,
    FakeConsole,
    died,
    running,
    starting,
)

SIZES = [(80, 24), (120, 40), (200, 60)]


@pytest.mark.parametrize("size", SIZES)
async def test_a_running_server_is_shown_whole(size: tuple[int, int]) -> None:
    lines = tuple(f"[2026-11-29 13:02:{n:02d}] line {n}" for n in range(40))
    async with opened(FakeConsole(running(), lines=lines), size) as pilot:
        await settled(pilot, lambda: view_of(pilot).log_total == 40)
        text = shown(pilot)
    assert "27b-int4-speed" in text
    assert "SGLang 0.5.23" in text
    assert "127.0.0.1:30000" in text
    assert "RUNNING 0:14:07" in text
    assert "159,776 → 134,010" in text
    assert "For 4 requests: --max-mamba-cache-size 17" in text
    assert "420 ms p50" in text
    assert "1.20 s p95" in text
    assert "61,647/134,016" in text
    assert "8/8" in text
    assert "2 of 2 running" in text
    assert "1 waiting" in text
    assert "bound by state slots: 8 of 8, 1 waiting" in text
    assert "31.2 of 31.8 GiB" in text
    assert "13:02:39 line 39" in text
    assert "Swap to context" in text.splitlines()[-1]
    assert all(len(line) <= size[0] for line in text.splitlines())


async def test_without_a_gpu_the_demo_is_selected_and_the_reason_said() -> None:
    async with opened(FakeConsole(gpu=NO_GPU)) as pilot:
        text = shown(pilot)
    assert "demo-speed" in text.splitlines()[0]
    assert "simulated engine" in text.splitlines()[0]
    assert "No usable GPU here" in text
    assert "libnvidia-ml.so.1" in text
    assert text.splitlines()[-1].split("  ")[0].strip() == "s Start"


async def test_the_profile_used_last_is_selected_where_it_can_run() -> None:
    async with opened(FakeConsole(remembered="27b-int4-context")) as pilot:
        assert "27b-int4-context" in shown(pilot).splitlines()[0]
    async with opened(FakeConsole(remembered="27b-int4-context", gpu=NO_GPU)) as pilot:
        assert "demo-speed" in shown(pilot).splitlines()[0]


async def test_launch_shows_the_boot_then_the_figures() -> None:
    fake = FakeConsole(gpu=NO_GPU)
    async with opened(fake) as pilot:
        await pilot.press("s")
        await settled(pilot, lambda: view_of(pilot).server.state is ServerState.STARTING)
        text = shown(pilot)
        assert "STARTING 0:00:09" in text
        assert "▸ weights 7.0 s" in text
        assert "✓ arguments 1.2 s" in text
        assert "Cancel launch" in text
        assert "s Start" not in text
        fake.release.set()
        await settled(pilot, lambda: view_of(pilot).live is not None)
        assert "RUNNING" in shown(pilot)
    assert fake.calls == ["remember last_profile=demo-speed", "start demo-speed"]


async def test_a_refused_launch_says_why_and_what_to_do() -> None:
    fake = FakeConsole(gpu=NO_GPU)
    fake.start_error = LaunchError(
        t("Port {port} is taken by {who}.", port=30000, who="python3 (25971)"),
        t("Stop it, or choose another port."),
    )
    async with opened(fake) as pilot:
        await pilot.press("s")
        await settled(pilot, lambda: isinstance(pilot.app.screen, ErrorCard))
        text = shown(pilot)
        assert "Port 30000 is taken by python3 (25971)." in text
        assert "Stop it, or choose another port." in text
        await pilot.press("escape")
        await settled(pilot, lambda: view_of(pilot).busy is None)
        assert "s Start" in shown(pilot)


async def test_a_death_names_cause_remedy_and_proof() -> None:
    fake = FakeConsole(died())
    async with opened(fake) as pilot:
        text = shown(pilot)
        assert "FATAL" in text
        assert "It died: kv_pool_no_memory" in text
        assert "The weights leave no room for a KV pool." in text
        assert "Raise --mem-fraction-static to 0.95" in text
        assert "57: RuntimeError: Not enough memory" in text
        await pilot.press("a")
        await settled(pilot, lambda: "acknowledge 2" in fake.calls)


async def test_clamps_unfold_until_they_are_acknowledged() -> None:
    fake = FakeConsole(running())
    async with opened(fake) as pilot:
        assert "2 to acknowledge" in shown(pilot)
        assert "each request holds 4" in shown(pilot)
        await pilot.press("a")
        await settled(pilot, lambda: not view_of(pilot).unseen)
        text = shown(pilot)
        assert "to acknowledge" not in text
        assert "each request holds 4" not in text
        assert "✓ --max-running-requests" in text
        assert "a Seen" not in text
    assert fake.calls == ["acknowledge 2"]


async def test_a_clamp_opens_whole_with_its_evidence() -> None:
    async with opened(FakeConsole(running())) as pilot:
        await pilot.press("tab", "enter")
        await settled(pilot, lambda: isinstance(pilot.app.screen, ClampCard))
        text = shown(pilot)
        assert "Evidence, log line 41" in text
        assert "changed by mamba state cache" in text
        await pilot.press("escape", "down", "enter")
        await settled(pilot, lambda: isinstance(pilot.app.screen, ClampCard))
        assert "Tell your client this figure" in shown(pilot)


async def test_swap_shows_what_changes_and_enter_does_it() -> None:
    fake = FakeConsole(running())
    async with opened(fake) as pilot:
        await pilot.press("s")
        await settled(pilot, lambda: isinstance(pilot.app.screen, SwapCard))
        text = shown(pilot)
        assert "Swap 27b-int4-speed → 27b-int4-context" in text
        assert "--speculative-algorithm                   EAGLE → not set" in text
        assert "Requests in flight: 2 running, 1 waiting." in text
        assert "No answers for about 38 s (median of 3 swaps)." in text
        assert "Predicted there: KV pool" in text
        assert "The prefix cache is lost: 61,647 tokens." in text
        await pilot.press("escape")
        assert fake.calls == []
        await pilot.press("s", "enter")
        await settled(pilot, lambda: view_of(pilot).server.state is ServerState.STARTING)
        fake.release.set()
        await settled(pilot, lambda: view_of(pilot).server.profile == "27b-int4-context")
        await settled(pilot, lambda: view_of(pilot).busy is None)
        assert "Swap to speed" in shown(pilot)
    assert fake.calls == ["swap 27b-int4-context draining 0"]


async def test_stop_asks_and_says_what_is_lost() -> None:
    fake = FakeConsole(running())
    async with opened(fake) as pilot:
        await pilot.press("x")
        await settled(pilot, lambda: isinstance(pilot.app.screen, ConfirmCard))
        assert "Requests in flight: 2 running, 1 waiting." in shown(pilot)
        await pilot.press("escape")
        assert fake.calls == []
        await pilot.press("x", "enter")
        await settled(pilot, lambda: view_of(pilot).server.state is ServerState.STOPPED)
        await settled(pilot, lambda: view_of(pilot).busy is None)
        assert "It drained and ended." in shown(pilot)
    assert fake.calls == ["stop"]


async def test_leaving_never_stops_the_server_silently() -> None:
    fake = FakeConsole(running())
    async with opened(fake) as pilot:
        await pilot.press("q")
        await settled(pilot, lambda: isinstance(pilot.app.screen, LeaveCard))
        assert "goes on running at http://127.0.0.1:30000" in shown(pilot)
        await pilot.press("escape", "q", "enter")
        await pilot.pause()
        assert not pilot.app.is_running or pilot.app.return_code == 0
    assert fake.calls == []
    assert fake.closed


async def test_leaving_can_stop_the_server() -> None:
    fake = FakeConsole(running())
    async with opened(fake) as pilot:
        await pilot.press("q", "x")
        await settled(pilot, lambda: "stop" in fake.calls)


async def test_with_nothing_running_quit_quits() -> None:
    async with opened(FakeConsole(gpu=NO_GPU)) as pilot:
        assert "q Quit" in shown(pilot)
        await pilot.press("q")
        await pilot.pause()
        assert pilot.app.return_code == 0


async def test_probe_shows_both_first_tokens() -> None:
    fake = FakeConsole(running())
    async with opened(fake) as pilot:
        await pilot.press("p")
        await settled(pilot, lambda: isinstance(pilot.app.screen, PickProbe))
        await pilot.press("enter")
        await settled(pilot, lambda: isinstance(pilot.app.screen, ProbeCard))
        await pilot.press("escape")
        await settled(pilot, lambda: pilot.app.screen.id == "home")
        text = shown(pilot)
    assert "TTFT 412 ms" in text
    assert "TTFO 2.31 s" in text
    assert fake.calls == ["probe prose http://127.0.0.1:30000"]


async def test_the_doctor_lists_checks_and_explains_the_one_under_the_cursor() -> None:
    fake = FakeConsole(gpu=NO_GPU)
    async with opened(fake) as pilot:
        await pilot.press("d")
        await settled(pilot, lambda: isinstance(pilot.app.screen, DoctorScreen))
        screen = pilot.app.screen
        assert isinstance(screen, DoctorScreen)
        await settled(pilot, lambda: not screen.running)
        text = shown(pilot)
        assert "1 FAIL  1 WARN  1 OK  1 SKIP" in text
        assert "✗ FAIL" in text
        assert "SGLang 0.5.23 is built for CUDA 13 and will not start." in text
        assert "sudo apt install nvidia-driver-580-open" in text
        await pilot.press("f")
        await pilot.pause()
        assert "free space" not in shown(pilot)
        await pilot.press("escape")
        await settled(pilot, lambda: not isinstance(pilot.app.screen, DoctorScreen))
    assert fake.calls == ["checks demo-speed"]


async def test_a_profile_can_be_picked() -> None:
    fake = FakeConsole(gpu=NO_GPU)
    async with opened(fake) as pilot:
        await pilot.press("o")
        await pilot.pause()
        text = shown(pilot)
        assert "27b-int4-context" in text
        assert "mine.toml line 3 column 7" in text
        await pilot.press("down", "enter")
        await settled(pilot, lambda: "remember last_profile=demo-context" in fake.calls)
        assert "demo-context" in shown(pilot).splitlines()[0]
        assert "No usable GPU here" not in shown(pilot)


async def test_help_explains_screen_keys_and_words() -> None:
    async with opened(FakeConsole(running()), (120, 70)) as pilot:
        await pilot.press("question_mark")
        await settled(pilot, lambda: isinstance(pilot.app.screen, HelpCard))
        text = shown(pilot)
    assert "Swap between the speed and the context profile" in text
    assert "accept length" in text


async def test_the_log_holds_still_while_somebody_reads_up() -> None:
    fake = FakeConsole(running(), lines=tuple(f"line {n}" for n in range(100)))
    async with opened(fake) as pilot:
        panel = pilot.app.screen.query_one(LogPanel)
        await settled(pilot, lambda: len(panel.rows) == 100)
        panel.focus()
        await pilot.press("pageup", "pageup")
        await settled(pilot, lambda: not panel.is_vertical_scroll_end)
        at = panel.scroll_y
        fake.chunks.put_nowait(LogChunk(tuple(f"new {n}" for n in range(20))))
        await settled(pilot, lambda: panel.waiting == 20)
        assert panel.scroll_y == at
        assert "+20 lines, f follows" in shown(pilot)
        await pilot.press("f")
        await settled(pilot, lambda: panel.waiting == 0)
        assert "new 19" in shown(pilot)


async def test_the_log_stays_at_its_end_when_the_panel_shrinks() -> None:
    fake = FakeConsole(starting(), lines=tuple(f"line {n}" for n in range(100)))
    async with opened(fake) as pilot:
        panel = pilot.app.screen.query_one(LogPanel)
        await settled(pilot, lambda: len(panel.rows) == 100)
        fake.states.put_nowait(running())
        await settled(pilot, lambda: view_of(pilot).live is not None)
        fake.chunks.put_nowait(LogChunk(("the newest line",)))
        await settled(pilot, lambda: len(panel.rows) == 101)
        assert "the newest line" in shown(pilot)


async def test_foreign_markup_stays_text() -> None:
    fake = FakeConsole(running(), lines=("[red]not markup[/red] [@click=app.exit]x[/]",))
    async with opened(fake, (200, 60)) as pilot:
        await settled(pilot, lambda: view_of(pilot).log_total == 1)
        assert "[red]not markup[/red]" in shown(pilot)


async def test_unknown_is_a_dash_and_never_zero() -> None:
    fake = FakeConsole(running(), lives=0)
    async with opened(fake) as pilot:
        assert "Waiting for the first figures" in shown(pilot)
        assert "0 tok/s" not in shown(pilot)


async def test_another_log_takes_the_place_of_the_old_one_at_once() -> None:
    fake = FakeConsole(running(), lines=("old line",))
    async with opened(fake) as pilot:
        await settled(pilot, lambda: "old line" in shown(pilot))
        other = replace(starting("27b-int4-context"), log_path=Path("/nowhere/other.log"))
        fake.states.put_nowait(other)
        await settled(pilot, lambda: "old line" not in shown(pilot))
        assert "no log yet" in shown(pilot)


async def test_before_the_first_line_the_engine_is_being_imported() -> None:
    state = replace(starting(), phase=None, report=None)
    async with opened(FakeConsole(state)) as pilot:
        assert "▸ the engine is being imported 9.0 s" in shown(pilot)


async def test_a_swap_can_be_cancelled_except_during_the_stop() -> None:
    fake = FakeConsole(running())
    async with opened(fake) as pilot:
        await pilot.press("s")
        await settled(pilot, lambda: isinstance(pilot.app.screen, SwapCard))
        await pilot.press("enter")
        await settled(pilot, lambda: "x Cancel swap" in shown(pilot))
        fake.can_cancel = False
        await pilot.press("x")
        await settled(pilot, lambda: "cancel swap" in fake.calls)
        fake.release.set()
        await settled(pilot, lambda: view_of(pilot).busy is None)
        await settled(pilot, lambda: "x Stop" in shown(pilot))
