"""Checks of the driver's versions: against itself, against CUDA, against the engine."""

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
from qwen_tui_diagnostics.checks.needs import engine_cuda
from qwen_tui_diagnostics.checks.tables import BLACKWELL, BLACKWELL_DRIVER, CUDA_FAMILIES
from qwen_tui_diagnostics.checks.units import dotted, listed, version_tuple
from qwen_tui_profiles.text import t

if TYPE_CHECKING:
    from qwen_tui_diagnostics.context import Target
    from qwen_tui_diagnostics.facts import Facts
    from qwen_tui_diagnostics.result import Remedy, Verdict
    from qwen_tui_profiles.text import Text

__all__ = ["VERSION_CHECKS"]


def upgrade(branch: str = "580") -> Remedy:
    """Return how to get a newer driver; the package name is Ubuntu's and Debian's."""
    return fix(
        t("upgrade the driver to branch {branch} or newer, open flavour", branch=branch),
        "sudo apt install nvidia-driver-580-open",
        privileged=True,
    )


# --- where a check applies ----------------------------------------------------------------------


def not_wsl(facts: Facts, target: Target) -> Text | None:
    """Apply everywhere but in WSL."""
    return t("in WSL the versions differ by design") if facts.flag("system.wsl") else None


def _versions_match(facts: Facts, target: Target) -> Verdict:
    module = facts.text("driver.module_version")
    libraries: dict[str, str] = {}
    if facts.has("gpu.library_version"):
        # The one that was really loaded, wherever it lies.
        libraries["libnvidia-ml"] = facts.text("gpu.library_version")
    if not libraries or facts.has("driver.library"):
        installed = facts.at("driver.library")
        libraries |= {name: installed.text(name) for name in installed.names()}
    different = [
        f"{name} {version}"
        for name, version in libraries.items()
        if version_tuple(version) != version_tuple(module)
    ]
    if different:
        return failed(
            t("kernel module {module}, but {libraries}", module=module,
              libraries=listed(different)),
            expected=t("one version"),
            consequence=t("NVML and CUDA refuse to start (driver/library version mismatch)"),
            remedy=fix(
                t("reboot; keep the driver package out of unattended upgrades"),
                "sudo reboot",
                privileged=True,
                docs="https://github.com/NVIDIA/nvidia-container-toolkit/issues/394",
            ),
        )  # fmt: skip
    return ok(t("kernel module and libraries are {version}", version=module))


def _minimum(facts: Facts, target: Target) -> Verdict:
    text = facts.text("gpu.driver_version")
    version = version_tuple(text)
    shown = t("driver {version}", version=text)
    blackwell = any(
        device.has("compute_capability") and device.integers("compute_capability") >= BLACKWELL
        for device in facts.rows("gpu.devices")
    )
    if blackwell and version < BLACKWELL_DRIVER:
        return failed(
            shown,
            expected=t("570 or newer for Blackwell"),
            consequence=t("the card cannot be used"),
            remedy=upgrade(),
        )
    built = engine_cuda(facts, target)
    major = built[0][0] if built is not None else 13
    family = next((row for row in CUDA_FAMILIES if row.major == major), None)
    if family is None:
        return warned(
            shown,
            expected=t("a driver for CUDA {major}, which this table does not know", major=major),
        )
    if version >= family.minimum_driver:
        return ok(
            shown, expected=t("{branch} or newer for CUDA {major}", branch=family.branch,
                              major=major),
        )  # fmt: skip
    if built is None:
        return warned(
            shown,
            expected=t("580 or newer for CUDA 13 engines"),
            consequence=t("SGLang 0.5.20 and newer (CUDA 13 wheels only) cannot start"),
            remedy=upgrade(),
        )
    return failed(
        t("the engine is built for CUDA {major}; this machine has driver {version}", major=major,
          version=text),
        expected=t("driver {branch} or newer", branch=family.branch),
        consequence=t("torch finds no usable GPU: the driver is too old"),
        remedy=fix(
            t("upgrade the driver to {branch} or newer, or use SGLang 0.5.19 or older with its "
              "CUDA 12 wheels", branch=family.branch),
            "sudo apt install nvidia-driver-580-open",
            privileged=True,
            docs="https://github.com/modelscope/FunASR/issues/2973",
        ),
    )  # fmt: skip


def _cuda_api(facts: Facts, target: Target) -> Verdict:
    driver = facts.integers("gpu.cuda_version")
    built = engine_cuda(facts, target)
    if built is None:
        return ok(t("the driver offers CUDA {version}", version=dotted(driver)))
    cuda, source = built
    shown = t("driver offers CUDA {driver}, engine is built for {engine} ({source})",
              driver=dotted(driver), engine=dotted(cuda[:2]), source=source)  # fmt: skip
    if driver[0] < cuda[0]:
        return failed(
            shown,
            expected=t("CUDA {major} or newer from the driver", major=cuda[0]),
            consequence=t("torch finds no usable GPU: the driver is too old"),
            remedy=upgrade(),
        )
    if driver[0] == cuda[0] and driver[:2] < cuda[:2]:
        return warned(
            shown,
            expected=t("the driver's minor is at least the engine's"),
            consequence=t("it runs (minor-version compatibility); new APIs and PTX may not"),
            remedy=upgrade(),
        )
    return ok(shown)


_NVML = ("driver.nvml",)

VERSION_CHECKS: tuple[Check, ...] = (
    Check(
        "driver.versions_match",
        t("module and library agree"),
        _versions_match,
        ("driver", "system", "gpu"),
        t("after an upgrade without a reboot nothing that uses the GPU starts"),
        required=required_with_gpu,
        wanted=with_gpu,
        applies=not_wsl,
        explained_by=("driver.nouveau", "driver.nvml"),
        evidence=("https://github.com/NVIDIA/nvidia-container-toolkit/issues/394",),
    ),
    Check(
        "driver.min",
        t("driver is new enough"),
        _minimum,
        ("gpu", "engine"),
        t("an engine built for a newer CUDA family refuses to start: 'driver too old'"),
        required=required_with_gpu,
        wanted=with_gpu,
        explained_by=_NVML,
        evidence=("https://github.com/modelscope/FunASR/issues/2973",),
    ),
    Check(
        "driver.cuda_api",
        t("driver's CUDA fits the engine"),
        _cuda_api,
        ("gpu", "engine"),
        t("driver major below engine major is an error; an older minor is allowed"),
        required=required_with_gpu,
        wanted=with_gpu,
        explained_by=("driver.nvml", "driver.min"),
    ),
)
