"""Words for people of what documents and records name by a fixed English word."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qwen_tui.services.state import ServerState
from qwen_tui_profiles.profile import EngineMode
from qwen_tui_profiles.text import Text, t

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "BOOT_STATES",
    "MODES",
    "OUTCOMES",
    "PHASES",
    "STATE_HEADS",
    "boot_state",
    "phase_words",
    "swap_outcome",
]

STATE_HEADS: Mapping[ServerState, Text] = {
    ServerState.STOPPED: t("STOPPED"),
    ServerState.STARTING: t("STARTING"),
    ServerState.RUNNING: t("RUNNING"),
    ServerState.STOPPING: t("STOPPING"),
    ServerState.EXITED: t("EXITED"),
    ServerState.FATAL: t("FATAL"),
    ServerState.UNREACHABLE: t("UNREACHABLE"),
}
"""The state as a heading."""

BOOT_STATES: Mapping[ServerState, Text] = {
    ServerState.STOPPED: t("stopped"),
    ServerState.STARTING: t("starting"),
    ServerState.RUNNING: t("running"),
    ServerState.STOPPING: t("stopping"),
    ServerState.EXITED: t("exited"),
    ServerState.FATAL: t("fatal"),
    ServerState.UNREACHABLE: t("unreachable"),
}
"""The state in a line about an earlier boot."""

OUTCOMES: Mapping[str, Text] = {
    "swapped": t("swapped"),
    "cancelled": t("cancelled"),
    "rolled back": t("rolled back"),
    "failed": t("failed"),
}
"""How a swap ended, by :class:`~qwen_tui.services.swap.SwapOutcome`."""


MODES: Mapping[EngineMode, Text] = {
    EngineMode.SPEED: t("speed"),
    EngineMode.CONTEXT: t("context"),
}
"""What a profile is tuned for."""

PHASES: Mapping[str, Text] = {
    "args": t("arguments"),
    "distributed": t("process group"),
    "load_weights": t("loading weights"),
    "load_draft": t("loading the draft model"),
    "state_pool": t("state slots"),
    "kv_pool": t("KV pool"),
    "graph_capture": t("capturing CUDA graphs"),
    "tree_cache": t("prefix cache"),
    "warmup": t("warm-up"),
    "ready": t("ready"),
    "serving": t("serving"),
    "stopping": t("stopping"),
}
"""The phases of a boot in a line of text."""


def phase_words(phase: str) -> Text:
    """Return the words for a boot phase; one that we do not know stays as it is."""
    return PHASES.get(phase, t("{word}", word=phase))


def boot_state(stored: str) -> Text:
    """Return the word for a state as the history has it; one of a newer version stays as it is."""
    known = next((state for state in ServerState if state.value == stored), None)
    return t("{word}", word=stored) if known is None else BOOT_STATES[known]


def swap_outcome(stored: str) -> Text:
    """Return the word for an outcome as the history has it."""
    return OUTCOMES.get(stored, t("{word}", word=stored))
