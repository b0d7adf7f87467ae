"""The table of collectors: which module gathers which facts, within which time.

Everything that can hang (a dead NFS mount, a card off the bus, a tool that waits) runs in a child
process that can be killed, so a collector's limit is real.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from qwen_tui_diagnostics.facts import Absence
from qwen_tui_diagnostics.result import SkipReason
from qwen_tui_profiles.text import t

if TYPE_CHECKING:
    from collections.abc import Callable

    from qwen_tui_diagnostics.context import Context
    from qwen_tui_profiles.text import Text

    Answer = dict[str, Any]
    """What a child prints for a collector: ``{name, values, absent, raw, ms}``."""

__all__ = ["COLLECTORS", "Collector"]

NVML_LIBRARY = "libnvidia-ml.so.1"
CODE_LIBRARY_NOT_FOUND = 12


def answer(name: str, values: dict[str, Any], absent: dict[str, Any]) -> Answer:
    """Return the answer of a collector that needs no child to give it."""
    return {"name": name, "values": values, "absent": absent, "raw": {}, "ms": 0.0}


def _no_bench(context: Context) -> Answer | None:
    if context.bench != "off":
        return None
    return answer("bench", {}, {"bench": _absence(SkipReason.DISABLED, t("--bench off"))})


def _no_cuda_probe(context: Context) -> Answer | None:
    if context.cuda_probe:
        return None
    return answer("torch", {}, {"torch": _absence(SkipReason.DISABLED, t("needs --cuda-probe"))})


def _not_asked(context: Context) -> Answer | None:
    if context.ask_engine:
        return None
    return answer("asked", {}, {"asked": _absence(SkipReason.DISABLED, t("needs --ask-engine"))})


def _no_nvml(context: Context) -> Answer | None:
    """Without the driver's library there is nothing that a child could ask."""
    del context
    try:
        ctypes.CDLL(NVML_LIBRARY)
    except OSError:
        absence = _absence(SkipReason.NO_TOOL, t("{library} was not found", library=NVML_LIBRARY))
        return answer(
            "gpu",
            {"gpu": {"nvml_code": CODE_LIBRARY_NOT_FOUND}},
            dict.fromkeys(("gpu.devices", "gpu.driver_version", "gpu.cuda_version"), absence),
        )
    return None


def _absence(reason: SkipReason, detail: Text) -> dict[str, object]:
    return Absence(reason, detail).as_json()


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
    known: Callable[[Context], Answer | None] | None = None
    """Answers in the parent where no child is needed; ``None`` = ask the child."""


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
    Collector("gpu", "gpu", 12, child="gpu", known=_no_nvml),
    Collector("torch", "torch_probe", 65, child="torch", known=_no_cuda_probe),
    Collector("asked", "ask_engine", 65, child="asked", known=_not_asked),
    # For --raw only; no judge reads it.
    Collector("raw", "raw", 45, child="raw"),
    # Alone and last: whatever else runs would show in the figures.
    Collector("bench", "bench", 60, child="bench", last=True, known=_no_bench),
)
