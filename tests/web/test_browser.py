"""``qwen-tui web`` in a real headless Chromium, over the simulated engine."""

from __future__ import annotations

import asyncio
import struct
import zlib
from typing import TYPE_CHECKING

import psutil
import pytest

from support.browser import CHROMIUM, Tab, browser
from support.web_console import web_console

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium here: apt-get install chromium"),
]


async def test_the_console_in_chromium(tmp_path: Path) -> None:
    with web_console(tmp_path / "home") as running:
        async with browser(tmp_path / "chromium") as chromium:
            first = await chromium.open(running.url)
            await first.wait(lambda text: "1 Home" in text and "s Start" in text)
            assert await first.evaluate("window.location.href") == f"{running.origin}/"
            assert await first.evaluate("document.cookie") == ""
            await painted(first)

            # The keyboard is the console's without a click.
            await first.press("s")
            await first.wait("RUNNING")
            await first.wait("159,776 →")
            await first.press("d")
            await first.wait("2 Doctor  ", limit_s=5)
            await first.press("1")
            await first.wait("Asked → got")

            second = await chromium.open(running.url)
            shown = await second.wait(lambda text: "READ-ONLY" in text and "RUNNING" in text)
            assert "x Stop" not in shown
            await second.press("x")
            await second.press("d")
            await second.wait(lambda text: "Doctor" in text.splitlines()[0])
            assert "RUNNING" in second.text
            assert "READ-ONLY" not in first.text

            # The first tab is closed: its console leaves, the second may act.
            consoles = running.consoles()
            await first.close()
            await second.wait(lambda text: "READ-ONLY" not in text and "RUNNING" in text)
            await second.press("1")
            await second.wait("x Stop")
            await second.press("x")
            await second.wait("Stop")
            await second.press("enter")
            await second.wait("STOPPED")
            await second.press("q")
            await closed(second)

            asked = [url for tab in (first, second) for url in tab.requested]
            assert [url for url in asked if not url.startswith((running.origin, "data:"))] == []
            assert first.failed == second.failed == []
            psutil.wait_procs(consoles, timeout=10)
            assert running.consoles() == []

            code, said = running.end()
            assert (code, "Traceback" in said) == (0, False), said
            assert not any(psutil.pid_exists(console.pid) for console in consoles)


async def painted(tab: Tab) -> None:
    """Wait until the canvas shows text: hundreds of rows of pixels that are not of one colour."""
    busy = 0
    for _ in range(100):
        busy = rows_with_detail(await tab.picture())
        if busy > 100:
            return
        await asyncio.sleep(0.1)
    pytest.fail(f"the page shows next to nothing: {busy} rows of pixels with detail")


async def closed(tab: Tab) -> None:
    """Wait until the page says that its console has ended."""
    notice = "getComputedStyle(document.querySelector('.closed')).display"
    for _ in range(100):
        if await tab.evaluate(notice) == "flex":
            return
        await asyncio.sleep(0.1)
    pytest.fail("the page does not say that its console has ended")


def rows_with_detail(png: bytes) -> int:
    """Count the rows of pixels of a PNG that are not of one colour.

    Rows are compared as they are filtered: a row of one colour has a filtered form that repeats
    with the pixel, at the latest from its third pixel on.
    """
    at, data, width, depth = 8, b"", 0, 4
    while at < len(png):
        size, kind = struct.unpack(">I4s", png[at : at + 8])
        body = png[at + 8 : at + 8 + size]
        if kind == b"IHDR":
            width, _, _, colour = struct.unpack(">IIBB", body[:10])
            depth = {2: 3, 6: 4}[colour]
        elif kind == b"IDAT":
            data += body
        at += size + 12
    rows = zlib.decompress(data)
    stride = 1 + width * depth
    return sum(
        rows[start + 1 + 2 * depth : start + stride - depth]
        != rows[start + 1 + 3 * depth : start + stride]
        for start in range(0, len(rows), stride)
    )
