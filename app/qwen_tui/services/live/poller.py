"""Polls one serving engine and yields what it says, at one request a second and never faster.

SGLang's ``/health`` is never asked: it generates a token. A peer that stalls, lies, floods or cuts
the connection costs one bounded attempt; the figures then stay, marked with their age.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from qwen_tui.services.live.context import LiveContext
from qwen_tui.services.live.exposition import Exposition, ExpositionParser
from qwen_tui.services.live.figures import FigureMaker
from qwen_tui.services.live.fronts import ROUTED, FrontWatch, is_litellm, with_workers, workers_note
from qwen_tui.services.live.http1 import Answer, FetchError, Target, get
from qwen_tui.services.live.loads import PrefillClock, read_prefill_clock
from qwen_tui.services.live.normalise import normalise, wanted_names
from qwen_tui.services.live.serverinfo import (
    ServerLimits,
    read_models,
    read_server_info,
    read_version,
)
from qwen_tui.services.live.windows import History
from qwen_tui.services.snapshots import LiveSnapshot
from qwen_tui_profiles.text import Text, t

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable

    from qwen_tui.services.live.normalise import Reading
    from qwen_tui.services.snapshots import ProbeResult

__all__ = ["MetricPoller", "Pace"]

_METRICS = "/metrics"
_WORK = ("decoded", "prefilled", "prompt_tokens", "requests", "output_tokens")
_CORE_DEAD = t("The engine core is dead: vLLM's /health answers 503.")


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
    loads_s: float = 5.0
    """How often SGLang's ``/v1/loads`` is read while there is work (it has the prefill clock)."""
    limit_bytes: int = 4 * 1024 * 1024
    piece: int = 64 * 1024
    """Text is parsed in pieces of this size, with a turn of the event loop between them."""
    many_lines: int = 20_000
    """A scrape with more samples is combined in a thread, so that the screen keeps turning."""


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
        context: Callable[[], LiveContext] = LiveContext,
    ) -> None:
        """Prepare to poll ``url``; nothing is sent yet.

        Args:
            url: Base URL of the server.
            api_key: Sent as a bearer token.
            pace: How often, how long, how much.
            clock: Monotonic seconds.
            wall: Unix seconds.
            sleep: Waits.
            context: Asked at every scrape for what others know (GPU samples, clamps of the boot).

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
        self._context = context
        self._prefill: PrefillClock | None = None
        self._prefill_at: float | None = None
        self._has_loads = True
        self._metrics_path = _METRICS
        self._locked = False
        self._fronts = FrontWatch(self._get, self._pace.limits_s, self._pace.loads_s)
        self._scraped_at: float | None = None

    async def stream(self) -> AsyncGenerator[LiveSnapshot, None]:
        """Yield a snapshot after every attempt, for ever."""
        while True:
            started = self._clock()
            yield await self._attempt(windowed=True)
            wait = self.wait_s()
            # A server that took long to answer is not asked again at once.
            await self._sleep(max(wait / 2, wait - (self._clock() - started)))

    def wait_s(self) -> float:
        """Return the time from the start of the last attempt to the next one."""
        pace = self._pace
        if self._failures:
            return min(pace.back_off_max_s, pace.busy_s * 2.0 ** min(self._failures - 1, 10))
        return pace.busy_s if self._quiet < pace.linger else pace.idle_s

    async def poll(self) -> LiveSnapshot:
        """Make one attempt and return what is known after it; raises nothing about the peer.

        The first look has no window yet: its rates are those since the engine's start
        (``window_s`` is ``None`` then).
        """
        return await self._attempt(windowed=False)

    def note_probe(self, result: ProbeResult) -> None:
        """Let the alarms compare a probe with the earlier ones of its kind."""
        self._figures.note_probe(result, self._wall())

    async def _attempt(self, *, windowed: bool) -> LiveSnapshot:
        asked = self._clock()
        try:
            answer = await self._get(self._metrics_path)
            if answer.status != 200:
                answer, asked = await self._other_path(answer, asked)
            snapshot = await self._read(answer, asked, windowed=windowed)
        except FetchError as error:
            self._failures += 1
            snapshot = self._stale(error.message)
        self._last = snapshot
        return snapshot

    async def _other_path(self, answer: Answer, asked: float) -> tuple[Answer, float]:
        """Look where some servers have their metrics instead; return that answer and its time.

        LiteLLM mounts them at ``/metrics/`` and redirects (seen up to 1.108.7); SGLang's routers
        show those of all their workers. An address may also pass from an engine to a router, or
        back.
        """
        moved = answer.headers.get("location", "").endswith("/metrics/")
        gone = _METRICS if self._metrics_path != _METRICS else ROUTED
        path = "/metrics/" if moved else gone if answer.status == 404 else None
        if path is None or path == self._metrics_path:
            return answer, asked
        asked_other = self._clock()
        other = await self._get(path)
        if other.status != 200:
            return answer, asked
        self._metrics_path = path
        self.limits, self._limits_at, self._locked = ServerLimits(), None, False
        return other, asked_other

    async def _get(self, path: str) -> Answer:
        return await get(
            self.target,
            path,
            timeout_s=self._pace.timeout_s,
            limit_bytes=self._pace.limit_bytes,
            headers=self._headers,
        )

    async def _read(self, answer: Answer, asked: float, *, windowed: bool) -> LiveSnapshot:
        # The figures were taken somewhere between the question and the answer, which may be long
        # on a busy server: the middle is off by half of that at most.
        slack_s = (self._clock() - asked) / 2
        now = asked + slack_s
        if answer.status != 200:
            if self._last_good is not None and answer.status != 404:
                # A proxy or an engine in trouble: what it said last stays, with its age.
                raise FetchError("malformed", self._refusal(answer.status))
            self._failures = 0
            return await self._without_metrics(answer, now)
        encoding = answer.headers.get("content-encoding", "identity")
        if encoding != "identity":
            raise FetchError(
                "malformed",
                t("/metrics came compressed ({how}), which was not asked for.", how=encoding[:20]),
            )
        parsed = await self._parse(answer.body)
        if parsed.lines <= self._pace.many_lines:
            reading = normalise(parsed)
        else:
            reading = await asyncio.to_thread(normalise, parsed)
        self._failures = 0
        if reading.engine == "other":
            self._quiet = self._pace.linger
            self.reading = reading
            return LiveSnapshot(
                at=self._wall(),
                source="other",
                error=t("This server exports no figures of SGLang or vLLM."),
            )
        if self._routed:
            reading = with_workers(reading, await self._fronts.workers(now))
        context = self._context().of_server_at(self.target.host)
        await self._note_prefill(reading.engine, now)
        self._note_energy(context, reading, now)
        restarted = self.history.feed(reading, now, slack_s)
        if restarted:
            if not self.history.several:  # else they would be asked for at every scrape
                self.limits, self._limits_at = ServerLimits(), None
            self._prefill, self._prefill_at, self._has_loads = None, None, True
            self._figures.forget()
        self.reading = reading
        self._last_good = self._scraped_at = now
        await self._refresh_limits(reading.engine, now)
        snapshot = self._figures.snapshot(
            reading, self.history, self.limits, context, at=self._wall(), windowed=windowed
        )
        if self._locked:
            note = t("The server tells its limits only with an API key.")
            snapshot = replace(snapshot, notes=(*snapshot.notes, note))
        if self._routed:
            snapshot = replace(snapshot, notes=(*snapshot.notes, workers_note(snapshot)))
        moved = self._moved()
        if not moved and await self._core_is_dead(reading.engine):
            # Its gauges stand where they stood: zeros would look like an idle server.
            snapshot = replace(self._plain("vllm", _CORE_DEAD), models=snapshot.models)
        # Something waits, or moved since the last scrape; a first look does not tell.
        working = (snapshot.queue or 0) > 0 or moved is not False
        self._quiet = 0 if working else self._quiet + 1
        return snapshot

    async def _note_prefill(self, engine: str, now: float) -> None:
        """Read the scheduler's prefill clock now and then while there is work."""
        if engine != "sglang" or self._routed or not self._has_loads or self._quiet > 1:
            return
        if self._prefill_at is not None and now - self._prefill_at < self._pace.loads_s:
            return
        self._prefill_at = now
        try:
            answer = await self._get("/v1/loads?include=core")
        except FetchError:
            return
        clock = read_prefill_clock(answer.body) if answer.status == 200 else None
        if clock is None:
            self._has_loads = False
            return
        last, self._prefill = self._prefill, clock
        if last is None and self.reading is None:
            last = PrefillClock(0.0, 0.0)  # the first look: all of it belongs to "since the start"
        if last is not None and clock.tokens >= last.tokens and clock.seconds >= last.seconds:
            self.history.add("prefill_busy_tokens", clock.tokens - last.tokens)
            self.history.add("prefill_busy_s", clock.seconds - last.seconds)

    def _note_energy(self, context: LiveContext, reading: Reading, now: float) -> None:
        """Integrate the power of the server's GPUs over the intervals in which tokens came."""
        last = self.reading
        if last is None or self._scraped_at is None or not context.gpus:
            return
        watts = [g.power_w for g in context.gpus]
        seconds = now - self._scraped_at
        grown = _total(reading, "decoded") - _total(last, "decoded")
        if grown <= 0 or seconds > 10 or any(w is None for w in watts):
            return
        self.history.add("energy_j", sum(w for w in watts if w is not None) * seconds)
        self.history.add("energy_tokens", grown)

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

    def _moved(self) -> bool | None:
        """Tell whether a counter of work grew since the last scrape; ``None`` at the first.

        Not by SGLang's gauge of open HTTP requests: in 0.5.23 it was seen to stay above zero after
        streams had ended.
        """
        window = self.history.window(0.0)
        return None if window is None else any(window.totals.get(key, 0.0) > 0 for key in _WORK)

    async def _core_is_dead(self, engine: str) -> bool:
        """Ask vLLM's ``/health``, which costs no generation and is 503 without an engine core.

        With ``VLLM_KEEP_ALIVE_ON_ENGINE_DEATH`` the HTTP server outlives the core, and its metrics
        look like those of an idle one (seen with 0.32.0). A router's ``/health`` is its own.
        """
        if engine != "vllm" or self._routed:
            return False
        try:
            return (await self._get("/health")).status == 503
        except FetchError:
            return False

    async def _refresh_limits(self, engine: str, now: float) -> None:
        if self._limits_at is not None and now - self._limits_at < self._pace.limits_s:
            return
        if self._routed:
            return  # a router answers /server_info for one of its workers
        self._limits_at = now
        try:
            if engine == "sglang":
                answer = await self._get("/server_info")
                if answer.status == 404:
                    answer = await self._get("/get_server_info")  # SGLang before 0.5.6
                if answer.status == 200:
                    self.limits = read_server_info(answer.body)
                self._locked = answer.status in {401, 403}
            elif engine == "vllm":
                version = await self._get("/version")  # needs no key
                answer = await self._get("/v1/models")
                known = answer.status == 200
                name, context = read_models(answer.body) if known else (None, None)
                self.limits = ServerLimits(
                    version=read_version(version.body), model=name, context_usable=context
                )
                self._locked = answer.status in {401, 403}
        except FetchError:
            # The figures of /metrics are good without it; asked again at the next turn.
            self._limits_at = now - self._pace.limits_s + 30

    @property
    def _routed(self) -> bool:
        """Whether the figures are those of a router's workers."""
        return self._metrics_path == ROUTED

    async def _without_metrics(self, answer: Answer, now: float) -> LiveSnapshot:
        """Say what a server is that answers but shows no metrics, and how to turn them on."""
        self._quiet = self._pace.linger
        if answer.status != 404:
            source = "litellm" if is_litellm(answer.body) else "other"
            return self._plain(source, self._refusal(answer.status))
        front = await self._fronts.look(now)
        if front is not None:
            return replace(self._plain(front.source, front.text), replicas=front.workers)
        await self._refresh_limits("sglang", now)
        if self.limits.version is not None:
            return replace(
                self._plain(
                    "sglang",
                    t("This SGLang was started without --enable-metrics: no live figures."),
                ),
                max_running_requests=self.limits.max_running_requests,
                context_usable=self.limits.context_usable,
                kv_tokens=self.limits.kv_tokens if self.limits.replicas == 1 else None,
                mamba_slots=self.limits.mamba_slots if self.limits.replicas == 1 else None,
            )
        return self._plain("other", t("This server has no /metrics."))

    def _refusal(self, status: int) -> Text:
        if status in {401, 403}:
            if self._headers:
                return t("The server refuses this API key for its metrics.")
            return t("The server wants an API key for its metrics.")
        if status == 500 and self._routed:
            return t("The router gets no metrics from its workers any more.")
        return t("{path} answered {status}.", path=self._metrics_path, status=status)

    def _plain(self, source: str, error: Text) -> LiveSnapshot:
        return LiveSnapshot(at=self._wall(), source=source, error=error)

    def _stale(self, error: Text) -> LiveSnapshot:
        last = self._last
        if last is None:
            return LiveSnapshot(at=self._wall(), source="unknown", error=error)
        age = None if self._last_good is None else self._clock() - self._last_good
        return replace(last, stale_s=age, error=error)


def _total(reading: Reading, key: str) -> float:
    return sum(reading.counters.get(key, {}).values())
