"""The table of commands: name → module and one-line help.

The help stands here, so that ``qwen-tui --help`` imports no command. The order is the help's.
"""

from __future__ import annotations

from qwen_tui_profiles.text import Text, t

__all__ = ["COMMANDS"]

COMMANDS: dict[str, tuple[str, Text]] = {
    "plan": ("plan", t("what a launch will get: pools, clamps and fit, predicted")),
    "profiles": ("profiles", t("list, show, compare, edit and import launch profiles")),
    "watch": ("watch", t("live figures as text or JSON lines")),
    "probe": ("probe", t("one streaming request, timed at the socket")),
    "up": ("up", t("launch a profile and follow its boot to the first token")),
    "down": ("down", t("stop the server")),
    "status": ("status", t("what runs, what it got, how it does")),
    "logs": ("logs", t("the engine's log")),
    "swap": ("swap", t("swap between the speed and the context profile, or to any other")),
    "doctor": ("doctor", t("what would stop a launch, before it costs a boot")),
    "explain-log": (
        "explain_log",
        t("what an engine log says: asked and got, memory, cause of death"),
    ),
    "attach": ("attach", t("watch a server that qwen-tui did not start")),
    "download": (
        "download",
        t("fetch a checkpoint with Xet off, resumable, every hash proven"),
    ),
    "verify": ("verify", t("is a checkpoint whole, and will the engine read it as it is stored")),
    "lint": ("lint", t("what is known to go wrong with a launch command")),
    "history": ("history", t("earlier boots and swaps, one in detail, two compared")),
    "web": ("web", t("the console in a browser, on this machine alone")),
}
