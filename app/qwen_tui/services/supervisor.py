"""The server that this user runs: started detached, found again, followed, stopped honestly.

One supervisor looks at one state folder. Any number of processes may look at the same folder; the
right to act is a lock that the kernel frees when its holder dies. Nothing here depends on having
started the server: everything is read from the run record, the process table and the engine log.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from qwen_tui.services.bootlog import open_reader
from qwen_tui.services.control import ServerControl, differs
from qwen_tui.services.front import FrontService
from qwen_tui.services.history import History
from qwen_tui.services.intent import SwapIntents
from qwen_tui.services.kinds import Kinds
from qwen_tui.services.launch import find_engine
from qwen_tui.services.observer import RunObserver
from qwen_tui.services.prelaunch import preflight
from qwen_tui.services.process import ExitWatch, SystemKiller
from qwen_tui.services.readiness import HttpSmoke
from qwen_tui.services.restart import Death
from qwen_tui.services.runs import RunStore
from qwen_tui.services.spawner import SystemSpawner
from qwen_tui.services.state import ALIVE, ENDED, ServerState
from qwen_tui.services.stopping import DEFAULT_STOP_S
from qwen_tui.services.swap import Swap, SwapOptions
from qwen_tui.services.vram import NvmlMemory
from qwen_tui_profiles.text import t

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence

    from qwen_tui.services.bootlog import Reader
    from qwen_tui.services.kinds.container import CallRuntime
    from qwen_tui.services.paths import Paths
    from qwen_tui.services.prelaunch import Preflight
    from qwen_tui.services.process import Killer
    from qwen_tui.services.readiness import Http
    from qwen_tui.services.restart import RestartPolicy
    from qwen_tui.services.runs import RunRecord
    from qwen_tui.services.snapshots import ServerSnapshot
    from qwen_tui.services.spawner import Spawner
    from qwen_tui.services.stopping import StopProgress, StopResult
    from qwen_tui.services.swap import SwapStep
    from qwen_tui.services.swapcard import SwapCard
    from qwen_tui.services.vram import MemoryProbe
    from qwen_tui_profiles.profile import EngineProfile

__all__ = ["ServerSupervisor"]

_SWAPPING_S = 0.25
_ASK_EVERY_S = 10.0
"""How often a watched server is asked whether it answers."""


class ServerSupervisor:
    """Starts, follows and stops the server of one state folder."""

    def __init__(
        self,
        paths: Paths,
        *,
        spawner: Spawner | None = None,
        killer: Killer | None = None,
        http: Http | None = None,
        clock: Callable[[], float] = time.time,
        make_reader: Callable[[Sequence[str]], Reader] = open_reader,
        call_runtime: CallRuntime | None = None,
        memory: MemoryProbe | None = None,
    ) -> None:
        self.paths = paths
        self._clock = clock
        self.store = RunStore(paths)
        http = http or HttpSmoke()
        self._memory = memory or NvmlMemory()
        kinds = Kinds(killer or SystemKiller(), call_runtime)
        self.history = History(paths.state / "history.sqlite3", clock=clock)
        self.front = FrontService(paths)
        intents = SwapIntents(paths)
        self._observer = RunObserver(
            self.store,
            http,
            kinds,
            self.history,
            intents,
            clock=clock,
            make_reader=make_reader,
        )
        self._control = ServerControl(
            paths,
            self.store,
            self._observer,
            spawner=spawner or SystemSpawner(),
            kinds=kinds,
            http=http,
            history=self.history,
            intents=intents,
            front=self.front,
            memory=self._memory,
            clock=clock,
        )

    @property
    def record(self) -> RunRecord | None:
        """The newest run, as of the last look."""
        return self._observer.record

    async def snapshot(self, *, ask: bool = False) -> ServerSnapshot:
        """Return what is known now.

        Args:
            ask: Also ask the address whether it answers.

        Raises:
            ConfigError: the state folder cannot be read.
        """
        return await self._observer.look(ask=ask)

    async def watch(
        self, interval_s: float = 0.5, *, serving_s: float | None = None
    ) -> AsyncGenerator[ServerSnapshot, None]:
        """Yield what is known at once, then whenever something changed.

        Args:
            interval_s: Between two looks.
            serving_s: Instead of it while a server serves: its log grows all the time and says
                little that is new, and its end is seen at once anyway.

        A server whose boot nobody follows (its console was killed) is asked for its first token
        here, so that it becomes ready all the same.
        """
        last: ServerSnapshot | None = None
        asked = time.monotonic()
        while True:
            ask = time.monotonic() - asked >= _ASK_EVERY_S
            if ask:
                asked = time.monotonic()
            now = await self._control.watched(ask=ask)
            if last is None or differs(last, now):
                last = now
                yield now
            if ask:
                await self._control.maintain()
            if now.state is ServerState.STARTING:
                await self._control.boot_step()
            record = self.record
            main = None if record is None or now.state not in ALIVE else record.main
            pause_s = serving_s if serving_s is not None and now.ready else interval_s
            if main is None:
                await asyncio.sleep(pause_s)
            else:
                with ExitWatch(main) as exit_watch:
                    await exit_watch.pause(pause_s)

    async def start(
        self,
        profile: EngineProfile,
        *,
        interpreter: str | None = None,
        force: str | None = None,
    ) -> ServerSnapshot:
        """Launch a profile; returns after spawn and record, long before it is ready.

        Args:
            profile: What to launch.
            interpreter: Python of the engine, instead of the profile's.
            force: Why to launch although a check failed; kept with the run.

        Raises:
            LaunchError: something runs already, the port is taken, the model is missing, or the
                process cannot be started.
            EngineError: no interpreter with this engine.
            ConfigError: the state folder cannot be written.
        """
        prepared = await self._control.prepare(profile, interpreter, force=force)
        async with self.store.lease(t("starting {profile}", profile=profile.name)):
            return await self._control.launch(profile, prepared)

    async def wait_ready(
        self, on_change: Callable[[ServerSnapshot], None] | None = None
    ) -> ServerSnapshot:
        """Follow a boot until one token was generated, or until it failed.

        Cancelling leaves the server running. A server that reached its port and cannot generate
        is ended, and its ending says why.

        Returns:
            A snapshot that is ready, or one that ended (``FATAL`` with the cause).
        """
        return await self._control.follow(
            on_change, lambda: self.store.lease(t("clearing up after a failed boot"))
        )

    async def stop(
        self,
        *,
        timeout_s: float = DEFAULT_STOP_S,
        on_change: Callable[[StopProgress], None] | None = None,
    ) -> StopResult:
        """Stop the server, wait until nothing of it is left, and end its front if there is one.

        Args:
            timeout_s: Seconds that it may drain before it is killed.
            on_change: Called with each moment of the stop.

        Raises:
            LaunchError: another process of ours is at work on the server.
            StopError: it is only attached, or something of it survives.
        """
        async with self.store.lease(t("stopping")):
            result = await self._control.stop(timeout_s, on_change)
            await self.front.stop()
            return result

    async def swap(
        self, target: EngineProfile, options: SwapOptions | None = None
    ) -> AsyncGenerator[SwapStep, None]:
        """Stop what runs and start ``target``, or go back; yields each moment.

        Raises:
            LaunchError: another process of ours is at work on the server.
        """
        async with (
            self.swapping(target, options) as swap,
            contextlib.aclosing(swap.steps()) as steps,
        ):
            async for step in steps:
                yield step

    @contextlib.asynccontextmanager
    async def swapping(
        self, target: EngineProfile, options: SwapOptions | None = None
    ) -> AsyncIterator[Swap]:
        """Hold the lease and hand out a swap that can be cancelled.

        Raises:
            LaunchError: another process of ours is at work on the server.
        """
        async with self.store.lease(t("swapping to {profile}", profile=target.name)):
            yield Swap(self._control, target, options or SwapOptions(), clock=self._clock)

    async def swap_card(self, target: EngineProfile) -> SwapCard:
        """Return what a swap to ``target`` would mean; nothing is changed.

        Raises:
            EngineError: the target has no engine here.
            LaunchError: the target's model is missing.
        """
        from qwen_tui.services.swapcard import make_card  # compares profiles: the whole rule book

        return await make_card(self._control, target, self.paths, self._memory)

    async def preflight(self, profile: EngineProfile) -> Preflight:
        """Return what can be known before a launch; nothing is changed.

        Raises:
            EngineError: there is no engine for this profile here.
            LaunchError: its model is missing.
        """
        engine = find_engine(profile, self.paths)
        return await preflight(profile, self.paths, self._memory, engine_version=engine.version)

    async def keep(
        self,
        profile: EngineProfile,
        policy: RestartPolicy,
        *,
        on_death: Callable[[ServerSnapshot, float | None], None] | None = None,
    ) -> ServerSnapshot:
        """Watch a server that is ready, and start it again when it dies, as the policy allows.

        Args:
            profile: What to start again; after a swap meanwhile, what was swapped to.
            policy: How often and how soon.
            on_death: Called with each death and the delay to the next start, ``None`` = no more.

        Returns:
            The last snapshot, of a server that was stopped or may not be started again.
        """
        deaths: list[Death] = []
        while True:
            last = await self._until_ended()
            intent = self._control.intents.read()
            if intent is not None and intent.active:
                await asyncio.sleep(_SWAPPING_S)  # what ended is its business, and what serves next
                continue
            record = self.record
            if last.state is not ServerState.FATAL or record is None:
                return last
            cause = (
                None if record.ending is None or not record.ending.cause else record.ending.cause
            )
            kind = None if cause is None else str(cause.get("class"))
            deaths.append(Death(time.monotonic(), kind, record.ready_at is not None))
            delay_s = policy.delay_s(deaths)
            if on_death is not None:
                on_death(last, delay_s)
            if delay_s is None:
                return last
            await asyncio.sleep(delay_s)
            again = profile
            if record.profile != profile.name:
                again = self._control.launched_profile() or profile
            await self.start(again, force=record.forced)
            await self.wait_ready()

    async def _until_ended(self) -> ServerSnapshot:
        watching = self.watch()
        try:
            async for snapshot in watching:
                if snapshot.state in ENDED:
                    return snapshot
        finally:
            await watching.aclose()
        raise AssertionError("a watch ends only when it is closed")

    async def attach(self, url: str) -> ServerSnapshot:
        """Watch a server that somebody else started; it is never stopped or swapped.

        Raises:
            UsageError: ``url`` is not an address.
            EngineError: nothing answers there.
            LaunchError: a server of our own runs, or another process of ours is at work on it.
        """
        async with self.store.lease(t("attaching")):
            return await self._control.attach(url)

    async def forget(self) -> ServerSnapshot:
        """Watch an attached server no longer; without one, nothing changes."""
        async with self.store.lease(t("letting go")):
            return await self._control.forget()

    async def settle(self, limit_s: float = 5.0) -> ServerSnapshot:
        """Return what is known now, having asked the server.

        A server whose log says ready but whose first token nobody has asked for yet (its launcher
        was killed) is asked for it here, for at most ``limit_s`` seconds.
        """
        now = await self.snapshot(ask=True)
        if self._observer.missed:  # who looks once must not say that it serves
            now = await self.snapshot(ask=True)
        report = now.report
        if now.state is ServerState.STARTING and report is not None and report.ready:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(limit_s):
                    await self._control.boot_step()
            now = await self.snapshot()
        return now

    def api_key(self) -> str | None:
        """Return the API key that clients of the newest run must send."""
        return self._control.api_key()

    async def acknowledge(self) -> None:
        """Note that the user has seen how the last run ended."""
        record = self._observer.refresh()
        if record is not None and not record.open:
            self.store.update(record, lambda r: replace(r, acknowledged=True))
