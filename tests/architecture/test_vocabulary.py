"""Words from tables, records and other processes are in the catalogue too."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import catalogue
from qwen_tui.services.swap import SwapOutcome
from qwen_tui.services.words import BOOT_STATES, MODES, OUTCOMES, PHASES, STATE_HEADS, boot_state
from qwen_tui_diagnostics.enginelog.report import PHASES as BOOT_ORDER
from qwen_tui_diagnostics.facts import Absence, Gathered, absences_from_json
from qwen_tui_diagnostics.result import REASONS, SkipReason
from qwen_tui_profiles.citations import PHRASES, cited, words_left
from qwen_tui_profiles.consequences import CONSEQUENCES
from qwen_tui_profiles.loader import load_profiles
from qwen_tui_profiles.plan.result import LIMITS
from qwen_tui_profiles.profile import EngineMode
from qwen_tui_profiles.rules import RULES
from qwen_tui_profiles.text import set_language, t, tr

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]


@pytest.fixture
def chinese() -> Iterator[None]:
    assert set_language("zh_CN")
    yield
    set_language("en")


def literals(*roots: str, of: str, at: int, keyword: str) -> set[str]:
    """Return the literal strings that calls of a function take at one place."""
    found: set[str] = set()
    for root in roots:
        for path in (ROOT / root).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name)):
                    continue
                if node.func.id != of:
                    continue
                values = [k.value for k in node.keywords if k.arg == keyword] or node.args[at:][:1]
                found |= {
                    v.value
                    for v in values
                    if isinstance(v, ast.Constant) and isinstance(v.value, str)
                }
    return found


def every_source() -> set[str]:
    """Return the sources of all rules, consequences, findings and shipped values."""
    sources = {rule.source for rule in RULES} | {row.source for row in CONSEQUENCES}
    for profile in load_profiles(None).profiles.values():
        sources |= {origin.source for origin in profile.provenance.values()}
        if profile.published is not None:
            sources.add(profile.published.source)
    roots = ("app", "engine_profiles", "diagnostics")
    return sources | literals(*roots, of="Finding", at=4, keyword="source")


def test_every_word_of_every_source_is_in_the_table() -> None:
    sources = every_source()
    assert len(sources) > 120
    assert words_left(sources) == {}


def test_longer_phrases_come_before_those_in_them() -> None:
    said = [str(phrase) for phrase in PHRASES]
    for number, phrase in enumerate(said):
        assert not [longer for longer in said[number + 1 :] if longer.startswith(phrase + " ")]


def test_a_source_keeps_what_names_things(chinese: None) -> None:
    shown = cited("seed 000, second trap; argument resolution source 0.5.9-0.5.23; a/b #12")
    for name in ("seed 000", "0.5.9-0.5.23", "a/b #12"):
        assert name in shown
    for words in ("trap", "source", "argument"):
        assert words not in shown
    set_language("en")
    assert cited("seed 000, second trap") == "seed 000, second trap"


def test_words_of_fixed_sets_are_whole() -> None:
    assert set(STATE_HEADS) == set(BOOT_STATES)
    assert set(OUTCOMES) == {outcome.value for outcome in SwapOutcome}
    assert set(MODES) == set(EngineMode)
    assert tuple(PHASES) == BOOT_ORDER
    assert set(REASONS) == set(SkipReason)
    assert {reason.value: str(word) for reason, word in REASONS.items()} == {
        reason.value: reason.value for reason in SkipReason
    }
    assert all(str(word) == key for key, word in LIMITS.items())
    assert str(boot_state("of a newer version")) == "of a newer version"


def test_no_reason_of_absence_is_a_plain_string() -> None:
    """A plain string is foreign text: an errno, a tool's answer."""
    plain: dict[str, set[str]] = {}
    for name, at in (("lack", 2), ("put_or", 3), ("Absence", 1), ("give_up", 2)):
        for path in (ROOT / "diagnostics").rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if not isinstance(node, ast.Call) or len(node.args) <= at:
                    continue
                called = node.func.attr if isinstance(node.func, ast.Attribute) else None
                called = node.func.id if isinstance(node.func, ast.Name) else called
                given = node.args[at]
                if called == name and (
                    (isinstance(given, ast.Constant) and given.value)
                    or isinstance(given, ast.JoinedStr)
                ):
                    plain.setdefault(path.name, set()).add(ast.unparse(given))
    # The class and message of an exception that a collector did not expect.
    assert plain == {"child.py": {"f'{type(error).__name__}: {line}'"}}


def test_an_absence_crosses_processes_and_bundles_in_every_language(chinese: None) -> None:
    found = Gathered()
    found.lack("a", SkipReason.TIMEOUT, t("no answer within {s:g} s", s=5.0))
    found.lack("b", SkipReason.NO_TOOL, t("fio is not installed"))
    found.lack("c", SkipReason.NOT_PERMITTED, "Permission denied")
    stored = {path: absence.as_json() for path, absence in found.absent.items()}
    assert [row["detail"] for row in stored.values()] == [
        "no answer within 5 s",
        "fio is not installed",
        "Permission denied",
    ]
    back = absences_from_json(stored)
    assert [tr(a.detail) == tr(found.absent[p].detail) for p, a in back.items()] == [True] * 3
    assert tr(back["a"].detail) != str(back["a"].detail)
    assert tr(back["b"].detail) != str(back["b"].detail)
    assert Absence(SkipReason.TIMEOUT).as_json() == {"reason": "timeout", "detail": ""}


def test_shipped_profiles_say_nothing_that_is_not_in_the_catalogue() -> None:
    known = catalogue.sources()
    for profile in load_profiles(None).profiles.values():
        said = {profile.title, profile.build, *profile.notes, *profile.ignore_reasons.values()}
        for origin in profile.provenance.values():
            said |= {origin.figure, origin.note}
        if profile.published is not None:
            said |= set(profile.published.differences.values())
        assert {text for text in said if text} <= known.keys()
