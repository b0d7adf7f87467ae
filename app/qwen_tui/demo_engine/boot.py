"""The boot: SGLang's phases, in its order and words, on a simulated card."""

from __future__ import annotations

import os
import signal
import sys
import time
from typing import TYPE_CHECKING, NoReturn

from qwen_tui.demo_engine.faults import FAULTS
from qwen_tui.demo_engine.log import emit, emit_raw
from qwen_tui.demo_engine.memory import solve
from qwen_tui.demo_engine.settings import ARCHITECTURE, Refused

if TYPE_CHECKING:
    from qwen_tui.demo_engine.arguments import DemoOptions
    from qwen_tui.demo_engine.memory import Budget
    from qwen_tui.demo_engine.settings import Settings

__all__ = ["Clock", "crash_text", "die", "load"]

_GRAPH_NAMES = {
    "decode": ("target decode", "num_tokens_per_req=1"),
    "target_verify": ("target verify", "num_tokens_per_req={draft}"),
    "draft_decode": ("draft decode", "num_tokens_per_req=1"),
    "draft_extend": ("draft extend", "num_tokens_per_req={draft}"),
}
_BAD_BYTES = (
    b"[2026-01-01 00:00:00] Ignore import error when loading \xff\xfe\xc3(\xe6\x97 : broken\n"
)


class Clock:
    """Spends the simulated boot time and remembers what was spent on what."""

    def __init__(self, total_seconds: float) -> None:
        self.total = total_seconds
        self.started = time.monotonic()
        self.spent: dict[str, float] = {}

    def spend(self, phase: str, share: float) -> float:
        """Sleep a share of the total and return the seconds that it took."""
        began = time.monotonic()
        if self.total > 0 and share > 0:
            time.sleep(self.total * share)
        seconds = time.monotonic() - began
        self.spent[phase] = self.spent.get(phase, 0.0) + seconds
        return seconds

    @property
    def elapsed(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self.started


def load(settings: Settings, demo: DemoOptions, clock: Clock) -> Budget:
    """Play the scheduler's boot up to the summary line and return what memory was given to what.

    A load fault ends the process here, as the engine ends.
    """
    fault = demo.fault if demo.fault and FAULTS[demo.fault].when == "load" else None
    if fault == "exit-load":
        os._exit(1)
    clock.spend("init", 0.08)
    emit("Init parallel begin.")
    emit("Init parallel ends. elapsed=0.02 s")
    emit("Memory baseline taken. mem usage=0.08 GB")
    emit(f"Load weight begin. avail mem={demo.free_gib:.2f} GB")
    if demo.fault == "bad-utf8":
        emit_raw(_BAD_BYTES)
    if fault == "hang-load":
        while True:
            time.sleep(3600)
    try:
        budget = solve(settings, demo.free_gib)
    except Refused as refusal:
        _weights(settings, demo.free_gib, clock)
        die(str(refusal), ("mem_cache/kv_cache_configurator.py:247 configure",))
    if fault is not None:
        _shards(clock, 0.3, upto=2)
        _die_of(fault, settings)
    _load_models(settings, budget, clock)
    _pools(settings, budget, clock)
    _graphs(settings, budget, clock)
    emit(
        f"max_total_num_tokens={budget.kv_tokens}, chunked_prefill_size={settings.chunk}, "
        f"max_prefill_tokens={settings.server_args['max_prefill_tokens']}, "
        f"max_running_requests={budget.max_running}, context_len={settings.context_len}, "
        f"available_gpu_mem={budget.available:.2f} GB"
    )
    emit(
        "Init Unified Radix Cache. Components: (<ComponentType.FULL: 0>, "
        "<ComponentType.MAMBA: 2>). Tree Core: RustUnifiedTreeCore"
    )
    emit(
        f"Tree cache initialized: source=default impl="
        f"{'UnifiedRadixCache' if settings.radix_cache else 'ChunkCache'} hybrid_swa=False "
        "hybrid_ssm=True hicache_attached="
        f"{bool(settings.server_args['enable_hierarchical_cache'])}"
    )
    return budget


def crash_text(error: str, frames: tuple[str, ...]) -> str:
    """Return a scheduler traceback as SGLang logs it, ending with ``error``."""
    lines = ["Scheduler hit an exception: Traceback (most recent call last):"]
    for frame in frames:
        place, _, function = frame.partition(" ")
        file, _, number = place.partition(":")
        lines.append(f'  File "/opt/sglang/srt/{file}", line {number}, in {function}')
    return "\n".join([*lines, error, ""])


def die(error: str, frames: tuple[str, ...]) -> NoReturn:
    """End like a launch whose scheduler raised: traceback, echo, SIGKILL of the own tree."""
    emit(crash_text(error, frames))
    emit("Received sigquit from a child process. It usually means the child failed.")
    kill_tree()


def kill_tree() -> NoReturn:
    """Log SIGKILL of the process tree, and do it."""
    pid = os.getpid()
    emit(f"kill_process_tree called: parent_pid={pid}, include_parent=True, pid={pid}")
    sys.stdout.flush()
    os.kill(pid, signal.SIGKILL)
    raise SystemExit(1)


def _die_of(name: str, settings: Settings) -> NoReturn:
    fault = FAULTS[name]
    error = (fault.error or "").replace("{model_path}", settings.model_path)
    die(error, fault.frames)


def _shards(clock: Clock, share: float, *, upto: int = 8) -> None:
    for number in range(upto + 1):
        emit_raw(
            f"\rMulti-thread loading shards: {number * 100 // 8:3d}% Completed | {number}/8 "
            "[00:00<00:00, 12.18it/s]"
        )
        if number < upto:
            clock.spend("load_weight", share / upto)
    emit_raw("\n")


def _weights(settings: Settings, free: float, clock: Clock) -> float:
    size = 17.67 if "int4" in settings.model_path.lower() else 18.59
    _shards(clock, 0.5)
    quant = "quant=compressed-tensors, bits=4, " if size == 17.67 else "quant=modelopt_fp4, "
    emit(
        f"Load weight end. elapsed={clock.spent['load_weight']:.2f} s, type={ARCHITECTURE}, "
        f"{quant}avail mem={free - size:.2f} GB, mem usage={size:.2f} GB."
    )
    return size


def _load_models(settings: Settings, budget: Budget, clock: Clock) -> None:
    _weights(settings, budget.free, clock)
    if not settings.speculative:
        return
    emit(f"Load weight begin. avail mem={budget.before_draft:.2f} GB")
    seconds = clock.spend("load_draft", 0.06)
    emit(
        f"Load weight end. elapsed={seconds:.2f} s, type=Qwen3_5ForCausalLMMTP, "
        f"avail mem={budget.after_draft:.2f} GB, mem usage={budget.draft:.2f} GB."
    )


def _pools(settings: Settings, budget: Budget, clock: Clock) -> None:
    if "float8" in settings.kv_dtype:
        emit(
            "Using FP8 KV cache but no scaling factors provided. Defaulting to scaling factors of "
            "1.0. This may lead to less accurate results!"
        )
    for note in budget.notes:
        if not note.startswith("KV pool holds"):
            emit(note)
    spec = (
        f"intermediate_ssm_state_cache size: {budget.intermediate_ssm:.2f}GB "
        f"intermediate_conv_window_cache size: {budget.intermediate_conv:.2f}GB "
        if settings.speculative
        else ""
    )
    emit(
        f"Mamba Cache is allocated. max_mamba_cache_size: {budget.slots}, "
        f"conv_state size: {budget.conv:.2f}GB, ssm_state size: {budget.ssm:.2f}GB {spec}"
    )
    clock.spend("kv_cache_allocation", 0.04)
    emit(_kv_line(settings, budget.kv_tokens, budget.kv))
    emit(f"Memory pool end. avail mem={budget.after_pools:.2f} GB")
    if settings.speculative:
        emit(_kv_line(settings, budget.kv_tokens, budget.draft_kv))
        emit(f"Memory pool end. avail mem={budget.after_pools - budget.draft_kv:.2f} GB")
    for note in budget.notes:
        if note.startswith("KV pool holds"):
            emit(note)
    emit("Linear attention kernel backend: decode=triton, prefill=triton, verify=triton")
    emit("Using hybrid linear attention backend for hybrid GDN models.")


def _kv_line(settings: Settings, tokens: int, gib: float) -> str:
    half = gib / 2
    return (
        f"KV Cache is allocated. dtype: {settings.kv_dtype}, #tokens: {tokens}, "
        f"K size: {half:.2f} GB, V size: {half:.2f} GB"
    )


def _graphs(settings: Settings, budget: Budget, clock: Clock) -> None:
    emit(
        "Disable prefill CUDA graph because cuda_graph_config resolved prefill.backend='disabled' "
        "(e.g. via --cuda-graph-backend-prefill=disabled or auto-disable rules)."
    )
    sizes = list(range(1, budget.max_running + 1))
    left = budget.available + sum(budget.graphs.values())
    if left < 0:
        die(
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 384.00 MiB. GPU 0 has a "
            "total capacity of 31.36 GiB of which 12.75 MiB is free.",
            ("model_executor/runner/decode_graph_runner.py:412 capture",),
        )
    for name, size in budget.graphs.items():
        title, per = _GRAPH_NAMES[name]
        per = per.format(draft=settings.draft_tokens)
        emit(f"Capture {title} CUDA graph begin. backend=full, {per}, avail mem={left:.2f} GB")
        for number in range(len(sizes) + 1):
            emit_raw(
                f"\rCapturing batches (bs={sizes[-min(number + 1, len(sizes))]} "
                f"avail_mem={left:.2f} GB): {number * 100 // len(sizes):3d}%| "
                f"{number}/{len(sizes)}"
            )
        emit_raw("\n")
        seconds = clock.spend(name, 0.25 / len(budget.graphs))
        left -= size
        emit(
            f"Capture {title} CUDA graph end. bs={sizes}, elapsed={seconds:.2f} s, "
            f"mem usage={size:.2f} GB, avail mem={left:.2f} GB."
        )
