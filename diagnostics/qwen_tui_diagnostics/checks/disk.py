"""Checks of the folders of a launch."""

from __future__ import annotations

import errno
import os
from dataclasses import replace
from typing import TYPE_CHECKING

from qwen_tui_diagnostics.check import (
    Check,
    always,
    failed,
    fix,
    not_applicable,
    ok,
    skipped,
    warned,
)
from qwen_tui_diagnostics.checks.units import GIB, gib
from qwen_tui_diagnostics.result import SkipReason, Status
from qwen_tui_profiles.text import t

if TYPE_CHECKING:
    from collections.abc import Callable

    from qwen_tui_diagnostics.context import Target
    from qwen_tui_diagnostics.facts import Facts
    from qwen_tui_diagnostics.result import Remedy, Verdict

__all__ = ["CHECKS"]

MODEL_BYTES_27B = 20 * 10**9
SMALL_BYTES = GIB
_ORDER = (Status.FAIL, Status.WARN, Status.SKIP, Status.OK)


def worst_of(facts: Facts, judge: Callable[[Facts], Verdict]) -> Verdict:
    """Judge every folder and return the worst verdict, with a line for each of the others."""
    verdicts = [judge(entry) for entry in facts.rows("disk.paths")]
    if not verdicts:
        return not_applicable(t("the launch names no folder"))
    # A folder that the question does not concern hides nothing.
    concerned = [v for v in verdicts if v.reason is not SkipReason.NOT_APPLICABLE] or verdicts
    worst = min(concerned, key=lambda verdict: _ORDER.index(verdict.status))
    others = tuple(v.observed for v in verdicts if v is not worst and v.status is not Status.SKIP)
    return replace(worst, detail=worst.detail + others)


def _path(facts: Facts, target: Target) -> Verdict:
    def judge(entry: Facts) -> Verdict:
        path = entry.text("path")
        error = entry.integer("write_errno")
        if error == 0:
            state = t("writable") if entry.flag("exists") else t("can be created")
            return ok(t("{path}: {state}", path=path, state=state))
        roles = entry.texts("roles")
        if set(roles) <= {"model", "ple"} and entry.flag("exists") and entry.flag("readable"):
            return ok(t("{path}: readable, which is enough to serve from it", path=path))
        name = errno.errorcode.get(error, str(error))
        return failed(
            t("{path}: {reason} ({name})", path=path, reason=os.strerror(error), name=name),
            expected=t("a file can be created, written and flushed there"),
            consequence=t("the launch stops when it writes its {roles}", roles=", ".join(roles)),
            remedy=_write_remedy(error, path),
        )

    return worst_of(facts, judge)


def _write_remedy(error: int, path: str) -> Remedy:
    if error == errno.EROFS:
        return fix(t("it is mounted read-only: choose another folder, or remount it"))
    if error == errno.EDQUOT:
        return fix(t("your quota is used up: free space, or choose another folder"), "quota -s")
    if error == errno.ENOSPC:
        return fix(t("the disk is full: free space"), f"df -h {path}")
    return fix(t("make it writable for this user, or choose another folder"), f"ls -ld {path}")


def _space(facts: Facts, target: Target) -> Verdict:
    def judge(entry: Facts) -> Verdict:
        path = entry.text("path")
        available = entry.integer("space.available_bytes")
        downloads = "model" in entry.texts("roles") and not entry.flag("exists")
        need = MODEL_BYTES_27B if downloads else SMALL_BYTES
        margin = need + max(need // 20, 5 * GIB) if downloads else need
        shown = t("{path}: {available} available", path=path, available=gib(available))
        expected = t("{need}", need=gib(margin))
        if available >= margin:
            return ok(shown, expected=expected)
        consequence = t("downloads and logs end in 'no space left on device'")
        remedy = fix(t("free some space, or choose a folder on another disk"), f"df -h {path}")
        if available >= need:
            return warned(shown, expected=expected, consequence=consequence, remedy=remedy)
        return failed(shown, expected=expected, consequence=consequence, remedy=remedy)

    return worst_of(facts, judge)


def _odirect(facts: Facts, target: Target) -> Verdict:
    def judge(entry: Facts) -> Verdict:
        if not entry.has("direct"):
            absence = entry.why_absent("direct")
            return skipped(
                absence.reason, t("{path}: {why}", path=entry.text("path"), why=absence.detail)
            )
        return _bypass(entry, target)

    return worst_of(facts, judge)


def _bypass(entry: Facts, target: Target) -> Verdict:
    path = entry.text("path")
    consequence = t("PLE streaming from disk cannot start there, or reads through the page cache")
    remedy = fix(t("move the model to a local ext4 or xfs file system"))
    error = entry.integer("direct.open_errno")
    if error or entry.has("direct.read_errno"):
        number = error or entry.integer("direct.read_errno")
        shown = t("{path}: O_DIRECT is refused ({reason})", path=path, reason=os.strerror(number))
        if target.ple == "nvme":
            return failed(shown, expected=t("direct reads"), consequence=consequence, remedy=remedy)
        return warned(shown, consequence=consequence, remedy=remedy)
    resident, reads = entry.integer("direct.resident"), entry.integer("direct.reads")
    if resident <= 0.05 * reads:
        return ok(
            t("{path}: O_DIRECT bypasses the page cache ({reads} reads, {resident} cached pages)",
              path=path, reads=reads, resident=resident)
        )  # fmt: skip
    if resident >= 0.9 * reads:
        return warned(
            t("{path}: O_DIRECT is accepted but reads through the page cache", path=path),
            expected=t("no page cached by {reads} direct reads", reads=reads),
            consequence=consequence,
            remedy=remedy,
        )
    return skipped(
        SkipReason.UNSUPPORTED,
        t("{path}: {resident} of {reads} pages were cached: cannot tell", path=path,
          resident=resident, reads=reads),
    )  # fmt: skip


CHECKS: tuple[Check, ...] = (
    Check(
        "disk.path",
        t("folders can be used"),
        _path,
        ("disk",),
        t("a read-only or full folder stops the launch minutes after it began"),
        required=always,
    ),
    Check(
        "disk.space",
        t("disk space"),
        _space,
        ("disk",),
        t("the Hub client only warns about a full disk and leaves half a model"),
        required=always,
        explained_by=("disk.path",),
        evidence=("https://github.com/huggingface/huggingface_hub/issues/2742",),
    ),
    Check(
        "disk.odirect",
        t("direct reads bypass the page cache"),
        _odirect,
        ("disk",),
        t("some file systems accept O_DIRECT and read through the page cache all the same"),
        required=lambda target: target.ple == "nvme",
        evidence=("https://github.com/FlashML-org/FreeToken/issues/282",),
    ),
)
