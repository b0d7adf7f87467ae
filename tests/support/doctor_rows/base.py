"""What the rows of the judges' tests are made of: a healthy machine with changed facts.

A row: check, facts, target, expected status, phrase that has to appear.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from qwen_tui_diagnostics.result import Status
from support.doctor_machines import (
    GIB,
    TARGET_27B,
    TARGET_FLASH,
    changed,
    gpu_facts,
    workstation,
)

if TYPE_CHECKING:
    from qwen_tui_diagnostics.context import Target

    Row = tuple[str, dict[str, Any], Target, Status, str]

OK, WARN, FAIL, SKIP = Status.OK, Status.WARN, Status.FAIL, Status.SKIP
TWO = replace(TARGET_27B, argv=(*TARGET_27B.argv, "--tp-size", "2"))
DOCKER = replace(TARGET_27B, runtime="docker", image="lmsysorg/sglang:v0.5.23")
DOWNLOAD = replace(TARGET_27B, online=True)
ALONE = replace(TARGET_27B, profile=None, argv=(), engine=None, model_path=None, repo=None)
DEMO = replace(ALONE, profile="demo-speed", engine="demo", needs_gpu=False)
FILE = replace(
    TARGET_FLASH,
    env={},
    argv=("--ple-offload-embedding", "--ple-offload-backend", "file", "--ple-offload-dir", "/ple"),
)


def env(**values: str) -> dict[str, Any]:
    facts = workstation()
    facts["env"]["set"] |= values
    facts["env"]["unset"] = [n for n in facts["env"]["unset"] if n not in values]
    return facts


def gpu(**changes: Any) -> dict[str, Any]:
    """The workstation with other values of its card."""
    facts = workstation()
    facts["gpu"]["devices"][0] |= changes
    return facts


def cards(*models: dict[str, Any], **options: Any) -> dict[str, Any]:
    facts = workstation()
    facts["gpu"], _ = gpu_facts(*models, **options)
    for device in facts["gpu"].get("devices", []):
        device["processes"] = []
    return facts


def base(**paths: Any) -> dict[str, Any]:
    return changed(workstation(), **paths)


def folder(**changes: Any) -> dict[str, Any]:
    """The workstation with other facts of the model's folder."""
    facts = workstation()
    entry = facts["disk"]["paths"][0]
    facts["disk"]["paths"][0] = changed(entry, **changes)
    return facts


def package(**versions: str | None) -> dict[str, Any]:
    facts = workstation()
    packages = facts["engine"]["installs"][0]["packages"]
    for name, version in versions.items():
        key = name.replace("_", "-")
        if version is None:
            packages.pop(key, None)
        else:
            packages[key] = version
    return facts


def engine(**changes: Any) -> dict[str, Any]:
    facts = workstation()
    facts["engine"]["installs"][0] = changed(facts["engine"]["installs"][0], **changes)
    return facts


NO_DRIVER = base(gpu={"nvml_code": 12})
UNIFIED = gpu(
    unified=True, compute_capability=[12, 1], memory_total_bytes=121 * GIB,
    memory_free_bytes=118 * GIB,
)  # fmt: skip
H200 = {"CudaComputeCapability": "(9, 0)", "Name": "NVIDIA H200"}
