"""When a launch compiles kernels, and how bad it is when it cannot."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qwen_tui_diagnostics.check import with_gpu
from qwen_tui_diagnostics.checks.devices import selected
from qwen_tui_diagnostics.context import flag_value
from qwen_tui_diagnostics.result import Status, Verdict
from qwen_tui_profiles.text import Text, t

if TYPE_CHECKING:
    from qwen_tui_diagnostics.context import Target
    from qwen_tui_diagnostics.facts import Facts
    from qwen_tui_diagnostics.result import Remedy

__all__ = ["compiles", "judged_launch", "newest_capability", "prebuilt", "problem"]

_PREBUILT_BACKENDS = frozenset({"triton", "fa3", "torch_native"})
"""Attention backends whose kernels come compiled, or are compiled by Triton without nvcc."""


def compiles(target: Target) -> Text | None:
    """Apply to launches that compile kernels with the tools of this machine."""
    if target.image is not None:
        return t("the container brings its own tool chain")
    return with_gpu(target)


def judged_launch(target: Target) -> bool:
    """Required when a profile that uses a GPU is judged; a machine alone may lack a compiler."""
    return target.needs_gpu and target.profile is not None


def prebuilt(facts: Facts) -> bool:
    """Tell whether FlashInfer's kernels are installed ready-made in the engine's environment."""
    return any(
        facts.has(f"engine.installs.0.packages.{name}")
        for name in ("flashinfer-jit-cache", "flashinfer-cubin")
    )


def newest_capability(facts: Facts, target: Target) -> tuple[int, ...]:
    """Return the highest compute capability among the launch's cards."""
    return max(device.integers("compute_capability") for device in selected(facts, target))


def problem(
    target: Target,
    observed: Text,
    *detail: Text,
    expected: Text,
    consequence: Text,
    remedy: Remedy,
) -> Verdict:
    """Return FAIL where the launch certainly compiles, else WARN."""
    backend = flag_value(target.argv, "--attention-backend")
    certain = target.profile is not None and backend not in _PREBUILT_BACKENDS
    status = Status.FAIL if certain else Status.WARN
    return Verdict(status, observed, expected, detail, consequence, remedy)
