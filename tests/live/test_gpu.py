"""GPU samples: mapped from NVML readings, never blocking, absences kept as absences."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
import time

import pytest

from qwen_tui.services.gpu import GpuSampler, snapshot_of
from qwen_tui_diagnostics.probes.nvml import GpuProcess, GpuReading, Nvml
from qwen_tui_profiles.errors import ProbeError
from qwen_tui_profiles.text import t
from support.fake_nvml import FakeNvml, h200


async def test_a_recorded_h200() -> None:
    sampler = GpuSampler(nvml=Nvml(FakeNvml(h200())))
    (gpu,) = await sampler.sample()
    sampler.close()
    # Values of tests/doctor/data/nvml-h200.json, units converted by hand.
    assert gpu.name == "NVIDIA H200"
    assert gpu.memory_total_bytes == 150_754_820_096
    assert gpu.power_w == pytest.approx(79.068)
    assert gpu.power_limit_w == pytest.approx(700)
    assert gpu.temperature_c == 35
    assert gpu.utilisation == 0
    assert gpu.clock_sm_mhz == 345
    assert gpu.clock_sm_max_mhz == 1980
    assert (gpu.pcie_generation_max, gpu.pcie_width_max) == (5, 16)
    # The recording's reason bit 1 is idleness: no throttling.
    assert gpu.throttle is None
    assert gpu.throttle_reasons == ("idle",)
    # Our server's pid is not known: what is ours is not known either.
    assert gpu.memory_ours_bytes is None


def test_ours_and_others() -> None:
    me = os.getpid()
    reading = GpuReading(index=0, memory_used_bytes=30)
    holders = (GpuProcess(me, "compute", 20), GpuProcess(1, "compute", 10))
    assert snapshot_of(reading, None, holders, me).memory_ours_bytes == 20
    # The scheduler is a child of the process that we know.
    assert snapshot_of(reading, None, holders, os.getppid()).memory_ours_bytes == 20
    # A size that NVML hides, or none of ours in the list: unknown, not zero.
    hidden = (GpuProcess(me, "compute", None),)
    assert snapshot_of(reading, None, hidden, me).memory_ours_bytes is None
    assert snapshot_of(reading, None, (), me).memory_ours_bytes is None
    assert snapshot_of(reading, None, None, me).memory_ours_bytes is None


def test_what_never_changes_comes_from_the_full_reading() -> None:
    live = GpuReading(index=0, memory_used_bytes=5, utilisation=0.5)
    full = GpuReading(index=0, name="GB10", memory_total_bytes=9, unified=True, power_limit_w=140.0)
    shown = snapshot_of(live, full, None, None)
    assert (shown.name, shown.memory_total_bytes, shown.power_limit_w) == ("GB10", 9, 140.0)
    assert shown.unified is True
    assert snapshot_of(live, None, None, None).name == "GPU 0"


class Stuck:
    """NVML as it is when a card has fallen off the bus: the call does not return."""

    def __init__(self) -> None:
        self.release = threading.Event()
        self.calls = 0

    def open(self) -> None:
        pass

    def close(self) -> None:
        pass

    def devices(self, *, live_only: bool = False) -> tuple[GpuReading, ...]:
        self.calls += 1
        self.release.wait(20)
        return (GpuReading(index=0, name="back"),)

    def processes(self, index: int) -> tuple[GpuProcess, ...] | None:
        return None


async def test_a_driver_that_hangs_blocks_nothing_and_is_not_asked_again() -> None:
    stuck = Stuck()
    sampler = GpuSampler(nvml=stuck, timeout_s=0.05)
    began = time.monotonic()
    for _ in range(3):
        with pytest.raises(TimeoutError):
            await sampler.sample()
    assert time.monotonic() - began < 1
    assert stuck.calls == 1, "one thread waits; no more are piled up behind it"
    stuck.release.set()
    (gpu,) = await sampler.sample()
    assert gpu.name == "back"
    sampler.close()


class Broken:
    def open(self) -> None:
        raise ProbeError(t("no driver"), t("install it"))

    def close(self) -> None:
        pass

    def devices(self, *, live_only: bool = False) -> tuple[GpuReading, ...]:
        raise AssertionError

    def processes(self, index: int) -> tuple[GpuProcess, ...] | None:
        raise AssertionError


async def test_a_machine_without_a_driver_says_why_once() -> None:
    sampler = GpuSampler(nvml=Broken())
    assert await sampler.sample() == ()
    assert str(sampler.error) == "no driver"
    stream = sampler.stream(interval_s=0.01)
    async with contextlib.aclosing(stream):
        async with asyncio.timeout(1):
            assert await anext(stream) == ()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):  # asked again after half a minute, not every tick
                await anext(stream)
