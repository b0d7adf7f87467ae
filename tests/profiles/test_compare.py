"""Differences between profiles, priced by the state arithmetic of the 27B."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from qwen_tui_profiles.compare import Change, compare
from qwen_tui_profiles.consequences import Step
from qwen_tui_profiles.loader import load_profiles

if TYPE_CHECKING:
    from qwen_tui_profiles.profile import EngineProfile

PRESETS = load_profiles(None)
SPEED = PRESETS.get("27b-nvfp4-speed")


def with_flag(profile: EngineProfile, flag: str, value: str | None) -> EngineProfile:
    argv = list(profile.argv)
    if flag in argv:
        start = argv.index(flag)
        takes = start + 1 < len(argv) and not argv[start + 1].startswith("--")
        del argv[start : start + 1 + takes]
    if value is not None:
        argv += [flag, value] if value else [flag]
    return replace(profile, argv=tuple(argv))


def only(before: EngineProfile, after: EngineProfile) -> Change:
    (change,) = compare(before, after).changes
    return change


def test_the_same_is_the_same() -> None:
    assert compare(SPEED, SPEED).same
    # Another order and another spelling launch the same.
    turned = replace(SPEED, argv=(*SPEED.argv[2:], *SPEED.argv[:2]))
    assert compare(SPEED, turned).same
    written = with_flag(SPEED, "--mamba-radix-cache-strategy", None)
    aliased = replace(written, argv=(*written.argv, "--mamba-radix-cache", "extra_buffer_lazy"))
    assert compare(SPEED, aliased).same


def test_the_pair_says_what_mtp_is_worth() -> None:
    found = compare(SPEED, PRESETS.get("27b-nvfp4-context"))
    by_key = {change.key: change for change in found.changes}
    assert by_key["--speculative-algorithm"].step is Step.REMOVED
    text = str(by_key["--speculative-algorithm"].consequence)
    assert "272,800" in text
    assert "62,880" in text
    assert by_key["--mem-fraction-static"].step is Step.LOWERED
    assert {finding.rule for finding in found.gone} >= {"tight-fraction"}


@pytest.mark.parametrize(
    ("flag", "before", "after", "tokens"),
    [
        # 8 more bf16 slots of 78,446,592 B over 32,768 B a token.
        ("--max-mamba-cache-size", "8", "16", "19,152"),
        ("--max-mamba-cache-size", "16", "8", "19,152"),
        # One more request at six draft tokens: 6 slots' worth of rollback state.
        ("--max-running-requests", "1", "2", "14,364"),
    ],
)
def test_state_is_priced_in_tokens(flag: str, before: str, after: str, tokens: str) -> None:
    change = only(with_flag(SPEED, flag, before), with_flag(SPEED, flag, after))
    assert tokens in str(change.consequence)


def test_the_draft_path_is_told_by_its_releases() -> None:
    change = only(SPEED, with_flag(SPEED, "--speculative-draft-model-path", "/m"))
    assert change.step is Step.ADDED
    assert "0.5.14 to 0.5.17" in str(change.consequence)


def test_new_findings_are_named() -> None:
    found = compare(SPEED, with_flag(SPEED, "--enable-hierarchical-cache", ""))
    assert [finding.rule for finding in found.appeared] == ["hicache-hybrid"]
    assert found.gone == ()


def test_secrets_are_not_compared_aloud() -> None:
    first = replace(SPEED, env={"HF_TOKEN": "hf_first12345"}, argv=("--api-key", "sk-first12345"))
    second = replace(SPEED, env={"HF_TOKEN": "hf_second1234"}, argv=("--api-key", "sk-second1234"))
    assert "first12345" not in repr(compare(first, second).changes)
    assert "second1234" not in repr(compare(first, second).changes)


def test_fields_beside_the_flags() -> None:
    found = compare(SPEED, replace(SPEED, port=31000, host="0.0.0.0"))
    assert {change.key for change in found.changes} == {"port", "host"}
    assert [finding.rule for finding in found.appeared] == ["open-host-sglang"]
