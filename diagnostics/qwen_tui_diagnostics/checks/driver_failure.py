"""The cause of an NVML that does not answer, by its error code and by where it is seen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qwen_tui_diagnostics.check import fix
from qwen_tui_profiles.text import t

if TYPE_CHECKING:
    from qwen_tui_diagnostics.facts import Facts
    from qwen_tui_diagnostics.result import Remedy
    from qwen_tui_profiles.text import Text

__all__ = ["NO_LAUNCH", "nvml_failure"]

NO_LAUNCH = t("an engine that needs a GPU cannot start")


def nvml_failure(code: int, facts: Facts) -> tuple[Text, Remedy]:
    """Return what is wrong and what to do; the texts of bindings and tools are never matched."""
    container = facts.has("system.container") and facts.flag("system.container")
    wsl = facts.has("system.wsl") and facts.flag("system.wsl")
    on_bus = facts.rows("driver.pci") if facts.has("driver.pci") else None
    if code in {9, 12} and on_bus == () and not wsl and not container:
        return t("no NVIDIA GPU: there is none on the PCI bus, and no driver"), fix(
            t("judge a profile that needs none, or watch a server elsewhere"),
            "qwen-tui doctor --profile demo-speed",
            "qwen-tui attach URL",
        )
    if code == 12:
        return _no_library(container=container, wsl=wsl)
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
        t("reboot; if it stays, collect a report for NVIDIA"),
        "sudo nvidia-bug-report.sh",
        privileged=True,
    )


def _no_library(*, container: bool, wsl: bool) -> tuple[Text, Remedy]:
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


def _mismatch(facts: Facts) -> Text:
    if facts.has("driver.module_version") and facts.has("driver.library.libnvidia-ml"):
        return t(
            "kernel module {module} is loaded, library {library} is installed",
            module=facts.text("driver.module_version"),
            library=facts.text("driver.library.libnvidia-ml"),
        )
    return t("kernel module and library have different versions")
