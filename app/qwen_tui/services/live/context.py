"""What others know of a server that its own metrics do not tell."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from qwen_tui.services.snapshots import GpuSnapshot
    from qwen_tui_profiles.findings import Clamp

__all__ = ["LiveContext"]


@dataclass(frozen=True, slots=True)
class LiveContext:
    """Given to the poller by whoever has it; every part may be empty."""

    gpus: tuple[GpuSnapshot, ...] = ()
    """The newest samples of the GPUs that the server runs on."""
    clamps: tuple[Clamp, ...] = ()
    """Asked → got of this boot: their remedies carry the price of a change."""
    max_running_requests: int | None = None
    """As the log of this boot says; vLLM itself does not tell while it runs."""
