"""SGLang's lines that carry no figure of ours: recognised, so that coverage means something."""

from __future__ import annotations

from qwen_tui_diagnostics.enginelog.grammar import compile_rows, row

__all__ = ["SGLANG_KNOWN"]

E = "sglang"

# (needle at the start of the message, what it says, phase or None, boot only)
_KNOWN: tuple[tuple[str, str, str | None, bool], ...] = (
    ("SIMULATED ENGINE", "qwen-tui's own simulated engine", None, True),
    ("Fail to set RLIMIT_NOFILE", "open-file limit stays as it is", None, True),
    ("Using default HuggingFace chat template", "chat template", None, True),
    ("Using default chat sampling params", "sampling defaults of the checkpoint", None, True),
    ("Use chat template for the OpenAI-compatible", "chat template", None, True),
    ("Detected chat template", "chat template", None, True),
    ("Guessed chat template", "chat template", None, True),
    ("Loading chat template", "chat template", None, True),
    ("No chat template", "chat template", None, True),
    ("--language-only is set without", "text-only serving", "args", True),
    ("Multimodal feature transport", "multimodal transport", "args", True),
    ("Using CUDA IPC for multimodal", "multimodal transport reserves GPU memory", "args", True),
    ("CUDA IPC ", "multimodal transport", None, True),
    ("Multimodal ", "multimodal set-up", None, True),
    ("Using fa3 as multimodal", "multimodal attention", None, True),
    ("Processor tokenizer for", "multimodal processor", None, True),
    ("Ignore import error when loading", "an optional module is absent (harmless)", None, True),
    ("using attn output gate", "model detail", None, True),
    ("Using FP8 KV cache but no scaling factors", "fp8 scales default to 1.0", None, True),
    ("Using hybrid linear attention backend", "attention backend of a hybrid model", None, True),
    ("Linear attention kernel backend", "linear-attention kernels", None, True),
    ("GDN kernel dispatcher", "linear-attention kernels", None, True),
    ("CuTe DSL GDN decode enabled", "linear-attention kernels", None, True),
    ("Using QSA for sparse", "sparse attention", None, True),
    ("Running FlashInfer autotune", "kernel tuning", None, True),
    ("FlashInfer autotune completed", "kernel tuning", None, True),
    ("HiCache ", "hierarchical cache", None, True),
    ("Allocating kv hierarchical", "hierarchical cache takes host memory", None, True),
    ("Allocating ", "host memory is taken", None, True),
    ("Attached hybrid pool stack", "hierarchical cache", None, True),
    ("Using fallback token IDs", "scoring tokens", None, True),
    ("Cannot detect CUDA architecture", "no CUDA device", None, True),
    ("init_threads_binding", "CPU threads", None, True),
    ("init_cpu_threads_env", "CPU threads", None, True),
    ("Custom allreduce is disabled", "collective kernels", None, True),
    ("sglang is using nccl", "NCCL", None, True),
    ("Detected fp8 checkpoint", "quantization", None, True),
    ("Detected ModelOpt", "quantization", None, True),
    ("Using ModelOpt", "quantization", None, True),
    ("Using configuration from", "kernel configuration file", None, True),
    ("Config file not found", "kernel configuration file", None, True),
    ("Entering DeepGEMM", "kernel compilation", None, False),
    ("DeepGEMM", "kernel compilation", None, False),
    ("Parameter ", "a tensor of the checkpoint is not in the model", None, True),
    ("Scheduler(", "scheduler set-up", None, True),
    ("Launch DP", "a data-parallel replica starts on its GPU", None, True),
    ("Chunked prefix cache is turned on", "prefix cache of MLA models", None, True),
    ("MLA optimization is turned on", "MLA", None, True),
    ("Init torch", "distributed", None, True),
    ("Using sliding window", "pool", None, True),
    ("Endpoint '/", "a deprecated endpoint was called", None, False),
    ("Cache flushed successfully", "the prefix cache was flushed", None, False),
    ("Cache not flushed because", "the prefix cache is in use", None, False),
    ("KV cache pool is full. Retract", "requests went back to the queue", None, False),
    ("retract_decode", "a request was aborted for memory", None, False),
    ("LONG GARBAGE COLLECTION DETECTED", "Python garbage collection", None, False),
    ("Switch adaptive runtime state", "adaptive speculation", None, False),
    ("ReqTimeStats(", "times of one request", None, False),
    ("Receive: obj=", "request logging", None, False),
    ("Finish: obj=", "request logging", None, False),
    ("Abort ", "a request was aborted", None, False),
    ("[http_server] Error: Request is disconnected", "a client went away", None, False),
    ("Received output for rid=", "an aborted request's last output", None, False),
    ("Health check failed", "no answer in time", None, False),
    ("kill_process_tree called", "the launcher ends its children", None, False),
    ("Sleeping 5 seconds before crash diagnostics", "crash diagnostics", None, False),
    ("No live scheduler processes found", "crash diagnostics", None, False),
    ("port ", "a port inside is waited for", None, True),
    ("Request ", "a request was refused", None, False),
    ("Input length", "a request was refused", None, False),
    ("Gracefully exiting", "a deliberate stop waits for running requests", None, False),
)

SGLANG_KNOWN = compile_rows(
    row("known", E, needle, None, meaning, phase=phase, boot=boot)
    for needle, meaning, phase, boot in _KNOWN
)
