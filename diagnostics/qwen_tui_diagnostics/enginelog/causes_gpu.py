"""Causes of death: kernels, GPU memory, quantisation, weights."""

from __future__ import annotations

from qwen_tui_diagnostics.enginelog.causes import Cause, cause
from qwen_tui_profiles.text import t

__all__ = ["GPU_CAUSES"]

_EXC = r"^(?:[\w.]+\.)?"  # an exception's own line starts with its type
_OOM_FACTS = {"wanted": "oom_wanted_mib", "free": "oom_free_mib"}
_KERNEL = t(
    "No memory setting helps: choose another backend or data type for this GPU "
    "(--attention-backend, --kv-cache-dtype, --fp4-gemm-backend), or a build made for it."
)
_WEIGHTS = t(
    "The files are incomplete or not what they say: verify the checkpoint and download what is "
    "missing again."
)
_QUANT = t(
    "Use a checkpoint in a format that this GPU and engine version support, or a newer engine."
)

GPU_CAUSES: tuple[Cause, ...] = (
    cause(
        "kernel_unsupported",
        "out of resource: shared memory",
        r"out of resource: shared memory, Required: (?P<required>\d+), Hardware limit: "
        r"(?P<limit>\d+)",
        t("A Triton kernel needs more shared memory than this GPU has."),
        _KERNEL,
        facts={"required": "smem_required", "limit": "smem_limit"},
    ),
    cause(
        "kernel_unsupported",
        "no kernel image is available",
        r"no kernel image is available for execution",
        t("The build has no kernel for this GPU."),
        _KERNEL,
    ),
    cause(
        "kernel_unsupported",
        "not supported in this architecture",
        r"type \w+ not supported in this architecture",
        t("A kernel uses a data type that this GPU does not have."),
        _KERNEL,
    ),
    cause(
        "kernel_unsupported",
        "Unsupported architecture",
        r"(?:Error|Exception)\b.*Unsupported architecture",
        t("A kernel was not made for this GPU."),
        _KERNEL,
    ),
    cause(
        "kernel_unsupported",
        "ptxas",
        r"ptxas\b.*(?:is not (?:supported|defined)|fatal)",
        t("The compiler does not know this GPU."),
        _KERNEL,
    ),
    cause(
        "kernel_unsupported",
        "requires SM",
        r"(?:Error|Exception): .*requires? SM ?\d+",
        t("A kernel needs another GPU generation."),
        _KERNEL,
    ),
    cause(
        "kernel_unsupported",
        "No valid attention backend found",
        r"No valid attention backend found for",
        t("No attention backend fits this model and GPU."),
        _KERNEL,
        engine="vllm",
    ),
    cause(
        "kernel_unsupported",
        "backends are supported on Blackwell",
        r"Only .* backends are supported on Blackwell GPUs",
        t("The attention backend does not run on this GPU."),
        _KERNEL,
        engine="sglang",
    ),
    cause(
        "cuda_oom",
        "CUDA out of memory",
        r"(?:OutOfMemoryError|RuntimeError|Exception|Error|failed): .*?CUDA out of memory"
        r"(?:(?:\.| occurred).*?Tried to allocate (?P<wanted>[\d.]+ [KMG]iB))?"
        r"(?:.*?of which (?P<free>[\d.]+ (?:bytes|[KMG]iB)) (?:is )?free)?",
        t("The GPU ran out of memory."),
        None,
        facts=_OOM_FACTS,
    ),
    cause(
        "cuda_oom",
        "out of memory",
        r"(?:Triton Error \[CUDA\]|CUDA (?:driver )?error|CUDA_ERROR_OUT_OF_MEMORY"
        r"|cudaErrorMemoryAllocation)[:,]? .*out of memory",
        t("The GPU ran out of memory."),
        None,
    ),
    cause(
        "cuda_oom",
        "allocat",
        r"RuntimeError: (?:Failed to allocate memory for|Buffer overflow when allocating memory "
        r"for)",
        t("A kernel's workspace did not fit."),
        None,
    ),
    cause(
        "quantization_unsupported",
        "uantization",
        _EXC + r"(?:\w+(?:Error|Exception): |\s*Value error, ).*"
        r"(?:Unknown quantization method|Invalid quantization method"
        r"|Quantization method specified in the model config"
        r"|quantization method \S+ is not supported"
        r"|Quantization scheme is not supported)",
        t("The engine or this GPU does not support the checkpoint's quantisation."),
        _QUANT,
    ),
    cause(
        "quantization_unsupported",
        "NVFP4 native dense GEMM backends require",
        r"NVFP4 native dense GEMM backends require",
        t("NVFP4 weights have no native kernel on this GPU."),
        t("Pass --fp4-gemm-backend marlin (weights stay 4-bit, arithmetic runs in 16-bit)."),
        engine="sglang",
    ),
    cause(
        "missing_weights",
        "Cannot find any model weights",
        r"Cannot find any model weights with",
        t("The folder holds no weights."),
        _WEIGHTS,
        phase="load_weights",
    ),
    cause(
        "missing_weights",
        "Error while deserializing header",
        r"Error while deserializing header",
        t("A weight file is cut off, or a pointer stands where weights should be."),
        _WEIGHTS,
        phase="load_weights",
    ),
    cause(
        "missing_weights",
        "were not initialized from checkpoint",
        r"weights were not initialized from checkpoint",
        t("The checkpoint lacks tensors that the model needs."),
        _WEIGHTS,
        phase="load_weights",
        engine="vllm",
    ),
    cause(
        "missing_weights",
        "There is no module or parameter named",
        r"There is no module or parameter named",
        t("The checkpoint has tensors that this model class does not know."),
        _WEIGHTS,
        phase="load_weights",
        engine="vllm",
    ),
    cause(
        "missing_weights",
        "KeyError: '",
        r"^KeyError: '(?:(?:model|mtp|language_model|visual|lm_head)\.|[\w.]*\blayers\.\d+\.)"
        r"[\w.]+'",
        t("A tensor of the checkpoint and the model's class do not fit together."),
        _WEIGHTS,
        firm=False,
        phase="load_weights",
    ),
    cause(
        "missing_weights",
        "CAS service error",
        r"CAS service error",
        t("The Hub's Xet storage refused the download."),
        t("Download first with Xet off (`qwen-tui download`), then serve the local folder."),
        phase="load_weights",
    ),
    cause(
        "missing_weights",
        "No such file or directory: ",
        r"FileNotFoundError: .*\.(?:safetensors|bin|json)'?",
        t("A file of the checkpoint is missing."),
        _WEIGHTS,
        firm=False,
    ),
)
