"""The servers that the console watches side by side: which, and what each says."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING

from qwen_tui.services.keys import address_key, fleet_key
from qwen_tui.services.modules import load_module

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from qwen_tui.services.live.fleet import FleetItem
    from qwen_tui.services.paths import Paths
    from qwen_tui.services.settings import Settings

__all__ = ["RealFleet", "fleet_url"]


class RealFleet:
    """See :class:`~qwen_tui.services.desks.FleetDesk`; the addresses stand in the settings."""

    def __init__(self, paths: Paths) -> None:
        self._paths = paths

    async def urls(self) -> tuple[str, ...]:
        """Read the settings."""
        return await asyncio.to_thread(self._read)

    async def add(self, url: str) -> str:
        """Write an address behind the others, without what may be secret in it."""
        return await asyncio.to_thread(self._add, url)

    async def remove(self, url: str) -> None:
        """Take an address out of the settings."""
        await asyncio.to_thread(self._write, lambda urls: tuple(u for u in urls if u != url))

    async def watch(
        self, urls: tuple[str, ...], interval_s: float
    ) -> AsyncGenerator[FleetItem, None]:
        """Poll them all, each with the key that is meant for it."""
        fleets = await load_module("qwen_tui.services.live.fleet")
        idle_s = max(interval_s, fleets.Pace().idle_s)
        pace = fleets.Pace(busy_s=interval_s, idle_s=idle_s)
        variables = (await asyncio.to_thread(self._settings)).fleet_keys
        fleet = fleets.Fleet(urls, key=lambda url: fleet_key(url, variables), pace=pace)
        async with aclosing(fleet.stream()) as items:
            async for item in items:
                yield item

    async def key(self, url: str) -> str | None:
        """Return the API key that one of the addresses may be sent."""
        return await asyncio.to_thread(address_key, url, self._paths)

    def _settings(self) -> Settings:
        from qwen_tui.services.settings import load_settings

        return load_settings(self._paths)

    def _read(self) -> tuple[str, ...]:
        return self._settings().fleet

    def _add(self, url: str) -> str:
        known = fleet_url(url)
        self._write(lambda urls: (*urls, known))
        return known

    def _write(self, change: Callable[[tuple[str, ...]], tuple[str, ...]]) -> None:
        from qwen_tui.services.settings import change_settings

        change_settings(self._paths, fleet=tuple(dict.fromkeys(change(self._read()))) or None)


def fleet_url(url: str) -> str:
    """Return an address as it is kept: with its scheme, without credentials.

    Raises:
        UsageError: it is none.
    """
    from qwen_tui.services.live.target import Target

    return Target.parse(url.strip()).url
