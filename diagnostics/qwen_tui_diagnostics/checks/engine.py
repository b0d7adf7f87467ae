"""Checks of the engine's environment."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qwen_tui_diagnostics.check import Check, always, failed, fix, ok, warned
from qwen_tui_profiles.text import t

if TYPE_CHECKING:
    from qwen_tui_diagnostics.context import Target
    from qwen_tui_diagnostics.facts import Facts
    from qwen_tui_diagnostics.result import Verdict
    from qwen_tui_profiles.text import Text

__all__ = ["CHECKS"]


def _real_engine(target: Target) -> Text | None:
    if target.simulated:
        return t("the simulated engine is part of qwen-tui")
    return t("the profile runs in a container") if target.image else None


def _found(facts: Facts, target: Target) -> Verdict:
    engine = target.engine or "sglang"
    if facts.has("engine.named_missing"):
        return failed(
            t("{path} is not an interpreter", path=facts.text("engine.named_missing")),
            expected=t("a Python with {engine} installed", engine=engine),
            consequence=t("the launch is refused"),
            remedy=fix(t("correct the interpreter in the profile, or pass --python")),
        )
    installs = facts.rows("engine.installs")
    looked = facts.texts("engine.looked_at")
    if not installs:
        return failed(
            t("no {engine} in {count} interpreters", engine=engine, count=len(looked)),
            *(t("looked in {path}", path=path) for path in looked),
            expected=t("a Python with {engine} installed", engine=engine),
            consequence=t("there is nothing to launch"),
            remedy=fix(
                t("install it into an environment of its own, or name yours with --python"),
                f"qwen-tui engine install {engine}",
            ),
        )
    lines = [
        t(
            "{engine} {version} in {path}",
            engine=install.text("engine"),
            version=install.text(f"packages.{install.text('engine')}"),
            path=install.text("interpreter"),
        )
        for install in installs
    ]
    if len(lines) > 1:
        return warned(
            lines[0],
            *(t("also: {line}", line=line) for line in lines[1:]),
            expected=t("one engine"),
            consequence=t("the first is used; another may be meant"),
            remedy=fix(t("name the interpreter in the profile, or pass --python")),
        )
    return ok(lines[0])


CHECKS: tuple[Check, ...] = (
    Check(
        "engine.found",
        t("engine is installed"),
        _found,
        ("engine",),
        t("the engine lives in an interpreter of its own; it is found by metadata, never imported"),
        required=always,
        wanted=_real_engine,
    ),
)
