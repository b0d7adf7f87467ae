"""Checks of the model folder: the cheap half; `qwen-tui verify` does the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qwen_tui_diagnostics.check import Check, always, failed, fix, ok
from qwen_tui_diagnostics.checks.units import gb, listed
from qwen_tui_profiles.text import t

if TYPE_CHECKING:
    from qwen_tui_diagnostics.context import Target
    from qwen_tui_diagnostics.facts import Facts
    from qwen_tui_diagnostics.result import Verdict
    from qwen_tui_profiles.text import Text

__all__ = ["CHECKS"]


def _has_model(target: Target) -> Text | None:
    return None if target.model_path else t("the profile names no local model folder")


def _folder(facts: Facts, target: Target) -> Verdict:
    path = facts.text("model.path")
    if not facts.flag("model.exists"):
        command = f"qwen-tui download {target.repo}" if target.repo else "qwen-tui profiles edit"
        return failed(
            t("{path} is not there", path=path),
            expected=t("the model's folder"),
            consequence=t("the engine stops at start, or downloads the model itself"),
            remedy=fix(t("download the model, or correct the path in the profile"), command),
        )
    shards = facts.integer("model.shards")
    size = facts.integer("model.shard_bytes")
    shown = t("{path}: {count} shards, {size}", path=path, count=shards, size=gb(size))
    if shards == 0:
        return failed(
            shown,
            expected=t("*.safetensors files"),
            consequence=t("the engine finds no weights"),
            remedy=fix(t("finish the download"), f"qwen-tui download {target.repo or 'REPO'}"),
        )
    if facts.flag("model.indexed") and facts.integer("model.missing_count"):
        missing = facts.texts("model.missing")
        return failed(
            shown,
            t("missing: {names}", names=listed(missing)),
            expected=t("every shard that the index names"),
            consequence=t("loading stops at the missing shard, minutes after the start"),
            remedy=fix(t("finish the download"), f"qwen-tui download {target.repo or 'REPO'}"),
        )
    return ok(shown)


CHECKS: tuple[Check, ...] = (
    Check(
        "model.folder",
        t("model folder"),
        _folder,
        ("model",),
        t("a wrong path or half a download costs a whole boot before it shows"),
        required=always,
        wanted=_has_model,
    ),
)
