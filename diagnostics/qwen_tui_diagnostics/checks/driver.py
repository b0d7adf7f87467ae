"""Checks of the NVIDIA driver."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qwen_tui_diagnostics.check import (
    Check,
    failed,
    fix,
    ok,
    required_with_gpu,
    warned,
    with_gpu,
)
from qwen_tui_diagnostics.checks.units import dotted, version_tuple
from qwen_tui_profiles.text import t

if TYPE_CHECKING:
    from qwen_tui_diagnostics.context import Target
    from qwen_tui_diagnostics.facts import Facts
    from qwen_tui_diagnostics.result import Remedy, Verdict
    from qwen_tui_profiles.text import Text

__all__ = ["CHECKS"]

CUDA_FAMILY_MINIMUM: tuple[tuple[int, tuple[int, ...]], ...] = ((13, (580,)), (12, (525, 60, 13)))
"""Driver that minor-version compatibility needs, by CUDA major (NVIDIA's compatibility guide)."""
BLACKWELL_MINIMUM = (570,)
"""First branch that knows Blackwell."""
BLACKWELL = (10, 0)

NO_LAUNCH = t("an engine that needs a GPU cannot start")


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
            remedy=fix(t("look at driver.pci_vs_nvml and driver.open_module")),
        )
    observed, remedy = _nvml_failure(code, facts)
    return failed(observed, expected=t("NVML answers"), consequence=NO_LAUNCH, remedy=remedy)


def _nvml_failure(code: int, facts: Facts) -> tuple[Text, Remedy]:
    """Name the cause of an NVML error code where it is seen: host, container or WSL."""
    container = facts.has("system.container") and facts.flag("system.container")
    wsl = facts.has("system.wsl") and facts.flag("system.wsl")
    if code == 12:
        observed = t("no NVIDIA driver: the library libnvidia-ml.so.1 was not found")
        if wsl:
            return observed, fix(
                t("update the Windows driver and WSL; install no Linux driver inside WSL"),
                "wsl.exe --update",
            )
        if container:
            return observed, fix(
                t("start the container with its GPUs (NVIDIA Container Toolkit on the host)"),
                "docker run --gpus all …",
            )
        return observed, fix(
            t("install the driver, open flavour, 580 or newer"),
            "sudo apt install nvidia-driver-580-open",
            privileged=True,
        )
    if code == 9:
        return t("the NVIDIA kernel module is not loaded"), fix(
            t("load it; if that fails it was not built for this kernel, or Secure Boot refuses it"),
            "sudo modprobe nvidia",
            "sudo dkms status",
            privileged=True,
        )
    if code == 18:
        return _mismatch(facts), fix(
            t("reboot; keep the driver package out of unattended upgrades"),
            "sudo reboot",
            privileged=True,
        )
    if code == 4:
        return t("this user may not open the NVIDIA device nodes"), fix(
            t("check group, ACL and cgroup rules of the device nodes"), "ls -l /dev/nvidia*"
        )
    if code == 15:
        return t("a GPU has fallen off the bus"), fix(
            t("reboot; if it comes back: power cable, riser, heat"), "sudo reboot", privileged=True
        )
    if code == 999 and container:
        return t("this container has lost its GPU (NVML: unknown error)"), fix(
            t("recreate the container; a systemd daemon-reload takes its device rules away"),
            docs="https://github.com/NVIDIA/nvidia-container-toolkit/issues/48",
        )
    if code == -1:
        return t("the Python binding nvidia-ml-py is not installed beside qwen-tui"), fix(
            t("install it where qwen-tui is installed"), "python -m pip install nvidia-ml-py"
        )
    return t("NVML answers with error code {code}", code=code), fix(
        t("reboot; if it stays, collect nvidia-bug-report.sh"), "sudo nvidia-bug-report.sh",
        privileged=True,
    )  # fmt: skip


def _mismatch(facts: Facts) -> Text:
    if facts.has("driver.module_version") and facts.has("driver.library.libnvidia-ml"):
        return t(
            "kernel module {module} is loaded, library {library} is installed",
            module=facts.text("driver.module_version"),
            library=facts.text("driver.library.libnvidia-ml"),
        )
    return t("kernel module and library have different versions")


def _minimum(facts: Facts, target: Target) -> Verdict:
    text = facts.text("gpu.driver_version")
    version = version_tuple(text)
    shown = t("driver {version}", version=text)
    blackwell = any(
        device.has("compute_capability") and device.integers("compute_capability") >= BLACKWELL
        for device in facts.rows("gpu.devices")
    )
    upgrade = fix(
        t("upgrade the driver to branch 580 or newer, open flavour"),
        "sudo apt install nvidia-driver-580-open",
        privileged=True,
    )
    if blackwell and version < BLACKWELL_MINIMUM:
        return failed(
            shown,
            expected=t("570 or newer for Blackwell"),
            consequence=t("the card cannot be used"),
            remedy=upgrade,
        )
    cuda = 13
    for major, minimum in CUDA_FAMILY_MINIMUM:
        if major == cuda and version < minimum:
            return warned(
                shown,
                expected=t("{minimum} or newer for CUDA 13 engines", minimum=dotted(minimum)),
                consequence=t("SGLang 0.5.20 and newer (CUDA 13 wheels only) cannot start"),
                remedy=upgrade,
            )
    return ok(shown, expected=t("580 or newer for CUDA 13 engines"))


CHECKS: tuple[Check, ...] = (
    Check(
        "driver.nvml",
        t("NVIDIA driver answers"),
        _nvml,
        ("gpu", "system", "driver"),
        t("every engine asks the driver first; without it nothing starts"),
        required=required_with_gpu,
        wanted=with_gpu,
    ),
    Check(
        "driver.min",
        t("driver is new enough"),
        _minimum,
        ("gpu",),
        t("an engine built for a newer CUDA family refuses to start: 'driver too old'"),
        required=required_with_gpu,
        wanted=with_gpu,
        explained_by=("driver.nvml",),
        evidence=("https://github.com/modelscope/FunASR/issues/2973",),
    ),
)
