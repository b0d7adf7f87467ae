"""A fleet whose servers say what a test puts into their mouths."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from qwen_tui.services.fleet_desk import fleet_url
from qwen_tui.services.live.fleet import FleetItem

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from qwen_tui.services.snapshots import LiveSnapshot


class FakeFleet:
    """Addresses in memory; watching yields what was put into ``news``."""

    def __init__(self) -> None:
        self.addresses: tuple[str, ...] = ()
        self.news: asyncio.Queue[FleetItem] = asyncio.Queue()
        self.watched: list[tuple[str, ...]] = []
        self.watching = 0

    async def urls(self) -> tuple[str, ...]:
        return self.addresses

    async def add(self, url: str) -> str:
        known = fleet_url(url)
        self.addresses = (*self.addresses, known)
        return known

    async def remove(self, url: str) -> None:
        self.addresses = tuple(u for u in self.addresses if u != url)

    async def watch(self, urls: tuple[str, ...], interval_s: float) -> AsyncIterator[FleetItem]:
        self.watched.append(urls)
        self.watching += 1
        try:
            while True:
                yield await self.news.get()
        finally:
            self.watching -= 1

    def say(self, url: str, live: LiveSnapshot) -> None:
        self.news.put_nowait(FleetItem(url, live))
