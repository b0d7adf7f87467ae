"""What a swap would mean, before anybody confirms it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from qwen_tui.services.prelaunch import preflight
from qwen_tui_profiles.compare import compare

if TYPE_CHECKING:
    from collections.abc import Mapping

    from qwen_tui.services.control import ServerControl
    from qwen_tui.services.history import Durations
    from qwen_tui.services.paths import Paths
    from qwen_tui.services.snapshots import ServerSnapshot
    from qwen_tui.services.vram import MemoryProbe
    from qwen_tui_profiles.compare import Change
    from qwen_tui_profiles.findings import Finding
    from qwen_tui_profiles.profile import EngineProfile

__all__ = ["SwapCard", "make_card"]


@dataclass(frozen=True, slots=True)
class SwapCard:
    """What changes, what it costs, and what stands in the way."""

    before: str | None
    target: str
    changes: tuple[Change, ...] = ()
    """What differs, with what follows from it."""
    findings: tuple[Finding, ...] = ()
    """What the rules and the plan say about the target; errors stop the swap."""
    limits: Mapping[str, Any] = field(default_factory=dict)
    """``context_usable`` and ``max_running_requests`` as they are now."""
    predicted: Mapping[str, Any] = field(default_factory=dict)
    """The same, and ``kv_tokens``, on the other side; empty = it cannot be predicted."""
    last_limits: Mapping[str, Any] = field(default_factory=dict)
    """What the target got when it last ran here; empty = it never did."""
    down: Durations | None = None
    """How long nothing served in earlier swaps to the target."""
    boot: Durations | None = None
    """How long its boots took, for when there was no swap yet."""
    in_flight: int | None = None
    """Requests that run or wait now; ``None`` = the server does not tell."""

    def as_json(self) -> dict[str, Any]:
        """Return the card with plain values, in English."""
        return {
            "before": self.before,
            "target": self.target,
            "changes": [
                {
                    "key": c.key,
                    "before": c.before,
                    "after": c.after,
                    "consequence": None if c.consequence is None else str(c.consequence),
                    "source": c.source,
                }
                for c in self.changes
            ],
            "findings": [f.as_json() for f in self.findings],
            "limits": dict(self.limits),
            "predicted": dict(self.predicted),
            "last_limits": dict(self.last_limits),
            "down_s": None if self.down is None else round(self.down.median_s, 1),
            "boot_s": None if self.boot is None else round(self.boot.median_s, 1),
            "in_flight": self.in_flight,
        }


async def make_card(
    control: ServerControl, target: EngineProfile, paths: Paths, memory: MemoryProbe
) -> SwapCard:
    """Collect the card; nothing is changed.

    Raises:
        EngineError: the target has no engine here.
        LaunchError: the target's model is missing.
    """
    from qwen_tui.services.launch import find_engine

    now = await control.snapshot()
    running = control.launched_profile() if now.pid is not None else None
    if running is not None:
        target = control.at_same_address(target)
    engine = find_engine(target, paths)
    flight = await preflight(
        target,
        paths,
        memory,
        engine_version=engine.version,
        own_server_runs=running is not None,
    )
    record = control.record
    last = control.history.boots(profile=target.name, limit=1)
    return SwapCard(
        before=None if running is None else running.name,
        target=target.name,
        changes=() if running is None else compare(running, target).changes,
        findings=flight.findings,
        limits={} if record is None or running is None else _now(record.limits, now),
        predicted=flight.prediction,
        last_limits=_limits(last[0].facts) if last and last[0].ready_s is not None else {},
        down=control.history.down_seconds(target.name),
        boot=control.history.ready_seconds(target.name),
        in_flight=await control.in_flight() if running is not None else None,
    )


def _now(limits: Mapping[str, Any], now: ServerSnapshot) -> dict[str, Any]:
    """Return what the server has: what its record kept, and the pool that its log names."""
    facts = {} if now.report is None else now.report.facts
    return {"kv_tokens": facts.get("kv_tokens"), **limits}


def _limits(facts: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "kv_tokens": facts.get("kv_tokens"),
        "context_len": facts.get("context_len"),
        "max_running_requests": facts.get("max_running_requests_effective"),
    }
