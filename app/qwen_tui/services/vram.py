"""Who holds GPU memory: asked before a launch, and after a stop until ours is gone.

NVML can hang in the kernel when a card is in trouble, so it is asked from a daemon thread that
nobody waits for longer than a few seconds.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from qwen_tui_profiles.errors import ProbeError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = ["GpuHolder", "GpuMemory", "NvmlMemory", "settled", "wait_freed"]

_ANSWER_S = 3.0
_POLL_S = 0.25
_STILL_BYTES = 32 * 1024 * 1024
"""Movement below this is the noise of a desktop."""


@dataclass(frozen=True, slots=True)
class GpuHolder:
    """One process on one GPU."""

    pid: int
    used_bytes: int | None
    """``None`` = the driver does not say (WSL2, MIG)."""
    name: str | None = None


@dataclass(frozen=True, slots=True)
class GpuMemory:
    """Memory of one GPU now."""

    index: int
    name: str
    total_bytes: int | None
    used_bytes: int | None
    holders: tuple[GpuHolder, ...] | None
    """``None`` = the driver does not tell."""
    compute_capability: tuple[int, int] | None = None


class MemoryProbe(Protocol):
    """Asks the GPUs for their memory; a seam for tests."""

    async def read(self) -> tuple[GpuMemory, ...] | None:
        """Return every GPU, or ``None`` when there is none or the driver does not answer."""
        ...


class NvmlMemory:
    """The real one."""

    async def read(self) -> tuple[GpuMemory, ...] | None:
        """Return every GPU, or ``None`` when there is none or the driver does not answer."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[tuple[GpuMemory, ...] | None] = loop.create_future()

        def work() -> None:
            result = _read()
            with contextlib.suppress(RuntimeError):  # the loop may be closed by then
                loop.call_soon_threadsafe(_settle, future, result)

        threading.Thread(target=work, name="nvml-memory", daemon=True).start()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_ANSWER_S):
                return await future
        return None


async def wait_freed(
    probe: MemoryProbe,
    pids: Iterable[int],
    timeout_s: float,
    *,
    on_wait: Callable[[float], None] | None = None,
) -> bool | None:
    """Wait until none of these processes holds GPU memory any more.

    Args:
        probe: Asks the GPUs.
        pids: Processes that are gone, or should be.
        timeout_s: How long at most.
        on_wait: Called with the seconds waited, each time that some memory is still held.

    Returns:
        Whether it is free; ``None`` = no GPU can be asked. Where the driver hides the holders,
        memory counts as free when it stops to fall.
    """
    ours = frozenset(pids)
    began = time.monotonic()
    while True:
        gpus = await probe.read()
        if not gpus:
            return None
        if any(gpu.holders is None for gpu in gpus):
            await settled(probe, max(timeout_s - (time.monotonic() - began), 0.0))
            return True
        if not any(h.pid in ours for gpu in gpus for h in gpu.holders or ()):
            return True
        spent = time.monotonic() - began
        if spent >= timeout_s:
            return False
        if on_wait is not None:
            on_wait(spent)
        await asyncio.sleep(_POLL_S)


async def settled(probe: MemoryProbe, timeout_s: float) -> tuple[GpuMemory, ...] | None:
    """Return the memory once it has stopped to fall: what ended a moment ago still gives back."""
    end = time.monotonic() + timeout_s
    last = await probe.read()
    while last and time.monotonic() < end:
        await asyncio.sleep(_POLL_S)
        now = await probe.read()
        if not now or _used(now) > _used(last) - _STILL_BYTES:
            return now
        last = now
    return last


def _used(gpus: tuple[GpuMemory, ...]) -> int:
    return sum(gpu.used_bytes or 0 for gpu in gpus)


def _settle(
    future: asyncio.Future[tuple[GpuMemory, ...] | None], result: tuple[GpuMemory, ...] | None
) -> None:
    if not future.done():
        future.set_result(result)


def _read() -> tuple[GpuMemory, ...] | None:
    """Run in a thread."""
    from qwen_tui_diagnostics.probes.nvml import Nvml

    nvml = Nvml()
    try:
        nvml.open()
        gpus = []
        for reading in nvml.devices():
            found = nvml.processes(reading.index)
            holders = (
                None
                if found is None
                else tuple(GpuHolder(p.pid, p.used_bytes, p.name) for p in found)
            )
            gpus.append(
                GpuMemory(
                    reading.index,
                    reading.name or f"GPU {reading.index}",
                    reading.memory_total_bytes,
                    reading.memory_used_bytes,
                    holders,
                    reading.compute_capability,
                )
            )
        return tuple(gpus)
    except ProbeError:
        return None
    finally:
        nvml.close()
