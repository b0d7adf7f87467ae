"""Each place does what it says, key by key, over a scripted world."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, cast

import pytest

from qwen_tui.services.console import LogChunk
from qwen_tui.services.settings import Settings
from qwen_tui.services.snapshots import Alarm, ServerState
from qwen_tui.ui.messages import LiveSampled
from qwen_tui.ui.places import PLACES
from qwen_tui.ui.screens.cards import ErrorCard
from qwen_tui.ui.screens.details import FindingsCard
from qwen_tui.ui.screens.editor import EditProfile
from qwen_tui.ui.screens.guide import STEPS, GuideCard
from qwen_tui.ui.screens.logs import LogsScreen
from qwen_tui.ui.screens.picker import PickProbe
from qwen_tui.ui.screens.tensors import TensorsCard
from qwen_tui.ui.widgets.knobs import KnobColumn
from qwen_tui.ui.widgets.log import LogView
from qwen_tui_profiles.errors import ConfigError, UsageError
from qwen_tui_profiles.findings import Finding, Severity
from qwen_tui_profiles.text import t
from support.console_pilot import opened, settled, shown, view_of
from support.fake_console import CLAMPS, NO_GPU, NOW, PROFILES, FakeConsole, live, running

if TYPE_CHECKING:
    from pathlib import Path

    from qwen_tui.ui.app import ConsoleApp


async def test_number_keys_go_everywhere_and_escape_goes_home() -> None:
    async with opened(FakeConsole(running())) as pilot:
        for row in PLACES:
            await pilot.press(row.key)
            await settled(pilot, lambda place=row.id: pilot.app.screen.id == place)  # type: ignore[misc]
            assert shown(pilot).startswith(f" {row.key} {row.title}")
            if row.id != "home":
                await pilot.press("escape")
                await settled(pilot, lambda: pilot.app.screen.id == "home")


async def test_the_palette_finds_commands_places_and_profiles() -> None:
    async with opened(FakeConsole(gpu=NO_GPU)) as pilot:
        await pilot.press("ctrl+p")
        await pilot.pause(0.2)
        await pilot.press(*"history")
        await settled(pilot, lambda: "Boots and swaps of the past" in shown(pilot))
        await pilot.press("enter")
        await settled(pilot, lambda: pilot.app.screen.id == "history")


async def test_history_shows_boots_swaps_and_the_trend() -> None:
    async with opened(FakeConsole(running()), (200, 60)) as pilot:
        await pilot.press("8")
        await settled(pilot, lambda: "cuda_oom" in shown(pilot))
        text = shown(pilot)
        assert "27b-int4-speed → 27b-int4-context" in text
        assert "38 s without answers" in text
        await pilot.press("down", "down")
        await settled(pilot, lambda: "Trend of 27b-int4-speed" in shown(pilot))
        # 134,203 - 100 predicted, 134,016 got: +0.065 %.
        assert "predicted 134,103 (+0.06 %)" in shown(pilot)
        await pilot.press("f", "f")
        await settled(pilot, lambda: "cuda_oom" not in shown(pilot))


async def test_boot_shows_what_phases_usually_take() -> None:
    async with opened(FakeConsole(running()), (200, 60)) as pilot:
        await pilot.press("6")
        await settled(pilot, lambda: "usually 13 s" in shown(pilot))
        assert "✓ weights 14 s" in shown(pilot)


async def test_plan_moves_with_the_knobs() -> None:
    fake = FakeConsole(gpu=NO_GPU)
    async with opened(fake) as pilot:
        await pilot.press("5")
        await settled(pilot, lambda: "It fits." in shown(pilot))
        before = fake.fake_plans.asked[-1].profile.argv
        assert "--max-running-requests" in before
        await pilot.press("down", "down", "right")
        await settled(pilot, lambda: len(fake.fake_plans.asked) > 1)
        after = fake.fake_plans.asked[-1].profile.argv
        assert after[after.index("--max-mamba-cache-size") + 1] == "9"
        await settled(pilot, lambda: "-" in shown(pilot).split("KV pool", 1)[1][:40])
        await pilot.press("w")
        await settled(pilot, lambda: "args.max-mamba-cache-size = 9" in shown(pilot))
        await pilot.press("enter")
        await settled(pilot, lambda: bool(fake.fake_files.calls))
    assert fake.fake_files.calls == ["change demo-speed {'args.max-mamba-cache-size': '9'}"]


async def test_plan_can_take_the_draft_away_whole() -> None:
    fake = FakeConsole(gpu=NO_GPU)
    async with opened(fake) as pilot:
        await pilot.press("5")
        await settled(pilot, lambda: "It fits." in shown(pilot))
        await pilot.press(*["down"] * 6, "left", "left")
        await settled(
            pilot, lambda: "--speculative-algorithm" not in fake.fake_plans.asked[-1].profile.argv
        )
        asked = fake.fake_plans.asked[-1].profile.argv
        assert not [flag for flag in asked if flag.startswith("--speculative")]


async def test_a_plan_that_cannot_be_made_says_why() -> None:
    fake = FakeConsole(gpu=NO_GPU)
    fake.fake_plans.error = UsageError(t("No checkpoint is named."), t("Give one."))
    async with opened(fake) as pilot:
        await pilot.press("5")
        await settled(pilot, lambda: "No checkpoint is named." in shown(pilot))


async def test_profiles_show_command_and_rules_and_select() -> None:
    fake = FakeConsole(gpu=NO_GPU)
    async with opened(fake, (200, 60)) as pilot:
        await pilot.press("4")
        await settled(
            pilot, lambda: "/opt/sglang/bin/python -m sglang.launch_server" in shown(pilot)
        )
        await pilot.press("c")
        await settled(pilot, lambda: "27b-int4-speed and 27b-int4-context" in shown(pilot))
        assert "EAGLE → not set" in shown(pilot)
        await pilot.press("escape", "down", "down", "down", "enter")
        await settled(pilot, lambda: "remember last_profile=demo-context" in fake.calls)


async def test_a_new_profile_extends_the_one_under_the_cursor() -> None:
    fake = FakeConsole(gpu=NO_GPU)
    async with opened(fake) as pilot:
        await pilot.press("4")
        await settled(pilot, lambda: "27b-int4-speed" in shown(pilot))
        await pilot.press("n")
        await settled(pilot, lambda: "27b-int4-speed-mine" in shown(pilot))
        await pilot.press("enter")
        await settled(pilot, lambda: bool(fake.fake_files.calls))
    assert fake.fake_files.calls == ["new 27b-int4-speed-mine from 27b-int4-speed"]


async def test_the_editor_judges_the_draft_and_writes_what_changed() -> None:
    fake = FakeConsole(gpu=NO_GPU)
    async with opened(fake, (120, 40)) as pilot:
        await pilot.press("4")
        await settled(pilot, lambda: "27b-int4-speed" in shown(pilot))
        await pilot.press("e")
        await settled(pilot, lambda: isinstance(pilot.app.screen, EditProfile))
        await settled(pilot, lambda: "It fits." in shown(pilot))
        await pilot.press("down", "enter", "backspace", *"8", "enter")
        await settled(
            pilot,
            lambda: (
                (a := fake.fake_plans.asked[-1].profile.argv)[a.index("--max-running-requests") + 1]
                == "8"
            ),
        )
        await pilot.press("w")
        await settled(pilot, lambda: bool(fake.fake_files.calls))
    assert fake.fake_files.calls == ["change 27b-int4-speed {'args.max-running-requests': '8'}"]


async def test_models_show_the_verdict_and_what_a_user_would_see() -> None:
    fake = FakeConsole(running())
    async with opened(fake, (200, 60)) as pilot:
        await pilot.press("3")
        await settled(pilot, lambda: "通义千问-27B-量化" in shown(pilot))
        await pilot.press("enter")
        await settled(pilot, lambda: "✗ ERROR" in shown(pilot))
        text = shown(pilot)
        assert "It loads, answers HTTP 200, and the output is garbage." in text
        assert "MTP head" in text
        await pilot.press("t")
        await settled(pilot, lambda: isinstance(pilot.app.screen, TensorsCard))
        await settled(pilot, lambda: "80 of 80 tensors" in shown(pilot))
        await pilot.press(*"layers.7. up")
        await settled(pilot, lambda: "1 of 80 tensors" in shown(pilot))


async def test_wide_characters_keep_the_columns_straight() -> None:
    async with opened(FakeConsole(running())) as pilot:
        await pilot.press("3")
        await settled(pilot, lambda: "通义千问" in shown(pilot))
        rows = [line for line in shown(pilot).splitlines() if " GiB" in line]
        # Each of the six wide characters takes two cells and counts as one in a Python string.
        ends = {line.index(" GiB") + sum(ord(c) > 0x2E80 for c in line) for line in rows}
        assert len(rows) == 2
        assert len(ends) == 1


async def test_logs_search_filter_and_go_to_the_evidence() -> None:
    evidence = CLAMPS[0].evidence
    assert evidence is not None
    lines = (
        *(f"Decode batch, #running-req: 2, line {n}" for n in range(60)),
        evidence.text,
        'INFO: 127.0.0.1:1 - "GET /metrics HTTP/1.1" 200 OK',
        "ERROR something broke",
        *(f"Decode batch, #running-req: 2, line {n}" for n in range(60, 120)),
    )
    async with opened(FakeConsole(running(), lines=lines)) as pilot:
        await pilot.press("7")
        await settled(pilot, lambda: "line 119" in shown(pilot))
        screen = pilot.app.screen
        assert isinstance(screen, LogsScreen)
        await pilot.press("e")
        await settled(pilot, lambda: evidence.text in shown(pilot))
        await pilot.press("slash", *"line 7", "enter")
        await settled(pilot, lambda: screen.log_view.marked is not None)
        first = screen.log_view.marked
        await pilot.press("n")
        await pilot.pause()
        second = screen.log_view.marked
        assert first is not None
        assert second is not None
        assert first < second
        await pilot.press("N")
        await pilot.pause()
        assert screen.log_view.marked == first
        for _ in range(5):  # no polls, polls, requests, batches, errors
            await pilot.press("k")
        await pilot.pause()
        assert screen.log_view.rows == ["ERROR something broke"]


async def test_evidence_is_found_through_a_filter_that_hides_it() -> None:
    evidence = CLAMPS[0].evidence
    assert evidence is not None
    lines = (evidence.text, *(f"Decode batch, #running-req: 2, line {n}" for n in range(60)))
    async with opened(FakeConsole(running(), lines=lines)) as pilot:
        await pilot.press("7")
        await settled(pilot, lambda: "line 59" in shown(pilot))
        screen = pilot.app.screen
        assert isinstance(screen, LogsScreen)
        while screen.log_view.rows:
            screen.action_kind()
        await pilot.press("e")
        await settled(pilot, lambda: "reduced to 2 by the mamba" in shown(pilot))
        assert screen.log_view.rows[0] == evidence.text


async def test_pause_holds_figures_and_log_still() -> None:
    fake = FakeConsole(running(), lines=("one",))
    async with opened(fake) as pilot:
        await settled(pilot, lambda: view_of(pilot).log_total == 1)
        await pilot.press("space")
        await settled(pilot, lambda: "PAUSED" in shown(pilot))
        fake.chunks.put_nowait(LogChunk(("two",)))
        await pilot.pause(0.1)
        assert "two" not in shown(pilot)
        await pilot.press("space")
        await settled(pilot, lambda: "two" in shown(pilot))
        assert "PAUSED" not in shown(pilot)


async def test_the_interval_can_be_changed_and_never_falls_below_a_second() -> None:
    async with opened(FakeConsole(running())) as pilot:
        await pilot.press("minus", "minus")
        assert view_of(pilot).interval_s == 5.0
        await pilot.press("plus", "plus", "plus", "plus")
        assert view_of(pilot).interval_s == 1.0


async def test_a_second_console_reads_only() -> None:
    fake = FakeConsole(running())
    fake.rights = [(False, 4711)]
    async with opened(fake) as pilot:
        await settled(pilot, lambda: not view_of(pilot).controls)
        text = shown(pilot)
        assert "READ-ONLY" in text
        assert "pid 4711 controls" in text
        assert "x Stop" not in text
        await pilot.press("x", "s")
        await pilot.pause()
    assert fake.calls == []


async def test_the_right_to_act_comes_when_the_other_leaves() -> None:
    fake = FakeConsole(running())
    fake.rights = [(False, 4711), (True, None)]
    async with opened(fake) as pilot:
        await settled(pilot, lambda: view_of(pilot).controls)
        await settled(pilot, lambda: "x Stop" in shown(pilot))


async def test_a_launch_that_would_fail_says_so_and_can_be_forced() -> None:
    fake = FakeConsole(gpu=NO_GPU)
    fake.blockers = (
        Finding(
            "draft-path",
            Severity.ERROR,
            t("The draft path costs four fifths of the pool."),
            "--speculative-draft-model-path",
            "seed 004",
            "0.5.14",
            "0.5.17",
            t("Drop the flag."),
        ),
    )
    async with opened(fake) as pilot:
        await pilot.press("s")
        await settled(pilot, lambda: isinstance(pilot.app.screen, FindingsCard))
        assert "The draft path costs four fifths of the pool." in shown(pilot)
        assert "Drop the flag." in shown(pilot)
        await pilot.press("f", *"testing", "enter")
        await settled(pilot, lambda: "start demo-speed (testing)" in fake.calls)


async def test_first_steps_lead_from_doctor_to_probe() -> None:
    fake = FakeConsole(gpu=NO_GPU)
    fake.guide = None
    async with opened(fake) as pilot:
        await settled(pilot, lambda: isinstance(pilot.app.screen, GuideCard))
        assert "▸ 1 Check this machine" in shown(pilot)
        await pilot.press("enter")
        await settled(pilot, lambda: pilot.app.screen.id == "doctor")
        await settled(pilot, lambda: "doctor" in view_of(pilot).steps)
        assert "remember guide=done" in fake.calls
        await pilot.press("g")
        await settled(pilot, lambda: "the simulated engine needs none" in shown(pilot))
        await pilot.press("s")  # skips the plan
        await settled(pilot, lambda: "▸ 5 Launch" in shown(pilot))
        await pilot.press("enter")
        await settled(pilot, lambda: view_of(pilot).server.state is ServerState.STARTING)
        fake.release.set()
        await settled(pilot, lambda: view_of(pilot).server.state is ServerState.RUNNING)
        await pilot.press("g")
        await settled(pilot, lambda: "▸ 6 Send one request" in shown(pilot))
        await pilot.press("enter")
        await settled(pilot, lambda: view_of(pilot).probe is not None)
    assert len(STEPS) == 6


async def test_first_steps_never_cover_a_running_server() -> None:
    fake = FakeConsole(running())
    fake.guide = None
    async with opened(fake) as pilot:
        assert not isinstance(pilot.app.screen, GuideCard)


async def test_first_steps_are_never_shown_unasked_again() -> None:
    async with opened(FakeConsole(gpu=NO_GPU)) as pilot:
        assert not isinstance(pilot.app.screen, GuideCard)


async def test_a_moved_key_takes_none_from_the_command_that_shared_it() -> None:
    """Start and swap share a key, stop and cancel another."""
    fake = FakeConsole(running())
    fake.chosen = Settings(keys={"server.start": "f5", "swap.cancel": "f7", "place.doctor": "f2"})
    async with opened(fake) as pilot:
        await settled(pilot, lambda: "f2 Doctor" in shown(pilot))
        footer = shown(pilot).splitlines()[-1]
        assert footer.startswith(" s Swap to context  a Seen  p Probe  x Stop  f2 Doctor  l Logs")
        await pilot.press("s")
        await settled(pilot, lambda: "Swap 27b-int4-speed" in shown(pilot))


async def test_keys_can_be_moved_in_the_settings() -> None:
    fake = FakeConsole(gpu=NO_GPU)
    fake.chosen = Settings(keys={"server.start": "f5"})
    async with opened(fake) as pilot:
        await settled(pilot, lambda: "f5 Start" in shown(pilot))
        await pilot.press("f5")
        await settled(pilot, lambda: "start demo-speed" in fake.calls)


async def test_a_theme_is_remembered() -> None:
    fake = FakeConsole(gpu=NO_GPU)
    async with opened(fake) as pilot:
        await pilot.press("ctrl+t")
        await settled(pilot, lambda: "remember theme=qwen-light" in fake.calls)
        assert pilot.app.theme == "qwen-light"


async def test_an_unknown_theme_counts_as_none() -> None:
    fake = FakeConsole(gpu=NO_GPU)
    fake.chosen = Settings(theme="no-such-theme")
    async with opened(fake) as pilot:
        assert pilot.app.theme == "qwen-dark"


async def test_a_selected_profile_follows_its_file() -> None:
    fake = FakeConsole(gpu=NO_GPU)
    async with opened(fake) as pilot:
        demo = PROFILES.find("demo-speed")
        assert demo is not None
        changed = replace(demo, port=31999)
        fake.profile_list = replace(
            PROFILES,
            profiles=tuple(changed if p is demo else p for p in PROFILES.profiles),
        )
        cast("ConsoleApp", pilot.app).action_read_profiles()
        await settled(pilot, lambda: "127.0.0.1:31999" in shown(pilot))


@pytest.mark.parametrize(("place", "kept"), [("1", 500), ("7", 5000)])
async def test_a_log_view_keeps_a_bounded_number_of_lines(place: str, kept: int) -> None:
    fake = FakeConsole(running(), lines=tuple(f"line {n}" for n in range(4000)))
    async with opened(fake) as pilot:
        await pilot.press(place)
        await pilot.pause()
        panel = pilot.app.screen.query_one(LogView)
        fake.chunks.put_nowait(LogChunk(tuple(f"more {n}" for n in range(4000)), dropped=7))
        await settled(pilot, lambda: view_of(pilot).log_total == 8001)
        assert len(panel.rows) == kept
        assert panel.rows[-1] == "more 3999"


async def test_a_mark_stays_on_its_line_when_older_ones_are_forgotten() -> None:
    fake = FakeConsole(running(), lines=tuple(f"line {n}" for n in range(400)))
    async with opened(fake) as pilot:
        panel = pilot.app.screen.query_one(LogView)
        assert panel.find("line 390", -1)
        panel.follow()
        for total, expected in ((700, "line 390"), (1000, None)):
            fake.chunks.put_nowait(LogChunk(tuple(f"more {n}" for n in range(300))))
            await settled(pilot, lambda total=total: view_of(pilot).log_total == total)  # type: ignore[misc]
            marked = panel.marked
            assert (None if marked is None else panel.rows[marked]) == expected


@pytest.mark.parametrize("size", [(80, 24), (200, 60)])
async def test_knobs_fit_their_column(size: tuple[int, int]) -> None:
    async with opened(FakeConsole(gpu=NO_GPU), size) as pilot:
        await pilot.press("5")
        await settled(pilot, lambda: "It fits." in shown(pilot))
        column = pilot.app.screen.query_one(KnobColumn)
        lines = column.render().plain.split("\n")
        assert len(lines) == 9
        assert {len(line) for line in lines} == {column.content_size.width}


async def test_the_mouse_presses_keys_and_goes_to_places() -> None:
    fake = FakeConsole(running())
    async with opened(fake, (120, 40)) as pilot:
        line = shown(pilot).splitlines()[-1]
        await pilot.click(offset=(line.index("Doctor"), 39))
        await settled(pilot, lambda: pilot.app.screen.id == "doctor")
        tabs = shown(pilot).splitlines()[1]
        await pilot.click(offset=(tabs.index("History"), 1))
        await settled(pilot, lambda: pilot.app.screen.id == "history")


async def test_an_error_of_our_own_becomes_a_file_and_a_sentence(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("QWEN_TUI_HOME", str(tmp_path))
    fake = FakeConsole(running())
    fake.fake_probes.error = RuntimeError("api_key='verysecret' was in the way")
    async with opened(fake, (120, 40)) as pilot:
        await pilot.press("p")
        await settled(pilot, lambda: isinstance(pilot.app.screen, PickProbe))
        await pilot.press("enter")
        await settled(pilot, lambda: isinstance(pilot.app.screen, ErrorCard))
        assert "An error of qwen-tui itself: RuntimeError." in shown(pilot)
        (path,) = (tmp_path / "state" / "crashes").iterdir()
        assert path.name in shown(pilot).replace("\n", "")
        assert "verysecret" not in path.read_text()
        await pilot.press("escape")
        await settled(pilot, lambda: view_of(pilot).busy is None)
        assert "p Probe" in shown(pilot)


async def test_what_matters_can_be_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened(FakeConsole(running())) as pilot:
        copied: list[str] = []
        monkeypatch.setattr(pilot.app, "copy_to_clipboard", copied.append)
        await pilot.press("y")
        await pilot.press("tab", "enter")
        await settled(pilot, lambda: "Copy what to do" in shown(pilot))
        await pilot.press("y", "escape", "d")
        await settled(pilot, lambda: "Copy fix" in shown(pilot))
        await pilot.press("y", "Y")
        await settled(pilot, lambda: len(copied) == 4)
    assert copied == [
        "http://127.0.0.1:30000",
        "For 4 requests: --max-mamba-cache-size 17, at the price of 21,500 KV tokens.",
        "sudo apt install nvidia-driver-580-open",
        "## qwen-tui doctor",
    ]


async def test_an_alarm_stands_on_every_screen_until_it_is_seen() -> None:
    fake = FakeConsole(running(), lives=0)
    alarm = Alarm(
        "accept_pinned",
        Severity.WARN,
        t("The accept length is pinned at 1.00: the draft head does not work."),
        t("Check that the checkpoint has MTP weights."),
        NOW,
    )
    async with opened(fake) as pilot:
        pilot.app.post_message(LiveSampled(replace(live(), alarms=(alarm,))))
        await settled(pilot, lambda: "accept length is pinned at 1.00" in shown(pilot))
        await pilot.press("7")
        await settled(pilot, lambda: pilot.app.screen.id == "logs")
        assert "Check that the checkpoint has MTP weights." in " ".join(shown(pilot).split())
        await pilot.press("escape")
        await settled(pilot, lambda: pilot.app.screen.id == "home")
        await pilot.press("a")
        await settled(pilot, lambda: "pinned at 1.00" not in shown(pilot))


async def test_the_pool_stands_beside_what_was_predicted() -> None:
    fake = FakeConsole(running())
    fake.prediction = 134_203
    async with opened(fake, (120, 40)) as pilot:
        # (134,203 - 134,016) / 134,016 = +0.14 %.
        assert "predicted 134,203 (+0.14 %)" in shown(pilot)


async def test_keys_are_up_to_date_below_a_card_that_closes() -> None:
    fake = FakeConsole(gpu=NO_GPU)
    fake.guide = None
    async with opened(fake) as pilot:
        await settled(pilot, lambda: isinstance(pilot.app.screen, GuideCard))
        await pilot.press("escape")
        await settled(pilot, lambda: "s Start" in shown(pilot))


async def test_a_setting_that_cannot_be_written_is_said_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fake = FakeConsole(gpu=NO_GPU)

    async def full(**_: str | None) -> None:
        raise ConfigError(t("Cannot write config.toml (No space left on device)."), t("Free some."))

    monkeypatch.setattr(fake, "remember", full)
    async with opened(fake) as pilot:
        await pilot.press("ctrl+t")
        await settled(pilot, lambda: isinstance(pilot.app.screen, ErrorCard))
        assert "No space left on device" in shown(pilot)


async def test_a_broken_settings_file_is_said_and_blocks_nothing() -> None:
    fake = FakeConsole(gpu=NO_GPU)
    fake.chosen = Settings(problem=ConfigError(t("config.toml, line 2: not valid TOML.")))
    async with opened(fake) as pilot:
        assert "✗ config.toml, line 2: not valid TOML." in shown(pilot)
        assert "s Start" in shown(pilot)
