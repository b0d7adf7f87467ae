"""Several servers in one place: a line each, unknown is a dash, Enter opens one."""

from __future__ import annotations

from dataclasses import replace

from qwen_tui.services.snapshots import LiveSnapshot, ReplicaSnapshot
from qwen_tui.ui.screens.cards import ErrorCard
from qwen_tui.ui.screens.fleet import ServerCard
from qwen_tui_profiles.text import t
from support.console_pilot import opened, settled, shown
from support.fake_console import NOW, FakeConsole, live, running

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
