"""The real world behind the console: supervisor, poller, probe, log, doctor, profiles and GPU.

Whatever is slow to import (HTTP client, NVML) is imported in a thread at its first use, so that the
console paints before it and never stops for it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from qwen_tui.services.console import GpuView, LogChunk, ProfileList, Progress
from qwen_tui.services.console_lock import ConsoleLock
from qwen_tui.services.desks_real import RealHistory, RealPlans, RealProfiles
from qwen_tui.services.doctor_desk import RealDoctor
from qwen_tui.services.fleet_desk import RealFleet
from qwen_tui.services.model_desk import ModelDesk, RealModels
from qwen_tui.services.modules import load_module
from qwen_tui.services.paths import Paths, write_private
from qwen_tui.services.probe_desk import RealProbes
from qwen_tui.services.state import ServerState
from qwen_tui_profiles.errors import ConfigError, LaunchError
from qwen_tui_profiles.text import t

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
    from pathlib import Path

    from qwen_tui.services.desks import (
        FleetDesk,
        HistoryDesk,
        PlanDesk,
        ProbeDesk,
        ProfileDesk,
        RepairDesk,
    )
    from qwen_tui.services.live import MetricPoller
    from qwen_tui.services.settings import Settings
    from qwen_tui.services.snapshots import (
        GpuSnapshot,
        LiveSnapshot,
        ProbeResult,
        ServerSnapshot,
    )
    from qwen_tui.services.supervisor import ServerSupervisor
    from qwen_tui.services.swap import Swap
    from qwen_tui_diagnostics.result import CheckResult
    from qwen_tui_profiles.findings import Clamp, Finding
    from qwen_tui_profiles.profile import EngineProfile

__all__ = ["RealConsole"]

_T = TypeVar("_T")

LOOK_S = 0.5
"""How often the run record and the boot log are looked at; the server's end is told at once."""
SERVING_LOOK_S = 2.0
"""The same while a server serves."""
SWAP_LOOK_S = 1.0
"""The same while a swap of this console is at work."""
LOG_S = 1.0
"""How often the log is looked at: each batch costs a layout and a paint of the log's panel."""
LOCK_S = 1.0
SEEN_LIMIT = 500
"""Acknowledged clamps that are remembered; the oldest are forgotten first."""


class RealConsole:
    """See :class:`~qwen_tui.services.console.ConsoleServices`."""

    def __init__(self, paths: Paths) -> None:
        self._paths = paths
        self._supervisor: ServerSupervisor | None = None
        self._ready = asyncio.Lock()
        self._swapping = False
        self._swap: Swap | None = None
        self._lock = ConsoleLock(paths)
        self.history: HistoryDesk = RealHistory(paths)
        self.plans: PlanDesk = RealPlans(paths)
        self.files: ProfileDesk = RealProfiles(paths)
        self.models: ModelDesk = RealModels(paths)
        self.probes: ProbeDesk = RealProbes(paths, self._api_key, self._note_probe)
        self._doctor = RealDoctor(paths)
        self.repairs: RepairDesk = self._doctor
        fleet = RealFleet(paths)
        self.fleet: FleetDesk = fleet
        self.fleet_probes: ProbeDesk = RealProbes(paths, fleet.key, gateway=False)
        self._poller: MetricPoller | None = None
        # What the live figures are explained with: the newest GPU samples and the boot's clamps.
        self._gpus: tuple[GpuSnapshot, ...] = ()
        self._clamps: tuple[Clamp, ...] = ()
        self._requests_a_replica: int | None = None

    async def profiles(self) -> ProfileList:
        """Read presets and user profiles."""
        loader = await load_module("qwen_tui_profiles.loader")
        found = await asyncio.to_thread(loader.load_profiles, self._paths.profiles)
        return ProfileList(tuple(found.profiles.values()), found.problems)

    async def settings(self) -> Settings:
        """Read the settings; a broken file counts as none."""
        module = await load_module("qwen_tui.services.settings")
        loaded: Settings = await asyncio.to_thread(module.load_settings, self._paths)
        return loaded

    async def remember(self, **changes: str | None) -> None:
        """Change the settings file."""
        module = await load_module("qwen_tui.services.settings")
        await asyncio.to_thread(partial(module.change_settings, self._paths, **changes))

    async def control(self) -> AsyncIterator[tuple[bool, int | None]]:
        """Try for the right to act until this console has it."""
        while not self._lock.take():
            yield False, self._lock.holder()
            await asyncio.sleep(LOCK_S)
        yield True, None

    async def acknowledged(self) -> frozenset[str]:
        """Return what was acknowledged; a broken file counts as nothing seen."""
        return frozenset(await asyncio.to_thread(self._read_seen))

    async def acknowledge(self, keys: frozenset[str]) -> None:
        """Add to what was acknowledged, and to how the last run ended."""
        await asyncio.to_thread(self._write_seen, keys)
        supervisor = await self._server()
        await supervisor.acknowledge()

    async def servers(self) -> AsyncIterator[ServerSnapshot]:
        """Yield the server's state when there is news; a boot is followed to its first token."""
        supervisor = await self._server()
        while True:
            async with contextlib.aclosing(
                supervisor.watch(LOOK_S, serving_s=SERVING_LOOK_S)
            ) as snapshots:
                async for snapshot in snapshots:
                    self._note(snapshot)
                    yield snapshot
                    if snapshot.state is ServerState.STARTING:
                        break
            # One party at a time follows a boot: the swap that began it, or else this.
            follow = self._look_on if self._swapping else self._boot
            async with contextlib.aclosing(follow(supervisor)) as snapshots:
                async for snapshot in snapshots:
                    self._note(snapshot)
                    yield snapshot

    def _note(self, snapshot: ServerSnapshot) -> None:
        """Keep what live figures are explained with."""
        report = snapshot.report
        self._clamps = () if report is None else report.clamps
        self._requests_a_replica = None if report is None else report.requests_a_replica

    async def _look_on(self, supervisor: ServerSupervisor) -> AsyncGenerator[ServerSnapshot, None]:
        """Yield the server's state while a swap of this console is at work on it."""
        from qwen_tui.services.control import differs

        last: ServerSnapshot | None = None
        while self._swapping:
            now = await supervisor.snapshot()
            if last is None or differs(last, now):
                last = now
                yield now
            await asyncio.sleep(SWAP_LOOK_S)

    async def _boot(self, supervisor: ServerSupervisor) -> AsyncGenerator[ServerSnapshot, None]:
        """Follow a boot, whoever began it; only one process ends a failed one."""

        async def follow(say: Callable[[ServerSnapshot], None]) -> None:
            with contextlib.suppress(LaunchError):  # somebody else is at work on it
                say(await supervisor.wait_ready(say))

        async for snapshot in _yielded(follow):
            yield snapshot

    async def preflight(self, profile: EngineProfile) -> tuple[Finding, ...]:
        """Look for what would make the launch fail."""
        supervisor = await self._server()
        return (await supervisor.preflight(profile)).errors

    async def start(self, profile: EngineProfile, force: str | None = None) -> None:
        """Launch; :meth:`servers` then follows the boot."""
        supervisor = await self._server()
        await supervisor.start(profile, force=force)

    async def stop(self) -> AsyncIterator[Progress]:
        """Stop the server, saying each step."""
        supervisor = await self._server()

        async def act(say: Callable[[Progress], None]) -> None:
            result = await supervisor.stop(on_change=lambda p: say(Progress(p.text)))
            say(Progress(result.text, failed=result.port_free is False, done=True))

        async for progress in _yielded(act):
            yield progress

    async def swap(self, target: EngineProfile, drain_s: float = 0.0) -> AsyncIterator[Progress]:
        """Swap, saying each step."""
        module = await load_module("qwen_tui.services.swap")
        supervisor = await self._server()
        self._swapping = True
        try:
            options = module.SwapOptions(drain_s=drain_s)
            async with (
                supervisor.swapping(target, options) as self._swap,
                contextlib.aclosing(self._swap.steps()) as steps,
            ):
                async for step in steps:
                    done = step.outcome is not None
                    yield Progress(step.text, failed=step.failed, done=done)
        finally:
            self._swapping, self._swap = False, None

    def cancel_swap(self) -> bool:
        """Ask the swap that runs to go back."""
        return self._swap is not None and self._swap.cancel()

    def predicted_kv(self) -> int | None:
        """Look into the run's record."""
        record = None if self._supervisor is None else self._supervisor.record
        predicted = None if record is None else record.prediction.get("kv_tokens")
        return predicted if isinstance(predicted, int) else None

    async def live(self, url: str, interval_s: float) -> AsyncIterator[LiveSnapshot]:
        """Poll the engine."""
        module = await load_module("qwen_tui.services.live")
        supervisor = await self._server()
        pace = module.Pace(busy_s=interval_s, idle_s=max(interval_s, module.Pace().idle_s))
        self._poller = poller = module.MetricPoller(
            url,
            supervisor.api_key(),
            pace=pace,
            context=lambda: module.LiveContext(self._gpus, self._clamps, self._requests_a_replica),
        )
        async for snapshot in poller.stream():
            yield snapshot

    async def _api_key(self, _: str) -> str | None:
        return (await self._server()).api_key()

    def _note_probe(self, result: ProbeResult) -> None:
        """Tell the poller of a request of our own."""
        if self._poller is not None:
            self._poller.note_probe(result)

    async def log(self, path: Path) -> AsyncIterator[LogChunk]:
        """Follow the engine's log."""
        module = await load_module("qwen_tui.services.logtail")
        async for batch in module.LogTail(path, interval_s=LOG_S).batches():
            yield LogChunk(batch.lines, batch.dropped, batch.restart)

    async def gpus(self) -> AsyncIterator[GpuView]:
        """Sample the GPUs."""
        module = await load_module("qwen_tui.services.gpu")
        sampler = module.GpuSampler(server_pid=self._server_pid)
        async for gpus in sampler.stream():
            self._gpus = gpus
            yield GpuView(gpus, sampler.error)

    async def checks(
        self, profile: EngineProfile | None, only: tuple[str, ...] = ()
    ) -> AsyncIterator[CheckResult]:
        """Run the doctor for a profile."""
        await load_module("qwen_tui_diagnostics.runner")
        async with contextlib.aclosing(self._doctor.checks(profile, only)) as results:
            async for result in results:
                yield result

    async def doctor_report(self) -> str:
        """Write the last run down."""
        return await asyncio.to_thread(self._doctor.report)

    async def close(self) -> None:
        """Give the right to act to the next console; the streams end with their workers."""
        try:
            if self._swap is not None:
                await self._swap.carry_through()
        finally:
            self._lock.release()

    async def _server(self) -> ServerSupervisor:
        async with self._ready:
            if self._supervisor is None:
                module = await load_module("qwen_tui.services.supervisor")
                self._supervisor = module.ServerSupervisor(self._paths)
            return self._supervisor

    def _server_pid(self) -> int | None:
        record = None if self._supervisor is None else self._supervisor.record
        main = None if record is None or not record.open else record.main
        return None if main is None else main.pid

    @property
    def _seen_path(self) -> Path:
        return self._paths.state / "acknowledged.json"

    def _read_seen(self) -> list[str]:
        try:
            document = json.loads(self._seen_path.read_bytes())
        except (OSError, ValueError):
            return []
        return (
            [key for key in document if isinstance(key, str)] if isinstance(document, list) else []
        )

    def _write_seen(self, keys: frozenset[str]) -> None:
        kept = list(dict.fromkeys([*self._read_seen(), *sorted(keys)]))[-SEEN_LIMIT:]
        self._paths.make(self._paths.state)
        try:
            write_private(self._seen_path, json.dumps(kept, ensure_ascii=False).encode())
        except OSError as error:
            raise ConfigError(
                t(
                    "Cannot write {path} ({reason}).",
                    path=str(self._seen_path),
                    reason=error.strerror or type(error).__name__,
                ),
                t("What you have seen is forgotten when the console ends."),
            ) from error


async def _yielded(
    act: Callable[[Callable[[_T], None]], Awaitable[None]],
) -> AsyncGenerator[_T, None]:
    """Turn a callback into a stream; the work ends with the stream."""
    queue: asyncio.Queue[_T | None] = asyncio.Queue()

    async def run() -> None:
        try:
            await act(queue.put_nowait)
        finally:
            queue.put_nowait(None)

    task = asyncio.create_task(run())
    try:
        while (item := await queue.get()) is not None:
            yield item
        await task
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
