"""vLLM's lines that carry no figure of ours: recognised, so that coverage means something."""

from __future__ import annotations

import re

from qwen_tui_diagnostics.enginelog.grammar import compile_rows, row

__all__ = ["VLLM_KNOWN"]

# (text at the start of the message, what it says)
_KNOWN: tuple[tuple[str, str], ...] = (
    ("Automatically detected platform", "platform"),
    ("Available plugins for group", "plugins"),
    ("Loading plugin", "plugins"),
    ("- lora_filesystem_resolver", "plugins"),
    ("All plugins in this group", "plugins"),
    ("Failed to import", "an optional module is absent"),
    ("Triton ", "Triton"),
    ("No platform detected", "platform"),
    ("Using ", "a chosen implementation"),
    ("Use ", "a chosen implementation"),
    ("Asynchronous scheduling is ", "scheduling"),
    ("Chunked prefill is enabled", "prefill"),
    ("Enabled custom fusions", "compilation"),
    ("Enabling ", "a feature"),
    ("Disabling ", "a feature"),
    ("Detected ", "a feature of the checkpoint"),
    ("Found ", "a file"),
    ("Enforce eager set", "no compilation and no graphs, as asked"),
    ("Casting torch.", "data type"),
    ("Downcasting torch.", "data type"),
    ("Upcasting torch.", "data type"),
    ("Your GPU does not have native support", "weights are unpacked"),
    ("This model supports multiple tasks", "task"),
    ("The tokenizer you are using", "tokenizer"),
    ("The argument ", "an argument is deprecated"),
    ("With `vllm serve`", "usage of the command"),
    ("world_size=", "distributed"),
    ("vLLM is using nccl", "distributed"),
    ("DP group leader", "distributed"),
    ("OpenMP thread binding info", "cores of each worker (CPU)"),
    ("rank ", "distributed"),
    ("Overriding ", "a default"),
    ("Loading ", "loading"),
    ("Prefetching checkpoint", "loading"),
    ("Time spent downloading weights", "download"),
    ("Filesystem type for checkpoints", "loading"),
    ("Auto-prefetch is disabled", "loading"),
    ("Initializing model took", "loading"),
    ("Encoder cache will be initialized", "encoder"),
    ("Profiling CUDA graph memory", "profiling"),
    ("CUDA graph memory profiling", "profiling"),
    ("In v0.", "a note on profiling"),
    ("Replaying ", "compilation"),
    ("monitoring ", "compilation"),
    ("Maximum concurrency", "concurrency"),
    ("Add ", "padding layers of a hybrid model"),
    ("kv cache group sizes", "groups of a hybrid model"),
    ("Warming up ", "warm-up"),
    ("Warmup ", "warm-up"),
    ("Readonly multi-modal warmup", "warm-up"),
    ("Multi-modal warmup", "warm-up"),
    ("Multi-modal processor warmup", "warm-up"),
    ("Skipping FlashInfer autotune", "kernel tuning"),
    ("Running FlashInfer autotune", "kernel tuning"),
    ("[Autotuner]", "kernel tuning"),
    ("Autotuning ", "kernel tuning"),
    ("Supported tasks", "server"),
    ("Supported_tasks", "server"),
    ("Default sampling parameters", "sampling defaults of the checkpoint"),
    ("Default vLLM sampling parameters", "sampling defaults of the checkpoint"),
    ("\"auto\" tool choice", "tools"),
    ("Available routes are", "server"),
    ("Route: ", "server"),
    ("Detected the chat template", "chat template"),
    ("Engine 0", "engine"),
    ("Received request ", "request logging"),
    ("Added request ", "request logging"),
    ("Generated response", "request logging"),
    ("Request chatcmpl", "request logging"),
    ("No available shared memory broadcast block", "slow, not dead"),
    ("Triton kernel JIT compilation during inference", "a first use is slow"),
    ("Parsed top_k", "request"),
    ("Initializing a V1 LLM engine", "configuration"),
    ("Launching ", "processes"),
    ("Started engine", "processes"),
    ("init engine ", "boot"),
    ("Waiting for ", "boot"),
    ("SymmMemCommunicator", "distributed"),
    ("Custom allreduce", "distributed"),
    ("Skipping ", "a step"),
    ("Warning: Prefix caching in Mamba cache", "prefix caching of hybrid models is experimental"),
    ("Padding ", "padding"),
    ("Injected ", "configuration"),
    ("Set ", "configuration"),
    ("Setting ", "configuration"),
    ("Inferred ", "configuration"),
    ("Resolved ", "configuration"),
    ("Model config ", "configuration"),
    ("Prefix caching ", "prefix cache"),
    ("Cannot use ", "a fallback"),
    ("Final IR op priority", "kernels"),
    ("Reset SSM cache type", "state data type on a CPU"),
    ("Inductor compilation was disabled", "compilation"),
    ("min_p and logit_bias parameters won't work", "sampling under speculation"),
    ("libtcmalloc is not found", "a faster allocator is absent (CPU)"),
    ("libiomp is not found", "a faster OpenMP is absent (CPU)"),
    ("Scale-out endpoints are disabled", "server"),
    ("Current vLLM config is not set", "configuration"),
    ("Reducing ", "configuration"),
    ("Increasing ", "configuration"),
    ("args: ", "arguments"),
    ("Auto-fit max_model_len: full", "the whole context fits"),
    ("Applying persisted startup plan", "the pool's size comes from an earlier start"),
    ("Qwen3.5 model specifies", "another state data type was asked for"),
    ("WorkerProc was terminated", "shutdown"),
    ("Parent process exited", "shutdown"),
    ("AsyncLLM output_handler failed", "the engine core is gone"),
    ("Shutting down", "shutdown"),
    ("[shutdown]", "shutdown"),
    ("`", "a deprecated name"),
)  # fmt: skip

# The same, behind the name of a part of the model (from 0.32.0): ``[backbone] saved AOT …``.
_OF_A_PART: tuple[tuple[str, str], ...] = (
    ("saved AOT compiled function", "compilation"),
    ("Initial profiling/warmup run took", "profiling"),
    ("Cache the graph", "compilation"),
    ("Compiling a graph", "compilation"),
    ("Directly load the compiled graph", "compilation"),
    ("Dynamo bytecode transform time", "compilation"),
)

_CORES = ("VLLM_CPU_OMP_THREADS_BIND", "local_world_size=", "local_rank=", "reserved_cpus=")
"""Indented lines under "OpenMP thread binding info" of a CPU worker."""

VLLM_KNOWN = compile_rows(
    (
        *(row("known", "vllm", text, None, meaning) for text, meaning in _KNOWN),
        *(
            row("known", "vllm", text, rf"\s*{text}", "cores of each worker (CPU)")
            for text in _CORES
        ),
        *(
            row("known", "vllm", text, rf"(?:\[[^\]]{{1,60}}\] )?{re.escape(text)}", meaning)
            for text, meaning in _OF_A_PART
        ),
    )
)
