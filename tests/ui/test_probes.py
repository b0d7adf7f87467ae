"""Probes in the console: every kind can be chosen, and the card says all that was measured."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qwen_tui.services.probe.probing import kind_names
from qwen_tui.ui.screens.cards import ConfirmCard
from qwen_tui.ui.screens.picker import PickProbe
from qwen_tui.ui.screens.probe import ProbeCard
from support.console_pilot import opened, settled, shown, view_of, words
from support.fake_console import FakeConsole, running
from support.fake_probes import GATEWAY

if TYPE_CHECKING:
    import pytest
    from textual.pilot import Pilot

URL = "http://127.0.0.1:30000"


async def choose(pilot: Pilot[None], downs: int) -> None:
    """Open the kinds and take one."""
    await pilot.press("p")
    await settled(pilot, lambda: isinstance(pilot.app.screen, PickProbe))
    await pilot.press(*["down"] * downs, "enter")


async def test_the_menu_has_every_kind_that_there_is() -> None:
    fake = FakeConsole(running())
    async with opened(fake) as pilot:
        await pilot.press("p")
        await settled(pilot, lambda: isinstance(pilot.app.screen, PickProbe))
        text = words(pilot)
        for title in ("free prose", "code", "tool call", "long prompt", "picture", "boundary"):
            assert title in text
        assert "Usable context: 134,010 tokens." in text
    assert tuple(k.name for k in fake.fake_probes.kinds()) == kind_names()


async def test_a_server_without_eyes_is_not_offered_a_picture() -> None:
    fake = FakeConsole(running())
    fake.fake_probes.vision = False
    async with opened(fake) as pilot:
        await pilot.press("p")
        await settled(pilot, lambda: isinstance(pilot.app.screen, PickProbe))
        assert "picture" not in shown(pilot)


async def test_the_card_tells_time_per_token_from_time_per_chunk() -> None:
    fake = FakeConsole(running())
    async with opened(fake) as pilot:
        await choose(pilot, 1)
        await settled(pilot, lambda: isinstance(pilot.app.screen, ProbeCard))
        text = words(pilot)
        assert "Probe: code" in text
        assert "TTFT 412 ms request sent to first token" in text
        assert "TTFO 2.31 s to the first visible token" in text
        assert "per token 6.75 ms 128 tokens at 148.2 tok/s, 90 reasoning" in text
        assert "per chunk 22 ms median of 37 gaps, p95 31 ms, max 48 ms" in text
        assert "accept length 3.39 tokens a step" in text
        assert "cached 12 of 36 prompt tokens" in text
        assert "Through the gateway" not in text
        # The scripted server has 2 running and 1 waiting.
        assert "Other requests ran meanwhile" in text
        await pilot.press("r")
        await settled(pilot, lambda: len(fake.calls) == 2)
        await settled(pilot, lambda: isinstance(pilot.app.screen, ProbeCard))
        await pilot.press("escape", "P")
        await settled(pilot, lambda: isinstance(pilot.app.screen, ProbeCard))
    assert fake.calls == [f"probe code {URL}"] * 2


async def test_a_result_does_not_cover_the_place_that_one_has_gone_to() -> None:
    fake = FakeConsole(running())
    fake.fake_probes.answer.clear()
    async with opened(fake) as pilot:
        await choose(pilot, 0)
        await settled(pilot, lambda: view_of(pilot).busy is not None)
        await pilot.press("8")
        await settled(pilot, lambda: pilot.app.screen.id == "history")
        fake.fake_probes.answer.set()
        await settled(pilot, lambda: view_of(pilot).probe is not None)
        assert pilot.app.screen.id == "history"
        assert [n.message for n in pilot.app._notifications] == ["The probe came back; P shows it."]
        await pilot.press("P")
        await settled(pilot, lambda: isinstance(pilot.app.screen, ProbeCard))


async def test_the_request_can_be_copied_as_curl(monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened(FakeConsole(running())) as pilot:
        copied: list[str] = []
        monkeypatch.setattr(pilot.app, "copy_to_clipboard", copied.append)
        await choose(pilot, 0)
        await settled(pilot, lambda: isinstance(pilot.app.screen, ProbeCard))
        await pilot.press("y")
        await settled(pilot, lambda: bool(copied))
        assert isinstance(pilot.app.screen, ProbeCard)
    assert copied == [f"curl -N {URL}/v1/chat/completions  # prose"]


async def test_what_a_gateway_costs_stands_on_the_card() -> None:
    fake = FakeConsole(running())
    fake.fake_probes.gateway = GATEWAY
    async with opened(fake) as pilot:
        await pilot.press("p")
        await settled(pilot, lambda: isinstance(pilot.app.screen, PickProbe))
        assert f"Sent twice directly and twice through {GATEWAY}" in words(pilot)
        await pilot.press("enter")
        await settled(pilot, lambda: isinstance(pilot.app.screen, ProbeCard))
        text = words(pilot)
        # 437 - 412 = 25 ms; 2405 - 2310 = 95 ms; 141.0 / 148.2 = 95 %.
        assert f"Through the gateway {GATEWAY}" in text
        assert "TTFT +25 ms against the direct request" in text
        assert "TTFO +95 ms" in text
        assert "decode 95 % of the direct speed" in text
        assert "queue 4.0 ms mean wait inside the gateway, 2 requests" in text


async def test_the_boundary_says_what_it_costs_before_it_is_sent() -> None:
    fake = FakeConsole(running())
    async with opened(fake) as pilot:
        await choose(pilot, 5)
        await settled(pilot, lambda: isinstance(pilot.app.screen, ConfirmCard))
        text = words(pilot)
        assert "nearly the usable context is sent, 134,010 tokens." in text
        assert "may be evicted" in text
        await pilot.press("escape")
        assert fake.calls == []
        await choose(pilot, 0)
        await settled(pilot, lambda: isinstance(pilot.app.screen, ConfirmCard))
        await pilot.press("enter")
        await settled(pilot, lambda: isinstance(pilot.app.screen, ProbeCard))
        assert "134,002 tokens answered, 134,011 refused with 400" in words(pilot)
        assert "Copy as curl" not in shown(pilot)
        await pilot.press("escape")
        await settled(pilot, lambda: pilot.app.screen.id == "home")
        assert "134,002 tokens answered" in shown(pilot)
    assert fake.calls == [f"probe boundary {URL}"]


async def test_a_console_that_only_watches_leaves_the_cache_alone() -> None:
    fake = FakeConsole(running())
    fake.rights = [(False, 4711)]
    async with opened(fake) as pilot:
        await settled(pilot, lambda: not view_of(pilot).controls)
        await pilot.press("p")
        await settled(pilot, lambda: isinstance(pilot.app.screen, PickProbe))
        assert "boundary" not in shown(pilot)
        await pilot.press("escape")
        await pilot.app.run_action("probe_kind('boundary')")
        await pilot.pause()
        assert pilot.app.screen.id == "home"
    assert fake.calls == []


async def test_the_palette_sends_a_kind_by_name() -> None:
    fake = FakeConsole(running())
    async with opened(fake) as pilot:
        await pilot.press("ctrl+p")
        await pilot.pause(0.2)
        await pilot.press(*"probe: tool")
        await settled(pilot, lambda: "the answer has to call it" in words(pilot))
        await pilot.press("enter")
        await settled(pilot, lambda: view_of(pilot).probe is not None)
    assert fake.calls == [f"probe tool {URL}"]
