"""Several servers in one place: a line each, unknown is a dash, Enter opens one."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from qwen_tui.services.console_real import RealConsole
from qwen_tui.services.paths import Paths
from qwen_tui.services.snapshots import LatencySummary, LiveSnapshot, LiveWindow, ReplicaSnapshot
from qwen_tui.ui.app import ConsoleApp
from qwen_tui.ui.screens.cards import ErrorCard
from qwen_tui.ui.screens.picker import PickProbe
from qwen_tui.ui.screens.probe import ProbeCard
from qwen_tui.ui.screens.server import ServerCard
from qwen_tui_profiles.text import t
from support.console_pilot import opened, settled, shown, view_of, words
from support.demo_server import running as demo_engine
from support.fake_console import NOW, FakeConsole, live, running

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

OWN = "http://127.0.0.1:30000"
ONE = "http://10.0.0.2:30000"
TWO = "http://10.0.0.3:30000"


def fleet(*urls: str) -> FakeConsole:
    fake = FakeConsole(running())
    fake.fake_fleet.addresses = urls
    return fake


def line(text: str, address: str) -> str:
    """Return the row of an address, its blanks made single."""
    (found,) = [row for row in text.splitlines() if address in row and "│" in row][:1]
    return " ".join(found.replace("│", " ").split())


async def test_each_server_has_a_line_and_our_own_is_not_asked_twice() -> None:
    fake = fleet(OWN, ONE, TWO)
    async with opened(fake) as pilot:
        await pilot.press("9")
        await settled(pilot, lambda: "not heard of yet" in shown(pilot))
        fake.fake_fleet.say(ONE, replace(live(), running=7, queue=3, kv_used=0.5))
        down = LiveSnapshot(at=NOW, source="unknown", error=t("Nothing listens there."))
        fake.fake_fleet.say(TWO, down)
        await settled(pilot, lambda: "Nothing listens there." in shown(pilot))
        text = shown(pilot)
        assert line(text, "10.0.0.2:30000").startswith("● 10.0.0.2:30000 7+3 ")
        assert " 50 % " in line(text, "10.0.0.2:30000")
        assert line(text, "10.0.0.3:30000") == "✗ 10.0.0.3:30000 Nothing listens there."
        assert "2+1" in line(text.split("Servers", 1)[1], "127.0.0.1:30000")
    assert fake.fake_fleet.watched == [(ONE, TWO)]


async def test_unknown_figures_are_dashes_and_old_ones_are_marked() -> None:
    fake = fleet(ONE)
    async with opened(fake) as pilot:
        await pilot.press("9")
        await settled(pilot, lambda: "10.0.0.2" in shown(pilot))
        empty = LiveSnapshot(at=NOW, source="vllm", running=0, queue=0)
        fake.fake_fleet.say(ONE, empty)
        await settled(pilot, lambda: "0+0" in shown(pilot))
        assert line(shown(pilot), "10.0.0.2:30000") == "● 10.0.0.2:30000 0+0 — — — — —"
        fake.fake_fleet.say(ONE, replace(empty, stale_s=40.0, error=t("It hangs.")))
        await settled(pilot, lambda: "! 10.0.0.2:30000" in shown(pilot))
        await pilot.press("down")
        await settled(pilot, lambda: "stale for 40 s" in shown(pilot))


async def test_routers_and_gateways_are_named_with_what_they_know() -> None:
    fake = fleet(ONE, TWO)
    router = LiveSnapshot(
        at=NOW,
        source="smg",
        running=3,
        replicas=(
            ReplicaSnapshot("http://a:1", 3, None, None, True),
            ReplicaSnapshot("http://b:1", None, None, None, False),
        ),
    )
    latency = LatencySummary(p50_ms=12.5, p95_ms=40.0, window_s=60.0, n=9)
    window = LiveWindow(60.0, requests=9, queue_time=latency, overhead=latency)
    gateway = LiveSnapshot(
        at=NOW, source="litellm", running=1, ttft=latency, windows=(window,), window_s=60.0
    )
    async with opened(fake, (140, 40)) as pilot:
        await pilot.press("9")
        await settled(pilot, lambda: "10.0.0.2" in shown(pilot))
        fake.fake_fleet.say(ONE, router)
        fake.fake_fleet.say(TWO, gateway)
        await settled(pilot, lambda: "LiteLLM" in shown(pilot))
        text = shown(pilot)
        assert line(text, "10.0.0.2:30000").endswith("SGLang router 1/2")
        assert line(text, "10.0.0.3:30000").endswith("LiteLLM")
        await pilot.press("down")
        await settled(pilot, lambda: "http://b:1" in shown(pilot))
        pane = " ".join(shown(pilot).split())
        assert "router: 1 of 2 workers healthy, 3 in flight" in pane
        assert "does not answer" in pane
        await pilot.press("down")
        await settled(pilot, lambda: "in queue p50" in shown(pilot))
        pane = " ".join(shown(pilot).split())
        assert "LiteLLM: 1 in flight; in the last 60 s 9 ended, in queue p50 12.5 ms" in pane


async def test_enter_opens_the_figures_of_one_and_they_move() -> None:
    fake = fleet(ONE)
    async with opened(fake) as pilot:
        await pilot.press("9")
        await settled(pilot, lambda: "10.0.0.2" in shown(pilot))
        fake.fake_fleet.say(ONE, replace(live(), running=7))
        await pilot.press("down", "enter")
        await settled(pilot, lambda: isinstance(pilot.app.screen, ServerCard))
        await settled(pilot, lambda: "7 of 2 running" in shown(pilot))
        fake.fake_fleet.say(ONE, replace(live(), running=9))
        await settled(pilot, lambda: "9 of 2 running" in shown(pilot))
        assert fake.fake_fleet.watching == 1
        await pilot.press("escape")
        await settled(pilot, lambda: pilot.app.screen.id == "fleet")
        assert fake.fake_fleet.watching == 1  # the card did not end it
        await pilot.press("up", "enter")
        await settled(pilot, lambda: pilot.app.screen.id == "home")
        await settled(pilot, lambda: fake.fake_fleet.watching == 0)


async def test_servers_are_added_and_removed_by_key() -> None:
    fake = fleet()
    async with opened(fake) as pilot:
        await pilot.press("9")
        await settled(pilot, lambda: "n Add" in shown(pilot))
        assert "R Remove" not in shown(pilot)  # our own stands there by itself
        await pilot.press("n", *"user:secret@10.0.0.2:30000", "enter")
        await settled(pilot, lambda: fake.fake_fleet.addresses == (ONE,))
        await settled(pilot, lambda: fake.fake_fleet.watched == [(ONE,)])
        await pilot.press("n", *"ftp://x", "enter")
        await settled(pilot, lambda: isinstance(pilot.app.screen, ErrorCard))
        await pilot.press("escape", "down")
        await settled(pilot, lambda: "R Remove" in shown(pilot))
        await pilot.press("R")
        await settled(pilot, lambda: fake.fake_fleet.addresses == ())


async def test_the_pane_names_replicas_behind_one_address() -> None:
    fake = fleet(ONE)
    ranks = tuple(ReplicaSnapshot(str(n), n, 0, 0.25) for n in range(2))
    async with opened(fake, (120, 40)) as pilot:
        await pilot.press("9")
        await settled(pilot, lambda: "10.0.0.2" in shown(pilot))
        fake.fake_fleet.say(ONE, replace(live(), replicas=ranks, engine_version="0.5.23"))
        await pilot.press("down")
        await settled(pilot, lambda: "1 running, 0 waiting, KV 25 %" in shown(pilot))
        assert "SGLang 0.5.23" in shown(pilot)


async def test_the_card_probes_its_own_server_and_keeps_the_result() -> None:
    fake = fleet(ONE, TWO)
    fake.fake_fleet_probes.answer.clear()
    async with opened(fake) as pilot:
        await pilot.press("9")
        await settled(pilot, lambda: "10.0.0.2" in shown(pilot))
        fake.fake_fleet.say(ONE, replace(live(), running=1, queue=0))
        await pilot.press("down", "enter")
        await settled(pilot, lambda: "p Probe" in shown(pilot))
        assert "P Last probe" not in shown(pilot)
        assert "not sent yet" in shown(pilot)
        await pilot.press("p")
        await settled(pilot, lambda: isinstance(pilot.app.screen, PickProbe))
        await pilot.press("down", "enter")
        await settled(pilot, lambda: f"Probing {ONE}" in shown(pilot))
        assert "p Probe" not in shown(pilot)  # one at a time
        assert view_of(pilot).busy is None  # our own server is not what is busy
        fake.fake_fleet_probes.answer.set()
        await settled(pilot, lambda: isinstance(pilot.app.screen, ProbeCard))
        assert "per token 6.75 ms" in words(pilot)
        assert "Other requests ran meanwhile" not in words(pilot)
        assert view_of(pilot).probe is None
        await pilot.press("escape")
        await settled(pilot, lambda: isinstance(pilot.app.screen, ServerCard))
        assert "TTFT 412 ms TTFO 2.31 s" in words(pilot)
        await pilot.press("escape")
        await settled(pilot, lambda: pilot.app.screen.id == "fleet")
        await pilot.press("enter")
        await settled(pilot, lambda: "TTFT 412 ms TTFO 2.31 s" in words(pilot))
        await pilot.press("P")
        await settled(pilot, lambda: isinstance(pilot.app.screen, ProbeCard))
        await pilot.press("r")
        await settled(pilot, lambda: len(fake.calls) == 2)
    assert fake.calls == [f"probe code {ONE}"] * 2


async def test_a_probe_that_comes_back_after_its_card_was_left_is_told() -> None:
    fake = fleet(ONE)
    fake.fake_fleet_probes.answer.clear()
    async with opened(fake) as pilot:
        await pilot.press("9")
        await settled(pilot, lambda: "10.0.0.2" in shown(pilot))
        fake.fake_fleet.say(ONE, live())
        await pilot.press("down", "enter")
        await settled(pilot, lambda: "p Probe" in shown(pilot))
        await pilot.press("p")
        await settled(pilot, lambda: isinstance(pilot.app.screen, PickProbe))
        await pilot.press("enter")
        await settled(pilot, lambda: f"Probing {ONE}" in shown(pilot))
        await pilot.press("escape", "8")
        await settled(pilot, lambda: pilot.app.screen.id == "history")
        fake.fake_fleet_probes.answer.set()
        await settled(pilot, lambda: bool(pilot.app._notifications))
        (note,) = pilot.app._notifications
        assert note.message == f"The probe of {ONE} came back; its card shows it."
        assert pilot.app.screen.id == "history"


async def test_no_probe_is_offered_where_nothing_answers() -> None:
    fake = fleet(ONE)
    async with opened(fake) as pilot:
        await pilot.press("9")
        await settled(pilot, lambda: "10.0.0.2" in shown(pilot))
        await pilot.press("down", "enter")
        await settled(pilot, lambda: isinstance(pilot.app.screen, ServerCard))
        assert "p Probe" not in shown(pilot)  # not heard of yet
        down = LiveSnapshot(at=NOW, source="unknown", error=t("Nothing listens there."))
        fake.fake_fleet.say(ONE, down)
        await settled(pilot, lambda: "Nothing listens there." in shown(pilot))
        assert "p Probe" not in shown(pilot)
        await pilot.press("p")
        await pilot.pause()
        assert isinstance(pilot.app.screen, ServerCard)
        router = LiveSnapshot(at=NOW, source="smg", error=t("Its workers show no metrics."))
        fake.fake_fleet.say(ONE, router)
        await settled(pilot, lambda: "p Probe" in shown(pilot))  # it answers requests all the same


async def test_a_moved_key_is_the_same_on_the_card_of_another_server() -> None:
    fake = fleet(ONE)
    fake.chosen = replace(fake.chosen, keys={"probe": "f6"})
    async with opened(fake) as pilot:
        await pilot.press("9")
        await settled(pilot, lambda: "10.0.0.2" in shown(pilot))
        fake.fake_fleet.say(ONE, live())
        await pilot.press("down", "enter")
        await settled(pilot, lambda: "f6 Probe" in shown(pilot))
        await pilot.press("f6")
        await settled(pilot, lambda: isinstance(pilot.app.screen, PickProbe))


async def test_two_engines_are_probed_each_with_its_own_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Real ones, through the real services: the key of one is never sent to the other."""
    paths = Paths(tmp_path / "config", tmp_path / "state", tmp_path / "cache")
    paths.config.mkdir()
    monkeypatch.setenv("ONE_KEY", "secret-of-one")
    monkeypatch.setenv("QWEN_TUI_API_KEY", "secret-of-others")
    quick = ("--enable-metrics", "--demo-token-ms", "2")
    with (
        demo_engine(*quick, "--api-key", "secret-of-one") as one,
        demo_engine(*quick, "--api-key", "secret-of-others") as two,
    ):
        paths.settings.write_text(
            f'[console]\nguide = "done"\n[gateway]\nurl = "http://127.0.0.1:9"\n'
            f'[fleet]\nurls = ["{one.url}", "{two.url}"]\n'
            f'[fleet.key-env]\n"{one.url}" = "ONE_KEY"\n'
        )
        app = ConsoleApp(RealConsole(paths))
        copied: list[str] = []
        monkeypatch.setattr(app, "copy_to_clipboard", copied.append)
        async with app.run_test(size=(100, 30)) as pilot:
            await settled(pilot, lambda: app.view.server_known)
            await pilot.press("9")
            for number, server in enumerate((one, two)):
                await settled(pilot, lambda url=server.url: url[7:] in shown(pilot))  # type: ignore[misc]
                await pilot.press(*["down"] * number, "enter")
                await settled(pilot, lambda: "p Probe" in shown(pilot))
                await pilot.press("p")
                await settled(pilot, lambda: isinstance(pilot.app.screen, PickProbe))
                assert "through" not in words(pilot)  # the gateway is not in front of these
                await pilot.press("enter")
                await settled(pilot, lambda: isinstance(pilot.app.screen, ProbeCard))
                assert "TTFT" in words(pilot)
                assert "Through the gateway" not in words(pilot)
                await pilot.press("y")
                await settled(pilot, lambda count=number + 1: len(copied) == count)  # type: ignore[misc]
                await pilot.press("escape", "escape")
                await settled(pilot, lambda: pilot.app.screen.id == "fleet")
    assert "ONE_KEY" in copied[0]
    assert "QWEN_TUI_API_KEY" in copied[1]
    assert "secret" not in "".join(copied)
