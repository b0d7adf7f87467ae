"""Polls one serving engine and yields what it says, at one request a second and never faster.

``/health`` is never asked: on SGLang it generates a token. A peer that stalls, lies, floods or cuts
the connection costs one bounded attempt; the figures then stay, marked with their age.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from qwen_tui.services.live.exposition import Exposition, ExpositionParser
from qwen_tui.services.live.figures import FigureMaker
from qwen_tui.services.live.http1 import Answer, FetchError, Target, get
from qwen_tui.services.live.normalise import normalise, wanted_names
from qwen_tui.services.live.serverinfo import ServerLimits, read_models, read_server_info
from qwen_tui.services.live.windows import History
from qwen_tui.services.snapshots import LiveSnapshot
from qwen_tui_profiles.text import Text, t

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable

    from qwen_tui.services.live.normalise import Reading

__all__ = ["MetricPoller", "Pace"]


@dataclass(frozen=True, slots=True)
class Pace:
    """How often and how long, in seconds, and how much, in bytes."""

    busy_s: float = 1.0
    idle_s: float = 5.0
    linger: int = 5
    """Polls at the busy pace after the last sign of work."""
    timeout_s: float = 3.0
    back_off_max_s: float = 10.0
    limits_s: float = 300.0
    """How often ``/server_info`` is read again."""
    limit_bytes: int = 4 * 1024 * 1024
    piece: int = 256 * 1024
    """Text is parsed in pieces of this size, with a turn of the event loop between them."""


class MetricPoller:
    """Watches one server. Use :meth:`stream`; leaving the iteration closes everything."""

    def __init__(
        self,
        url: str,
        api_key: str | None = None,
        *,
        pace: Pace | None = None,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """Prepare to poll ``url``; nothing is sent yet.

        Raises:
            UsageError: ``url`` is not an address.
        """
        self.target = Target.parse(url)
        self.history = History()
        self.limits = ServerLimits()
        self.reading: Reading | None = None
        """The newest scrape, normalised."""
        self._headers = {} if api_key is None else {"Authorization": f"Bearer {api_key}"}
        self._pace = pace or Pace()
        self._clock = clock
        self._wall = wall
        self._sleep = sleep
        wanted = wanted_names()
        self._parser = ExpositionParser(wanted.__contains__)
        self._figures = FigureMaker()
        self._last: LiveSnapshot | None = None
        self._last_good: float | None = None
        self._limits_at: float | None = None
        self._quiet = 0
        self._failures = 0

    async def stream(self) -> AsyncGenerator[LiveSnapshot, None]:
        """Yield a snapshot after every attempt, for ever."""
        while True:
            started = self._clock()
            snapshot = await self.poll()
            yield snapshot
            await self._sleep(max(0.0, self.wait_s() - (self._clock() - started)))

    def wait_s(self) -> float:
        """Return the time from the start of the last attempt to the next one."""
        pace = self._pace
        if self._failures:
            return min(pace.back_off_max_s, pace.busy_s * 2.0 ** min(self._failures - 1, 10))
        return pace.busy_s if self._quiet < pace.linger else pace.idle_s

    async def poll(self) -> LiveSnapshot:
        """Make one attempt and return what is known after it; raises nothing about the peer."""
        try:
            answer = await self._get("/metrics")
            snapshot = await self._read(answer)
        except FetchError as error:
            self._failures += 1
            snapshot = self._stale(error.message)
        self._last = snapshot
        return snapshot

    async def _get(self, path: str) -> Answer:
        return await get(
            self.target,
            path,
            timeout_s=self._pace.timeout_s,
            limit_bytes=self._pace.limit_bytes,
            headers=self._headers,
        )

    async def _read(self, answer: Answer) -> LiveSnapshot:
        now = self._clock()
        if answer.status != 200:
            self._failures = 0
            return await self._without_metrics(answer.status, now)
        reading = normalise(await self._parse(answer.body))
        self._failures = 0
        if reading.engine == "other":
            self._quiet = self._pace.linger
            self.reading = reading
            return LiveSnapshot(
                at=self._wall(),
                source="other",
                error=t("This server exports no figures of SGLang or vLLM."),
            )
        restarted = self.history.feed(reading, now)
        if restarted:
            self.limits, self._limits_at = ServerLimits(), None
        self.reading = reading
        self._last_good = now
        await self._refresh_limits(reading.engine, now)
        snapshot = self._figures.snapshot(reading, self.history, self.limits, at=self._wall())
        self._quiet = 0 if self._working(reading) else self._quiet + 1
        return snapshot

    async def _parse(self, body: bytes) -> Exposition:
        """Parse in pieces, so that a huge answer never holds the event loop."""
        text = body.decode("utf-8", "replace")
        out = Exposition()
        at = 0
        while at < len(text):
            end = text.find("\n", at + self._pace.piece)
            end = len(text) if end < 0 else end + 1
            self._parser.parse(text[at:end], out)
            at = end
            if at < len(text):
                await asyncio.sleep(0)
        return out

    def _working(self, reading: Reading) -> bool:
        if (reading.gauges.get("queue") or 0) > 0 or (reading.http_active or 0) > 0:
            return True
        window = self.history.window(0.0)
        return window is None or any(
            window.totals.get(key, 0.0) > 0
            for key in ("decoded", "prefilled", "prompt_tokens", "requests", "output_tokens")
        )

    async def _refresh_limits(self, engine: str, now: float) -> None:
        if self._limits_at is not None and now - self._limits_at < self._pace.limits_s:
            return
        self._limits_at = now
        try:
            if engine == "sglang":
                answer = await self._get("/server_info")
                if answer.status == 404:
                    answer = await self._get("/get_server_info")  # SGLang before 0.5.6
                if answer.status == 200:
                    self.limits = read_server_info(answer.body)
            elif engine == "vllm":
                answer = await self._get("/v1/models")
                if answer.status == 200:
                    name, context = read_models(answer.body)
                    self.limits = ServerLimits(model=name, context_usable=context)
        except FetchError:
            # The figures of /metrics are good without it; asked again at the next turn.
            self._limits_at = now - self._pace.limits_s + 30

    async def _without_metrics(self, status: int, now: float) -> LiveSnapshot:
        """Say what a server is that answers but shows no metrics, and how to turn them on."""
        self._quiet = self._pace.linger
        if status in {401, 403}:
            return self._plain("other", t("The server wants an API key for its metrics."))
        if status == 404:
            await self._refresh_limits("sglang", now)
            if self.limits.version is not None:
                return replace(
                    self._plain(
                        "sglang",
                        t("This SGLang was started without --enable-metrics: no live figures."),
                    ),
                    max_running_requests=self.limits.max_running_requests,
                    context_usable=self.limits.context_usable,
                    kv_tokens=self.limits.kv_tokens,
                    mamba_slots=self.limits.mamba_slots,
                )
            return self._plain("other", t("This server has no /metrics."))
        return self._plain("other", t("/metrics answered {status}.", status=status))

    def _plain(self, source: str, error: Text) -> LiveSnapshot:
        return LiveSnapshot(at=self._wall(), source=source, error=error)

    def _stale(self, error: Text) -> LiveSnapshot:
        last = self._last
        if last is None:
            return LiveSnapshot(at=self._wall(), source="unknown", error=error)
        age = None if self._last_good is None else self._clock() - self._last_good
        return replace(last, stale_s=age, error=error)
