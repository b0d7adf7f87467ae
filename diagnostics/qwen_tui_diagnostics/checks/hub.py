"""Checks of what a download from the Hub depends on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qwen_tui_diagnostics.check import Check, fix, ok, warned
from qwen_tui_profiles.text import t

if TYPE_CHECKING:
    from qwen_tui_diagnostics.context import Target
    from qwen_tui_diagnostics.facts import Facts
    from qwen_tui_diagnostics.result import Verdict
    from qwen_tui_profiles.text import Text

__all__ = ["CHECKS"]

DEFAULT_ENDPOINT = "https://huggingface.co"
TRUE_WORDS = frozenset({"1", "ON", "YES", "TRUE"})
"""What huggingface_hub takes for true, in any case (2.4.0)."""


def truthy(facts: Facts, variable: str) -> bool:
    """Tell whether a variable is set to one of the Hub's words for true."""
    path = f"env.set.{variable}"
    return facts.has(path) and facts.text(path).upper() in TRUE_WORDS


def _uses_hub(target: Target) -> Text | None:
    if target.profile is None or target.repo or target.online:
        return None
    return t("nothing is downloaded for this profile")


def _xet(facts: Facts, target: Target) -> Verdict:
    facts.flag("env.read")
    endpoint = (
        facts.text("env.set.HF_ENDPOINT").rstrip("/") if facts.has("env.set.HF_ENDPOINT") else ""
    )
    mirror = bool(endpoint) and endpoint != DEFAULT_ENDPOINT
    if truthy(facts, "HF_HUB_DISABLE_XET"):
        return ok(t("Xet is off: big files take the classic route"))
    if mirror:
        return warned(
            t("HF_ENDPOINT is {endpoint}, and Xet is on", endpoint=endpoint),
            expected=t("HF_HUB_DISABLE_XET=1 beside a mirror"),
            consequence=t("big files go to the Xet servers past the mirror: 401 or a timeout"),
            remedy=fix(
                t("set it before the download starts (`qwen-tui download` does so by itself)"),
                "export HF_HUB_DISABLE_XET=1",
                auto=True,
                docs="https://github.com/huggingface/huggingface_hub/issues/4475",
            ),
        )
    return ok(t("no mirror is set; `qwen-tui download` turns Xet off in its own process"))


CHECKS: tuple[Check, ...] = (
    Check(
        "hub.xet",
        t("mirror and Xet"),
        _xet,
        ("env",),
        t("with Xet on, big files bypass HF_ENDPOINT and end in 401 behind a mirror"),
        wanted=_uses_hub,
        evidence=("https://github.com/huggingface/huggingface_hub/issues/4475",),
    ),
)
