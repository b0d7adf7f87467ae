"""Checks of the model folder: the cheap half; `qwen-tui verify` does the rest."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from qwen_tui_diagnostics.check import Check, always, failed, fix, not_applicable, ok, warned
from qwen_tui_diagnostics.checks.units import gb, listed
from qwen_tui_profiles.text import t

if TYPE_CHECKING:
    from qwen_tui_diagnostics.context import Target
    from qwen_tui_diagnostics.facts import Facts
    from qwen_tui_diagnostics.result import Remedy, Verdict
    from qwen_tui_profiles.text import Text

__all__ = ["CHECKS"]


def _has_model(target: Target) -> Text | None:
    return None if target.model_path else t("the profile names no local model folder")


def _there(facts: Facts, target: Target) -> Text | None:
    return None if facts.flag("model.exists") else t("the folder is not there")


def _finish(target: Target) -> Remedy:
    return fix(t("finish the download"), f"qwen-tui download {target.repo or 'REPO'}")


def _folder(facts: Facts, target: Target) -> Verdict:
    path = facts.text("model.path")
    if not facts.flag("model.exists"):
        commands = [f"qwen-tui download {target.repo}"] if target.repo else []
        if target.profile is not None:
            commands.append(f"qwen-tui profiles edit {target.profile}")
        return failed(
            t("{path} is not there", path=path),
            expected=t("the model's folder"),
            consequence=t("the engine stops at start, or downloads the model itself"),
            remedy=fix(t("download the model, or correct the path"), *commands),
        )
    shards, size = facts.integer("model.shards"), facts.integer("model.shard_bytes")
    shown = t("{path}: {count} shards, {size}", path=path, count=shards, size=gb(size))
    dangling = facts.texts("model.dangling") if facts.has("model.dangling") else ()
    if dangling and target.reads_weights:
        return failed(
            t("{path}: links to files that are gone: {names}", path=path, names=listed(dangling)),
            shown,
            expected=t("every shard"),
            consequence=t("the engine stops when it opens one"),
            remedy=_finish(target),
        )
    if shards == 0 and not target.reads_weights:
        return ok(t("{path}: no weights, and --load-format dummy reads none", path=path))
    if shards == 0:
        return failed(
            shown,
            expected=t("*.safetensors files"),
            consequence=t("the engine finds no weights"),
            remedy=_finish(target),
        )
    return ok(shown)


def _index(facts: Facts, target: Target) -> Verdict:
    partial = facts.texts("model.partial")
    if not target.reads_weights:
        return not_applicable(t("--load-format dummy reads no weights"))
    if not facts.flag("model.indexed"):
        count = facts.integer("model.shards")
        if count == 0:
            return not_applicable(t("there are no shards"))
        if count > 1:
            return warned(
                t("{count} shards and no index", count=count),
                expected=t("model.safetensors.index.json"),
                consequence=t("a missing shard shows only when its tensors are asked for"),
                remedy=_finish(target),
            )
        if not partial:
            return ok(t("one shard, no index needed"))
        return _left_over(facts)
    missing = facts.integer("model.missing_count")
    if missing:
        return failed(
            t("{count} of {all} shards are missing", count=missing,
              all=facts.integer("model.indexed_shards")),
            t("missing: {names}", names=listed(facts.texts("model.missing"))),
            expected=t("every shard that the index names"),
            consequence=t("loading stops at the missing shard, minutes after the start"),
            remedy=_finish(target),
        )  # fmt: skip
    if partial:
        return _left_over(facts)
    return ok(t("all {count} shards of the index are there",
                count=facts.integer("model.indexed_shards")))  # fmt: skip


def _left_over(facts: Facts) -> Verdict:
    folder = shlex.quote(facts.text("model.path"))
    return warned(
        t("left over from a broken download: {names}", names=listed(facts.texts("model.partial"))),
        expected=t("no unfinished files"),
        consequence=t("they take room and are never resumed"),
        remedy=fix(
            t("delete them once the download is complete"), f"find {folder} -name '*.incomplete'"
        ),
    )


def _config(facts: Facts, target: Target) -> Verdict:
    config = facts.at("model.config")
    kind = config.text("model_type")
    classes = config.texts("architectures") if config.has("architectures") else ()
    if not classes:
        return failed(
            t("config.json names no architecture"),
            expected=t("architectures"),
            consequence=t("the engine does not know which model to build"),
            remedy=fix(t("download config.json again"), f"qwen-tui verify {target.model_path}"),
        )
    return ok(t("{kind}, {classes}", kind=kind, classes=listed(classes)))


def _tokenizer(facts: Facts, target: Target) -> Verdict:
    if facts.flag("model.tokenizer"):
        return ok(t("tokenizer files are there"))
    return failed(
        t("no tokenizer file in the folder"),
        expected=t("tokenizer.json, or vocab.json with merges"),
        consequence=t("an empty tokenizer turns every prompt into nothing, and fails far later"),
        remedy=_finish(target),
    )


_EXPLAINED = ("model.folder",)

CHECKS: tuple[Check, ...] = (
    Check(
        "model.folder", t("model folder"), _folder, ("model",),
        t("a wrong path or half a download costs a whole boot before it shows"),
        required=always, wanted=_has_model,
    ),
    Check(
        "model.index", t("all shards are there"), _index, ("model",),
        t("an index that names a file that is not there stops loading in the middle"),
        required=always, wanted=_has_model, applies=_there, explained_by=_EXPLAINED,
    ),
    Check(
        "model.config", t("model configuration"), _config, ("model",),
        t("without config.json no engine knows what to build"),
        required=always, wanted=_has_model, applies=_there, explained_by=_EXPLAINED,
    ),
    Check(
        "model.tokenizer", t("tokenizer"), _tokenizer, ("model",),
        t("an absent tokenizer encodes everything to nothing"),
        required=always, wanted=_has_model, applies=_there, explained_by=_EXPLAINED,
    ),
)  # fmt: skip
