"""The last steps of a boot: from "the log says ready" to one generated token."""

from __future__ import annotations

import asyncio
import contextlib
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from qwen_tui.services.limits import context_usable, max_running_requests
from qwen_tui.services.ports import accepts
from qwen_tui.services.process import ExitWatch, family_of, seconds_since_boot
from qwen_tui.services.state import ServerState

if TYPE_CHECKING:
    from collections.abc import Callable

    from qwen_tui.services.history import History
    from qwen_tui.services.observer import RunObserver
    from qwen_tui.services.readiness import Http, Smoke
    from qwen_tui.services.runs import RunRecord, RunStore
    from qwen_tui_profiles.text import Text

__all__ = ["BootFollower"]

_FAST_S = 0.05
_SLOW_S = 0.2
_FAST_FOR_S = 20.0
_SILENT_PORT_S = 5.0
"""An open port without a ready line (``--log-level warning``) counts after so long."""
_ATTEMPTS = 3
RETRY_S = 1.0
_SMOKE_S = 600.0
"""The first token may compile kernels for minutes; an exit or a death in the log ends the wait."""
_CLOCK_SET_S = 5.0
"""More than this between two clocks is no drift: one was set."""
_DYING_S = 8.0
"""SGLang takes 5 s from the exception in its scheduler to the end of the main process."""


class BootFollower:
    """Asks for the first token once the engine says that it is ready. One per supervisor."""

    def __init__(
        self,
        observer: RunObserver,
        store: RunStore,
        http: Http,
        history: History,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._observer = observer
        self._store = store
        self._http = http
        self._history = history
        self._clock = clock
        self._run = ""
        self._began = 0.0
        self._port_since: float | None = None
        self._failures = 0
        self._family_at = 0.0

    async def step(self, record: RunRecord, api_key: str | None) -> Text | None:
        """Wait a moment, or try the first token when it is time.

        Returns:
            Why the boot failed although the process lives; ``None`` while it has not.
        """
        if record.id != self._run:
            self._run = record.id
            self._began = time.monotonic()
            self._port_since = None
            self._failures = 0
        main = record.main
        if main is None:
            await asyncio.sleep(_FAST_S)
            return None
        self._note_family(record)
        with ExitWatch(main) as watch:
            if not self._may_try(record):
                young = time.monotonic() - self._began < _FAST_FOR_S
                await watch.pause(_FAST_S if young else _SLOW_S)
                return None
            smoke = await self._smoke(record, api_key, watch)
            if smoke is None:
                await watch.pause(_FAST_S)
                return None
            if smoke.ok:
                failure = await self._declared(record, api_key)
                if await self._dying(watch):
                    return None
                if failure is None:
                    self._note_ready(record, smoke)
                return failure
            if smoke.starting:
                await watch.pause(_SLOW_S)
                return None
            return await self._failed(smoke, watch)

    def _may_try(self, record: RunRecord) -> bool:
        log = self._observer.log
        report = None if log is None else log.report
        if report is not None and report.ready:
            return True
        if not accepts(record.host, record.port):
            self._port_since = None
            return False
        if self._port_since is None:
            self._port_since = time.monotonic()
        return time.monotonic() - self._port_since > _SILENT_PORT_S

    async def _smoke(
        self, record: RunRecord, api_key: str | None, watch: ExitWatch
    ) -> Smoke | None:
        """Ask for one token; ``None`` when the engine died or announced its death meanwhile."""
        request = asyncio.create_task(
            self._http.smoke(record.url, engine=record.engine, api_key=api_key, timeout_s=_SMOKE_S)
        )
        unwatched = await watch.wait(0.0)  # a container whose client is gone already
        try:
            while not request.done():
                await asyncio.wait({request}, timeout=_SLOW_S)
                log = self._observer.log
                if log is not None and log.advance():
                    report = log.report
                    if report is not None and report.fatal is not None and not request.done():
                        await watch.wait(_DYING_S)
                        break
                if not unwatched and await watch.wait(0.0):
                    break
            return request.result() if request.done() else None
        finally:
            request.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await request

    async def _declared(self, record: RunRecord, api_key: str | None) -> Text | None:
        """Try what the profile asks of a boot beyond one token; returns why it failed."""
        names = record.snapshot.get("smoke") or ()
        if not names:
            return None
        log = self._observer.log
        return await self._http.declared(
            record.url,
            names,
            api_key=api_key,
            context_tokens=context_usable(None if log is None else log.report),
            timeout_s=_SMOKE_S,
        )

    async def _dying(self, watch: ExitWatch) -> bool:
        """Tell whether the engine announces its death although it answered; waits for the end."""
        log = self._observer.log
        if log is not None:
            log.advance()
        report = None if log is None else log.report
        return report is not None and report.fatal is not None and await watch.wait(_DYING_S)

    async def _failed(self, smoke: Smoke, watch: ExitWatch) -> Text | None:
        """Give a dying engine the time to say why; after some attempts the boot has failed."""
        self._failures += 1
        if await watch.wait(_DYING_S if self._failures >= _ATTEMPTS else RETRY_S):
            return None
        return smoke.error if self._failures >= _ATTEMPTS else None

    def _note_ready(self, record: RunRecord, smoke: Smoke) -> None:
        log = self._observer.log
        if log is not None:
            log.advance()
        report = None if log is None else log.report
        main = record.main
        family = frozenset() if main is None else family_of(main)
        ready = self._store.update(
            record,
            lambda r: replace(
                r if r.stop_asked is not None else r.step(ServerState.RUNNING),
                ready_at=_after(r, self._clock()),
                first_token_s=round(smoke.seconds, 3),
                ready_log_bytes=None if log is None else log.offset,
                limits={
                    "context_usable": context_usable(report),
                    "max_running_requests": max_running_requests(report),
                },
                phases=() if report is None else tuple(p.as_json() for p in report.timeline),
                engine_version=(report and report.engine_version) or r.engine_version,
            ).with_family(family),
        )
        self._history.note_boot(ready, report)

    def _note_family(self, record: RunRecord) -> None:
        """Record the children as they come, so that they are known when the main process dies."""
        now = time.monotonic()
        if record.main is None or now - self._family_at < 1.0:
            return
        self._family_at = now
        seen = family_of(record.main)
        if seen - record.relatives:
            self._store.update(record, lambda r: r.with_family(seen))


def _after(record: RunRecord, now: float) -> float:
    """Return when it became ready, on the clock that its launch was noted with.

    The wall clock may be set during a boot (a machine that slept, the first contact with a time
    server). The duration is kept right then: it is what later boots are measured by.
    """
    spent = seconds_since_boot() - record.created_boot_s
    return now if abs(now - record.created - spent) < _CLOCK_SET_S else record.created + spent
