"""The groups of checks, in the order of the report; they cost nothing to import."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qwen_tui_profiles.text import t

if TYPE_CHECKING:
    from qwen_tui_profiles.text import Text

__all__ = ["GROUPS"]

GROUPS: dict[str, Text] = {
    "driver": t("Driver"),
    "gpu": t("GPU"),
    "cuda": t("CUDA tool chain"),
    "sys": t("System"),
    "disk": t("Disk"),
    "model": t("Model"),
    "engine": t("Engine"),
    "net": t("Network"),
    "hub": t("Hub"),
}
