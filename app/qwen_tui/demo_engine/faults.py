"""Faults that the simulation can play, and the engine lines that each prints.

The texts are those that SGLang prints (recorded boots, or the released source); the file paths of
the tracebacks are shortened.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["FAULTS", "Fault"]


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault: when it strikes and what the scheduler's traceback ends with."""

    when: str
    """``load`` (after the weights begin to load), ``run`` (at a request), ``stop``, ``log``."""
    summary: str
    error: str | None = None
    """Last line of the traceback; ``None`` = no traceback."""
    frames: tuple[str, ...] = ()
    """``file:line function`` of the traceback, outermost first."""


_OOM = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {want} MiB. GPU 0 has a total "
    "capacity of 31.36 GiB of which {free} MiB is free. Process 4711 has 31.02 GiB memory in use. "
    "Of the allocated memory 30.31 GiB is allocated by PyTorch, and 112.41 MiB is reserved by "
    "PyTorch but unallocated. If reserved but unallocated memory is large try setting "
    "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation."
)

FAULTS: dict[str, Fault] = {
    "oom-load": Fault(
        "load",
        "the weights do not fit",
        _OOM.format(want="2424.00", free="1310.31"),
        (
            "managers/scheduler.py:498 __init__",
            "model_executor/model_runner.py:1143 load_model",
            "model_loader/loader.py:688 load_model",
        ),
    ),
    "oom-first-token": Fault(
        "run",
        "no head-room beside the pools: the first request dies",
        "Triton Error [CUDA]: out of memory",
        (
            "managers/scheduler.py:1397 event_loop_overlap",
            "managers/scheduler.py:2590 run_batch",
            "model_executor/model_runner.py:2213 forward",
        ),
    ),
    "slot-exhaustion": Fault(
        "run",
        "the state pool runs out while a chunk is checkpointed",
        "AssertionError: Can not alloc mamba cache",
        (
            "managers/scheduler.py:1397 event_loop_overlap",
            "managers/scheduler.py:2201 get_next_batch_to_run",
            "mem_cache/unified_radix_cache.py:611 cache_unfinished_req",
            "mem_cache/unified_cache/components/mamba_component.py:479 _alloc_mamba_slot",
        ),
    ),
    "crash-load": Fault(
        "load",
        "a Python module is missing in the engine's environment",
        "ModuleNotFoundError: No module named 'vllm'",
        (
            "managers/scheduler.py:498 __init__",
            "models/qwen3_5.py:812 __init__",
            "layers/rotary_embedding/base.py:138 __init__",
        ),
    ),
    "crash-running": Fault(
        "run",
        "the scheduler dies of an error of its own",
        "RuntimeError: CUDA error: an illegal memory access was encountered",
        (
            "managers/scheduler.py:1397 event_loop_overlap",
            "managers/scheduler.py:2590 run_batch",
        ),
    ),
    "missing-weights": Fault(
        "load",
        "the model folder holds no weights",
        "RuntimeError: Cannot find any model weights with `{model_path}`",
        ("model_loader/loader.py:402 _prepare_weights",),
    ),
    "scheduler-killed": Fault("run", "the kernel's OOM killer takes the scheduler"),
    "hang-load": Fault("load", "the weights never finish loading"),
    "hang-running": Fault("run", "the scheduler stops answering"),
    "exit-load": Fault("load", "the process ends at once, without a word"),
    "ignore-term": Fault("stop", "SIGTERM is not obeyed"),
    "slow-drain": Fault("stop", "the drain never ends"),
    "bad-utf8": Fault("log", "the log holds bytes that are not UTF-8"),
}
"""By the name that ``--demo-fault`` takes."""
