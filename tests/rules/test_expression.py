"""Conditions: three truth values, absence is not ignorance, and nothing but conditions."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qwen_tui_profiles.rules.expression import UNKNOWN, evaluate, names_used

TRUTH = (True, False, UNKNOWN)


def value(expression: str, **facts: object) -> object:
    return evaluate(expression, facts, {})


@pytest.mark.parametrize(("left", "right"), product(TRUTH, TRUTH))
def test_and_or_not_are_kleene(left: object, right: object) -> None:
    both = value("a and b", a=left, b=right)
    either = value("a or b", a=left, b=right)
    if left is False or right is False:
        assert both is False
    elif UNKNOWN in (left, right):
        assert both is UNKNOWN
    else:
        assert both is True
    if left is True or right is True:
        assert either is True
    elif UNKNOWN in (left, right):
        assert either is UNKNOWN
    else:
        assert either is False
    # De Morgan holds in three values, too.
    assert value("not (a and b)", a=left, b=right) == value("not a or not b", a=left, b=right)


@pytest.mark.parametrize(
    ("expression", "facts", "expected"),
    [
        ("x > 1", {"x": None}, False),
        ("not x > 1", {"x": None}, True),
        ("x > 1", {"x": UNKNOWN}, UNKNOWN),
        ("x is None", {"x": None}, True),
        ("x is None", {"x": UNKNOWN}, UNKNOWN),
        ("1 < x < 3", {"x": 2}, True),
        ("1 < x < 3", {"x": 3}, False),
        ("x in (None, 'auto')", {"x": None}, True),
        ("x not in ('a', 'b')", {"x": None}, True),
        ("x % 32 != 0", {"x": 64}, False),
        ("x // y", {"x": 8, "y": 0}, None),
        ("x + 1 == 4", {"x": 3}, True),
        ("x + 1", {"x": None}, None),
        ("-x", {"x": 2}, -2),
    ],
)
def test_values(expression: str, facts: dict[str, object], expected: object) -> None:
    assert value(expression, **facts) == expected


def test_an_unknown_fact_cannot_be_used_as_a_truth_value() -> None:
    with pytest.raises(TypeError):
        bool(UNKNOWN)


@pytest.mark.parametrize(
    "expression", ["__import__", "x.y", "[i for i in x]", "lambda: 1", "x[0]", "f'{x}'", "x ** 2"]
)
def test_nothing_but_conditions(expression: str) -> None:
    with pytest.raises((ValueError, KeyError)):
        evaluate(expression, {"x": 1}, {})


def test_names_are_told_apart() -> None:
    facts, functions = names_used("a and has('--x') and num('--y') > b")
    assert set(facts) == {"a", "b"}
    assert set(functions) == {"has", "num"}


@given(st.integers(-5, 5), st.integers(-5, 5), st.integers(-5, 5))
def test_known_values_agree_with_python(x: int, y: int, z: int) -> None:
    for expression in ("x < y <= z", "x == y or y > z and not x == z", "x + y * z > z - x"):
        assert value(expression, x=x, y=y, z=z) == eval(expression, {}, {"x": x, "y": y, "z": z})
