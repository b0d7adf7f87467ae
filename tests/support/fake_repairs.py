"""Repairs that are noted, not made."""

from __future__ import annotations

from qwen_tui.services.doctor_fixes import Repaired
from qwen_tui_diagnostics.fixes import Fixes
from qwen_tui_profiles.text import t

BY_HAND = Fixes(
    folders=(),
    env=(),
    port=None,
    profile="demo-speed",
    jit_caches=(),
    by_hand=(("driver.min", ("sudo apt install nvidia-driver-580-open",)),),
)
ALL = Fixes(
    folders=("/models/new",),
    env=(("HF_HUB_DISABLE_XET", "1"),),
    port=30001,
    profile="demo-speed",
    jit_caches=("/home/me/.cache/flashinfer/0.5.0", "/home/me/.cache/flashinfer/0.5.1"),
    by_hand=BY_HAND.by_hand,
)


class FakeRepairs:
    """What a test says can be repaired."""

    def __init__(self, calls: list[str]) -> None:
        self.calls = calls
        self.planned: Fixes | None = BY_HAND
        self.copy: str | None = None

    def fixes(self) -> Fixes | None:
        return self.planned

    async def repair(self, fixes: Fixes) -> Repaired:
        self.calls.append("repair")
        done = tuple(t("created {path}", path=path) for path in fixes.folders)
        return Repaired(done, profile=self.copy)

    async def delete(self, cache: str) -> Repaired:
        self.calls.append(f"delete {cache}")
        return Repaired((t("deleted {path}", path=cache),))
