"""Several servers side by side: one poller each, one stream of what changed."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from qwen_tui.services.live.context import LiveContext
from qwen_tui.services.live.poller import MetricPoller, Pace

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Sequence

    from qwen_tui.services.snapshots import LiveSnapshot

__all__ = ["Fleet", "FleetItem"]


@dataclass(frozen=True, slots=True, eq=False)
class FleetItem:
    """A new snapshot of one server."""

    url: str
    snapshot: LiveSnapshot


class Fleet:
    """Watches several servers; one that hangs delays none of the others."""

    def __init__(
        self,
        urls: Sequence[str],
        *,
        key: Callable[[str], str | None] = lambda _: None,
        pace: Pace | None = None,
        context: Callable[[], LiveContext] = LiveContext,
    ) -> None:
        """Prepare to watch ``urls`` (each once); ``key`` returns the API key of an address.

        Raises:
            UsageError: one of them is not an address.
        """
        self.pollers = {
            url: MetricPoller(url, key(url), pace=pace, context=context)
            for url in dict.fromkeys(urls)
        }
        self.latest: dict[str, LiveSnapshot] = {}
        """The newest snapshot of each server that was heard of."""

    async def stream(self) -> AsyncGenerator[FleetItem, None]:
        """Yield every snapshot as it comes; leaving the iteration ends all pollers."""
        news: asyncio.Queue[FleetItem] = asyncio.Queue(maxsize=4 * len(self.pollers))

        async def follow(url: str, poller: MetricPoller) -> None:
            async for snapshot in poller.stream():
                await news.put(FleetItem(url, snapshot))

        tasks = {asyncio.create_task(follow(*item)) for item in self.pollers.items()}
        waited: set[asyncio.Task[FleetItem] | asyncio.Task[None]] = {*tasks}
        try:
            while True:
                item = asyncio.create_task(news.get())
                waited = {item, *tasks}
                done, _ = await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
                for ended in done - {item}:
                    ended.result()  # a poller never ends by itself: this raises what ended it
                self.latest[item.result().url] = item.result().snapshot
                yield item.result()
        finally:
            for task in waited:
                task.cancel()
            await asyncio.gather(*waited, return_exceptions=True)
