"""Rules: what is known to go wrong, as records, applied to any launch command."""

from __future__ import annotations

from qwen_tui_profiles.rules.data import RULES
from qwen_tui_profiles.rules.lint import Judgement, assumed_version, judge
from qwen_tui_profiles.rules.models import ModelFacts, model_facts
from qwen_tui_profiles.rules.profiles import command_of, judge_profile
from qwen_tui_profiles.rules.rule import Rule

__all__ = [
    "RULES",
    "Judgement",
    "ModelFacts",
    "Rule",
    "assumed_version",
    "command_of",
    "judge",
    "judge_profile",
    "model_facts",
]
