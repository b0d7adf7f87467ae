"""Names under which an engine stacks the matrices that a checkpoint stores one by one."""

from __future__ import annotations

import re

__all__ = ["FUSED", "fused_name"]

FUSED = {
    "q_proj": "qkv_proj",
    "k_proj": "qkv_proj",
    "v_proj": "qkv_proj",
    "gate_proj": "gate_up_proj",
    "up_proj": "gate_up_proj",
    "in_proj_qkv": "in_proj_qkvz",
    "in_proj_z": "in_proj_qkvz",
    "in_proj_b": "in_proj_ba",
    "in_proj_a": "in_proj_ba",
}

_EXPERT = re.compile(r"\.experts\.\d+\.")


def fused_name(name: str) -> str:
    """Return the engine's name of a tensor: shards of one matrix, and experts, share it."""
    stacked = _EXPERT.sub(".experts.", name)
    return ".".join(FUSED.get(part, part) for part in stacked.split("."))
