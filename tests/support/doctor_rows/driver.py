"""Rows for the driver."""

from __future__ import annotations

from typing import TYPE_CHECKING

from support.doctor_machines import TARGET_27B, card, changed, workstation
from support.doctor_rows.base import ALONE, FAIL, H200, NO_DRIVER, OK, SKIP, TWO, WARN, base, cards

if TYPE_CHECKING:
    from support.doctor_rows.base import Row

ROWS: list[Row] = [
    # --- driver -------------------------------------------------------------------------------
    ("driver.nvml", workstation(), TARGET_27B, OK, "driver 580.159.04, 1 GPU"),
    ("driver.nvml", NO_DRIVER, TARGET_27B, FAIL, "libnvidia-ml.so.1 was not found"),
    ("driver.nvml", changed(NO_DRIVER, driver__pci=[]), TARGET_27B, FAIL, "none on the PCI bus"),
    ("driver.nvml", base(gpu={"nvml_code": 9}), TARGET_27B, FAIL, "module is not loaded"),
    ("driver.nvml", base(gpu={"nvml_code": 4}), TARGET_27B, FAIL, "device nodes"),
    ("driver.nvml", base(gpu={"nvml_code": 15}), TARGET_27B, FAIL, "fallen off the bus"),
    ("driver.nvml", base(gpu={"nvml_code": 77}), TARGET_27B, FAIL, "error code 77"),
    # "module 580.95 loaded, library 580.126 installed": both numbers are shown
    ("driver.nvml", base(gpu={"nvml_code": 18}, driver__module_version="580.95.05",
                         driver__library={"libnvidia-ml": "580.126.09"}), TARGET_27B, FAIL,
     "kernel module 580.95.05 is loaded, library 580.126.09 is installed"),
    # nvidia-container-toolkit#48: the same code means something else in a container
    ("driver.nvml", base(gpu={"nvml_code": 999}, system__container=True), TARGET_27B, FAIL,
     "this container has lost its GPU"),
    ("driver.versions_match", workstation(), TARGET_27B, OK, "580.159.04"),
    ("driver.versions_match", base(driver__module_version="580.95.05"), TARGET_27B, FAIL,
     "kernel module 580.95.05, but"),
    # In WSL SMI and driver versions differ by design (590.57 vs 591.86).
    ("driver.versions_match", base(driver__module_version="591.86", system__wsl=True), TARGET_27B,
     SKIP, "by design"),
    ("driver.min", workstation(), TARGET_27B, OK, "580.159.04"),
    # FunASR#2973: 570.86.10 with torch for CUDA 13
    ("driver.min", base(gpu__driver_version="570.86.10"), TARGET_27B, FAIL, "570.86.10"),
    ("driver.min", changed(cards(card(**H200)), gpu__driver_version="525.60.12",
                           engine__installs__0__torch__cuda=[12, 8]), TARGET_27B, FAIL,
     "525.60.12"),
    ("driver.min", changed(cards(card(**H200)), gpu__driver_version="525.60.13",
                           engine__installs__0__torch__cuda=[12, 8]), TARGET_27B, OK, "525.60.13"),
    # Blackwell needs 570 whatever the CUDA
    ("driver.min", base(gpu__driver_version="565.57.01", engine__installs__0__torch__cuda=[12, 8]),
     TARGET_27B, FAIL, "565.57.01"),
    ("driver.min", base(gpu__driver_version="575.57.08", engine__installs=[]), ALONE, WARN,
     "575.57.08"),
    ("driver.cuda_api", workstation(), TARGET_27B, OK, "13.0"),
    ("driver.cuda_api", base(gpu__cuda_version=[12, 8]), TARGET_27B, FAIL,
     "driver offers CUDA 12.8"),
    ("driver.cuda_api", base(engine__installs__0__torch__cuda=[13, 2]), TARGET_27B, WARN, "13.2"),
    ("driver.open_module", workstation(), TARGET_27B, OK, "open kernel module"),
    # open-gpu-kernel-modules#872
    ("driver.open_module", base(driver__open_module=False), TARGET_27B, FAIL, "proprietary"),
    ("driver.open_module", changed(cards(card(**H200)), driver__open_module=False), TARGET_27B,
     SKIP, "both kernel modules"),
    ("driver.pci_vs_nvml", workstation(), TARGET_27B, OK, "1 on the PCI bus"),
    # open-gpu-kernel-modules#862: present on the bus, "No devices were found"
    ("driver.pci_vs_nvml", base(gpu__devices=[]), TARGET_27B, FAIL, "0000:01:00.0 (10de:2b85)"),
    ("driver.pci_vs_nvml", base(driver__pci=[
        {"bus_id": "0000:01:00.0", "device": "0x2b85", "driver": "vfio-pci"}], gpu__devices=[]),
     TARGET_27B, WARN, "vfio-pci"),
    ("driver.nouveau", workstation(), TARGET_27B, OK, "not loaded"),
    ("driver.nouveau", base(driver__nouveau=True), TARGET_27B, FAIL, "nouveau"),
    ("driver.secure_boot", base(driver__secure_boot=True), TARGET_27B, OK, "module is loaded"),
    ("driver.secure_boot", base(driver__secure_boot=True, driver__module_loaded=False), TARGET_27B,
     WARN, "Secure Boot is on"),
    ("driver.xid", workstation(), TARGET_27B, OK, "since boot"),
    # The kernel's log is a ring: what has fallen out was not seen.
    ("driver.xid", base(driver__xid__from_s=7200.0), TARGET_27B, OK, "has lost the first 2.0 h"),
    # open-gpu-kernel-modules#1159: Xid 8 on an RTX PRO 6000
    ("driver.xid", base(driver__xid={"count": 3, "codes": [8], "lost": False}), TARGET_27B, WARN,
     "Xid 8"),
    ("driver.xid", base(driver__xid={"count": 1, "codes": [79], "lost": False}), TARGET_27B, FAIL,
     "Xid 79"),
    ("driver.xid", base(driver__xid={"count": 1, "codes": [31], "lost": False}), TARGET_27B, WARN,
     "Xid 31"),
    ("driver.device_nodes", workstation(), TARGET_27B, OK, "can be opened"),
    ("driver.device_nodes", base(driver__nodes=[{"name": "nvidiactl", "openable": True},
                                                {"name": "nvidia0", "openable": True}]),
     TARGET_27B, FAIL, "/dev/nvidia-uvm is missing"),
    ("driver.device_nodes", base(driver__nodes=[], system__wsl=True), TARGET_27B, FAIL,
     "/dev/dxg is missing"),
    ("driver.device_nodes", base(driver__nodes=[{"name": "dxg", "openable": False}],
                                 system__wsl=True), TARGET_27B, FAIL, "/dev/dxg cannot be opened"),
    ("driver.device_nodes", base(driver__nodes=[{"name": "dxg", "openable": True}],
                                 system__wsl=True), TARGET_27B, OK, "can be opened"),
    ("driver.hmm", cards(card(AddressingMode=1), card(AddressingMode=1)), TWO, WARN,
     "heterogeneous memory management is on"),
    ("driver.hmm", cards(card(AddressingMode=0), card(AddressingMode=0)), TWO, OK, "off"),
    ("driver.hmm", workstation(), TARGET_27B, SKIP, "one GPU"),
]  # fmt: skip
