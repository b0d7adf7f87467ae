"""What can be done with the server, by whoever holds the right to act (the lease).

:class:`ServerSupervisor` takes the lease for each call; a swap holds it over several of these.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from qwen_tui.services.boot import BootFollower
from qwen_tui.services.keys import address_key
from qwen_tui.services.launch import (
    Prepared,
    api_key_of,
    find_engine,
    launch,
    launched_profile,
    require_way_back,
)
from qwen_tui.services.prelaunch import preflight, require
from qwen_tui.services.rotate import rotate
from qwen_tui.services.state import ALIVE, ServerState
from qwen_tui.services.stopper import nothing_to_stop, stop_run
from qwen_tui.services.watchdog import BootWatch
from qwen_tui.services.words import BOOT_STATES
from qwen_tui_profiles.errors import LaunchError, ProfileError
from qwen_tui_profiles.loader import load_profiles
from qwen_tui_profiles.text import t

if TYPE_CHECKING:
    from collections.abc import Callable

    from qwen_tui.services.front import FrontService
    from qwen_tui.services.history import History
    from qwen_tui.services.intent import SwapIntents
    from qwen_tui.services.kinds import Kinds
    from qwen_tui.services.observer import RunObserver
    from qwen_tui.services.paths import Paths
    from qwen_tui.services.readiness import Http
    from qwen_tui.services.runs import RunRecord, RunStore
    from qwen_tui.services.snapshots import ServerSnapshot
    from qwen_tui.services.spawner import Spawner
    from qwen_tui.services.stopping import StopProgress, StopResult
    from qwen_tui.services.vram import MemoryProbe
    from qwen_tui_profiles.profile import EngineProfile
    from qwen_tui_profiles.text import Text

    Lease = Callable[[], contextlib.AbstractAsyncContextManager[None]]
    OnSnapshot = Callable[[ServerSnapshot], None] | None

__all__ = ["ServerControl", "differs"]

_FAILED_BOOT_STOP_S = 15.0
_LOG_HEAD_BYTES = 1 << 20


class ServerControl:
    """Launches, follows and stops, without taking the lease itself."""

    def __init__(
        self,
        paths: Paths,
        store: RunStore,
        observer: RunObserver,
        *,
        spawner: Spawner,
        kinds: Kinds,
        http: Http,
        history: History,
        intents: SwapIntents,
        front: FrontService,
        memory: MemoryProbe,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._paths = paths
        self._store = store
        self._observer = observer
        self._spawner = spawner
        self._kinds = kinds
        self._http = http
        self._clock = clock
        self.history = history
        self.intents = intents
        self.front = front
        self._memory = memory
        self._watchdog = BootWatch(history, memory)
        self._boot = BootFollower(observer, store, http, history, clock=clock)
        self._keys: dict[str, str | None] = {}

    @property
    def record(self) -> RunRecord | None:
        """The newest run, as of the last look."""
        return self._observer.record

    async def snapshot(self, *, ask: bool = False) -> ServerSnapshot:
        """Return what is known now (see :meth:`RunObserver.look`)."""
        return await self._observer.look(ask=ask)

    async def prepare(
        self,
        profile: EngineProfile,
        interpreter: str | None = None,
        *,
        force: str | None = None,
        own_server_runs: bool = False,
    ) -> Prepared:
        """Find everything that a launch needs and refuse what would fail.

        Args:
            profile: What is to be launched.
            interpreter: Python of the engine, instead of the profile's.
            force: Why to launch although a check failed.
            own_server_runs: A server of ours will be stopped first.

        Raises:
            EngineError: no interpreter with this engine.
            LaunchError: a check failed and ``force`` is not given.
            ConfigError: the state folder has no room for the run.
        """
        await asyncio.to_thread(self._store.require_room)
        engine = find_engine(profile, self._paths, interpreter=interpreter)
        flight = await preflight(
            profile,
            self._paths,
            self._memory,
            engine_version=engine.version,
            own_server_runs=own_server_runs,
        )
        warnings = require(profile, flight, force)
        return Prepared(engine, flight, warnings, force if flight.errors else None)

    async def launch(self, profile: EngineProfile, prepared: Prepared) -> ServerSnapshot:
        """Launch a prepared profile, after clearing what a dead server left behind.

        Raises:
            LaunchError: something runs already, the port is taken, or it cannot be started.
            StopError: something of the last server survives.
            ConfigError: the state folder cannot be written.
        """
        now = await self.snapshot()
        if now.state in ALIVE:
            raise _occupied(now)
        if self._observer.record is not None:
            await self._sweep(self._observer.record)
        self._keys[profile.name] = api_key_of(profile)
        record, child = launch(
            profile, self._store, self._spawner, clock=self._clock, prepared=prepared
        )
        self._observer.adopt(record, child)
        intent = self.intents.read()
        if intent is not None and not intent.active:
            self.intents.clear()
        return await self.snapshot()

    async def attach(self, url: str) -> ServerSnapshot:
        """Watch a server that somebody else started (see :mod:`qwen_tui.services.attach`)."""
        from qwen_tui.services import attach

        key = await asyncio.to_thread(address_key, url, self._paths)
        now = await self.snapshot()
        record = self._observer.record
        if now.state in ALIVE and record is not None and record.kind != "attach":
            raise _occupied(now)
        await attach.attach(url, self._store, self._http, api_key=key, clock=self._clock)
        if now.state in ALIVE and record is not None:
            attach.forget(record, self._store, clock=self._clock)
        return await self.snapshot()

    async def forget(self) -> ServerSnapshot:
        """Watch an attached server no longer; without one, nothing changes."""
        from qwen_tui.services import attach

        record = self._observer.refresh()
        if record is not None and record.kind == "attach":
            attach.forget(record, self._store, clock=self._clock)
        return await self.snapshot()

    async def follow(self, on_change: OnSnapshot, lease: Lease) -> ServerSnapshot:
        """Follow a boot until one token was generated, or until it failed.

        Args:
            on_change: Called with each change.
            lease: Taken for ending a failed boot and for clearing up.
        """
        last: ServerSnapshot | None = None
        while True:
            now = await self.watched()
            if on_change is not None and (last is None or differs(last, now)):
                on_change(now)
            last = now
            record = self._observer.record
            if record is None or now.state is not ServerState.STARTING:
                if record is not None and now.state not in ALIVE:
                    # Somebody else who is at work clears up as well as we would.
                    with contextlib.suppress(LaunchError):
                        async with lease():
                            await self._sweep(record)
                return now
            failure = await self.boot_step()
            if failure is not None:
                async with lease():
                    await self._give_up(record, failure)

    async def watched(self, *, ask: bool = False) -> ServerSnapshot:
        """Return what is known now, with a word when the boot seems stuck."""
        now = await self.snapshot(ask=ask)
        record = self._observer.record
        if now.state is not ServerState.STARTING or record is None:
            return now
        stuck = await self._watchdog.look(record, now.phase)
        return now if stuck is None else replace(now, message=stuck)

    async def maintain(self) -> None:
        """Keep the log of a running server from filling the disk; cheap when there is nothing."""
        record = self._observer.record
        if record is None or record.ready_at is None or record.log_path is None:
            return
        head = max(record.ready_log_bytes or 0, _LOG_HEAD_BYTES)
        try:
            rotated = await asyncio.to_thread(rotate, Path(record.log_path), head)
        except OSError:
            return  # a full disk: the log goes on as it is
        if rotated is not None:
            self._store.update(
                record, lambda r: replace(r, archived_lines=r.archived_lines + rotated.lines)
            )

    async def boot_step(self) -> Text | None:
        """Wait a moment, or try the first token when it is time (see :class:`BootFollower`)."""
        record = self._observer.record
        if record is None:
            return None
        return await self._boot.step(record, self.api_key())

    async def stop(
        self, timeout_s: float, on_change: Callable[[StopProgress], None] | None
    ) -> StopResult:
        """Stop what runs and wait until nothing of it is left.

        Raises:
            StopError: it is only attached, or something of it survives.
        """
        now = await self.snapshot()
        record = self._observer.record
        if record is None:
            return nothing_to_stop()
        result = await stop_run(
            record,
            self._store,
            self._kinds,
            clock=self._clock,
            timeout_s=timeout_s,
            on_change=on_change,
            exit_code=self._observer.exit_code,
            memory=self._memory,
            last_words=self._observer.last_words,
            announced=None if now.report is None else now.report.fatal,
        )
        intent = self.intents.read()
        if intent is not None and not intent.active:
            self.intents.clear()
        self._note()
        return result

    async def in_flight(self) -> int | None:
        """Return how many requests run or wait; ``None`` when the server does not tell both."""
        record = self._observer.record
        if record is None:
            return None
        from qwen_tui.services.live import MetricPoller

        live = await MetricPoller(record.url, self.api_key()).poll()
        if live.running is None or live.queue is None:
            return None
        return live.running + live.queue

    def launched_profile(self) -> EngineProfile | None:
        """Return the profile of the newest run, as it was launched."""
        record = self._observer.record
        return None if record is None else launched_profile(record, self._paths)

    def require_way_back(self, running: EngineProfile | None, target: EngineProfile) -> None:
        """Refuse a swap that could not go back (see :func:`launch.require_way_back`)."""
        require_way_back(running, target, self._paths)

    def at_same_address(self, target: EngineProfile) -> EngineProfile:
        """Return the target where clients look for it.

        A pair shares its address. When the running side was launched on another port than its
        file says (``up --port``), the other side goes there too.
        """
        running = self.launched_profile()
        if running is None:
            return target
        try:
            filed = load_profiles(self._paths.profiles).get(running.name)
        except ProfileError:
            return target
        if (filed.host, filed.port) != (target.host, target.port):
            return target
        return replace(target, host=running.host, port=running.port)

    def api_key(self) -> str | None:
        """Return the API key of the newest run: from memory, else from the profile's file.

        Records never hold one; that of a server which we did not start is read anew each time.
        """
        record = self._observer.record
        if record is None:
            return None
        if record.kind == "attach":
            return address_key(record.url, self._paths)
        if record.profile not in self._keys:
            try:
                profile = load_profiles(self._paths.profiles).get(record.profile)
            except ProfileError:
                return None
            self._keys[record.profile] = api_key_of(profile)
        return self._keys[record.profile]

    async def _sweep(self, record: RunRecord) -> None:
        await self._kinds.of(record).sweep(record)

    async def _give_up(self, record: RunRecord, failure: Text) -> None:
        """End a server that has its port and cannot generate: a failed boot, with its cause."""
        report = None if self._observer.log is None else self._observer.log.report
        fatal = None if report is None else report.fatal
        cause = t("It reached its port and failed its first requests: {failure}.", failure=failure)
        await stop_run(
            record,
            self._store,
            self._kinds,
            clock=self._clock,
            timeout_s=_FAILED_BOOT_STOP_S,
            on_change=None,
            exit_code=self._observer.exit_code,
            memory=self._memory,
            last_words=self._observer.last_words,
            failure=cause if fatal is None else fatal.summary,
            fatal=fatal,
        )
        self._note()

    def _note(self) -> None:
        """Write the newest run into the history."""
        record = self._observer.refresh()
        if record is not None:
            log = self._observer.log
            self.history.note_boot(record, None if log is None else log.report)


def differs(before: ServerSnapshot, now: ServerSnapshot) -> bool:
    """Tell whether there is news between two snapshots."""
    return (
        before.state is not now.state
        or before.phase != now.phase
        or before.ready != now.ready
        or before.pid != now.pid
        or before.started != now.started
        or before.report is not now.report
        or str(before.message) != str(now.message)
    )


def _occupied(now: ServerSnapshot) -> LaunchError:
    return LaunchError(
        t(
            "{profile} is {state} already (pid {pid}, {url}).",
            profile=now.profile or t("A server"),
            state=BOOT_STATES[now.state],
            pid="—" if now.pid is None else now.pid,
            url=now.url or "—",
        ),
        t("Stop it first (qwen-tui down), or swap to this profile (qwen-tui swap)."),
    )
