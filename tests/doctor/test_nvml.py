"""The NVML probe against recorded answers of a real H200 and against typed failures."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pynvml
import pytest

from qwen_tui_diagnostics.probes.gpu_reading import (
    GpuReading,
    MissingReason,
    throttle_text,
    throttle_words,
)
from qwen_tui_diagnostics.probes.nvml import Nvml, NvmlError
from qwen_tui_profiles.errors import ProbeError
from support.fake_nvml import Code, FakeNvml, h200

if TYPE_CHECKING:
    from pathlib import Path

GIB = 1024**3


def one(card: dict[str, object], **options: object) -> GpuReading:
    with Nvml(FakeNvml(card, **options)) as nvml:  # type: ignore[arg-type]
        (reading,) = nvml.devices()
    return reading


def test_a_real_h200_reads_as_nvidia_smi_shows_it() -> None:
    # nvidia-smi.txt of the same minute: 79 W of 700 W, 35 °C, 0 of 143771 MiB, MIG off, P0.
    reading = one(h200())
    assert reading.name == "NVIDIA H200"
    assert reading.uuid == "GPU-0a1b2c3d"
    assert reading.bus_id == "0000:00:06.0"
    assert reading.compute_capability == (9, 0)
    assert reading.memory_total_bytes == 143771 * 1024**2
    assert reading.memory_used_bytes == 0
    assert reading.memory_free_bytes == 150109880320
    assert reading.memory_reserved_bytes == 644939776
    assert not reading.unified
    assert reading.utilisation == 0.0
    assert reading.power_w == pytest.approx(79.068)
    assert reading.power_limit_w == 700
    assert (reading.power_min_w, reading.power_max_w) == (200, 700)
    assert (reading.temperature_c, reading.temperature_slowdown_c) == (35, 89)
    assert (reading.clock_sm_mhz, reading.clock_sm_max_mhz) == (345, 1980)
    assert (reading.pcie_generation, reading.pcie_width) == (5, 16)
    assert (reading.ecc_enabled, reading.ecc_pending, reading.mig_enabled) == (True, True, False)
    assert reading.persistence is True
    assert reading.display_active is False
    assert reading.throttle_reasons == ("idle",)
    assert throttle_text(reading.throttle_bits) is None


def test_what_a_card_does_not_have_is_none_with_the_reason_and_never_zero() -> None:
    reading = one(h200())
    assert reading.fan is None
    assert reading.missing["fan"] == MissingReason.UNSUPPORTED
    assert reading.codes["fan"] == pynvml.NVML_ERROR_NOT_SUPPORTED
    assert "name" not in reading.missing


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (3, MissingReason.UNSUPPORTED),
        (4, MissingReason.NOT_PERMITTED),
        (13, MissingReason.NO_FUNCTION),
        (15, MissingReason.GPU_LOST),
        (999, MissingReason.ERROR),
    ],
)
def test_every_failing_call_is_typed(code: int, reason: MissingReason) -> None:
    reading = one(h200(PowerUsage=Code(code), EnforcedPowerLimit=Code(code)))
    assert reading.power_w is None
    assert reading.missing["power_w"] == reason
    assert reading.codes["power_w"] == code
    assert reading.temperature_c == 35


def test_each_value_is_none_when_its_call_fails_and_the_others_stay() -> None:
    whole = one(h200())
    for key in ("MemoryInfo_v2", "UtilizationRates", "EccMode", "MigMode", "PciInfo_v3", "Name"):
        card = h200(**{key: Code(999)})
        partial = one(card)
        lost = {f for f in GpuReading.__dataclass_fields__ if f in partial.missing} - set(
            whole.missing
        )
        assert lost, key
        for name in lost:
            assert getattr(partial, name) is None
            assert partial.missing[name] == MissingReason.ERROR
        kept = set(GpuReading.__dataclass_fields__) - lost - {"missing", "codes"}
        assert all(getattr(partial, name) == getattr(whole, name) for name in kept)


def test_old_driver_without_the_second_memory_call() -> None:
    # Version 1 counts the driver's reserve as used (h200 recording: 644,939,776 bytes).
    reading = one(h200(MemoryInfo_v2=Code(pynvml.NVML_ERROR_FUNCTION_NOT_FOUND)))
    assert reading.memory_used_bytes == 644939776
    assert reading.memory_reserved_bytes is None
    assert reading.missing["memory_reserved_bytes"] == MissingReason.NO_FUNCTION


def test_old_names_of_calls_are_used_where_the_new_ones_do_not_exist() -> None:
    library = FakeNvml(
        h200(CurrentClocksThrottleReasons=0x48),
        without=(
            "nvmlDeviceGetCurrentClocksEventReasons",
            "nvmlDeviceGetTemperature",
            "nvmlDeviceGetComputeRunningProcesses_v3",
            "nvmlDeviceGetGraphicsRunningProcesses_v3",
        ),
    )
    with Nvml(library) as nvml:
        (reading,) = nvml.devices()
        assert nvml.processes(0) == ()
    assert reading.throttle_reasons == ("hardware slowdown", "hardware thermal")
    assert reading.temperature_c == 35


def gb10(**changes: object) -> dict[str, object]:
    # Reference: memory NotSupported for v1 and v2, no PCIe, fan or power limit fields.
    card = h200(Name="NVIDIA GB10", CudaComputeCapability="(12, 1)")
    for key in (
        "MemoryInfo", "MemoryInfo_v2", "BAR1MemoryInfo", "EnforcedPowerLimit", "FanSpeed",
        "CurrPcieLinkGeneration", "CurrPcieLinkWidth", "MaxPcieLinkGeneration", "MaxPcieLinkWidth",
    ):  # fmt: skip
        card[key] = Code(3)
    return card | changes


def meminfo(root: Path, **kib: int) -> Path:
    root.mkdir(exist_ok=True)
    (root / "meminfo").write_text("".join(f"{name}: {value} kB\n" for name, value in kib.items()))
    return root


def test_unified_memory_is_the_host_memory(tmp_path: Path) -> None:
    proc = meminfo(
        tmp_path / "proc", MemTotal=127_600_000, MemFree=9_000_000, MemAvailable=98_000_000
    )
    card = gb10(ComputeRunningProcesses_v3=[{"pid": 77, "usedGpuMemory": 5 * GIB}])
    with Nvml(FakeNvml(card), proc_root=proc) as nvml:
        (reading,) = nvml.devices()
    assert reading.unified
    assert reading.memory_total_bytes == 127_600_000 * 1024
    assert reading.memory_free_bytes == 98_000_000 * 1024
    assert reading.memory_used_bytes == 5 * GIB
    assert "memory_total_bytes" not in reading.missing


@pytest.mark.parametrize("total", [0, 4 * GIB])
def test_an_integrated_part_with_a_wrong_total_is_unified_too(tmp_path: Path, total: int) -> None:
    proc = meminfo(tmp_path / "proc", MemTotal=64_000_000, MemAvailable=50_000_000)
    memory = {"total": total, "free": total, "used": 0, "reserved": 0}
    with Nvml(FakeNvml(gb10(MemoryInfo_v2=memory)), proc_root=proc) as nvml:
        (reading,) = nvml.devices()
    assert reading.unified
    assert reading.memory_total_bytes == 64_000_000 * 1024


def test_a_discrete_card_never_borrows_the_host_memory(tmp_path: Path) -> None:
    proc = meminfo(tmp_path / "proc", MemTotal=64_000_000, MemAvailable=50_000_000)
    for code in (3, 4, 15, 999):
        card = h200(MemoryInfo_v2=Code(code), MemoryInfo=Code(code))
        with Nvml(FakeNvml(card), proc_root=proc) as nvml:
            (reading,) = nvml.devices()
        assert not reading.unified
        assert reading.memory_total_bytes is None
        assert reading.memory_free_bytes is None
        assert "memory_free_bytes" in reading.missing


def test_unified_memory_without_meminfo_is_unknown(tmp_path: Path) -> None:
    with Nvml(FakeNvml(gb10()), proc_root=tmp_path) as nvml:
        (reading,) = nvml.devices()
    assert reading.unified
    assert reading.memory_total_bytes is None
    assert reading.memory_free_bytes is None


def test_processes_name_sizes_and_unknown_sizes(tmp_path: Path) -> None:
    (tmp_path / "41").mkdir()
    (tmp_path / "41" / "comm").write_text("gnome-\x1b[31mshell\n")
    card = h200(
        ComputeRunningProcesses_v3=[
            {"pid": 40, "usedGpuMemory": None},
            {"pid": 42, "usedGpuMemory": 0xFFFF_FFFF_FFFF_FFFF},
            {"pid": 41, "usedGpuMemory": 100},
        ],
        GraphicsRunningProcesses_v3=[{"pid": 41, "usedGpuMemory": 612 * 1024**2}],
    )
    with Nvml(FakeNvml(card), proc_root=tmp_path) as nvml:
        processes = nvml.processes(0)
    assert processes is not None
    first, *rest = processes
    assert (first.pid, first.kind, first.name) == (41, "compute+graphics", "gnome-shell")
    assert first.used_bytes == 612 * 1024**2
    assert [(p.pid, p.used_bytes, p.name) for p in rest] == [(40, None, None), (42, None, None)]


def test_processes_that_nvml_does_not_tell_are_not_nobody() -> None:
    card = h200(ComputeRunningProcesses_v3=Code(4), GraphicsRunningProcesses_v3=Code(4))
    with Nvml(FakeNvml(card)) as nvml:
        assert nvml.processes(0) is None


def test_one_lost_card_does_not_hide_the_others() -> None:
    with Nvml(FakeNvml(h200(HANDLE=Code(15)), h200())) as nvml:
        lost, healthy = nvml.devices()
    assert lost.memory_free_bytes is None
    assert lost.missing["memory_free_bytes"] == MissingReason.GPU_LOST
    assert healthy.memory_free_bytes == 150109880320


@pytest.mark.parametrize("code", [4, 9, 12, 15, 18, 999, 17])
def test_nvml_that_cannot_be_opened_says_why_by_code(code: int) -> None:
    with pytest.raises(ProbeError) as caught:
        Nvml(FakeNvml(init=code)).open()
    assert isinstance(caught.value, NvmlError)
    assert caught.value.code == code
    assert str(caught.value.message)


def test_the_messages_differ_by_cause() -> None:
    texts = set()
    for code in (4, 9, 12, 15, 18, 999):
        with pytest.raises(NvmlError) as caught:
            Nvml(FakeNvml(init=code)).open()
        texts.add(str(caught.value.message))
        assert caught.value.remedy is not None
    assert len(texts) == 6


def test_live_reading_leaves_the_rest_out_and_says_so() -> None:
    with Nvml(FakeNvml(h200())) as nvml:
        (reading,) = nvml.devices(live_only=True)
    assert reading.memory_free_bytes == 150109880320
    assert reading.ecc_enabled is None
    assert reading.missing["ecc_enabled"] == MissingReason.NOT_ASKED


def test_a_closed_connection_refuses() -> None:
    nvml = Nvml(FakeNvml(h200()))
    with pytest.raises(NvmlError):
        nvml.devices()
    nvml.open()
    nvml.close()
    nvml.close()
    with pytest.raises(NvmlError):
        nvml.devices()


def test_json_round_trip() -> None:
    reading = one(h200(CurrentClocksEventReasons=0x24))
    document = reading.as_json()
    assert document["throttle_reasons"] == ["power cap", "thermal"]
    assert GpuReading.from_json(document) == reading


def test_unknown_throttle_bits_are_shown() -> None:
    assert throttle_words(0x4 | 0x800) == ("power cap", "bit 0x800")
    assert str(throttle_text(0x800)) == "reason 0x800"
    assert str(throttle_text(0x1 | 0x4 | 0x40)) == "power limit reached, too hot (hardware)"
