"""The console's words for states, phases, modes and engines: word, glyph and colour together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qwen_tui.services.snapshots import ServerState
from qwen_tui.services.words import MODES, STATE_HEADS
from qwen_tui.ui.glyphs import glyphs
from qwen_tui_profiles.text import Text, t, tr

if TYPE_CHECKING:
    from qwen_tui.ui.state import View
    from qwen_tui_profiles.profile import EngineProfile

__all__ = ["MODES", "PHASES", "engine_words", "profile_engine", "state_mark", "state_style"]

STYLES: dict[ServerState, str] = {
    ServerState.STOPPED: "$foreground-muted",
    ServerState.STARTING: "$warning",
    ServerState.RUNNING: "$success",
    ServerState.STOPPING: "$warning",
    ServerState.EXITED: "$warning",
    ServerState.FATAL: "$error",
    ServerState.UNREACHABLE: "$error",
}

# In boot order, as qwen_tui_diagnostics.enginelog.PHASES (which costs too much to import before
# the first paint).
PHASES: dict[str, Text] = {
    "args": t("arguments"),
    "distributed": t("distributed"),
    "load_weights": t("weights"),
    "load_draft": t("draft weights"),
    "state_pool": t("state pool"),
    "kv_pool": t("KV pool"),
    "graph_capture": t("graphs"),
    "tree_cache": t("prefix cache"),
    "warmup": t("warm-up"),
    "ready": t("ready"),
    "serving": t("serving"),
    "stopping": t("stopping"),
}

ENGINES = {
    "sglang": "SGLang",
    "vllm": "vLLM",
    "smg": "SGLang router",
    "sgl_router": "SGLang router",
    "litellm": "LiteLLM",
}
"""Names of what answers: engines, and what stands in front of them."""


def state_mark(state: ServerState) -> str:
    """Return glyph and word of a server state."""
    glyph: str = getattr(
        glyphs(), "fail" if state is ServerState.FATAL else state.value, glyphs().unreachable
    )
    return f"{glyph} {tr(STATE_HEADS[state])}"


def state_style(state: ServerState) -> str:
    """Return the colour of a server state."""
    return STYLES[state]


def engine_words(view: View) -> str:
    """Name the engine that is shown, with its version where it is known."""
    if view.simulated:
        return tr(t("simulated engine"))
    engine = view.server.engine if view.alive else None
    if engine is None and view.selected is not None:
        engine = view.selected.engine.value
    if engine is None:
        return ""
    name = ENGINES.get(engine, engine)
    version = view.server.engine_version if view.alive else None
    return f"{name} {version}" if version else name


def profile_engine(profile: EngineProfile) -> str:
    """Name the engine that a profile launches."""
    if profile.simulated:
        return tr(t("simulated engine"))
    return ENGINES.get(profile.engine.value, profile.engine.value)
