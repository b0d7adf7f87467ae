"""Rows for the GPUs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from support.doctor_machines import GIB, MIB, TARGET_27B, TARGET_FLASH, card, changed, workstation
from support.doctor_rows.base import FAIL, OK, SKIP, TWO, UNIFIED, WARN, cards, env, gpu

if TYPE_CHECKING:
    from support.doctor_rows.base import Row


def _slice(uuid: str, size_gib: int) -> dict[str, Any]:
    return {"UUID": uuid, "MemoryInfo": {"total": size_gib * GIB, "free": size_gib * GIB}}


SLICED = cards(
    card(),
    card(MigMode=["1", "1"], UUID="GPU-99887766-1", MIG=[
        None, _slice("MIG-aaaaaaaa-1111-2222", 10), _slice("MIG-bbbbbbbb-1111-2222", 70),
    ]),
)  # fmt: skip


def masked(facts: dict[str, Any], mask: str) -> dict[str, Any]:
    return changed(facts, env__set=env(CUDA_VISIBLE_DEVICES=mask)["env"]["set"])


ROWS: list[Row] = [
    # --- which GPU ------------------------------------------------------------------------------
    ("gpu.selected", workstation(), TARGET_27B, OK, "GPU 0 NVIDIA GeForce RTX 5090 (0000:01:00.0)"),
    ("gpu.selected", env(CUDA_VISIBLE_DEVICES=""), TARGET_27B, FAIL, "0 of 1"),
    ("gpu.selected", env(CUDA_VISIBLE_DEVICES="-1"), TARGET_27B, FAIL, "0 of 1"),
    ("gpu.selected", env(CUDA_VISIBLE_DEVICES="GPU-0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9"),
     TARGET_27B, OK, "GPU 0"),
    ("gpu.selected", env(CUDA_VISIBLE_DEVICES="GPU-ffffffff"), TARGET_27B, FAIL, "0 of 1"),
    ("gpu.selected", env(CUDA_VISIBLE_DEVICES="MIG-77"), TARGET_27B, OK, "GPU 0"),
    ("gpu.selected", workstation(), TWO, FAIL, "1 of 2"),
    ("gpu.selected", cards(card(), card(Name="NVIDIA GeForce RTX 4090")), TWO, WARN,
     "fastest first"),
    # --- what it is -----------------------------------------------------------------------------
    ("gpu.capability", workstation(), TARGET_27B, OK, "12.0"),
    ("gpu.capability", gpu(compute_capability=[7, 5]), TARGET_27B, FAIL, "7.5"),
    ("gpu.capability", gpu(compute_capability=[9, 2]), TARGET_27B, WARN, "9.2"),
    ("gpu.capability", gpu(compute_capability=[15, 0]), TARGET_27B, WARN, "15.0"),
    ("gpu.capability", gpu(compute_capability=[8, 9]), TARGET_FLASH, WARN, "8.9"),
    ("gpu.vram_total", workstation(), TARGET_27B, OK, "31.8 GiB"),
    ("gpu.vram_total", gpu(memory_total_bytes=16376 * MIB), TARGET_27B, FAIL, "16.0 GiB"),
    # 32 GB is hopeless for Flash-Next.
    ("gpu.vram_total", workstation(), TARGET_FLASH, FAIL, "31.8 GiB"),
    ("gpu.vram_free", workstation(), TARGET_27B, OK, "31.3 GiB of 31.8 GiB free"),
    ("gpu.vram_free", gpu(memory_free_bytes=28 * GIB), TARGET_27B, WARN, "28.0 GiB of 31.8 GiB"),
    ("gpu.vram_free", gpu(memory_free_bytes=12 * GIB), TARGET_27B, FAIL, "12.0 GiB of 31.8 GiB"),
    ("gpu.holders", workstation(), TARGET_27B, OK, "no other compute process"),
    ("gpu.holders", gpu(processes=[{"pid": 7, "kind": "compute", "used_bytes": 900 * MIB,
                                    "name": "python"}]), TARGET_27B, WARN, "python (7) 900 MiB"),
    ("gpu.holders", gpu(processes=[{"pid": 7, "kind": "compute", "name": "python"}]), TARGET_27B,
     WARN, "size not reported"),
    ("gpu.holders", gpu(processes=[{"pid": 7, "kind": "compute", "used_bytes": 900 * MIB}]),
     replace(TARGET_27B, own_pids=(7,)), OK, "no other"),
    # --- state ----------------------------------------------------------------------------------
    ("gpu.display", gpu(display_active=True), TARGET_27B, OK, "drives a display"),
    ("gpu.display", gpu(display_active=True),
     replace(TARGET_27B, argv=("--mem-fraction-static", "0.97")), WARN, "97 %"),
    # At idle a card shows generation 1: no fault.
    ("gpu.pcie", gpu(pcie_generation=1, utilisation=0.0), TARGET_27B, OK,
     "generation 1 of 5, idle"),
    ("gpu.pcie", gpu(pcie_generation=1, utilisation=0.9), TARGET_27B, WARN, "generation 1 of 5"),
    ("gpu.pcie", gpu(pcie_width=4), TARGET_27B, WARN, "x4 of x16"),
    ("gpu.rebar", workstation(), TARGET_27B, OK, "32.0 GiB onto 31.8 GiB"),
    ("gpu.rebar", gpu(bar1_total_bytes=256 * MIB), TARGET_27B, WARN, "256 MiB"),
    ("gpu.power", workstation(), TARGET_27B, OK, "575 W of 575 W"),
    ("gpu.power", gpu(power_limit_w=400.0), TARGET_27B, WARN, "400 W of 575 W"),
    ("gpu.throttle", gpu(throttle_bits=1, throttle_reasons=["idle"]), TARGET_27B, OK, "idle"),
    ("gpu.throttle", gpu(throttle_bits=4, throttle_reasons=["power cap"], utilisation=0.99),
     TARGET_27B, OK, "power cap"),
    ("gpu.throttle", gpu(throttle_bits=4, throttle_reasons=["power cap"], utilisation=0.0),
     TARGET_27B, WARN, "power cap"),
    ("gpu.throttle", gpu(throttle_bits=0x40, throttle_reasons=["hardware thermal"]), TARGET_27B,
     WARN, "hardware thermal"),
    ("gpu.temp", workstation(), TARGET_27B, OK, "35"),
    ("gpu.temp", gpu(temperature_c=86.0), TARGET_27B, WARN, "86"),
    ("gpu.ecc", cards(card(EccMode=["1", "1"], TotalEccErrors=0)), TARGET_27B, OK,
     "no uncorrected"),
    ("gpu.ecc", cards(card(EccMode=["1", "1"], TotalEccErrors=3)), TARGET_27B, WARN,
     "3 uncorrected"),
    ("gpu.ecc", cards(card(EccMode=["0", "1"])), TARGET_27B, WARN, "next reboot"),
    ("gpu.mig", cards(card(MigMode=["0", "0"])), TARGET_27B, OK, "not partitioned"),
    ("gpu.mig", cards(card(MigMode=["1", "1"])), TARGET_27B, WARN, "partitioned (MIG)"),
    # Slices are chosen by UUID, on a machine with several cards too; their memory is what counts.
    ("gpu.selected", masked(SLICED, "MIG-bbbbbbbb-1"), TARGET_27B, OK, "GPU 1"),
    ("gpu.selected", masked(SLICED, "MIG-cccccccc-1"), TARGET_27B, FAIL, "names no device"),
    ("gpu.mig", masked(SLICED, "MIG-bbbbbbbb-1"), TARGET_27B, OK, "slice MIG-bbbbbbbb"),
    ("gpu.vram_total", masked(SLICED, "MIG-bbbbbbbb-1"), TARGET_27B, OK, "70.0 GiB"),
    ("gpu.mig", masked(SLICED, "MIG-aaaaaaaa-1"), TARGET_27B, FAIL, "slice has 10.0 GiB"),
    ("gpu.vram_total", masked(SLICED, "MIG-aaaaaaaa-1"), TARGET_27B, FAIL, "10.0 GiB"),
    ("gpu.mig", masked(SLICED, "1"), TARGET_27B, WARN, "partitioned (MIG)"),
    ("gpu.vram_total", masked(SLICED, "1"), TARGET_27B, FAIL, "10.0 GiB"),
    ("gpu.compute_mode", workstation(), TARGET_27B, OK, "default"),
    ("gpu.compute_mode", gpu(compute_mode=3), TARGET_27B, WARN, "exclusive"),
    ("gpu.compute_mode", gpu(compute_mode=2), TARGET_27B, FAIL, "prohibited"),
    ("gpu.persistence", workstation(), TARGET_27B, OK, "on"),
    ("gpu.persistence", gpu(persistence=False), TARGET_27B, WARN, "off"),
    ("gpu.persistence", gpu(persistence=False, display_active=True), TARGET_27B, OK, "display"),
    ("gpu.p2p", cards(card(P2P=0), card(P2P=0)), TWO, OK, "each other"),
    ("gpu.p2p", cards(card(P2P=5), card(P2P=5)), TWO, WARN, "memory: 0 and 1"),
    # Only the cards that the launch uses matter.
    ("gpu.p2p", changed(cards(card(), card(), card()), gpu__p2p_without=[[0, 2], [1, 2]]), TWO, OK,
     "each other"),
    # --- unified memory (vllm#48140, #56824) --------------------------------------------------
    ("gpu.vram_free", changed(UNIFIED, gpu__host_free_bytes=115 * GIB),
     replace(TARGET_27B, argv=("--mem-fraction-static", "0.85")), OK, "115.0 GiB free"),
    ("gpu.vram_free", changed(UNIFIED, gpu__host_free_bytes=60 * GIB),
     replace(TARGET_27B, argv=("--mem-fraction-static", "0.85")), WARN, "60.0 GiB free"),
    ("gpu.vram_free", changed(UNIFIED, gpu__host_free_bytes=60 * GIB,
                              gpu__devices__0__memory_free_bytes=90 * GIB),
     replace(TARGET_27B, argv=("--mem-fraction-static", "0.85")), FAIL, "90.0 GiB available"),
    ("gpu.pcie", UNIFIED, TARGET_27B, SKIP, "integrated"),
    ("gpu.rebar", UNIFIED, TARGET_27B, SKIP, "integrated"),
    ("sys.swap", UNIFIED, TARGET_27B, WARN, "8.0 GiB swap"),
]  # fmt: skip
