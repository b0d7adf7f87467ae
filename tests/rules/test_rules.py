"""Every rule both ways, inside and outside its version range, driven by the records themselves."""

from __future__ import annotations

from string import Formatter
from typing import TYPE_CHECKING, Any

import pytest

from qwen_tui_profiles.cmdline import parse_command, read_arguments
from qwen_tui_profiles.flags import flag_table, known_versions
from qwen_tui_profiles.profile import EngineKind
from qwen_tui_profiles.rules import RULES, judge
from qwen_tui_profiles.rules.expression import names_used
from qwen_tui_profiles.rules.facts import FACT_NAMES, Facts
from qwen_tui_profiles.rules.flag_rules import FLAG_RULES
from qwen_tui_profiles.rules.models import MODEL_KINDS
from qwen_tui_profiles.versions import Version, in_range
from rules.cases import CASES, Launch

if TYPE_CHECKING:
    from qwen_tui_profiles.rules import Judgement, Rule

BY_ID = {rule.id: rule for rule in RULES}
EXTRA = ("0.1.0",)
"""Versions beside the known releases that a rule may be about (a fork's wheel)."""


def versions_of(rule: Rule) -> list[str]:
    known = known_versions(rule.engine or EngineKind.SGLANG)
    return sorted((*known, *EXTRA), key=Version.parse)


def inside(rule: Rule) -> list[str]:
    return [v for v in versions_of(rule) if in_range(v, rule.since, rule.until)]


def fired(rule: Rule, launch: Launch | str, version: str | None) -> Judgement:
    known: dict[str, Any] = {}
    if isinstance(launch, Launch):
        known = dict(launch.known)
        launch = launch.text
    asked = known.pop("version", version)
    return judge(parse_command(launch), version=asked, rules=(rule,), **known)


def has(rule: Rule, judgement: Judgement) -> bool:
    return any(finding.rule == rule.id for finding in judgement.findings)


def test_every_rule_has_cases_and_every_case_a_rule() -> None:
    assert set(CASES) == set(BY_ID)
    assert len(BY_ID) == len(RULES)
    assert not set(BY_ID) & set(FLAG_RULES)
    for name, (fires, silent) in CASES.items():
        assert fires, name
        assert silent, name


@pytest.mark.parametrize("name", CASES)
def test_fires_throughout_its_range_and_not_outside(name: str) -> None:
    rule = BY_ID[name]
    covered = inside(rule)
    assert covered, f"{name}: no known release is in {rule.since}..{rule.until}"
    outside = [v for v in versions_of(rule) if v not in covered]
    for launch in CASES[name][0]:
        fixed = isinstance(launch, Launch) and "version" in launch.known
        if fixed:
            assert has(rule, fired(rule, launch, None)), launch
            continue
        first = next(v for v in covered if v != "0.1.0" or len(covered) == 1)
        for version in (first, covered[-1]):
            assert has(rule, fired(rule, launch, version)), (version, launch)
        for version in outside:
            assert not has(rule, fired(rule, launch, version)), (version, launch)


@pytest.mark.parametrize("name", CASES)
def test_stays_silent_where_the_thing_is_put_right(name: str) -> None:
    rule = BY_ID[name]
    for launch in CASES[name][1]:
        for version in inside(rule)[-1:]:
            assert not has(rule, fired(rule, launch, version)), (version, launch)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_records_are_complete_and_name_only_what_exists(rule: Rule) -> None:
    facts, functions = names_used(rule.when)
    assert facts <= FACT_NAMES, facts - FACT_NAMES
    command = parse_command("python -m sglang.launch_server --model-path x")
    arguments = read_arguments(command.engine, command.argv, flag_table(command.engine))
    known = Facts.of(command, arguments, "0.5.23")
    assert functions <= set(known.calls)
    assert set(known.values) == FACT_NAMES
    assert set(rule.models) <= set(MODEL_KINDS)
    assert rule.source
    assert rule.checked in known_versions(rule.engine or EngineKind.SGLANG)
    for bound in (rule.since, rule.until):
        if bound is not None:
            Version.parse(bound)
    for name in rule.shows:
        if name.startswith("--"):
            known_somewhere = any(
                name in flag_table(engine, version).by_name
                for engine in (
                    (rule.engine,) if rule.engine else (EngineKind.SGLANG, EngineKind.VLLM)
                )
                for version in known_versions(engine)
            )
            assert known_somewhere, name


@pytest.mark.parametrize("name", CASES)
def test_a_finding_reads_as_a_sentence_with_its_values(name: str) -> None:
    rule = BY_ID[name]
    launch = CASES[name][0][0]
    version = None if isinstance(launch, Launch) and "version" in launch.known else inside(rule)[-1]
    finding = next(f for f in fired(rule, launch, version).findings if f.rule == name)
    for text in (finding.title, finding.detail, finding.remedy):
        if text is None:
            continue
        shown = str(text)
        wanted = {field for _, field, _, _ in Formatter().parse(text.template) if field}
        assert wanted <= set(text.fields), wanted - set(text.fields)
        for field in wanted:
            assert text.fields[field] != "—", (name, field)
        assert "{{" not in shown
    assert finding.evidence
    assert "topsecret" not in repr(finding.as_json())


def test_flags_named_in_conditions_exist_somewhere() -> None:
    """A condition with a misspelt flag would never fire and nobody would notice."""
    import re

    known = {
        name
        for engine in (EngineKind.SGLANG, EngineKind.VLLM)
        for version in known_versions(engine)
        for name in flag_table(engine, version).by_name
    }
    for rule in RULES:
        for name in re.findall(r"'(--[a-z0-9-]+)'", rule.when):
            assert name in known, (rule.id, name)
