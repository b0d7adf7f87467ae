"""Which profile the console opens with, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qwen_tui_profiles.profile import EngineKind, EngineMode
from qwen_tui_profiles.text import Text, t

if TYPE_CHECKING:
    from qwen_tui.services.console import GpuView, ProfileList
    from qwen_tui_profiles.profile import EngineProfile

__all__ = ["choose"]

DEMO = "demo-speed"


def choose(
    profiles: ProfileList, gpu: GpuView, remembered: str | None
) -> tuple[EngineProfile | None, Text | None]:
    """Return the profile to select, and the reason where the user did not choose it.

    The one that was selected last, if this machine can run it; without a usable GPU the simulated
    one; else the first real one.
    """
    last = profiles.find(remembered)
    if last is not None and (gpu.gpus or not last.needs_gpu):
        return last, None
    if not gpu.gpus:
        demo = profiles.find(DEMO)
        if demo is not None:
            return demo, t(
                "No usable GPU here: {profile}, a simulated engine, is selected.", profile=DEMO
            )
    real = [p for p in profiles.profiles if p.engine is not EngineKind.DEMO]
    first = next((p for p in real if p.mode is EngineMode.SPEED), None)
    return first or (profiles.profiles[0] if profiles.profiles else None), None
