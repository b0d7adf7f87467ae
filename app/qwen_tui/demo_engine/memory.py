"""The simulated card's memory: SGLang 0.5.23's pool arithmetic on Qwen3.8-27B's dimensions.

"GiB" here is what SGLang's log calls GB. Sources: the solver of the released wheel (0.5.18–0.5.23);
weights as two public launch records print them (NVFP4 18.59, INT4 17.67, MTP draft 5.53 of which
4.736 come back after the pools are sized). It is written on its own, not on the product's planner,
so that a prediction has something to be compared with.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from qwen_tui.demo_engine.settings import Refused
from qwen_tui_profiles.plan.gdn import StateDims, clamp_requests

if TYPE_CHECKING:
    from qwen_tui.demo_engine.settings import Settings

__all__ = ["DIMS", "GIB", "Budget", "solve"]

GIB = 1 << 30

DIMS = StateDims(
    layers=48,
    key_heads=16,
    value_heads=48,
    key_dim=128,
    value_dim=128,
    conv_kernel=4,
    declared_dtype="float32",
)
"""Linear-attention dimensions of Qwen3.8-27B."""

_FULL_LAYERS, _KV_HEADS, _HEAD_DIM = 16, 4, 256
_DRAFT_GIB = 5.53
_DRAFT_FREED_GIB = 2 * 248320 * 5120 * 2 / GIB
"""Own embedding and head of the draft, given back after the pools are sized."""
_BASELINE_GIB = 0.08
"""What the free memory at the end of the initialisation exceeds the printed one by."""
_MULTIMODAL_GIB = 100 / 1024
"""``SGLANG_VLM_CACHE_SIZE_MB``, reserved for every multimodal class."""
_ROTARY_POSITIONS = 262144
"""The text's rotary cache (64 dimensions, float32) is built for as many."""
_ROTARY_ROW = 64 * 4
_VISION_ROTARY_ROW = 36 * 4
_SEGMENT = 2 << 20
"""Blocks of 10 MiB and more are multiples of this in the caching allocator."""
_SHARED_SEGMENT = 20 << 20
"""Smaller ones share such segments."""
_GRAPH_GIB = {"decode": 0.11, "target_verify": 0.13, "draft_decode": 0.07, "draft_extend": 0.07}
"""Memory of one captured graph set, as recorded with two batch sizes."""


@dataclass(frozen=True, slots=True)
class Budget:
    """Where the memory went, in GiB, and what came of it."""

    free: float
    weights: float
    rotary: float
    """What the rotary caches grow by after the target's load."""
    draft: float
    conv: float
    ssm: float
    intermediate_ssm: float
    intermediate_conv: float
    kv: float
    """Target pool, keys and values."""
    draft_kv: float
    graphs: dict[str, float]
    available: float
    """Left when everything is up."""
    slots: int
    per_request: int
    kv_tokens: int
    kv_profiled: int
    """Tokens before ``--max-total-tokens``."""
    max_running: int
    max_req_input: int
    notes: tuple[str, ...]
    """Lines that the pool phase prints about changed values."""

    @property
    def after_target(self) -> float:
        """Free memory after the target's weights."""
        return self.free - self.weights

    @property
    def before_draft(self) -> float:
        """Free memory when the rotary caches of the target have grown."""
        return self.after_target - self.rotary

    @property
    def after_draft(self) -> float:
        """Free memory after both weights."""
        return self.before_draft - self.draft

    @property
    def after_pools(self) -> float:
        """Free memory after the target's pools."""
        state = self.conv + self.ssm + self.intermediate_ssm + self.intermediate_conv
        return self.after_draft - state - self.kv


def solve(s: Settings, free: float) -> Budget:
    """Size the pools.

    Args:
        s: Resolved arguments.
        free: Free memory before the weights, in GiB.

    Raises:
        Refused: There is no room, or not for one request; the text is SGLang's.
    """
    weights = 17.67 if "int4" in s.model_path.lower() else 18.59
    draft = _DRAFT_GIB if s.speculative else 0.0
    if weights + draft > free:
        message = (
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2424.00 MiB. GPU 0 has "
            "a total capacity of 31.36 GiB of which "
            f"{max(free - weights, 0) * 1024:.2f} MiB is free."
        )
        raise Refused(message)
    base = free + _BASELINE_GIB
    rotary = _rotary_growth(s)
    room = free - weights - rotary - draft - base * (1 - s.mem_fraction) - _MULTIMODAL_GIB
    slots = _slots(s, room)
    requests = clamp_requests(s.max_running, slots, s.slots_per_request) or 0
    if requests == 0:
        message = (
            "RuntimeError: Hybrid (mamba/linear-attention) state cache is too small to serve any "
            f"requests. max_mamba_cache_size={slots}, mamba_ratio={s.slots_per_request}, "
            "resulting max_num_reqs=0. Try: (1) increase --max-mamba-cache-size, (2) increase "
            "--mamba-full-memory-ratio, or (3) increase --mem-fraction-static."
        )
        raise Refused(message)
    slot = DIMS.slot_bytes(s.ssm_dtype)
    rest = room * GIB - (slots + 1) * slot
    if s.speculative:
        rest -= (requests + 1) * s.draft_tokens * slot
    if rest <= 0:
        minimum = s.mem_fraction - rest / GIB / base
        message = (
            "ValueError: Loaded weights leave no GPU memory for the KV cache under "
            f"--mem-fraction-static={s.mem_fraction}. Raise --mem-fraction-static above "
            f"{minimum + 0.001:.3f} (minimum viable = 1 - available/pre = {minimum:.4f}). If using "
            "speculative decoding, draft weights are now counted."
        )
        raise Refused(message)
    profiled = int(rest // _cell(s)) // s.page_size * s.page_size
    tokens = profiled
    if s.max_total_tokens is not None:
        tokens = min(tokens, s.max_total_tokens // s.page_size * s.page_size)
    effective = min(requests, tokens // 2)
    return _budget(s, free, weights, rotary, draft, slots, requests, profiled, tokens, effective)


def _rotary_growth(s: Settings) -> float:
    """GiB by which the rotary caches grow: the text's, and above all the vision tower's."""
    steps = max(s.draft_tokens - 1, 0) if s.speculative else 0
    rows = s.context_len + 2 * steps * s.draft_tokens + 256
    rows = -(-rows // 128) * 128
    grown = _segments(rows * _VISION_ROTARY_ROW)
    if rows > _ROTARY_POSITIONS:
        grown += _segments(rows * _ROTARY_ROW) - _segments(_ROTARY_POSITIONS * _ROTARY_ROW)
    return grown / GIB


def _segments(size: int) -> int:
    return _SHARED_SEGMENT if size < 10 << 20 else -(-size // _SEGMENT) * _SEGMENT


def _slots(s: Settings, room: float) -> int:
    if s.mamba_slots is not None:
        return s.mamba_slots
    if not s.radix_cache:
        return s.max_running or 48
    slot = DIMS.slot_bytes(s.ssm_dtype)
    share = room * GIB * s.mamba_ratio / (1 + s.mamba_ratio)
    if s.speculative:
        slots = (share - slot * (1 + s.draft_tokens)) // (
            slot * (1 + s.draft_tokens / s.slots_per_request)
        )
    else:
        slots = (share - slot) // slot
    if slots <= 0:
        message = (
            "RuntimeError: Not enough GPU memory for hybrid (mamba/linear-attention) state cache. "
            f"Computed max_mamba_cache_size={int(slots)} (total_rest_memory={room:.2f} GB, "
            f"mamba_cache_per_req={slot / (1 << 20):.2f} MB). Try: (1) reduce "
            "--max-running-requests, (2) increase --mem-fraction-static, (3) reduce "
            "--speculative-num-draft-tokens, or (4) use GPUs with more memory."
        )
        raise Refused(message)
    return int(slots)


def _element(s: Settings) -> int:
    return 1 if "float8" in s.kv_dtype else 2


def _cell(s: Settings) -> int:
    """Bytes that one token is charged with (the draft's layer only when its path is given)."""
    layers = _FULL_LAYERS + (1 if s.speculative and s.draft_path is not None else 0)
    return layers * _KV_HEADS * 2 * _HEAD_DIM * _element(s)


def _budget(
    s: Settings,
    free: float,
    weights: float,
    rotary: float,
    draft: float,
    slots: int,
    requests: int,
    profiled: int,
    tokens: int,
    effective: int,
) -> Budget:
    dtype, d = s.ssm_dtype, s.draft_tokens
    ssm = DIMS.layers * (slots + 1) * DIMS.ssm_bytes(dtype) / GIB
    conv = DIMS.layers * (slots + 1) * DIMS.conv_bytes / GIB
    inter_ssm = DIMS.layers * (requests + 1) * d * DIMS.ssm_bytes(dtype) / GIB
    inter = DIMS.intermediate_bytes(requests, d, dtype) / GIB
    token = _KV_HEADS * 2 * _HEAD_DIM * _element(s)
    kv = tokens * _FULL_LAYERS * token / GIB
    draft_kv = tokens * token / GIB if s.speculative else 0.0
    names = ("target_verify", "draft_decode", "draft_extend") if s.speculative else ("decode",)
    graphs = {name: _GRAPH_GIB[name] for name in names}
    freed = _DRAFT_FREED_GIB if s.speculative else 0.0
    available = (
        free
        - weights
        - rotary
        - draft
        - conv
        - ssm
        - inter
        - kv
        - draft_kv
        + freed
        - sum(graphs.values())
    )
    return Budget(
        free=free,
        weights=weights,
        rotary=rotary,
        draft=draft,
        conv=conv,
        ssm=ssm,
        intermediate_ssm=inter_ssm,
        intermediate_conv=inter - inter_ssm,
        kv=kv,
        draft_kv=draft_kv,
        graphs=graphs,
        available=available,
        slots=slots,
        per_request=s.slots_per_request,
        kv_tokens=tokens,
        kv_profiled=profiled,
        max_running=effective,
        max_req_input=min(s.context_len, tokens) - 6,
        notes=_notes(s, slots, requests, profiled, tokens, effective),
    )


def _notes(
    s: Settings, slots: int, requests: int, profiled: int, tokens: int, effective: int
) -> tuple[str, ...]:
    notes: list[str] = []
    if s.max_total_tokens is not None and s.max_total_tokens > profiled:
        notes.append(
            f"max_total_tokens={s.max_total_tokens} is larger than the profiled value {profiled}. "
            "Use the profiled value instead."
        )
    if s.max_running is not None and requests < s.max_running:
        notes.append(
            f"max_running_requests is capped to {requests} by the mamba state cache "
            f"(max_mamba_cache_size={slots}, {s.slots_per_request} state slots per request). To "
            "raise it: increase --mamba-full-memory-ratio or --max-mamba-cache-size, or halve the "
            "state size with --mamba-ssm-dtype bfloat16."
        )
    elif s.max_running is not None and effective < s.max_running:
        notes.append(
            f"max_running_requests was reduced from the requested {s.max_running} to {effective} "
            "(per dp worker) due to the available KV cache capacity."
        )
    if tokens < s.context_len:
        notes.append(
            f"KV pool holds {tokens} tokens, fewer than --context-length {s.context_len}. One "
            "full-length request cannot fit, so long requests will be refused or truncated at "
            "serving time. Lower --context-length, raise --mem-fraction-static, or free memory "
            "taken before the pool is sized."
        )
    return tuple(notes)
