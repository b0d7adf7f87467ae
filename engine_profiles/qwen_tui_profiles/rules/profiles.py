"""The rules applied to a profile: what it would launch, with its overrides set apart."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from qwen_tui_profiles.cmdline import parse_words
from qwen_tui_profiles.launch import build_launch
from qwen_tui_profiles.rules.lint import judge

if TYPE_CHECKING:
    from qwen_tui_profiles.cmdline import EngineCommand
    from qwen_tui_profiles.flags import FlagTable
    from qwen_tui_profiles.profile import EngineProfile
    from qwen_tui_profiles.rules.lint import Judgement
    from qwen_tui_profiles.rules.models import ModelFacts

__all__ = ["command_of", "judge_profile"]


def command_of(profile: EngineProfile, *, version: str | None = None) -> EngineCommand:
    """Return the launch of a profile in the form that rules read.

    Args:
        profile: What would be launched.
        version: Engine version found, for the spelling of flags; ``None`` = as written.
    """
    spec = build_launch(profile, interpreter="python3", engine_version=version)
    command = parse_words(spec.argv, spec.env)
    # A container takes its variables from the client's environment, by name.
    return replace(command, env={**command.env, **spec.env})


def judge_profile(
    profile: EngineProfile,
    *,
    version: str | None = None,
    model: ModelFacts | None = None,
    card: int | None = None,
    card_gib: float | None = None,
    kv_tokens: int | None = None,
    table: FlagTable | None = None,
) -> Judgement:
    """Apply the rules to what a profile launches.

    A profile that names the build it needs is judged as if that build were there; that it is, is
    for the launch to check. Arguments as in :func:`~qwen_tui_profiles.rules.lint.judge`.
    """
    return judge(
        command_of(profile, version=version),
        version=version,
        model=model,
        card=card,
        card_gib=card_gib,
        kv_tokens=kv_tokens,
        table=table,
        fork=profile.build is not None,
        ignore=profile.ignore,
    )
