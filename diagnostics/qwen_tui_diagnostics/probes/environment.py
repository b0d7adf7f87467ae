"""Environment variables that change a launch. Only the names in the table are ever read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qwen_tui_profiles.foreign import clean, redact

if TYPE_CHECKING:
    from qwen_tui_diagnostics.context import Context
    from qwen_tui_diagnostics.facts import Gathered

__all__ = ["SECRET_VARIABLES", "VARIABLES", "collect"]

SECRET_VARIABLES = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN")
"""Only their length is kept."""

VARIABLES = (
    # the Hub
    "HF_ENDPOINT", "HF_HOME", "HF_HUB_CACHE", "HF_HUB_DISABLE_XET", "HF_HUB_ENABLE_HF_TRANSFER",
    "HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_XET_HIGH_PERFORMANCE",
    # proxies and certificates
    "http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY",
    "no_proxy", "NO_PROXY", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE",
    # which GPUs
    "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "NVIDIA_VISIBLE_DEVICES",
    # compilers
    "CUDA_HOME", "CUDA_PATH", "CUDACXX", "FLASHINFER_CUDA_ARCH_LIST", "TORCH_CUDA_ARCH_LIST",
    "CC", "CXX", "NVCC_CCBIN", "TRITON_PTXAS_PATH", "MAX_JOBS", "FLASHINFER_WORKSPACE_BASE",
    "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "TMPDIR", "FLASHINFER_EXTRA_CUDAFLAGS",
    "FLASHINFER_EXTRA_LDFLAGS",
    # behaviour of the engine
    "FLASHINFER_DISABLE_VERSION_CHECK", "SGLANG_SKIP_SGL_KERNEL_VERSION_CHECK",
    "PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF", "CUDA_LAUNCH_BLOCKING",
    "NCCL_P2P_DISABLE", "PYTHONNOUSERSITE", "PYTHONPATH", "SGL_FORCE_SHUTDOWN",
    # the terminal
    "NO_COLOR", "TERM", "COLORTERM", "LANG", "LC_ALL", "PYTHONUTF8",
)  # fmt: skip


def collect(context: Context, found: Gathered) -> None:
    """Gather ``env.set.NAME`` for the variables that are set for the engine.

    ``env.unset`` lists those that are not set, so that "not set" is a fact and not a gap;
    ``env.from_profile`` those that the profile adds.
    """
    effective = context.child_env
    for name in VARIABLES:
        if name in effective:
            # An empty variable is set: some programs take that for "no".
            found.put(f"env.set.{name}", redact(clean(effective[name])))
    for name in SECRET_VARIABLES:
        if name in effective:
            found.put(f"env.secret_length.{name}", len(effective[name]))
    found.put("env.unset", [name for name in VARIABLES if name not in effective])
    found.put("env.from_profile", sorted(set(context.target.env) & set(VARIABLES)))
