"""What the judges know: tables with their source, dated 2026-11-29.

A row is a fact of a release, a card or a rule of an engine. Cards are judged by what NVML says of
them; a table of names is never asked.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = [
    "CAPABILITY_ROWS",
    "CUDA_FAMILIES",
    "ENGINE_ROWS",
    "CapabilityRow",
    "CudaFamily",
    "EngineRow",
    "capability_row",
    "engine_row",
]

Version = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class CudaFamily:
    """What a CUDA major needs of the driver (NVIDIA's minor-version compatibility table)."""

    major: int
    minimum_driver: Version
    branch: str


CUDA_FAMILIES: tuple[CudaFamily, ...] = (
    CudaFamily(12, (525, 60, 13), "525.60.13"),
    CudaFamily(13, (580,), "580"),
)

BLACKWELL = (10, 0)
BLACKWELL_DRIVER: Version = (570,)
"""First branch that knows Blackwell."""
CONSUMER_BLACKWELL = (12, 0)
"""From here on only the open kernel module drives the card."""


@dataclass(frozen=True, slots=True)
class CapabilityRow:
    """What a compute capability needs of the tools that compile for it (CUDA release notes)."""

    capability: tuple[int, int]
    nvcc: Version
    """Oldest nvcc that has a target for it."""
    nvcc_best: Version
    """Oldest nvcc with the family target that the FP4 kernels want."""
    torch_cuda: Version
    """Oldest CUDA that torch wheels for it are built with."""
    flashinfer_target: str
    known: bool = True
    """The engines are used on it with these models."""


CAPABILITY_ROWS: tuple[CapabilityRow, ...] = (
    CapabilityRow((8, 0), (11, 0), (11, 0), (11, 0), "8.0"),
    CapabilityRow((8, 6), (11, 1), (11, 1), (11, 1), "8.6"),
    CapabilityRow((8, 9), (11, 8), (11, 8), (11, 8), "8.9"),
    CapabilityRow((9, 0), (12, 3), (12, 3), (12, 0), "9.0a"),
    CapabilityRow((10, 0), (12, 8), (12, 9), (12, 8), "10.0a"),
    CapabilityRow((10, 3), (12, 9), (12, 9), (12, 8), "10.3a"),
    CapabilityRow((12, 0), (12, 8), (12, 9), (12, 8), "12.0f"),
    CapabilityRow((12, 1), (12, 9), (12, 9), (12, 8), "12.1a"),
)
OLDEST_CAPABILITY = (8, 0)
"""SGLang's kernels start at Ampere."""
FP4_CAPABILITY = (10, 0)
"""Hardware FP4; older cards run NVFP4 weights through slower kernels or not at all."""


def capability_row(capability: tuple[int, ...]) -> CapabilityRow | None:
    """Return the row of a capability, or of the nearest older one of the same major."""
    rows = [r for r in CAPABILITY_ROWS if r.capability <= capability]
    same = [r for r in rows if r.capability[0] == capability[0]]
    return same[-1] if same else None


@dataclass(frozen=True, slots=True)
class EngineRow:
    """What one line of SGLang releases is built for (package metadata)."""

    since: str
    until: str | None
    cuda: Version
    """CUDA of its default wheels."""
    cuda12_route: bool
    """It can still be installed with CUDA 12 wheels."""
    python: tuple[Version, Version]
    """Oldest and newest Python with wheels."""
    glibc: Version = (2, 34)
    """From the wheels' tag manylinux_2_34."""


ENGINE_ROWS: tuple[EngineRow, ...] = (
    EngineRow("0.5.9", "0.5.10.post1", (12, 8), True, ((3, 10), (3, 13)), (2, 28)),
    EngineRow("0.5.11", "0.5.19", (13, 0), True, ((3, 10), (3, 13))),
    EngineRow("0.5.20", "0.5.21", (13, 0), False, ((3, 10), (3, 13))),
    EngineRow("0.5.22", None, (13, 0), False, ((3, 11), (3, 13))),
)
SGLANG_PYTHON: tuple[Version, Version] = ((3, 10), (3, 13))
"""Widest range of any release; there are no wheels for 3.14."""
VLLM_PYTHON: tuple[Version, Version] = ((3, 11), (3, 14))
"""vLLM 0.33.0."""

FIRST_RELEASES: tuple[tuple[str, str, str], ...] = (
    # architecture prefix, engine, first release that serves it
    ("Qwen4Exp", "sglang", "0.5.20"),
    ("Qwen3_5", "sglang", "0.5.9"),
)
"""Flash-Next is Qwen4Exp; its own model class is there from 0.5.21 on."""

FLASHINFER_ZEROS = "0.6.3"
"""Up to here one SM 12.0 FP4 product is all zeros (flashinfer-ai/flashinfer#2577)."""
FLASHINFER_STRICT_UNTIL = "0.6.18"
"""Up to here a different version of the cubin package stops the import with a RuntimeError."""

TRITON_KNOWS_SM121 = "3.6"
"""Bundled ptxas of older Triton is from CUDA 12.8 and does not know sm_121a (triton#8539)."""

HUB_RESUME_LOST = "1.18.0"
"""From here on an interrupted file starts again from zero (huggingface_hub#4196)."""
HF_TRANSFER_GONE = "1.0"

XIDS_FATAL = frozenset({79, 119, 120, 154})
"""Off the bus, GSP timeout, GSP error, recovery action needed: reboot."""
XIDS_PROGRAM = frozenset({13, 31, 43})
"""Usually a program's own fault."""

BYTES_PER_JIT_JOB = 8 * 1024**3
JIT_BASE_BYTES = 16 * 1024**3
"""A compiler of the FP4 kernels takes up to 8 GiB; the rest of the machine wants its share."""

PLE_READS_PER_TOKEN = 16.6
"""16 rows of 160 bytes a token, two pages for every 25th row: preflight arithmetic of the table."""
PLE_FULL_RATE_TOKENS = 14_000
"""Published warm prefill rate of the SM120 fork, tokens a second."""
PLE_TABLE_BYTES = int(47.7 * 1024**3)


def engine_row(version: str) -> EngineRow | None:
    """Return the row of an SGLang version; ``None`` for one that is older or cannot be read."""
    from qwen_tui_profiles.errors import InputError
    from qwen_tui_profiles.versions import in_range

    try:
        return next((r for r in ENGINE_ROWS if in_range(version, r.since, r.until)), None)
    except InputError:
        return None
