"""The question that a plan answers."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING

from qwen_tui_profiles.profile import EngineKind

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from qwen_tui_profiles.plan.calibrate import Calibration
    from qwen_tui_profiles.plan.headers import StoredSizes
    from qwen_tui_profiles.text import Text

__all__ = ["PlanRequest"]


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """What to plan for."""

    args: Sequence[str]
    """Engine flags as typed, with or without the model."""
    config: Mapping[str, object]
    """The checkpoint's parsed ``config.json``."""
    engine: EngineKind = EngineKind.SGLANG
    engine_version: str | None = None
    """None = the newest release that the planner knows."""
    stored: StoredSizes | None = None
    """Sizes from the headers; None = from the dimensions."""
    env: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    free_gib: float | None = None
    """As printed at ``Load weight begin. avail mem``."""
    live_free_gib: float | None = None
    """Free on the card before the launch."""
    total_gib: float | None = None
    card: int | None = None
    """Compute capability of the card, times ten; the arithmetic needs it not, rules do."""
    weights_gib: float | None = None
    """``mem usage`` of the target in an earlier boot, instead of a computed size."""
    draft_gib: float | None = None
    published_gib: float | None = None
    """``mem usage`` of the target in somebody else's boot of the same release: better than the
    dimensions, worse than a boot here."""
    published_source: Text | str = ""
    """Where that was printed."""
    kv_memory_gib: float | None = None
    """vLLM: ``Available KV cache memory`` of an earlier boot."""
    host_available_gib: float | None = None
    calibration: Calibration | None = None
    want_context: int | None = None
    """Solve backwards: tokens that one request should have."""
    want_requests: int | None = None
    """Solve backwards: requests that should run at once."""
    price_knobs: bool = True
