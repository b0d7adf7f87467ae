"""Whole machines as facts: what the collectors would report on computers that are fit for a launch.

The GPU facts go through the real collector over a fake NVML; the rest is literal.
"""

from __future__ import annotations

import json
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qwen_tui_diagnostics.checks import CHECKS, check_called
from qwen_tui_diagnostics.context import Context, Target
from qwen_tui_diagnostics.facts import Absence, Facts, Gathered, absences_from_json
from qwen_tui_diagnostics.probes.engine import PACKAGES
from qwen_tui_diagnostics.probes.environment import VARIABLES
from qwen_tui_diagnostics.probes.gpu import gather
from qwen_tui_diagnostics.probes.nvml import Nvml
from qwen_tui_diagnostics.runner import judge
from support.fake_nvml import Code, FakeNvml, h200

if TYPE_CHECKING:
    from qwen_tui_diagnostics.result import CheckResult

GIB = 1024**3
MIB = 1024**2
DATA = Path(__file__).parent.parent / "doctor" / "data"

ARGV_27B = (
    "--context-length", "32768", "--max-running-requests", "2", "--mem-fraction-static", "0.92",
    "--kv-cache-dtype", "fp8_e4m3", "--page-size", "1", "--max-mamba-cache-size", "16",
    "--mamba-ssm-dtype", "bfloat16", "--speculative-algorithm", "NEXTN",
    "--speculative-num-steps", "3", "--speculative-eagle-topk", "1",
    "--speculative-num-draft-tokens", "4",
)  # fmt: skip

TARGET_27B = Target(
    profile="27b-int4-speed",
    engine="sglang",
    model_path="/models/Qwen3.8-27B-INT4",
    repo="RedHatAI/Qwen3.8-27B-INT4",
    argv=ARGV_27B,
    engine_versions=">=0.5.18",
)

TARGET_FLASH = Target(
    profile="flash-next-sm120",
    engine="sglang",
    model_path="/models/Qwen3.8-Flash-Next-NVFP4",
    argv=("--mem-fraction-static", "0.90", "--quantization", "modelopt_fp4"),
    env={
        "SGLANG_QWEN4_PLE_NVME_PATH": "/models/Qwen3.8-Flash-Next-NVFP4",
        "SGLANG_QWEN4_PLE_NVME_QUEUE_DEPTH": "512",
    },
)


def card(**changes: Any) -> dict[str, Any]:
    """Return an RTX 5090 as NVML would describe it (the rest as recorded on an H200)."""
    total = 32607 * MIB
    base = h200(
        Name="NVIDIA GeForce RTX 5090",
        CudaComputeCapability="(12, 0)",
        MemoryInfo_v2={
            "total": total, "free": total - 600 * MIB, "used": 0, "reserved": 600 * MIB,
        },
        PowerUsage=40_000,
        EnforcedPowerLimit=575_000,
        PowerManagementDefaultLimit=575_000,
        PowerManagementLimitConstraints=["400000", "600000"],
        EccMode=Code(3),
        MigMode=Code(3),
        GpuMaxPcieLinkGeneration=5,
        BAR1MemoryInfo={"bar1Total": 32 * GIB, "bar1Free": 1, "bar1Used": 1},
        PciInfo_v3={"busId": "00000000:01:00.0"},
    )  # fmt: skip
    return base | changes


def gpu_facts(*cards: dict[str, Any], **options: Any) -> tuple[dict[str, Any], dict[str, Absence]]:
    """Return the facts and absences that the GPU collector gives for these cards."""
    found = Gathered()
    gather(Context(), found, Nvml(FakeNvml(*cards, **options), proc_root=Path("/nonexistent")))
    values = json.loads(json.dumps(found.values))
    return values["gpu"], dict(found.absent)


def _folder(path: str, roles: list[str]) -> dict[str, Any]:
    return {
        "path": path,
        "roles": roles,
        "exists": True,
        "nearest": path,
        "readable": True,
        "write_errno": 0,
        "mount": {"point": "/", "filesystem": "ext4", "options": ["rw"], "source": "/dev/nvme0"},
        "device": {
            "stack": ["nvme0n1"],
            "bottom": {
                "name": "nvme0n1", "kind": "nvme", "rotational": False, "logical_block_bytes": 512,
            },
            "layers": [],
        },
        "space": {
            "available_bytes": 400 * GIB, "free_bytes": 420 * GIB, "total_bytes": 900 * GIB,
            "inodes_fixed": True, "inodes_available": 50_000_000, "noexec": False,
            "readonly": False,
        },
    }  # fmt: skip


def _weights(path: str, roles: list[str]) -> dict[str, Any]:
    alignment = {"known": True, "memory_bytes": 512, "offset_bytes": 512}
    return _folder(path, roles) | {
        "shard": {"open_errno": 0, "alignment": alignment},
        "direct": {
            "open_errno": 0, "read_errno": 0, "reads": 256, "resident": 0,
            "counted_by": "cachestat",
            "pass_us": [70.0, 68.0], "alignment": alignment,
        },
    }  # fmt: skip


def _sample(depth: int, rate: float, block: int = 4096) -> dict[str, Any]:
    return {
        "method": "io_uring", "depth": depth, "block_bytes": block, "reads": 1000, "seconds": 0.5,
        "cpu_us_per_read": 4.0, "probe_bound": False, "lower_bound": False, "reads_per_s": rate,
        "bytes_per_s": rate * block,
    }  # fmt: skip


def workstation(target: Target = TARGET_27B) -> dict[str, Any]:
    """Return the facts of a desktop with an RTX 5090 and a complete SGLang 0.5.23."""
    gpu, _ = gpu_facts(card())
    config = json.loads((DATA / "config-27b.json").read_text())
    gpu["library_version"] = "580.159.04"
    gpu["devices"][0]["processes"] = [
        {"pid": 4242, "kind": "graphics", "used_bytes": 90 * MIB, "name": "Xorg"}
    ]
    model = target.model_path or "/models/none"
    ple = ["model", "ple"] if target.ple == "nvme" else ["model"]
    return {
        "system": {
            "kernel": {"name": "Linux", "release": "6.14.0", "machine": "x86_64"},
            "python": [3, 12, 3], "year": 2026, "uid": 1000, "glibc": [2, 39], "wsl": False,
            "container": False, "container_signs": [], "ipc_lock": False, "seccomp": 0,
            "cpus": 16, "encoding": "UTF-8", "scaling_governor": "performance",
            "scaling_driver": "amd-pstate-epp",
            "terminal": {
                "stdout_tty": True, "columns": 120, "lines": 40, "encoding": "utf-8",
                "term": "xterm-256color",
            },
        },
        "memory": {
            "total_bytes": 64 * GIB, "available_bytes": 58 * GIB, "free_bytes": 50 * GIB,
            "swap_total_bytes": 8 * GIB, "swap_free_bytes": 8 * GIB, "limited": False,
            "zram": False, "swappiness": 60, "shm_total_bytes": 32 * GIB,
            "shm_free_bytes": 32 * GIB, "memlock_soft": 8 * MIB, "memlock_hard": 8 * MIB,
            "nofile_soft": 1024, "nofile_hard": 1_048_576,
        },
        "env": {
            "set": {"TERM": "xterm-256color", "MAX_JOBS": "4"},
            "unset": [n for n in VARIABLES if n not in {"TERM", "MAX_JOBS"}],
            "from_profile": [],
        },
        "topology": {"nodes": [0, 1], "own_nodes": [0, 1], "iommu": False},
        "driver": {
            "module_loaded": True, "nouveau": False, "open_module": True,
            "module_version": "580.159.04",
            "library": {"libnvidia-ml": "580.159.04", "libcuda": "580.159.04"},
            "pci": [
                {"bus_id": "0000:01:00.0", "device": "0x2b85", "driver": "nvidia", "numa_node": 0}
            ],
            "nodes": [
                {"name": "nvidiactl", "openable": True},
                {"name": "nvidia-uvm", "openable": True},
                {"name": "nvidia0", "openable": True},
            ],
            "secure_boot": False,
            "xid": {"count": 0, "codes": [], "lost": False, "from_s": 0.0},
        },
        "rings": {
            "depth": 512, "errno": 0, "sysctl": 0, "aio_used": 0, "aio_limit": 65536,
        },
        "port": {
            "host": target.host, "port": target.port, "bind_errno": 0,
            "local_range": [32768, 60999], "nccl_taken": 0,
        },
        "server": {"answers": False},
        "disk": {
            "paths": [
                _weights(model, ple),
                _folder("/home/u/.local/state/qwen-tui", ["logs"]),
            ]
        },
        "model": {
            "path": model, "exists": True, "shards": 2, "shard_bytes": 18_600_000_000,
            "partial": [], "indexed": True, "missing": [], "missing_count": 0,
            "indexed_shards": 2, "tokenizer": True, "links_outside": [],
            "links_outside_count": 0,
            "config": {
                "model_type": config["model_type"], "architectures": config["architectures"],
            },
            "document": config,
            # Sums of the headers of a 17.7 GB INT4 checkpoint with its MTP head and vision tower.
            "stored": {
                "target_bytes": 16_900_000_000, "draft_bytes": 849_000_000,
                "vision_bytes": 920_000_000, "head_bytes": 2_542_796_800,
                "embed_bytes": 2_542_796_800, "table_bytes": 0, "tensors": 1500, "files": 2,
            },
        },
        "toolkit": {
            "home": "", "ptxas_override": "", "installed": ["cuda-13.0"],
            "nvcc": "/usr/local/cuda/bin/nvcc",
            "nvcc_origin": "/usr/local/cuda", "nvcc_version": [13, 0],
            "compiler": "/usr/bin/g++", "compiler_major": 13, "compiler_limit": 15,
            "headers_missing": [], "ninja": "/usr/bin/ninja",
            "ptxas_default": "/usr/local/cuda/bin/ptxas", "libcuda_link": True,
            "library_path": [],
            "caches": [
                {
                    "name": "flashinfer", "path": "/home/u/.cache/flashinfer",
                    "available_bytes": 100 * GIB, "noexec": False, "writable": True,
                    "versions": ["0.7.2"],
                },
                {
                    "name": "temporary", "path": "/tmp", "available_bytes": 30 * GIB,
                    "noexec": True, "writable": True,
                },
            ],
        },
        "engine": {
            "looked_at": ["/opt/sglang/bin/python"], "named_missing": "",
            "packages_read": list(PACKAGES),
            "installs": [
                {
                    "interpreter": "/opt/sglang/bin/python", "origin": "/opt/sglang",
                    "engine": "sglang", "version": "0.5.23", "python": [3, 12], "ninja": True,
                    "packages": {
                        "sglang": "0.5.23", "torch": "2.14.1", "transformers": "5.19.0",
                        "sglang-kernel": "0.4.10", "flashinfer-python": "0.7.2",
                        "triton": "3.7.0", "ninja": "1.13.0",
                    },
                    "requires": [
                        "torch==2.14.1", "sglang-kernel==0.4.10", "transformers==5.19.0",
                        "flashinfer_python[cu13]==0.7.2", "fastapi",
                    ],
                    "torch": {"version": "2.14.1+cu130", "cuda": [13, 0]},
                    "flags": {
                        "declared": 531, "unknown": [], "ambiguous": [], "bad_values": [],
                        "deprecated": [], "refused": [],
                    },
                    "model": {
                        "model_type": config["model_type"],
                        "architectures": config["architectures"],
                        "in_transformers": True, "in_engine": True,
                    },
                    "python_h": True, "user_site": False,
                }
            ],
        },
        "gpu": gpu,
        "bench": {
            "samples": {
                "sequential": _sample(4, 3200, MIB), "random_1": _sample(1, 14_000),
                "random_32": _sample(32, 180_000), "random_512": _sample(512, 400_000),
            },
            "source": "shard", "source_bytes": 5 * GIB, "folder": model, "depth": 512,
        },
        "torch": {
            "version": "2.14.1+cu130", "import_s": 4.0, "available": True, "sum": 2048.0,
            "arch_flags": "sm_75 sm_80 sm_90 sm_100 sm_120 compute_120",
        },
        "asked": {"complaint": ""},
        "hub": {
            "client_version": "1.17.0", "transfer_installed": False, "token_from": "none",
            "endpoint": "https://huggingface.co", "error": "", "redirect_error": "",
            "status": 200, "seconds": 0.3,
            "clock_off_s": 1, "gated": False, "total_bytes": 19_500_000_000,
            "largest_bytes": 4_900_000_000, "missing_bytes": 0, "file_status": 302,
            "redirect_host": "cas-bridge.xethub.hf.co", "redirect_status": 200,
        },
    }  # fmt: skip


def absent_facts() -> dict[str, Absence]:
    """Return why the workstation's missing facts are missing."""
    return gpu_facts(card())[1]


def verdict(
    check_id: str,
    facts: dict[str, Any],
    target: Target = TARGET_27B,
    absent: dict[str, Absence] | None = None,
) -> CheckResult:
    """Judge one check."""
    check = check_called(check_id)
    assert check is not None, check_id
    return judge(check, Facts(facts, absent_facts() if absent is None else absent), target)


def changed(facts: dict[str, Any], **paths: Any) -> dict[str, Any]:
    """Return a copy with values replaced; ``__`` stands for the dot; ``...`` removes."""
    copy = deepcopy(facts)
    for path, value in paths.items():
        *folders, leaf = path.split("__")
        place: Any = copy
        for folder in folders:
            place = place[int(folder)] if isinstance(place, list) else place.setdefault(folder, {})
        key: Any = int(leaf) if isinstance(place, list) else leaf
        if value is ...:
            del place[key]
        else:
            place[key] = value
    return copy


__all__ = [
    "CHECKS", "GIB", "MIB", "TARGET_27B", "TARGET_FLASH", "absences_from_json", "card", "changed",
    "gpu_facts", "replace", "verdict", "workstation",
]  # fmt: skip
