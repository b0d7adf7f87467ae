"""The table of collectors: which module gathers which facts, within which time.

Everything that can hang (a dead NFS mount, a card off the bus, a tool that waits) runs in a child
process that can be killed, so a collector's limit is real.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["COLLECTORS", "Collector"]


@dataclass(frozen=True, slots=True)
class Collector:
    """One source of facts."""

    name: str
    """Also the top-level name of its facts."""
    module: str
    """Below ``qwen_tui_diagnostics.probes``; its ``collect(context, found)`` fills the facts."""
    limit_s: float
    child: str = "host"
    """Collectors of one child share a process; a crash or hang takes no other child along."""
    last: bool = False
    """Starts when everything else has answered."""


COLLECTORS: tuple[Collector, ...] = (
    Collector("system", "system", 5),
    Collector("memory", "memory", 5),
    Collector("env", "environment", 5),
    Collector("topology", "topology", 5),
    Collector("driver", "driver", 8),
    Collector("rings", "rings", 5),
    Collector("port", "port", 5),
    Collector("server", "server", 5),
    Collector("disk", "disk", 15),
    Collector("model", "model_folder", 15),
    Collector("toolkit", "toolkit", 10),
    Collector("engine", "engine", 20),
    Collector("container", "container", 8),
    Collector("hub", "hub", 25),
    # The driver's library may block for ever on a lost card, or crash.
    Collector("gpu", "gpu", 12, child="gpu"),
    Collector("torch", "torch_probe", 65, child="torch"),
    # Alone and last: whatever else runs would show in the figures.
    Collector("bench", "bench", 60, child="bench", last=True),
)
