"""GPU figures for the console: NVML from one thread of its own, never a child process a tick.

NVML can block for seconds when a card is in trouble, so no call runs on the event loop, and a
sample that does not come back in time leaves the last one standing with its age.
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
import time
from functools import partial
from typing import TYPE_CHECKING, Protocol, TypeVar

from qwen_tui.services.snapshots import GpuSnapshot
from qwen_tui_diagnostics.probes.gpu_reading import throttle_text
from qwen_tui_diagnostics.probes.nvml import Nvml
from qwen_tui_profiles.errors import ProbeError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from qwen_tui_diagnostics.probes.gpu_reading import GpuProcess, GpuReading
    from qwen_tui_profiles.text import Text

__all__ = ["GpuSampler", "snapshot_of"]

_T = TypeVar("_T")


class _NvmlLike(Protocol):
    """What the sampler needs of NVML (tests give their own)."""

    def open(self) -> None: ...
    def close(self) -> None: ...
    def devices(self, *, live_only: bool = False) -> tuple[GpuReading, ...]: ...
    def processes(self, index: int) -> tuple[GpuProcess, ...] | None: ...


class _OneThread:
    """Runs calls one after the other in a thread that never keeps the program from ending.

    The standard executor joins its threads at exit, so one stuck driver call would hang us there.
    """

    def __init__(self, name: str) -> None:
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._name = name
        self._started = False

    def run(self, call: Callable[[], _T]) -> asyncio.Future[_T]:
        """Queue ``call`` and return the future of its result."""
        if not self._started:
            self._started = True
            threading.Thread(target=self._work, name=self._name, daemon=True).start()
        loop = asyncio.get_running_loop()
        future: asyncio.Future[_T] = loop.create_future()

        def job() -> None:
            try:
                result = call()
            except Exception as error:  # noqa: BLE001 - carried over to the awaiting side
                self._tell(loop, future, partial(future.set_exception, error))
            else:
                self._tell(loop, future, lambda: future.set_result(result))

        self._jobs.put(job)
        return future

    def stop(self, last: Callable[[], None]) -> None:
        """Run ``last`` after what is queued, then end; does not wait."""
        if self._started:
            self._jobs.put(last)
            self._jobs.put(None)

    @staticmethod
    def _tell(
        loop: asyncio.AbstractEventLoop, future: asyncio.Future[_T], act: Callable[[], None]
    ) -> None:
        def settle() -> None:
            if not future.done():
                act()

        # The loop may be closed by the time that a stuck call returns.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(settle)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()


class GpuSampler:
    """Samples every GPU of this machine."""

    def __init__(
        self,
        *,
        server_pid: Callable[[], int | None] = lambda: None,
        nvml: _NvmlLike | None = None,
        timeout_s: float = 5.0,
    ) -> None:
        """Prepare; NVML is opened at the first sample.

        Args:
            server_pid: Returns the main PID of our server, so that its memory can be told from
                that of others.
            nvml: Stands in for the real one.
            timeout_s: A sample that takes longer is given up (and awaited by the next).
        """
        self.error: Text | None = None
        """Why there are no figures; ``None`` = there are, or none was asked for yet."""
        self._nvml: _NvmlLike = Nvml() if nvml is None else nvml
        self._server_pid = server_pid
        self._timeout_s = timeout_s
        self._thread = _OneThread("nvml")
        self._pending: asyncio.Future[tuple[GpuSnapshot, ...]] | None = None
        self._static: dict[int, GpuReading] = {}

    async def sample(self) -> tuple[GpuSnapshot, ...]:
        """Return one snapshot a GPU; empty when NVML cannot be used (see :attr:`error`).

        Raises:
            TimeoutError: NVML did not answer in time; the next call waits for the same sample.
        """
        if self._pending is None:
            server_pid = self._server_pid()
            self._pending = self._thread.run(lambda: self._read(server_pid))
        try:
            async with asyncio.timeout(self._timeout_s):
                result = await asyncio.shield(self._pending)
        except ProbeError as error:
            self._pending = None
            self.error = error.message
            return ()
        self._pending = None
        self.error = None
        return result

    async def stream(
        self, interval_s: float = 1.0
    ) -> AsyncGenerator[tuple[GpuSnapshot, ...], None]:
        """Yield samples for ever; waits longer between attempts while NVML is not usable."""
        try:
            while True:
                started = time.monotonic()
                with contextlib.suppress(TimeoutError):
                    yield await self.sample()
                pause = interval_s if self.error is None else max(30.0, interval_s)
                await asyncio.sleep(max(0.05, pause - (time.monotonic() - started)))
        finally:
            self.close()

    def close(self) -> None:
        """Let NVML go without waiting for a call that hangs."""
        self._thread.stop(self._nvml.close)

    def _read(self, server_pid: int | None) -> tuple[GpuSnapshot, ...]:
        """Run in NVML's thread."""
        self._nvml.open()
        if not self._static:
            self._static = {r.index: r for r in self._nvml.devices()}
        return tuple(
            snapshot_of(
                reading,
                self._static.get(reading.index),
                self._nvml.processes(reading.index) if server_pid is not None else None,
                server_pid,
            )
            for reading in self._nvml.devices(live_only=True)
        )


def snapshot_of(
    live: GpuReading,
    static: GpuReading | None,
    processes: tuple[GpuProcess, ...] | None,
    server_pid: int | None,
) -> GpuSnapshot:
    """Map a reading to what the console shows; what is unknown stays ``None``.

    Args:
        live: What changes from second to second.
        static: An earlier full reading of the same card, for what never changes.
        processes: Who holds memory on it; ``None`` = not known.
        server_pid: Main PID of our server.
    """
    full = static or live
    return GpuSnapshot(
        index=live.index,
        name=live.name or full.name or f"GPU {live.index}",
        memory_total_bytes=_first(live.memory_total_bytes, full.memory_total_bytes),
        memory_used_bytes=live.memory_used_bytes,
        memory_ours_bytes=_ours(processes, server_pid),
        utilisation=live.utilisation,
        power_w=live.power_w,
        power_limit_w=_first(live.power_limit_w, full.power_limit_w),
        temperature_c=live.temperature_c,
        throttle=throttle_text(live.throttle_bits),
        clock_sm_mhz=live.clock_sm_mhz,
        clock_sm_max_mhz=_first(live.clock_sm_max_mhz, full.clock_sm_max_mhz),
        pcie_generation=live.pcie_generation,
        pcie_width=live.pcie_width,
        pcie_generation_max=_first(live.pcie_generation_max, full.pcie_generation_max),
        pcie_width_max=_first(live.pcie_width_max, full.pcie_width_max),
        unified=full.unified,
        throttle_reasons=live.throttle_reasons,
        temperature_slowdown_c=_first(live.temperature_slowdown_c, full.temperature_slowdown_c),
    )


def _first(*values: _T | None) -> _T | None:
    return next((v for v in values if v is not None), None)


def _ours(processes: tuple[GpuProcess, ...] | None, server_pid: int | None) -> int | None:
    """Sum the memory of our server's processes; None where NVML hides a size or the PIDs."""
    if processes is None or server_pid is None:
        return None
    mine = [p for p in processes if p.pid == server_pid or _descends(p.pid, server_pid)]
    sizes = [p.used_bytes for p in mine]
    if not mine or any(size is None for size in sizes):
        return None
    return sum(size for size in sizes if size is not None)


def _descends(pid: int, ancestor: int) -> bool:
    import psutil

    try:
        return any(parent.pid == ancestor for parent in psutil.Process(pid).parents())
    except psutil.Error:
        return False
