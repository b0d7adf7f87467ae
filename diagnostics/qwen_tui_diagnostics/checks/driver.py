"""Checks of the NVIDIA driver."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qwen_tui_diagnostics.check import (
    Check,
    failed,
    fix,
    not_applicable,
    ok,
    required_with_gpu,
    warned,
    with_gpu,
)
from qwen_tui_diagnostics.checks.driver_failure import NO_LAUNCH, nvml_failure
from qwen_tui_diagnostics.checks.driver_versions import VERSION_CHECKS
from qwen_tui_diagnostics.checks.tables import (
    CONSUMER_BLACKWELL,
    XIDS_FATAL,
    XIDS_PROGRAM,
)
from qwen_tui_diagnostics.checks.units import listed
from qwen_tui_profiles.text import t

if TYPE_CHECKING:
    from qwen_tui_diagnostics.context import Target
    from qwen_tui_diagnostics.facts import Facts
    from qwen_tui_diagnostics.result import Verdict
    from qwen_tui_profiles.text import Text

__all__ = ["CHECKS"]


def bare_metal(facts: Facts, target: Target) -> Text | None:
    """Apply where the kernel is ours: not inside a container, not in WSL."""
    if facts.flag("system.container"):
        return t("inside a container the host's driver is used")
    return t("in WSL the driver is Windows'") if facts.flag("system.wsl") else None


def several_cards(target: Target) -> Text | None:
    """Apply to launches whose weights lie on more than one GPU."""
    if (why_not := with_gpu(target)) is not None or target.gpus_a_replica > 1:
        return why_not
    return t("one GPU is used") if target.gpus < 2 else t("each replica has one GPU")


# --- judges -------------------------------------------------------------------------------------


def _nvml(facts: Facts, target: Target) -> Verdict:
    code = facts.integer("gpu.nvml_code")
    if code == 0:
        driver = facts.text("gpu.driver_version")
        count = len(facts.rows("gpu.devices"))
        if count:
            return ok(t("driver {version}, {count} GPU", version=driver, count=count))
        return failed(
            t("driver {version} is loaded and lists no GPU", version=driver),
            expected=t("at least one GPU"),
            consequence=NO_LAUNCH,
            remedy=fix(t("look at driver.pci_vs_nvml and driver.open_module"), "lspci -d 10de:"),
        )
    observed, remedy = nvml_failure(code, facts)
    return failed(observed, expected=t("NVML answers"), consequence=NO_LAUNCH, remedy=remedy)


def _open_module(facts: Facts, target: Target) -> Verdict:
    if facts.flag("driver.open_module"):
        return ok(t("open kernel module"))
    return failed(
        t("proprietary kernel module"),
        expected=t("the open kernel module for this card"),
        consequence=t("the card is not driven: no devices were found"),
        remedy=fix(
            t("install the open flavour of the driver"),
            "sudo apt install nvidia-driver-580-open",
            privileged=True,
            docs="https://github.com/NVIDIA/open-gpu-kernel-modules/issues/872",
        ),
    )


def _needs_open_module(facts: Facts, target: Target) -> Text | None:
    why = bare_metal(facts, target)
    if why is not None:
        return why
    capabilities = [
        device.integers("compute_capability")
        for device in (facts.rows("gpu.devices") if facts.has("gpu.devices") else ())
        if device.has("compute_capability")
    ]
    if not capabilities and facts.has("driver.pci") and not facts.rows("driver.pci"):
        return t("no NVIDIA device on the PCI bus")
    if capabilities and max(capabilities) < CONSUMER_BLACKWELL:
        return t("this card works with both kernel modules")
    return None


def _pci(facts: Facts, target: Target) -> Verdict:
    on_bus = facts.rows("driver.pci")
    if not on_bus:
        return not_applicable(t("no NVIDIA device on the PCI bus"))
    listed_count = len(facts.rows("gpu.devices")) if facts.has("gpu.devices") else 0
    passed = [d.text("bus_id") for d in on_bus if d.text("driver") == "vfio-pci"]
    if len(on_bus) - len(passed) > listed_count:
        seen = (
            {d.text("bus_id") for d in facts.rows("gpu.devices") if d.has("bus_id")}
            if facts.has("gpu.devices")
            else set()
        )
        lost = [
            f"{d.text('bus_id')} (10de:{d.text('device').removeprefix('0x')})"
            for d in on_bus
            if d.text("bus_id") not in seen and d.text("driver") != "vfio-pci"
        ]
        detail = (
            (t("kernel: {line}", line=facts.text("driver.xid.init_failed")),)
            if facts.has("driver.xid.init_failed")
            else ()
        )
        return failed(
            t("PCI shows {devices}, NVML lists {count}", devices=listed(lost), count=listed_count),
            *detail,
            expected=t("every card on the bus is listed"),
            consequence=t("the card cannot be used"),
            remedy=fix(
                t("check: open kernel module; BIOS Above 4G decoding and Resizable BAR on; power "
                  "cable; kernel messages"),
                "sudo dmesg | grep -i nvrm",
                privileged=True,
                docs="https://github.com/NVIDIA/open-gpu-kernel-modules/issues/862",
            ),
        )  # fmt: skip
    if passed:
        return warned(
            t("{devices} bound to vfio-pci", devices=listed(passed)),
            expected=t("bound to nvidia"),
            consequence=t("a virtual machine owns the card; no engine here can use it"),
            remedy=fix(t("give the card back to the host, or run the engine in that machine")),
        )
    return ok(t("{count} on the PCI bus, {count} listed", count=len(on_bus)))


def _nouveau(facts: Facts, target: Target) -> Verdict:
    drivers = {d.text("driver") for d in facts.rows("driver.pci")} & {"nouveau", "nova_core"}
    loaded = facts.flag("driver.nouveau")
    if drivers or loaded:
        return failed(
            t("the free driver (nouveau) holds the card"),
            expected=t("NVIDIA's module"),
            consequence=t("NVIDIA's module cannot be loaded"),
            remedy=fix(
                t("blacklist it, rebuild the initial RAM disk, reboot"),
                "echo 'blacklist nouveau' | sudo tee /etc/modprobe.d/blacklist-nouveau.conf",
                "sudo update-initramfs -u",
                "sudo reboot",
                privileged=True,
            ),
        )
    return ok(t("nouveau is not loaded"))


def _secure_boot(facts: Facts, target: Target) -> Verdict:
    on = facts.flag("driver.secure_boot")
    loaded = facts.flag("driver.module_loaded")
    if on and not loaded:
        return warned(
            t("Secure Boot is on and the NVIDIA module is not loaded"),
            expected=t("a signed module"),
            consequence=t("the kernel refuses a module whose key is not enrolled"),
            remedy=fix(
                t("enrol the module's key at the next boot, or use signed driver packages"),
                "sudo mokutil --import /var/lib/shim-signed/mok/MOK.der",
                privileged=True,
            ),
        )
    return ok(t("Secure Boot is on, the module is loaded") if on else t("Secure Boot is off"))


LOG_BEGINS_S = 60.0
"""A kernel log whose first line is younger than this holds the whole boot."""


def _xid(facts: Facts, target: Target) -> Verdict:
    count = facts.integer("driver.xid.count")
    lost = facts.flag("driver.xid.lost")
    if not count and not lost:
        begins_s = facts.number("driver.xid.from_s")
        if begins_s < LOG_BEGINS_S:
            return ok(t("no GPU error in the kernel log since boot"))
        return ok(
            t("no GPU error in the kernel log, which has lost the first {hours} h since boot",
              hours=f"{begins_s / 3600:,.1f}")
        )  # fmt: skip
    codes = facts.integers("driver.xid.codes")
    last = facts.text("driver.xid.last") if facts.has("driver.xid.last") else ""
    shown = t("{count} GPU errors since boot (Xid {codes})", count=count,
              codes=", ".join(map(str, codes)))  # fmt: skip
    detail = (t("last: {line}", line=last),) if last else ()
    if lost or XIDS_FATAL & set(codes):
        return failed(
            shown,
            *detail,
            expected=t("none since boot"),
            consequence=t("the card has fallen off the bus or its firmware has stopped"),
            remedy=fix(
                t("reboot; if it comes back: power, riser, heat, another driver branch"),
                "sudo reboot",
                privileged=True,
            ),
        )
    harmless = set(codes) <= XIDS_PROGRAM
    return warned(
        shown,
        *detail,
        expected=t("none since boot"),
        consequence=t("usually a program's own fault")
        if harmless
        else t("the card may be locked up and need a reboot"),
        remedy=fix(
            t("if it repeats, keep the lines for a report"),
            "sudo dmesg | grep -i xid",
            privileged=True,
            docs="https://github.com/NVIDIA/open-gpu-kernel-modules/issues/1159",
        ),
    )


def _nodes(facts: Facts, target: Target) -> Verdict:
    rows = {row.text("name"): row.flag("openable") for row in facts.rows("driver.nodes")}
    wsl = facts.flag("system.wsl")
    if wsl:
        wanted = ["dxg"]
    else:
        wanted = ["nvidiactl", "nvidia-uvm"]
        if not any(name.startswith("nvidia") and name[6:].isdecimal() for name in rows):
            wanted.append("nvidia0")
    missing = [name for name in wanted if name not in rows]
    closed = sorted(
        name for name, openable in rows.items() if not openable and (name == "dxg") is wsl
    )
    if not missing and not closed:
        return ok(t("device nodes are there and can be opened"))
    problems = [t("/dev/{name} is missing", name=name) for name in missing]
    problems += [t("/dev/{name} cannot be opened", name=name) for name in closed]
    if wsl:
        return failed(
            t("{problems}", problems=listed(problems)),
            expected=t("/dev/dxg can be opened"),
            consequence=t("CUDA finds no GPU in WSL"),
            remedy=fix(t("update WSL and the Windows driver; install no Linux driver"),
                       "wsl.exe --update", "wsl.exe --shutdown"),
        )  # fmt: skip
    container = facts.flag("system.container")
    commands = ("docker run --gpus all …",) if container else ("sudo nvidia-modprobe -u -c=0",)
    return failed(
        t("{problems}", problems=listed(problems)),
        expected=t("/dev/nvidiactl, /dev/nvidia-uvm and /dev/nvidia0 can be opened"),
        consequence=t("CUDA does not initialise, although nvidia-smi may work"),
        remedy=fix(
            t("create the nodes, or correct group and ACL; in a container give it its GPUs"),
            *commands,
            privileged=not container,
        ),
    )


def _hmm(facts: Facts, target: Target) -> Verdict:
    modes = [device.integer("addressing_mode") for device in facts.rows("gpu.devices")]
    if 1 in modes:
        return warned(
            t("heterogeneous memory management is on"),
            expected=t("off with several Blackwell cards"),
            consequence=t("launches over several cards are known to fail or hang"),
            remedy=fix(
                t("turn it off for the module and reboot"),
                "echo 'options nvidia_uvm uvm_disable_hmm=1' | "
                "sudo tee /etc/modprobe.d/nvidia-uvm.conf",
                privileged=True,
                docs="https://github.com/pytorch/pytorch/issues/159207",
            ),
        )
    return ok(t("heterogeneous memory management is off"))


_NVML = ("driver.nvml",)

CHECKS: tuple[Check, ...] = (
    Check(
        "driver.nouveau",
        t("no free driver in the way"),
        _nouveau,
        ("driver", "system"),
        t("nouveau and NVIDIA's module exclude each other"),
        required=required_with_gpu,
        wanted=with_gpu,
        applies=bare_metal,
    ),
    Check(
        "driver.nvml",
        t("NVIDIA driver answers"),
        _nvml,
        ("gpu", "system", "driver"),
        t("every engine asks the driver first; without it nothing starts"),
        required=required_with_gpu,
        wanted=with_gpu,
        explained_by=("driver.nouveau",),
        evidence=("https://github.com/NVIDIA/nvidia-container-toolkit/issues/48",),
    ),
    *VERSION_CHECKS,
    Check(
        "driver.open_module",
        t("open kernel module"),
        _open_module,
        ("driver", "system", "gpu"),
        t("consumer Blackwell works with the open kernel module only"),
        required=required_with_gpu,
        wanted=with_gpu,
        applies=_needs_open_module,
        explained_by=("driver.nouveau", "driver.nvml"),
        evidence=("https://github.com/NVIDIA/open-gpu-kernel-modules/issues/872",),
    ),
    Check(
        "driver.pci_vs_nvml",
        t("every card on the bus is driven"),
        _pci,
        ("driver", "system", "gpu"),
        t("a card that the BIOS or the wrong module hides is on the bus and not in NVML"),
        required=required_with_gpu,
        wanted=with_gpu,
        applies=bare_metal,
        explained_by=("driver.nouveau", "driver.nvml", "driver.open_module"),
        evidence=("https://github.com/NVIDIA/open-gpu-kernel-modules/issues/862",),
    ),
    Check(
        "driver.secure_boot",
        t("Secure Boot"),
        _secure_boot,
        ("driver",),
        t("the kernel refuses an unsigned module without saying much"),
        wanted=with_gpu,
    ),
    Check(
        "driver.xid",
        t("no GPU errors since boot"),
        _xid,
        ("driver", "system"),
        t("a card that reported a fatal error needs a reboot before anything else"),
        wanted=with_gpu,
        applies=bare_metal,
        evidence=("https://github.com/NVIDIA/open-gpu-kernel-modules/issues/1159",),
    ),
    Check(
        "driver.device_nodes",
        t("device nodes"),
        _nodes,
        ("driver", "system"),
        t("without /dev/nvidia-uvm CUDA does not initialise although nvidia-smi works"),
        required=required_with_gpu,
        wanted=with_gpu,
        explained_by=_NVML,
    ),
    Check(
        "driver.hmm",
        t("memory management of several cards"),
        _hmm,
        ("gpu",),
        t("several Blackwell cards fail with heterogeneous memory management"),
        wanted=several_cards,
        explained_by=_NVML,
        evidence=("https://github.com/pytorch/pytorch/issues/159207",),
    ),
)
